"""Which features are high: counting them, and drawing the line.

Counting and learning are two visible steps. `Counts` adds up rows; `Counts.separate` draws the
line by order (top-k) or by count; the resulting Separation can be saved, looked at and reused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn import _core, modelfile
from pqrlearn.errors import Corrupt, DataError, HyperError, NotAModel, RowError
from pqrlearn.hyper import MAX_ORDER, ORDERS, SAMPLE_ROWS, check_whole
from pqrlearn.readers import AnyPath, Reader, Sample, ahead, open_reader
from pqrlearn.rows import Batch, NewNames

KIND = "separation"


@dataclass(frozen=True, eq=False)
class Separation:
    """Which features are high, by rank (most frequent first); all others are low.

    >>> rows = [{"site": "a", "hour": "9"}, {"site": "a", "hour": "10"}]
    >>> separation = Separation.top_k(rows, order=1)
    >>> separation.high_names(), separation.counts.tolist()
    (['site=a'], [2])
    """

    features: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint64]
    rows: int
    distinct: int
    names: _core.Names = field(default_factory=_core.Names)

    def __post_init__(self) -> None:
        if len(self.features) != len(self.counts):
            raise HyperError("a separation needs one count per high feature")
        if len(np.unique(self.features)) != len(self.features):
            raise HyperError("a feature is high twice")

    @property
    def order(self) -> int:
        return len(self.features)

    @cached_property
    def snapshot(self) -> _core.Separation:
        """The native look-up, made once: models and rows split in advance share it."""
        return _core.Separation(self.features)

    def high_names(self) -> list[str]:
        """The high features as a person would call them, by rank."""
        return [self.names.name(f) or str(f) for f in self.features.tolist()]

    def named(self, names: _core.Names) -> Separation:
        """The same line, with these names for the features."""
        return replace(self, names=names)

    @staticmethod
    def top_k(rows: Batch | Iterable[Batch] | Iterable[dict[Any, Any]], order: int) -> Separation:
        """The `order` most frequent features; ties go to the smaller index."""
        return Counts.of(rows).separate(order=order)

    @staticmethod
    def threshold(
        rows: Batch | Iterable[Batch] | Iterable[dict[Any, Any]], min_count: int
    ) -> Separation:
        """Every feature that is non-zero in at least `min_count` rows."""
        return Counts.of(rows).separate(min_count=min_count)

    @staticmethod
    def from_file(
        path: AnyPath,
        *,
        order: int | None = None,
        min_count: int | None = None,
        sample_rows: int | None = SAMPLE_ROWS,
    ) -> Separation:
        """From a libsvm file; `sample_rows=None` counts all of it (see `Counts.of_files`)."""
        return Counts.of_files([path], sample_rows).separate(order=order, min_count=min_count)

    def settings(self) -> dict[str, Any]:
        return {"rows": self.rows, "distinct": self.distinct}

    def tensors(self) -> modelfile.Tensors:
        return {"features": self.features, "counts": self.counts}

    @staticmethod
    def restored(
        settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> Separation:
        """The inverse of `settings` and `tensors`; KeyError or ValueError if they do not fit."""
        return Separation(
            modelfile.tensor(tensors, "features", np.uint32, 1),
            modelfile.tensor(tensors, "counts", np.uint64, 1),
            check_whole("rows", settings["rows"], least=0),
            check_whole("distinct", settings["distinct"], least=0),
            names,
        )

    def save(self, path: AnyPath) -> None:
        modelfile.write(path, KIND, self.settings(), self.tensors() | name_tensors(self.names))

    @staticmethod
    def load(path: AnyPath) -> Separation:
        kind, settings, tensors = modelfile.read(path)
        if kind != KIND:
            error = NotAModel(f"{path}: a {kind} model, not a separation")
            error.case = ("not a separation",)
            raise error
        try:
            return Separation.restored(settings, tensors, names_from(tensors))
        except (KeyError, ValueError, TypeError) as error:
            raise Corrupt(f"{path}: a damaged separation ({error})") from None


class Counts:
    """In how many rows each feature is non-zero; `bad_rows` of a file were left out."""

    def __init__(self) -> None:
        self._counter = _core.Counter()
        self.bad_rows = 0

    @property
    def rows(self) -> int:
        return self._counter.rows

    @property
    def distinct(self) -> int:
        return self._counter.distinct

    def add(self, row: Batch | dict[Any, Any]) -> None:
        """Counts a Batch of rows, or one row that is a dict."""
        if isinstance(row, Batch):
            if row.new_names is not None:
                add_names(self._counter.names, row.new_names)
            self._counter.add(row.indptr, row.indices, row.values)
            return
        try:
            self._counter.add_dict(row)
        except ValueError as error:
            raise RowError(str(error)) from None

    @staticmethod
    def of(rows: Batch | Iterable[Batch] | Iterable[dict[Any, Any]]) -> Counts:
        counts = Counts()
        for row in [rows] if isinstance(rows, Batch) else rows:
            counts.add(row)
        return counts

    @staticmethod
    def of_files(
        paths: Sequence[AnyPath],
        sample_rows: int | None = SAMPLE_ROWS,
        on_bad_row: str = "stop",
        *,
        loss: str | None = None,
    ) -> Counts:
        """Counts of files: whole ones, or blocks spread evenly over those with more rows.

        From stdin or a compressed file, which cannot be entered in the middle, the first rows.
        With a `loss`, a row whose label does not fit it is a bad row.
        """
        readers = [open_reader(path, loss=loss, on_bad_row=on_bad_row) for path in paths]
        return Counts.of_readers(readers, sample_rows)

    @staticmethod
    def of_readers(readers: Sequence[Reader], sample_rows: int | None = SAMPLE_ROWS) -> Counts:
        """The same of inputs in any format."""
        sample = Sample(readers, sample_rows)
        counts = Counts.of(ahead(sample.batches()))
        counts.bad_rows = sample.bad_rows
        return counts

    def separate(self, *, order: int | None = None, min_count: int | None = None) -> Separation:
        """Draws the line; by default at ⌈√d⌉ of the d distinct features, as the paper suggests."""
        if order is None and min_count is None:
            order = self.default_order()
        if order is not None:
            check_whole("order", order, least=0, most=MAX_ORDER)
        if min_count is not None:
            check_whole("min_count", min_count, least=1)
        features, counts = self._counter.top(MAX_ORDER if order is None else order, min_count or 1)
        names = names_from(name_tensors(self._counter.names))  # a copy: they live in the counter
        return Separation(features, counts, self.rows, self.distinct, names)

    def orders(self) -> list[int]:
        """Orders worth mixing (`hyper.ORDERS`), rising; at most as many as features."""
        return sorted({min(n * self.default_order(), self.distinct) for n in ORDERS})

    def default_order(self) -> int:
        return math.isqrt(max(self.distinct, 1) - 1) + 1 if self.distinct else 0


def add_names(names: _core.Names, new: NewNames) -> None:
    """Adds names that come with rows; those that are there already must have the same number."""
    for index, name in zip(new.indices.tolist(), new.names, strict=True):
        if not names.add(index, name) and names.find(name) != index:
            known = names.name(index)
            has = f"{known!a} has that number" if known else f"it has number {names.find(name)}"
            raise DataError(
                f"these rows number {name!a} as feature {index}, but {has} here; "
                "read them with the names of the model"
            )


def name_tensors(names: _core.Names) -> modelfile.Tensors:
    """The dictionary of names as arrays; nothing when there are none."""
    if not len(names):
        return {}
    indices, ends, text = names.arrays()
    return {"names.indices": indices, "names.ends": ends, "names.bytes": text}


def names_from(tensors: modelfile.Tensors) -> _core.Names:
    """The inverse of `name_tensors`; KeyError or ValueError if they do not fit."""
    names = _core.Names()
    if "names.indices" in tensors:
        names.restore(
            modelfile.tensor(tensors, "names.indices", np.uint32, 1),
            modelfile.tensor(tensors, "names.ends", np.uint64, 1),
            modelfile.tensor(tensors, "names.bytes", np.uint8, 1),
        )
    return names
