"""What tasks do with rows: place them in order, count their features, number and read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from pqrlearn.encoder import Encoder
from pqrlearn.errors import HyperError, RowError
from pqrlearn.loss import loss_named
from pqrlearn.names import Names
from pqrlearn.rows import Batch, NewNames
from pqrlearn.separation import add_names
from pqrlearn.spark.folder import Folder
from pqrlearn.spark.plan import LOCAL, ORDER, PART, Columns

Batches = Iterable[Any]
NUMBERED = "piece int, at long, label double, weight float, indices array<int>, values array<float>"


def placed(batches: Batches, *, ordered_by: str | None, shared: Folder) -> Iterator[Any]:
    """Sorted rows with the number of their partition and their number within it.

    `shared` was made by the driver: where it is missing, rows would be written that nobody finds.
    """
    from pyspark import TaskContext

    if not shared.exists():
        raise HyperError(
            f"work_folder is not the same folder on all nodes: {shared.path} was made on the "
            "driver, and is missing on an executor; give one that all share"
        )
    context = TaskContext.get()
    part, local, last = 0 if context is None else context.partitionId(), 0, None
    for batch in batches:
        if ordered_by is not None and batch.num_rows:
            keys = batch.column(ORDER)
            _check_order(keys, last, ordered_by)
            last = keys[len(keys) - 1]
        rest = batch.drop_columns([ORDER]) if ordered_by is not None else batch
        size = batch.num_rows
        numbers = np.arange(local, local + size, dtype=np.int64)
        arrays = [*rest.columns, pa.array(np.full(size, part, np.int32)), pa.array(numbers)]
        yield pa.RecordBatch.from_arrays(arrays, [*rest.schema.names, PART, LOCAL])
        local += size


def _check_order(keys: Any, last: Any, name: str) -> None:
    import pyarrow.compute as pc

    if pc.any(pc.is_null(keys, nan_is_null=True)).as_py():
        raise HyperError(f"order_col={name!r} has rows without a value, or NaN: fill them first")
    twice = pc.any(pc.equal(keys.slice(1), keys.slice(0, len(keys) - 1))).as_py()
    if twice or (last is not None and last == keys[0]):
        raise HyperError(
            f"order_col={name!r} has one value in several rows, whose order is then unknown: "
            "take a column whose values differ"
        )


def named_counts(
    batches: Batches, *, columns: Columns, loss: str, offsets: dict[int, int]
) -> Iterator[Any]:
    """For each name in how many rows it is, and where it is first."""
    assert columns.schema is not None
    encoder, names = Encoder(columns.schema, loss_named(loss), labelled=True), Names()
    counts = first = np.zeros(0, np.int64)
    for batch in batches:
        at = _numbers(batch, offsets)
        with _numbered_among_all(at):
            rows = encoder.batch(_named(batch, columns), names)
        grown = len(names) - len(counts)
        counts = np.concatenate([counts, np.zeros(grown, np.int64)])
        first = np.concatenate([first, np.zeros(grown, np.int64)])
        np.add.at(counts, rows.indices, 1)
        if rows.new_names is not None:
            first[rows.new_names.indices] = at[rows.new_names.rows]
    found = [names.name(number) for number in range(len(names))]
    seen = pa.array(np.arange(len(names), dtype=np.int64))
    arrays = [pa.array(found, pa.string()), pa.array(counts), pa.array(first), seen]
    yield pa.RecordBatch.from_arrays(arrays, ["name", "count", "first", "within"])


def numbered_counts(
    batches: Batches, *, columns: Columns, loss: str, offsets: dict[int, int]
) -> Iterator[Any]:
    """For each feature of a vector column in how many rows it is."""
    keys = counts = np.zeros(0, np.int64)
    for batch in batches:
        with _numbered_among_all(_numbers(batch, offsets)):
            rows = vector_rows(_named(batch, columns), columns, loss)
        joined = np.concatenate([keys, rows.indices])
        weights = np.concatenate([counts, np.ones(len(rows.indices), np.int64)])
        keys, place = np.unique(joined, return_inverse=True)
        counts = np.bincount(place, weights, len(keys)).astype(np.int64)
    arrays = [pa.array(keys.astype(np.int64)), pa.array(counts)]
    yield pa.RecordBatch.from_arrays(arrays, ["feature", "count"])


def encoded(
    batches: Batches,
    *,
    columns: Columns,
    loss: str,
    offsets: dict[int, int],
    names: Folder | None,
    ends: list[int],
) -> Iterator[Any]:
    """Rows with numbered features, and the piece that each is in."""
    known = Names() if names is None else read_names(names)
    encoder = columns.schema and Encoder(columns.schema, loss_named(loss), labelled=True)
    for batch in batches:
        at = _numbers(batch, offsets)
        given = _named(batch, columns)
        rows = encoder.batch(given, known) if encoder else vector_rows(given, columns, loss)
        pieces = (np.searchsorted(ends, at, side="right") - 1).astype(np.int32)
        lists = [
            pa.ListArray.from_arrays(rows.indptr.astype(np.int32), pa.array(values))
            for values in (rows.indices.view(np.int32), rows.values)
        ]
        arrays = [pa.array(each) for each in (pieces, at, rows.labels, rows.weights)]
        fields = ["piece", "at", "label", "weight", "indices", "values"]
        yield pa.RecordBatch.from_arrays([*arrays, *lists], fields)


def _named(batch: Any, columns: Columns) -> Any:
    """The columns of a DataFrame, under the names that they have there."""
    return batch.select(columns.stored).rename_columns(columns.all)


@contextmanager
def _numbered_among_all(at: Any) -> Iterator[None]:
    """A bad row is known by its number in the order of learning, not by that in its batch."""
    try:
        yield
    except RowError as error:
        raise RowError(in_order(error.message, lambda row: at[row])) from None


def in_order(message: str, number: Callable[[int], int]) -> str:
    """The message of a bad row of a batch, with its number among all rows.

    >>> in_order("row 5: label 'click': it is missing", lambda row: 300 + row)
    "row 305 in the order of learning: label 'click': it is missing"
    """
    found = re.match(r"row (\d+): ", message)
    if found is None:
        return message
    row = number(int(found[1]))
    return f"row {row} in the order of learning: {message[found.end() :]}"


def _numbers(batch: Any, offsets: dict[int, int]) -> Any:
    """The number of each row among all rows."""
    parts, local = (batch.column(name).to_numpy() for name in (PART, LOCAL))
    start = np.array([offsets[part] for part in np.unique(parts).tolist()], np.int64)
    return start[np.unique(parts, return_inverse=True)[1]] + local


def read_names(table: Folder) -> Names:
    """The dictionary of names, in the order of their numbers."""
    names = Names()
    for batch in table.batches():
        indices = batch.column("feature").to_numpy().astype(np.uint32)
        texts = batch.column("name").to_pylist()
        add_names(names, NewNames(indices, texts, np.zeros(len(texts), np.int64)))
    return names


def vector_rows(batch: Any, columns: Columns, loss: str) -> Batch:
    """The rows of a vector column, sparse or dense, with labels and weights."""
    indptr, indices, values = vector_parts(batch.column(columns.vector), columns.vector)
    kind = loss_named(loss)
    labels = batch.column(columns.label).cast(pa.float64()).to_numpy(zero_copy_only=False)
    bad = np.flatnonzero(~kind.check_label(labels))
    if len(bad):
        row = bad[0]
        why = "it is missing" if np.isnan(labels[row]) else f"{labels[row]:g} {kind.wants}"
        raise RowError(f"row {row}: label {columns.label!r}: {why}")
    weights = None
    if columns.weight is not None:
        weights = batch.column(columns.weight).cast(pa.float32()).to_numpy(zero_copy_only=False)
    return Batch._made(indptr, indices, values, kind.kept(labels), weights)


def vector_parts(vectors: Any, column: str | None) -> tuple[Any, Any, Any]:
    """Indices and values of Spark's vectors: structs of type, size, indices and values."""
    vectors = vectors.combine_chunks() if isinstance(vectors, pa.ChunkedArray) else vectors
    if vectors.null_count:
        row = vectors.is_null().index(True).as_py()
        raise RowError(f"row {row}: column {column!r}: there is no vector")
    dense = vectors.field("type").to_numpy(zero_copy_only=False) == 1
    values = vectors.field("values")
    lengths = np.diff(values.offsets.to_numpy())
    flat = values.flatten().to_numpy(zero_copy_only=False)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    indices = np.arange(len(flat)) - np.repeat(indptr[:-1], lengths)
    sparse = np.repeat(~dense, lengths)
    indices[sparse] = vectors.field("indices").flatten().to_numpy(zero_copy_only=False)
    return indptr, indices, flat


def piece_rows(rows: Folder, piece: int) -> Iterator[Batch]:
    """The rows of a piece, in order."""
    folder = rows / f"piece={piece}"
    if not folder.exists():
        return
    for batch in folder.batches(["label", "weight", "indices", "values"]):
        lists = batch.column("indices"), batch.column("values")
        flat = [each.flatten().to_numpy(zero_copy_only=False) for each in lists]
        offsets = lists[0].offsets.to_numpy().astype(np.int64)
        yield Batch(
            offsets - offsets[0],
            flat[0].view(np.uint32),
            flat[1].astype(np.float32),
            batch.column("label").to_numpy().astype(np.float64),
            batch.column("weight").to_numpy().astype(np.float32),
        )


@lru_cache(maxsize=1)
def first_rows(rows: Folder, pieces: tuple[int, ...], count: int) -> list[Batch]:
    """The first rows of some pieces; kept, because several tasks of a process ask for them."""
    found: list[Batch] = []
    for piece in pieces:
        for batch in piece_rows(rows, piece):
            if count <= 0:
                return found
            found.append(batch.part(0, min(len(batch), count)))
            count -= len(batch)
    return found
