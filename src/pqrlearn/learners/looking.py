"""What every Learner shows of itself: explanations, a table of weights, a frozen copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pqrlearn.learners import table
from pqrlearn.learners.terms import (
    Explainer,
    Explanation,
    RowTerms,
    explanations,
    quadratic_terms,
    row_of,
)
from pqrlearn.rows import Batch, Features

if TYPE_CHECKING:
    from pqrlearn.learners.frozen import Frozen


class Looking:
    """Base of Learner: methods that look inside, and change nothing."""

    _shares_pairs: bool = False
    """Whether a pair without a weight counts by the shared weight of its smaller rank."""

    def explain_one(self, x: Features) -> Explanation:
        """Which features and pairs the prediction of a row comes from, by name.

        The contributions of LR, QR, PQR and Frozen add up to the margin exactly, in the order and
        precision of the core; those of Auto are of one linear model, and a term `mixing` has the
        rest; those of models with factors add up within rounding. Auto is collapsed by each call,
        which takes time that grows with the model: `pqr explain` does that once for all rows.

        >>> from pqrlearn import LR
        >>> model = LR()
        >>> _ = model.learn_many([{"site": "news"}, {"site": "shop"}] * 50, [1, 0] * 50)
        >>> found = model.explain_one({"site": "news"})
        >>> [(term.block, *term.names) for term in found.terms]
        [('bias',), ('linear', 'site=news')]
        >>> sum(term.contribution for term in found.terms) == found.margin
        True
        """
        learner: Any = self
        row, fresh = row_of(learner, x)
        return next(explanations(learner, self._explainer(), row, fresh))

    def to_frame(self) -> Any:
        """All weights by name, as an Arrow table: name, other, block, weight, support, rank.

        `other` is the second feature of a pair, or the number of a factor. `support` says in how
        many rows the feature was seen, where the model knows that. Every high feature has a row of
        the block `shared` (QR: `square`), though its weight be 0, with its rank. docs/scoring.md
        computes predictions from the table, in SQL.

        >>> from pqrlearn import LR
        >>> model = LR()
        >>> _ = model.learn_one({"site": "news"}, 1)
        >>> model.to_frame().column_names
        ['name', 'other', 'block', 'weight', 'support', 'rank']
        >>> model.to_frame()["name"].to_pylist()
        [None, 'site=news']
        """
        learner: Any = self
        return table.weights_table(learner)

    def frozen(self, keep: int | None = None, data: Any = None) -> Frozen:
        """A read-only copy with one weight for each feature and pair, for serving.

        Auto collapses its experts, which is an approximation; LR and PQR lose nothing. With `keep`
        it has only the weights that matter most: those with the largest weight² × expected number
        of rows. With `data`, rows with labels (Batches, what `pqrlearn.read` returns, or a frame),
        the loss of both models is measured on them, and kept in `measured`; they also decide, where
        most weights of Auto are pruned, whether a pair without one counts by a shared weight.

        >>> from pqrlearn import Auto
        >>> model = Auto()
        >>> _ = model.learn_many([{"site": "news"}, {"site": "shop"}] * 50, [1, 0] * 50)
        >>> served = model.frozen(keep=1)
        >>> served
        Frozen(loss='logistic', of='auto', rows=100, nonzeros=2)
        >>> served.learn_one({"site": "news"}, 1)
        Traceback (most recent call last):
        pqrlearn.errors.HyperError: a frozen model does not learn: teach the model it was made of
        """
        from pqrlearn.learners.frozen import freeze

        learner: Any = self
        return freeze(learner, keep, data)

    def _explainer(self) -> Explainer:
        """What finds the terms of rows; what it needs of the model is found once.

        This one is for models that are quadratic in the values of features.
        """
        learner: Any = self

        def explain(batch: Batch) -> RowTerms:
            return quadratic_terms(learner, batch)

        return explain

    def _seen(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[Any]]:
        """Features, rising, that it has counted, and in how many rows each was."""
        return np.zeros(0, np.uint32), np.zeros(0, np.uint64)
