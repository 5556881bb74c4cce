"""Frames: tables in memory, and streams of record batches, as Arrow tables."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pqrlearn.arrow import array_of, flattened, joined
from pqrlearn.errors import DataError
from pqrlearn.guess import SAMPLE_ROWS

BATCH_ROWS: Final = 1 << 16
"""How many rows become a Batch at a time."""


def is_frame(X: Any) -> bool:
    """Whether it speaks the Arrow C stream, as pandas, polars and others do, or is an array."""
    return isinstance(X, np.ndarray) or hasattr(X, "__arrow_c_stream__")


class Frame:
    """A table in memory, or a stream of record batches, in slices of bounded size."""

    def __init__(self, X: Any) -> None:
        import pyarrow as pa

        self.table: Any = None
        try:
            if isinstance(X, np.ndarray):
                self.table = _from_array(X)
            elif isinstance(X, pa.RecordBatchReader):
                self._stream = _checked(X)
            else:
                self.table = _from_frame(X)
        except DataError:
            raise
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise DataError(
                f"{type(X).__name__} cannot be read as a table: {error}; "
                "give each column a name of its own and values of one type"
            ) from None
        self._held: list[Any] = []

    def sample(self) -> Any:
        """The first rows; those of a stream are held until they are sliced."""
        if self.table is not None:
            return _features(self.table.slice(0, SAMPLE_ROWS))
        rows = 0
        for batch in self._stream:
            self._held.append(batch)
            rows += batch.num_rows
            if rows >= SAMPLE_ROWS:
                break
        return joined([_features(batch) for batch in self._held])

    def slices(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Any]]:
        """The number of the first row, and an Arrow table; of a table perhaps only some rows."""
        if self.table is not None:
            wholes = iter([self.table.slice(start, None if stop is None else stop - start)])
        else:
            wholes = chain(self._held, self._stream)
        done = start
        for whole in wholes:
            for at in range(0, whole.num_rows, BATCH_ROWS):
                part = _features(whole.slice(at, BATCH_ROWS))
                yield done, part
                done += part.num_rows


def _checked(stream: Any) -> Iterator[Any]:
    """The batches of a stream, which may come from a stranger's file."""
    import pyarrow as pa

    try:
        for batch in stream:
            batch.validate(full=True)
            yield batch
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"the stream cannot be read as Arrow: {error}") from None


def _from_frame(X: Any) -> Any:
    """A table; columns of pandas with objects of several types become text."""
    import pyarrow as pa

    with warnings.catch_warnings():  # names that are numbers become texts, here and later alike
        warnings.simplefilter("ignore", UserWarning)
        try:
            return _without_index(pa.table(X)) if hasattr(X, "set_index") else pa.table(X)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            if not hasattr(X, "columns"):
                raise
            objects = [name for name in X.columns if X[name].dtype == object]
            texts = {name: array_of(X[name].tolist()) for name in objects}
            rest = pa.table(X.drop(columns=objects))
            found = {str(n): texts[n] if n in texts else rest[str(n)] for n in X.columns}
            return pa.table(found)


def _without_index(table: Any) -> Any:
    """What pandas has as an index is not a column, even if it has a name."""
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    return table.drop_columns([name for name in index if isinstance(name, str)])


def inputs_of(data: Any) -> list[Any]:
    """One path or frame, or several, as a list.

    >>> inputs_of("a.csv"), inputs_of(["a.csv", "b.csv"])
    (['a.csv'], ['a.csv', 'b.csv'])
    """
    if isinstance(data, str | os.PathLike) or is_frame(data):
        return [data]
    if (
        isinstance(data, Iterable)
        and not isinstance(data, Mapping)
        and not hasattr(data, "collect")
    ):
        found = list(data)
        if not any(isinstance(one, Mapping) for one in found):
            return found
        raise DataError("rows that are dicts are no table: give them to learn_many(rows, labels)")
    lazy = "; call its collect() first" if hasattr(data, "collect") else ""
    raise DataError(f"{type(data).__name__} is neither a path nor a frame{lazy}")


def _features(table: Any) -> Any:
    """With structs as columns of their own, and without the index of pandas."""
    table = flattened(table)
    index = [name for name in table.schema.names if name.startswith("__index_level_")]
    return table.drop_columns(index) if index else table


def _from_array(X: npt.NDArray[Any]) -> Any:
    """The fields of a structured array; the columns of others are called by number."""
    import pyarrow as pa

    if X.dtype.names:
        columns = {name: X[name] for name in X.dtype.names}
    elif X.ndim == 2:
        columns = {str(at): X[:, at] for at in range(X.shape[1])}
    else:
        raise DataError(f"an array with {X.ndim} dimensions is no table; expected 2")
    arrays = {name: np.ascontiguousarray(column) for name, column in columns.items()}
    return pa.table({name: pa.array(array, from_pandas=True) for name, array in arrays.items()})
