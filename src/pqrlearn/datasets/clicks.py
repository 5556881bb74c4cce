"""A simulated click stream: seeded, unlimited, and with known true probabilities.

Real click data is large and may not be redistributed, so demos, tests and benchmarks use this. A
row has one feature per field, as in an advertising log. Fields differ in size, from two values to a
large share of all features; within a field, frequencies follow a power law. A click is drawn from

    margin = intercept + sum of linear effects + sum of pair effects,

all of them planted, so the best possible loss is known: that of `ClickStream.margins`.

Everything is a hash of the seed, a purpose and a counter. A row depends only on its number, so the
stream can start and be cut anywhere. A linear effect is a function of its feature's index, so
nothing is stored per feature, even with 54 million of them.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate, combinations, count

import numpy as np
import numpy.typing as npt

from pqrlearn.errors import DataError, HyperError
from pqrlearn.files import atomic_path, atomic_write
from pqrlearn.rows import Batch, FloatArray

IntArray = npt.NDArray[np.int64]
Columns = npt.NDArray[np.uint32]
"""Feature indices, one array row per field and one column per row."""

FIELD_NAMES = (
    *("banner", "connection", "position", "device", "category", "region", "app", "site"),
    *("campaign", "ad", "query", "user", "cookie", "page", "referrer", "session"),
)

CALIBRATION_ROWS = 2**15
CALIBRATION_START = 2**62


@dataclass(frozen=True)
class Field:
    """A range of features and how often each is drawn.

    The feature of rank r (0 is the most frequent) has the probability of the integral of
    x^-exponent over [r + 1, r + 2], divided by that over [1, size + 1]: a power law with a
    closed-form inverse. Ranks are scattered over the range, as frequent features are in real files.
    """

    name: str
    offset: int
    size: int
    exponent: float
    shift: int

    def draw(self, uniform: FloatArray) -> IntArray:
        """One feature for every number in [0, 1)."""
        position = self._from_mass(uniform * self._total)
        return self.features(np.minimum(position.astype(np.int64) - 1, self.size - 1))

    def features(self, ranks: IntArray) -> IntArray:
        """The feature of each rank; a bijection, because stride and size are coprime."""
        scattered = ranks * self._stride + self.shift
        return scattered - scattered // self.size * self.size + self.offset

    def shares(self, ranks: IntArray) -> FloatArray:
        """The expected share of rows that hold the feature of each rank."""
        begin = ranks.astype(np.float64) + 1.0
        return (self._mass(begin + 1.0) - self._mass(begin)) / self._total

    @cached_property
    def _stride(self) -> int:
        golden = count(1 + int(0.618 * self.size))
        return next(stride for stride in golden if math.gcd(stride, self.size) == 1)

    @cached_property
    def _total(self) -> float:
        return float(self._mass(np.array(self.size + 1.0)))

    def _mass(self, end: FloatArray) -> FloatArray:
        """Proportional to the integral of x^-exponent over [1, end]."""
        return np.log(end) if self.exponent == 1.0 else end ** (1.0 - self.exponent) - 1.0

    def _from_mass(self, mass: FloatArray) -> FloatArray:
        if self.exponent == 1.0:
            return np.exp(mass)
        return (mass + 1.0) ** (1.0 / (1.0 - self.exponent))


@dataclass(frozen=True)
class ClickStream:
    """The settings of a stream; two streams with equal settings are equal.

    >>> stream = ClickStream.demo()
    >>> train, test = stream.batches(200_000), stream.batches(50_000, start=200_000)
    >>> first = next(train)
    >>> [stream.name(feature) for feature in first.indices[:4]]
    ['banner=1', 'connection=1', 'position=5', 'device=27']
    """

    fields: int
    features: int
    click_rate: float
    exponent: float = 1.1
    """Exponent of the power law within a field."""
    linear_scale: float = 1.0
    """Standard deviation of the sum of linear effects of a row."""
    interactions: int = 100
    pair_scale: float = 1.0
    """Pair effects have a magnitude of 0.5 to 1.5 times this."""
    pair_share: float = 0.002
    """Both features of a planted pair occur in at least this share of the rows."""
    seed: int = 1

    def __post_init__(self) -> None:
        _require(self.fields >= 2, f"fields={self.fields} must be at least 2")
        least = 2 * self.fields
        bounds = f"features={self.features} must be between {least} (two per field) and {2**31}"
        _require(least <= self.features <= 2**31, bounds)
        _require(0 < self.click_rate < 1, f"click_rate={self.click_rate} must be between 0 and 1")
        _require(self.exponent >= 0, f"exponent={self.exponent} must be at least 0")
        _require(self.interactions >= 0, f"interactions={self.interactions} must be at least 0")
        share = f"pair_share={self.pair_share} must be between 0.0001 and 0.25"
        _require(0.0001 <= self.pair_share <= 0.25, share)

    @classmethod
    def demo(cls, seed: int = 1) -> ClickStream:
        """A small stream, with interactions strong enough to show after 200,000 rows."""
        return cls(fields=12, features=200_000, click_rate=0.2, pair_scale=1.5, seed=seed)

    @classmethod
    def avazu(cls, seed: int = 1) -> ClickStream:
        """The shape of Avazu (40 million rows)."""
        return cls(fields=15, features=1_000_000, click_rate=0.17, seed=seed)

    @classmethod
    def criteo(cls, seed: int = 1) -> ClickStream:
        """The shape of Criteo (46 million rows)."""
        return cls(fields=39, features=1_000_000, click_rate=0.256, seed=seed)

    @classmethod
    def kdd2012(cls, seed: int = 1) -> ClickStream:
        """The shape of KDD Cup 2012, track 2 (150 million rows)."""
        return cls(fields=11, features=54_686_452, click_rate=0.04, seed=seed)

    def batches(self, rows: int, batch_rows: int = 16_384, start: int = 0) -> Iterator[Batch]:
        """Rows `start` to `start + rows` of the stream, in order."""
        end = start + rows
        for first in range(start, end, batch_rows):
            yield self.batch(first, min(batch_rows, end - first))

    def batch(self, start: int, rows: int) -> Batch:
        """Rows `start` to `start + rows` of the stream."""
        columns = self._columns(start, rows)
        chance = _sigmoid(self._margins(columns) + self.intercept)
        clicks = self._uniform("click", np.arange(start, start + rows, dtype=np.uint64)) < chance
        return Batch(
            indptr=np.arange(0, (rows + 1) * self.fields, self.fields, dtype=np.int64),
            indices=np.ascontiguousarray(columns.T).reshape(-1),
            values=np.ones(rows * self.fields, np.float32),
            labels=clicks.astype(np.float64),
            weights=np.ones(rows, np.float32),
        )

    def margins(self, batch: Batch) -> FloatArray:
        """The margins that the labels were drawn from: no model is better on average."""
        if len(batch.indices) != len(batch) * self.fields:
            raise DataError(f"rows of this stream have {self.fields} features each")
        columns = np.ascontiguousarray(batch.indices.reshape(-1, self.fields).T)
        return self._margins(columns) + self.intercept

    def probabilities(self, batch: Batch) -> FloatArray:
        """The true click probability of every row."""
        return _sigmoid(self.margins(batch))

    def planted(self) -> list[tuple[tuple[int, int], float]]:
        """The planted pairs of features and their effects, strongest first."""
        return sorted(self._pairs, key=lambda pair: -abs(pair[1]))

    def name(self, index: int) -> str:
        """The name of a feature: `field=value`, the value in hexadecimal."""
        if not 0 <= index < self.features:
            raise DataError(f"feature {index} is not in 0..{self.features - 1}")
        field = self.layout[self._field_of(index)]
        return f"{field.name}={index - field.offset:x}"

    def names(self) -> Iterator[tuple[int, str]]:
        """Every feature with its name, in order."""
        for field in self.layout:
            for value in range(field.size):
                yield field.offset + value, f"{field.name}={value:x}"

    def write_libsvm(
        self,
        path: str | os.PathLike[str],
        rows: int,
        start: int = 0,
        names_path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Writes rows as a libsvm file, and the names to `names_path`, if given."""
        from pqrlearn.readers.libsvm import format_batch

        with atomic_path(path) as temporary, temporary.open("wb") as file:
            file.writelines(format_batch(batch) for batch in self.batches(rows, start=start))
        if names_path is not None:
            names = "".join(f"{index}\t{name}\n" for index, name in self.names())
            atomic_write(names_path, names.encode())

    @cached_property
    def layout(self) -> tuple[Field, ...]:
        """The fields, from the smallest to the largest."""
        names = [*FIELD_NAMES, *(f"f{number}" for number in range(len(FIELD_NAMES), self.fields))]
        sizes = _geometric_sizes(self.fields, self.features)
        offsets = accumulate(sizes, initial=0)
        shifts = [self._key(f"shift {number}") % size for number, size in enumerate(sizes)]
        return tuple(
            Field(name, offset, size, self.exponent, shift)
            for name, offset, size, shift in zip(names, offsets, sizes, shifts, strict=False)
        )

    @cached_property
    def intercept(self) -> float:
        """Found by bisection on rows that no stream reaches, to match the click rate."""
        margins = self._margins(self._columns(CALIBRATION_START, CALIBRATION_ROWS))
        low, high = -50.0, 50.0
        for _ in range(50):
            middle = (low + high) / 2
            too_many = float(np.mean(_sigmoid(margins + middle))) > self.click_rate
            low, high = (low, middle) if too_many else (middle, high)
        return (low + high) / 2

    def _columns(self, start: int, rows: int) -> Columns:
        row_numbers = np.arange(start, start + rows, dtype=np.uint64)
        columns = np.empty((self.fields, rows), np.uint32)
        for number, field in enumerate(self.layout):
            columns[number] = field.draw(self._uniform(f"field {number}", row_numbers))
        return columns

    def _margins(self, columns: Columns) -> FloatArray:
        """Margins without the intercept."""
        margins = np.zeros(columns.shape[1])
        for column in columns:
            margins += self._uniform("effect", column)
        margins -= self.fields / 2
        margins *= self.linear_scale * math.sqrt(12.0 / self.fields)
        hits = {f: columns[self._field_of(f)] == f for pair, _ in self._pairs for f in pair}
        for (first, second), effect in self._pairs:
            np.add(margins, effect, out=margins, where=hits[first] & hits[second])
        return margins

    @cached_property
    def _pairs(self) -> list[tuple[tuple[int, int], float]]:
        candidates = np.concatenate(
            [_frequent_pairs(a, b, self.pair_share) for a, b in combinations(self.layout, 2)]
        )
        if len(candidates) < self.interactions:
            raise HyperError(
                f"interactions={self.interactions}: only {len(candidates)} pairs occur in "
                f"pair_share={self.pair_share} of the rows"
            )
        numbers = np.arange(len(candidates), dtype=np.uint64)
        chosen = np.argsort(self._uniform("pair", numbers))[: self.interactions]
        spread = 2.0 * self._uniform("pair effect", numbers[chosen]) - 1.0
        effects = self.pair_scale * (spread + np.copysign(0.5, spread))
        return [
            ((int(i), int(j)), float(effect))
            for (i, j), effect in zip(candidates[chosen], effects, strict=True)
        ]

    def _field_of(self, index: int) -> int:
        return bisect_right(self.layout, index, key=lambda field: field.offset) - 1

    def _key(self, purpose: str) -> int:
        digest = blake2b(f"{self.seed} {purpose}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little")

    def _uniform(self, purpose: str, counters: npt.NDArray[np.unsignedinteger]) -> FloatArray:
        """A number in [0, 1) for every counter: SplitMix64, seeded by the purpose."""
        bits = counters.astype(np.uint64)
        bits *= np.uint64(0x9E3779B97F4A7C15)
        bits += np.uint64(self._key(purpose))
        bits ^= bits >> np.uint64(30)
        bits *= np.uint64(0xBF58476D1CE4E5B9)
        bits ^= bits >> np.uint64(27)
        bits *= np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
        bits >>= np.uint64(11)
        return bits.astype(np.float64) * 2.0**-53


def _require(good: bool, message: str) -> None:
    if not good:
        raise HyperError(message)


def _geometric_sizes(fields: int, features: int) -> list[int]:
    """2, 2q, 2q^2, ... rounded down, with q as large as the sum allows; the last takes the rest."""
    low, high = 1.0, features ** (1.0 / (fields - 1))
    for _ in range(100):
        ratio = (low + high) / 2
        fits = sum(int(2 * ratio**j) for j in range(fields)) <= features
        low, high = (ratio, high) if fits else (low, ratio)
    sizes = [int(2 * low**j) for j in range(fields)]
    return [*sizes[:-1], features - sum(sizes[:-1])]


def _frequent_pairs(first: Field, second: Field, share: float) -> IntArray:
    """Features of two fields that often occur together, none in more than half of the rows.

    A feature that is nearly always present would make its pairs linear effects.
    """
    found = [_common(field, share) for field in (first, second)]
    (features_i, shares_i), (features_j, shares_j) = found
    i, j = np.nonzero(np.outer(shares_i, shares_j) >= share)
    return np.stack([features_i[i], features_j[j]], axis=1)


def _common(field: Field, share: float) -> tuple[IntArray, FloatArray]:
    ranks = np.arange(min(field.size, int(1 / share)))
    shares = field.shares(ranks)
    keep = (shares >= share) & (shares <= 0.5)
    return field.features(ranks[keep]), shares[keep]


def _sigmoid(margins: FloatArray) -> FloatArray:
    return 1.0 / (1.0 + np.exp(-margins))
