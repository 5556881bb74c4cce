"""Paired differences of losses, and how far chance may have moved them.

Rows of a stream are not independent: neighbours resemble each other, and models get better as they
learn. So the error is estimated from the means of long blocks of rows (batch means), leaving out
one block at a time (the jackknife, which also fits a root such as RMSE).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from pqrlearn.loss import Measures
from pqrlearn.rows import FloatArray

MOST_BLOCKS: Final = 512
"""Blocks that are kept; they get longer as there are more rows."""
GROUPS: Final = 30
"""Blocks that the error is estimated from: few, so that each is long."""
LEVEL: Final = 0.95


@dataclass(frozen=True)
class Interval:
    """A difference, and where it lies with 95 % confidence; nan where that is not known.

    >>> Interval(0.2, 0.1, 0.3).is_significant, Interval(0.2, -0.1, 0.5).is_significant
    (True, False)
    """

    difference: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether there were enough rows to tell.

        >>> Interval(0.2, math.nan, math.nan).is_known
        False
        """
        return not math.isnan(self.low)

    @property
    def is_significant(self) -> bool:
        """Whether 0 is outside.

        >>> Interval(0.2, math.nan, math.nan).is_significant
        False
        """
        return self.low > 0 or self.high < 0


class Blocks:
    """Sums over blocks of rows, of any number of rows in bounded memory.

    >>> blocks = Blocks(1)
    >>> blocks.add(np.ones((1, 1000)))
    >>> len(blocks.sums[0]), blocks.rows
    (500, 1000)
    """

    def __init__(self, columns: int) -> None:
        self.rows = 0
        self._size = 1
        self._sums = np.zeros((columns, MOST_BLOCKS))

    def add(self, columns: FloatArray) -> None:
        """Adds rows: for each column its values.

        >>> blocks = Blocks(2)
        >>> blocks.add(np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> blocks.sums.tolist()
        [[1.0, 2.0], [3.0, 4.0]]
        """
        end = self.rows + columns.shape[1]
        while end > MOST_BLOCKS * self._size:
            self._sums[:, : MOST_BLOCKS // 2] = self._sums[:, ::2] + self._sums[:, 1::2]
            self._sums[:, MOST_BLOCKS // 2 :] = 0
            self._size *= 2
        at = np.arange(self.rows, end) // self._size
        for sums, column in zip(self._sums, columns, strict=True):
            sums += np.bincount(at, column, MOST_BLOCKS)
        self.rows = end

    @property
    def sums(self) -> FloatArray:
        """One line for each column; the last block may be shorter than the others.

        >>> Blocks(1).sums.shape
        (1, 0)
        """
        return self._sums[:, : -(-self.rows // self._size)]


def paired_interval(
    losses: FloatArray, others: FloatArray, weights: FloatArray, measures: Measures
) -> Interval:
    """How much larger the figure of `losses` is than that of `others`: sums over the same blocks.

    >>> from pqrlearn.loss import loss_named
    >>> ones = np.ones(100)
    >>> paired_interval(3 * ones, 2 * ones, ones, loss_named("logistic").metrics)
    Interval(difference=1.0, low=1.0, high=1.0)
    """
    groups = [
        np.array([part.sum() for part in np.array_split(sums, min(GROUPS, len(sums)))])
        for sums in (losses, others, weights)
    ]
    one, other, weight = groups

    def difference(a: float, b: float, total: float) -> float:
        if not total > 0:
            return math.nan
        return measures.figure(a / total) - measures.figure(b / total)

    found = float(difference(one.sum(), other.sum(), weight.sum()))
    if len(weight) < 2:
        return Interval(found, math.nan, math.nan)
    without = np.array(
        [
            difference(one.sum() - a, other.sum() - b, weight.sum() - w)
            for a, b, w in zip(one, other, weight, strict=True)
        ]
    )
    count = len(without)
    spread = float(np.sum(np.square(without - without.mean())))
    reach = _quantile(count - 1) * math.sqrt((count - 1) / count * spread)
    return Interval(found, found - reach, found + reach)


def _quantile(degrees: int) -> float:
    """Of Student's t."""
    from scipy.special import stdtrit  # lazy: costs 0.1 s

    return float(stdtrit(degrees, (1 + LEVEL) / 2))
