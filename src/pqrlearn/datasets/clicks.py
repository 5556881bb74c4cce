"""A simulated click stream: seeded, unlimited, and with known true probabilities.

Real click data is large and may not be redistributed, so demos, tests and benchmarks use this. A
row has one feature per field, as in an advertising log. The fields of `avazu`, `criteo` and
`kdd2012` have the statistics of real samples (docs/simulated.md): how often values occur, which
fields belong together, how strong each is. Fields that belong together often follow a latent number
of the row, such as its user or its item. Clicks are drawn from effects of features, of pairs and of
groups (truth.py), so the best possible loss is known: that of `ClickStream.margins`.

Everything is a hash of the seed, a purpose and a counter, and has the same bits on every machine. A
row depends only on its number, so the stream can start and be cut anywhere. A linear effect is a
function of its feature's index, so nothing is stored per feature, even with 54 million of them.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pqrlearn.datasets.arithmetic import Bits, follows, key, mixed, sigmoid, uniform
from pqrlearn.datasets.field import LATENTS, Field, geometric, like, measured
from pqrlearn.datasets.truth import Columns, Pair, Truth
from pqrlearn.errors import DataError, HyperError
from pqrlearn.files import atomic_path, atomic_write
from pqrlearn.rows import Batch, FloatArray


@dataclass(frozen=True)
class ClickStream:
    """The settings of a stream; two streams with equal settings are equal.

    >>> stream = ClickStream.demo()
    >>> train, test = stream.batches(200_000), stream.batches(50_000, start=200_000)
    >>> first = next(train)
    >>> [stream.name(feature) for feature in first.indices[:4]]
    ['banner=0', 'connection=4', 'position=0', 'device=1']
    """

    fields: int
    features: int
    click_rate: float
    exponent: float = 1.1
    """Exponent of the power law within a field, unless `sample` says more."""
    linear_scale: float = 1.0
    """Standard deviation of the sum of linear effects of a row."""
    interactions: int = 100
    pair_scale: float = 1.0
    """Pair effects have a magnitude of 0.5 to 1.5 times this."""
    pair_share: float = 0.002
    """The two features of a planted pair meet in at least this share of the rows."""
    seed: int = 1
    correlation: float = 0.0
    """How often fields follow the latent numbers that they share; 1 is as often as measured."""
    affinities: int = 0
    """Pairs of fields whose groups of values have an effect of low rank on each other."""
    affinity_scale: float = 1.0
    """Standard deviation of the sum of affinities of a row."""
    drift: int = 0
    """Rows after which all linear effects are new, reached step by step; 0 for none."""
    sample: str | None = None
    """The real sample whose fields are used: avazu, criteo or kdd2012."""

    def __post_init__(self) -> None:
        _require(self.fields >= 2, f"fields={self.fields} must be at least 2")
        least = 2 * self.fields
        bounds = f"features={self.features} must be between {least} (two per field) and {2**31}"
        _require(least <= self.features <= 2**31, bounds)
        _require(0 < self.click_rate < 1, f"click_rate={self.click_rate} must be between 0 and 1")
        for name in ("exponent", "interactions", "correlation", "affinities", "drift"):
            value = getattr(self, name)
            _require(value >= 0, f"{name}={value} must be at least 0")
        share = f"pair_share={self.pair_share} must be between 0.0001 and 0.25"
        _require(0.0001 <= self.pair_share <= 0.25, share)
        if self.sample is not None:
            self._check_sample(self.sample)

    def _check_sample(self, name: str) -> None:
        known = measured()
        _require(name in known, f"sample={name!r} must be one of {', '.join(known)}")
        found = [*like(name)]
        shape = len(found), sum(field.size for field in found)
        words = f"fields={self.fields}, features={self.features}: {name} has {shape[0]}, {shape[1]}"
        _require(shape == (self.fields, self.features), words)

    @classmethod
    def demo(cls, seed: int = 1) -> ClickStream:
        """A small stream, with interactions strong enough to show after 200,000 rows."""
        return cls(
            fields=12,
            features=200_000,
            click_rate=0.2,
            interactions=600,
            pair_scale=0.8,
            pair_share=0.0003,
            correlation=0.4,
            affinities=4,
            affinity_scale=0.4,
            seed=seed,
        )

    @classmethod
    def avazu(cls, seed: int = 1) -> ClickStream:
        """The shape of Avazu (40 million rows), with the statistics of a sample of it."""
        return cls._like("avazu", 15, 1_000_000, 0.17, seed, (1.65, 0.97, 0.3))

    @classmethod
    def criteo(cls, seed: int = 1) -> ClickStream:
        """The shape of Criteo (46 million rows), with the statistics of a sample of it."""
        return cls._like("criteo", 39, 1_000_000, 0.256, seed, (1.9, 1.24, 0.3))

    @classmethod
    def kdd2012(cls, seed: int = 1) -> ClickStream:
        """The shape of KDD Cup 2012, track 2 (150 million rows), with the statistics of a sample
        of it. Its click rate is that of the full data set, not that of the sample."""
        return cls._like("kdd2012", 11, 54_686_452, 0.04, seed, (2.0, 0.88, 0.37))

    @classmethod
    def _like(
        cls,
        sample: str,
        fields: int,
        features: int,
        click_rate: float,
        seed: int,
        calibrated: tuple[float, float, float],
    ) -> ClickStream:
        """`calibrated` are the correlation, the linear scale and the scale of pairs with which
        correlations and losses come near those of the sample (docs/simulated.md)."""
        correlation, linear_scale, pair_scale = calibrated
        return cls(
            fields,
            features,
            click_rate,
            linear_scale=linear_scale,
            pair_scale=pair_scale,
            pair_share=0.0005,
            seed=seed,
            correlation=correlation,
            affinities=10,
            affinity_scale=0.2,
            sample=sample,
        )

    def batches(self, rows: int, batch_rows: int = 16_384, start: int = 0) -> Iterator[Batch]:
        """Rows `start` to `start + rows` of the stream, in order."""
        end = start + rows
        for first in range(start, end, batch_rows):
            yield self.batch(first, min(batch_rows, end - first))

    def batch(self, start: int, rows: int) -> Batch:
        """Rows `start` to `start + rows` of the stream."""
        numbers = np.arange(start, start + rows, dtype=np.uint64)
        columns = self.columns(numbers)
        chance = sigmoid(self._truth.margins(columns, numbers))
        clicks = uniform(self.bits("click", numbers)) < chance
        return Batch(
            indptr=np.arange(0, (rows + 1) * self.fields, self.fields, dtype=np.int64),
            indices=np.ascontiguousarray(columns.T).reshape(-1),
            values=np.ones(rows * self.fields, np.float32),
            labels=clicks.astype(np.float64),
            weights=np.ones(rows, np.float32),
        )

    def margins(self, batch: Batch, start: int = 0) -> FloatArray:
        """The margins that the labels were drawn from: no model is better on average.

        `start` is the number of the first row; it matters only in a stream that drifts.
        """
        if len(batch.indices) != len(batch) * self.fields:
            raise DataError(f"rows of this stream have {self.fields} features each")
        columns = np.ascontiguousarray(batch.indices.reshape(-1, self.fields).T)
        numbers = np.arange(start, start + len(batch), dtype=np.uint64)
        return self._truth.margins(columns, numbers)

    def probabilities(self, batch: Batch, start: int = 0) -> FloatArray:
        """The true click probability of every row."""
        return sigmoid(self.margins(batch, start))

    def planted(self) -> list[Pair]:
        """The planted pairs of features and their effects, strongest first."""
        return sorted(self._truth.pairs, key=lambda pair: -abs(pair[1]))

    def name(self, index: int) -> str:
        """The name of a feature: `field=value`, the value in hexadecimal."""
        if not 0 <= index < self.features:
            raise DataError(f"feature {index} is not in 0..{self.features - 1}")
        field = self.layout[self.field_of(index)]
        return f"{field.name}={index - field.offset:x}"

    def names(self) -> Iterator[tuple[int, str]]:
        """Every feature with its name, in order."""
        for field in self.layout:
            for value in range(field.size):
                yield field.offset + value, f"{field.name}={value:x}"

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns of `lines`.

        >>> ClickStream.demo().header[:3]
        ('click', 'banner', 'connection')
        """
        return ("click", *(field.name for field in self.layout))

    def lines(self, rows: int, start: int = 0) -> Iterator[tuple[str, ...]]:
        """The cells of rows `start` to `start + rows`: a table of clicks.

        >>> next(ClickStream.demo().lines(1))[:4]
        ('0', '0', '4', '0')
        """
        offsets = np.array([field.offset for field in self.layout])
        for batch in self.batches(rows, start=start):
            values = batch.indices.reshape(-1, self.fields) - offsets
            for click, row in zip(batch.labels, values.tolist(), strict=True):
                yield (f"{click:.0f}", *(f"{value:x}" for value in row))

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
        if self.sample is None:
            fields = geometric(self.fields, self.features, self.exponent)
        else:
            fields = like(self.sample)
        return tuple(
            replace(
                field,
                fidelity=min(1.0, self.correlation * field.fidelity),
                shift=self._key(f"shift {field.name}") % field.size,
            )
            for field in fields
        )

    @property
    def intercept(self) -> float:
        """What makes the click rate that which was asked for."""
        return self._truth.intercept

    @cached_property
    def _truth(self) -> Truth:
        return Truth(self)

    @cached_property
    def _bond(self) -> float:
        """How often latents follow the number that they share, at a correlation of 1."""
        return 0.0 if self.sample is None else float(measured()[self.sample]["bond"])

    def columns(self, numbers: Bits) -> Columns:
        """The features of the rows with these numbers."""
        columns = np.empty((self.fields, len(numbers)), np.uint32)
        latents = self._latents(numbers)
        for number, field in enumerate(self.layout):
            bits = self.bits(f"field {number}", numbers)
            columns[number] = field.draw(bits, latents[field.latent])
        return columns

    def _latents(self, numbers: Bits) -> list[Bits]:
        """Random numbers of 32 bits, which sometimes follow one that they share, turned around a
        circle: values of one latent then go with some values of another."""
        common = self.bits("common", numbers)
        bond = min(1.0, self.correlation * self._bond)
        found = []
        for number in range(LATENTS):
            bits = self.bits(f"latent {number}", numbers)
            turned = common + np.uint64(self._key(f"turn {number}"))
            found.append(np.where(follows(bits, bond), turned, bits) >> np.uint64(32))
        return found

    def field_of(self, index: int) -> int:
        """The number of the field that a feature belongs to."""
        return bisect_right(self.layout, index, key=lambda field: field.offset) - 1

    def _key(self, purpose: str) -> int:
        return key(self.seed, purpose)

    def bits(self, purpose: str, counters: npt.NDArray[np.unsignedinteger]) -> Bits:
        """Random bits for every counter."""
        return mixed(counters, self._key(purpose))


def _require(good: bool, message: str) -> None:
    if not good:
        raise HyperError(message)
