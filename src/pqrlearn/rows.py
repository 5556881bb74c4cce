"""Rows as contiguous arrays: what readers produce and learners consume."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol, cast

import numpy as np
import numpy.typing as npt

from pqrlearn import _core
from pqrlearn.errors import RowError

FloatArray = npt.NDArray[np.float64]


class ArrowStream(Protocol):
    """A frame: whatever speaks the Arrow C stream, as pandas, polars, pyarrow and DuckDB do."""

    @property
    def __arrow_c_stream__(self) -> Any: ...


class Matrix(Protocol):
    """A sparse matrix or array of SciPy, in any of its formats."""

    def tocsr(self) -> Any: ...


class ArrayOfNumbers(Protocol):
    """An array of NumPy, or a column of a frame."""

    def __array__(self, dtype: Any = ..., /) -> npt.NDArray[Any]: ...


Features = Mapping[Any, Any]
"""One row as a dict: a string value is the feature `key=value`, a number is the feature `key` with
that value (an integer key is an index), None is absent."""

Numbers = Sequence[float] | ArrayOfNumbers
"""Labels or weights, one per row."""


def as_numbers(what: str, values: Any, dtype: type[np.generic] = np.float64) -> npt.NDArray[Any]:
    """A copy of labels or weights as an array; RowError if they are anything else.

    >>> as_numbers("labels", [1, 0]).tolist()
    [1.0, 0.0]
    """
    try:
        found = np.array(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        found = np.zeros((0, 0))
    if found.ndim != 1:
        raise RowError(f"{what} must be a sequence of numbers, one per row, not {_short(values)}")
    return found


def check_array(of: str, name: str, array: object, dtype: type[np.generic]) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
        raise RowError(
            f"{of}: {name} must be a one-dimensional array of {dtype.__name__}, not {_short(array)}"
        )


def not_a_number(y: object, weight: object) -> TypeError | None:
    """The error of a label or weight that is no number."""
    for what, value in (("label", y), ("weight", weight)):
        try:
            number = None if isinstance(value, str | bytes) else float(cast(Any, value))
        except (TypeError, ValueError):
            number = None
        if number is None:
            return TypeError(f"{what} {_short(value)} is not a number")
    return None


def plain_error(error: TypeError, x: object, y: object = 0.0, weight: object = 1.0) -> TypeError:
    """An error of the core about a row; one of the binding would describe the binding."""
    if x is None:
        return TypeError("a row must be a dict, not NoneType")
    return not_a_number(y, weight) or error


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


_DTYPES: Final[dict[str, type[np.generic]]] = {
    "indptr": np.int64,
    "indices": np.uint32,
    "values": np.float32,
    "labels": np.float64,
    "weights": np.float32,
}


@dataclass(frozen=True, eq=False)
class NewNames:
    """Names of features that are new in a Batch: `indices` first occur in `rows`, which increase.

    A reader is ahead of the learner. So new names travel with their rows, and a model that is saved
    in between holds the names of the rows that it has learned, and no others. The reader has added
    them to `store`, if that is given.
    """

    indices: npt.NDArray[np.uint32]
    names: Sequence[str]
    rows: npt.NDArray[np.int64]
    store: _core.Names | None = None

    def part(self, start: int, stop: int) -> NewNames | None:
        """Those that first occur in rows `start` to `stop` (exclusive)."""
        begin, end = np.searchsorted(self.rows, [start, stop]).tolist()
        if begin == end:
            return None
        return NewNames(
            self.indices[begin:end],
            self.names[begin:end],
            self.rows[begin:end] - start,
            self.store,
        )

    def met_in(self, indptr: npt.NDArray[np.int64], indices: Any) -> NewNames | None:
        """Those that occur in selected rows, and where they first occur among these."""
        places = np.flatnonzero(np.isin(indices, self.indices))
        features, first = np.unique(indices[places], return_index=True)
        if not len(features):
            return None
        rows = np.searchsorted(indptr, places[first], side="right") - 1
        order = np.argsort(rows, kind="stable")
        known = dict(zip(self.indices.tolist(), self.names, strict=True))
        names = [known[feature] for feature in features[order].tolist()]
        return NewNames(features[order], names, rows[order])

    @staticmethod
    def joined(parts: Sequence[Batch]) -> NewNames | None:
        starts = np.cumsum([0, *(len(part) for part in parts)]).tolist()
        new = [(p.new_names, at) for p, at in zip(parts, starts, strict=False) if p.new_names]
        if not new:
            return None
        return NewNames(
            np.concatenate([names.indices for names, _ in new]),
            [name for names, _ in new for name in names.names],
            np.concatenate([names.rows + at for names, at in new]),
        )


@dataclass(frozen=True, eq=False)
class Batch:
    """Many rows: read-only and canonical (indices strictly increase, repeats summed, no zeros).

    Row r has the features `indices[indptr[r]:indptr[r + 1]]` and the values at the same positions.
    Readers yield Batches; `from_csr` and `from_rows` build them in memory. Arrays are copied,
    because the core relies on rows that do not change. `lines` are the line numbers of the rows in
    the file `source`; `new_names` are names of features that no earlier Batch had.

    >>> batch = Batch.from_rows([([3, 1], [1.0, 0.5]), ([7], [2.0])], labels=[1, 0])
    >>> batch.indices.tolist(), batch.values.tolist()
    ([1, 3, 7], [0.5, 1.0, 2.0])
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float32]
    labels: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float32]
    lines: npt.NDArray[np.int64] | None = None
    source: str | None = None
    new_names: NewNames | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            array = getattr(self, field.name)
            if field.name in _DTYPES:
                check_array("Batch", field.name, array, _DTYPES[field.name])
            if isinstance(array, np.ndarray):
                object.__setattr__(self, field.name, array.copy())
        self._check()
        self._make_read_only()

    @classmethod
    def _owned(cls, *columns: Any) -> Batch:
        """From arrays that nobody else changes: they are checked, but not copied."""
        batch = cls._unchecked(*columns)
        batch._check()
        return batch

    @classmethod
    def _unchecked(cls, *columns: Any) -> Batch:
        """From rows that the core has built, or that are part of a Batch.

        Anything else is unsafe: the tables of the core rely on increasing indices.
        """
        batch = object.__new__(cls)
        missing = [field.default for field in fields(cls)[len(columns) :]]
        for field, column in zip(fields(cls), [*columns, *missing], strict=True):
            object.__setattr__(batch, field.name, column)
        batch._make_read_only()
        return batch

    def _check(self) -> None:
        try:
            _core.check_rows(self.indptr, self.indices, self.values, self.labels, self.weights)
        except ValueError as error:
            raise RowError(str(error)) from None

    def _make_read_only(self) -> None:
        for field in fields(self):
            array = getattr(self, field.name)
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    def _columns(self) -> list[Any]:
        return [getattr(self, field.name) for field in fields(Batch)]

    def __repr__(self) -> str:
        labelled = bool(len(self)) and not np.isnan(self.labels).any()
        return f"Batch(rows={len(self)}, nonzeros={len(self.indices)}, labelled={labelled})"

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, start: int, stop: int) -> Batch:
        """Rows `start` to `stop` (exclusive).

        >>> Batch.from_rows([([0], [1.0]), ([5, 6], [1.0, 2.0])]).part(1, 2).indices.tolist()
        [5, 6]
        """
        begin, end = self.indptr[start], self.indptr[stop]
        return Batch._unchecked(
            self.indptr[start : stop + 1] - begin,
            self.indices[begin:end],
            self.values[begin:end],
            self.labels[start:stop],
            self.weights[start:stop],
            None if self.lines is None else self.lines[start:stop],
            self.source,
            self.new_names and self.new_names.part(start, stop),
        )

    def take(self, rows: npt.NDArray[np.int64]) -> Batch:
        """The rows with these numbers, in this order.

        >>> batch = Batch.from_rows([([0], [1.0]), ([5, 6], [1.0, 2.0])], labels=[0, 1])
        >>> batch.take(np.array([1, 0])).indices.tolist()
        [5, 6, 0]
        """
        lengths = np.diff(self.indptr)[rows]
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        places = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], lengths)
        indices = self.indices[places]
        return Batch._unchecked(
            indptr,
            indices,
            self.values[places],
            self.labels[rows],
            self.weights[rows],
            None if self.lines is None else self.lines[rows],
            self.source,
            self.new_names and self.new_names.met_in(indptr, indices),
        )

    def without_names(self) -> Batch:
        """The same rows, without names.

        >>> Batch.from_rows([([0], [1.0])]).without_names().new_names is None
        True
        """
        if self.new_names is None:
            return self
        return Batch._unchecked(*self._columns()[:-1])

    def digest(self) -> str:
        """A hash of the content: equal rows in equal order have equal digests.

        >>> len(Batch.from_rows([([0], [1.0])]).digest())
        32
        """
        from hashlib import blake2b  # lazy: costs 5 ms and 4 MB

        name = blake2b(digest_size=16)
        for array in (self.indptr, self.indices, self.values, self.labels, self.weights):
            name.update(np.ascontiguousarray(array).data)
        return name.hexdigest()

    @staticmethod
    def joined(batches: Iterable[Batch]) -> Batch:
        """The rows of all batches, concatenated; line numbers are dropped.

        >>> one = Batch.from_rows([([0], [1.0])], labels=[1])
        >>> Batch.joined([one, one])
        Batch(rows=2, nonzeros=2, labelled=True)
        """
        parts = list(batches) or [Batch.from_rows([])]
        sizes = np.concatenate([np.diff(part.indptr) for part in parts])
        return Batch._unchecked(
            np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]),
            np.concatenate([part.indices for part in parts]),
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.weights for part in parts]),
            None,
            None,
            NewNames.joined(parts),
        )

    @staticmethod
    def from_csr(X: Any, y: Any = None, weights: Any = None) -> Batch:
        """The rows of a SciPy CSR matrix or array, copied, with labels and row weights.

        Without labels the rows can only be predicted; without weights each has weight 1.

        >>> from scipy.sparse import csr_array
        >>> Batch.from_csr(csr_array([[0.0, 2.0], [1.0, 0.0]]), [1, 0]).indices.tolist()
        [1, 0]
        """
        return Batch._made(X.indptr, X.indices, X.data, y, weights)

    @staticmethod
    def from_rows(
        rows: Iterable[tuple[Sequence[int], Sequence[float]]],
        labels: Any = None,
        weights: Any = None,
    ) -> Batch:
        """Rows given as pairs of indices and values, in any order.

        >>> Batch.from_rows([([3, 1], [1.0, 0.5])]).values.tolist()
        [0.5, 1.0]
        """
        pairs = list(rows)
        indptr = np.cumsum([0, *(len(indices) for indices, _ in pairs)])
        indices = np.array([i for row, _ in pairs for i in row], dtype=object)
        values = [v for _, row in pairs for v in row]
        return Batch._made(indptr, indices, values, labels, weights)

    @staticmethod
    def _made(
        indptr: Any,
        indices: Any,
        values: Any,
        labels: Any,
        weights: Any,
        *,
        lines: Any = None,
        source: str | None = None,
        new_names: NewNames | None = None,
    ) -> Batch:
        """From arrays of any type: the one place that converts and copies them."""
        size = len(indptr) - 1
        y = np.full(size, np.nan) if labels is None else as_numbers("labels", labels)
        w = np.ones(size) if weights is None else as_numbers("weights", weights, np.float32)
        try:
            arrays = _core.make_rows(
                np.ascontiguousarray(indptr, np.int64),
                np.ascontiguousarray(indices, np.int64),
                np.ascontiguousarray(values, np.float64),
                np.ascontiguousarray(y, np.float64),
                np.ascontiguousarray(w, np.float32),
            )
        except (ValueError, TypeError, OverflowError) as error:
            raise RowError(str(error)) from None
        made = cast("tuple[Any, Any, Any, Any, Any, Any]", arrays)[:5]
        return Batch._owned(*made, lines, source, new_names)


@dataclass(frozen=True, eq=False, repr=False)
class Tagged(Batch):
    """Rows that carry a cell each that is no feature, such as an id."""

    tags: Sequence[Any] = ()

    def part(self, start: int, stop: int) -> Batch:
        columns = super().part(start, stop)._columns()
        return Tagged._unchecked(*columns, self.tags[start:stop])


RowsLike = Batch | Sequence[Features] | ArrowStream | Matrix | npt.NDArray[Any]
"""Many rows: a Batch, a list of dicts, a frame, a sparse matrix of SciPy or an array of NumPy."""
