"""What the clicks of a simulated stream are drawn from: its effects, planted and known.

    margin = intercept + sum of linear effects + sum of pair effects + sum of affinities

A linear effect is a hash of its feature. A pair effect is that of two features which meet. An
affinity is that of two groups of values: each of two fields has its values in GROUPS groups, by a
hash, and the effects of all pairs of groups are a matrix of rank RANK. How strong each sum is, is
measured on rows that no stream reaches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import combinations, islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pqrlearn.datasets.arithmetic import Bits, log, sigmoid, uniform
from pqrlearn.datasets.field import Field, IntArray
from pqrlearn.errors import HyperError
from pqrlearn.rows import FloatArray

if TYPE_CHECKING:
    from pqrlearn.datasets.clicks import ClickStream

Columns = npt.NDArray[np.uint32]
"""Feature indices, one array row per field and one column per row."""
Pair = tuple[tuple[int, int], float]
"""Two features and the effect of their meeting."""

CALIBRATION_ROWS = 2**15
CALIBRATION_START = 2**62
GROUPS = 8
RANK = 2


class Truth:
    """The effects of a stream; computed when they are asked for."""

    def __init__(self, stream: ClickStream) -> None:
        self._stream = stream

    def margins(self, columns: Columns, numbers: Bits) -> FloatArray:
        """The margins of rows; their numbers matter only in a stream that drifts."""
        return self._effects(columns, numbers) + self.intercept

    @cached_property
    def intercept(self) -> float:
        """Found by bisection on rows that no stream reaches, to match the click rate."""
        margins = self._effects(*self._calibration)
        low, high = -50.0, 50.0
        for _ in range(50):
            middle = (low + high) / 2
            clicks = math.fsum(sigmoid(margins + middle).tolist())
            too_many = clicks > self._stream.click_rate * CALIBRATION_ROWS
            low, high = (low, middle) if too_many else (middle, high)
        return (low + high) / 2

    def _effects(self, columns: Columns, numbers: Bits) -> FloatArray:
        """Margins without the intercept."""
        linear, low_rank = self._sums(columns, numbers)
        linear_factor, low_rank_factor = self._factors
        margins = linear * linear_factor + low_rank * low_rank_factor
        hits = {feature: columns[field] == feature for feature, field in self._paired.items()}
        for (first, second), effect in self.pairs:
            margins[np.flatnonzero(hits[first] & hits[second])] += effect
        return margins

    @cached_property
    def _paired(self) -> dict[int, int]:
        """The features of planted pairs, and the field of each."""
        return {f: self._stream.field_of(f) for pair, _ in self.pairs for f in pair}

    def _sums(self, columns: Columns, numbers: Bits) -> tuple[FloatArray, FloatArray]:
        """The sums of linear effects and of affinities, up to a factor."""
        linear, low_rank = np.zeros(len(numbers)), np.zeros(len(numbers))
        groups = {}
        grouped = {field for pair, _ in self._tables for field in pair}
        for number, (field, column) in enumerate(zip(self._stream.layout, columns, strict=True)):
            bits = self._stream.bits("effect", column)
            effects = uniform(bits)
            effects -= 0.5
            if self._stream.drift:
                effects = self._drifted(effects, column, numbers)
            effects *= field.strength
            linear += effects
            if number in grouped:
                groups[number] = (bits & np.uint64(GROUPS - 1)).astype(np.intp)
        for (first, second), table in self._tables:
            low_rank += table[groups[first] * GROUPS + groups[second]]
        return linear, low_rank

    @cached_property
    def _factors(self) -> tuple[float, float]:
        """What makes the standard deviations of both sums those that were asked for."""
        stream = self._stream
        linear, low_rank = (_deviation(values) for values in self._sums(*self._calibration))
        low_rank_factor = stream.affinity_scale / low_rank if stream.affinities else 0.0
        return stream.linear_scale / linear, low_rank_factor

    def _drifted(self, effects: FloatArray, column: Columns, numbers: Bits) -> FloatArray:
        """Effects on the way from one epoch's to the next one's; those of epoch 0 are given."""
        drift = np.uint64(self._stream.drift)
        epochs = numbers // drift
        done = (numbers - epochs * drift).astype(np.float64) / self._stream.drift
        now = self._effects_at(effects, column, epochs)
        then = self._effects_at(effects, column, epochs + np.uint64(1))
        return now * (1.0 - done) + then * done

    def _effects_at(self, effects: FloatArray, column: Columns, epochs: Bits) -> FloatArray:
        others = uniform(self._stream.bits("drift", column + (epochs << np.uint64(32)))) - 0.5
        return np.where(epochs == 0, effects, others)

    @cached_property
    def _tables(self) -> list[tuple[tuple[int, int], FloatArray]]:
        """Pairs of fields, and the effect of each pair of their groups."""
        stream = self._stream
        found = [*combinations([n for n, f in enumerate(stream.layout) if f.size >= GROUPS], 2)]
        if len(found) < stream.affinities:
            raise HyperError(
                f"affinities={stream.affinities}: only {len(found)} pairs of fields have "
                f"{GROUPS} values or more each"
            )
        order = np.argsort(stream.bits("affinity", np.arange(len(found), dtype=np.uint64)))
        return [(found[n], self._table(int(n))) for n in order[: stream.affinities]]

    def _table(self, number: int) -> FloatArray:
        sides = (2, RANK, GROUPS)
        counters = np.arange(math.prod(sides), dtype=np.uint64)
        drawn = uniform(self._stream.bits(f"affinity {number}", counters)) - 0.5
        first, second = drawn.reshape(sides)
        table = np.zeros((GROUPS, GROUPS))
        for one, other in zip(first, second, strict=True):
            table += one[:, None] * other
        return table.ravel()

    @cached_property
    def pairs(self) -> list[Pair]:
        """Chosen with a chance in proportion to the root of how often they would meet if fields
        were independent: some are frequent, most are rare."""
        stream = self._stream
        fields = combinations(stream.layout, 2)
        parts = [_frequent_pairs(a, b, stream.pair_share) for a, b in fields]
        candidates, shares = (np.concatenate(part) for part in zip(*parts, strict=True))
        numbers = np.arange(len(candidates), dtype=np.uint64)
        waits = -log(1.0 - uniform(stream.bits("pair", numbers))) / np.sqrt(shares)
        order = candidates[np.argsort(waits, kind="stable")]
        chosen = [*islice(self._meeting(order), stream.interactions)]
        if len(chosen) < stream.interactions:
            raise HyperError(
                f"interactions={stream.interactions}: only {len(chosen)} pairs occur in "
                f"pair_share={stream.pair_share} of the rows"
            )
        drawn = uniform(stream.bits("pair effect", np.arange(len(chosen), dtype=np.uint64)))
        spread = 2.0 * drawn - 1.0
        effects = stream.pair_scale * (spread + np.copysign(0.5, spread))
        return [*zip(chosen, effects.tolist(), strict=True)]

    def _meeting(self, pairs: IntArray) -> Iterator[tuple[int, int]]:
        """Those that do meet often enough, in rows that no stream reaches."""
        columns, _ = self._calibration
        least = self._stream.pair_share * CALIBRATION_ROWS

        @lru_cache(maxsize=1024)
        def hits(feature: int) -> npt.NDArray[np.bool_]:
            found: npt.NDArray[np.bool_] = columns[self._stream.field_of(feature)] == feature
            return found

        for first, second in pairs.tolist():
            if np.count_nonzero(hits(first) & hits(second)) >= least:
                yield first, second

    @cached_property
    def _calibration(self) -> tuple[Columns, Bits]:
        """Rows that no stream reaches; their effects are those of the first row of a stream."""
        numbers = np.arange(CALIBRATION_ROWS, dtype=np.uint64)
        return self._stream.columns(numbers + np.uint64(CALIBRATION_START)), numbers * np.uint64(0)


def _deviation(values: FloatArray) -> float:
    """The standard deviation, from sums that are rounded once: the same on every machine."""
    mean = math.fsum(values.tolist()) / len(values)
    spread = values - mean
    return math.sqrt(math.fsum((spread * spread).tolist()) / len(values))


def _frequent_pairs(first: Field, second: Field, share: float) -> tuple[IntArray, FloatArray]:
    """Features of two fields that often meet, and how often; none in more than half of the rows.

    A feature that is nearly always present would make its pairs linear effects.
    """
    found = [_common(field, share) for field in (first, second)]
    (features_i, shares_i), (features_j, shares_j) = found
    together = np.outer(shares_i, shares_j)
    i, j = np.nonzero(together >= share)
    return np.stack([features_i[i], features_j[j]], axis=1), together[i, j]


def _common(field: Field, share: float) -> tuple[IntArray, FloatArray]:
    ranks = np.arange(min(field.size, int(1 / share)))
    shares = field.shares(ranks)
    keep = (shares >= share) & (shares <= 0.5)
    return field.features(ranks[keep]), shares[keep]
