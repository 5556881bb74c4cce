"""Arrow tables: structs flattened, tables joined, and whatever can be read as one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pqrlearn.errors import DataError
from pqrlearn.values import Array, plain, python_text, texts_of


def flattened(table: Any) -> Any:
    """A table whose structs are columns of their own, called a.b."""
    import pyarrow as pa

    table = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
    while any(pa.types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
    return table


def joined(tables: Sequence[Any]) -> Any:
    """Tables one below the other. Columns whose types differ become numbers, or else text."""
    import pyarrow as pa

    names = list(dict.fromkeys(name for table in tables for name in table.schema.names))
    if any(len(set(table.schema.names)) < len(table.schema.names) for table in tables):
        return pa.Table.from_batches([], tables[0].schema)  # whoever looks says which name is twice
    columns = [_joined([_column(table, name) for table in tables]) for name in names]
    return pa.table(dict(zip(names, columns, strict=True)))


def _column(table: Any, name: str) -> Array:
    import pyarrow as pa

    if name not in table.schema.names:
        return pa.nulls(table.num_rows)
    return plain(table.column(name))


def _joined(arrays: list[Array]) -> Array:
    import pyarrow as pa

    kinds = {array.type for array in arrays if not pa.types.is_null(array.type)}
    if len(kinds) > 1:
        arrays = [_dictionary_free(array) for array in arrays]
        kinds = {array.type for array in arrays if not pa.types.is_null(array.type)}
    if len(kinds) > 1:
        real = all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds)
        kinds = {pa.float64()} if real else {pa.large_string()}
        arrays = [a.cast(pa.float64()) if real else _as_text(a) for a in arrays]
    kind = next(iter(kinds), pa.null())
    chunks = [array.cast(kind) if array.type != kind else array for array in arrays]
    return pa.chunked_array(chunks, kind).unify_dictionaries()


def _dictionary_free(array: Array) -> Array:
    import pyarrow as pa

    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _as_text(array: Array) -> Array:
    import pyarrow as pa

    return (
        pa.nulls(len(array), pa.large_string()) if pa.types.is_null(array.type) else texts_of(array)
    )


def array_of(values: list[Any]) -> Array:
    """An array of Python's values; of several types, of their texts."""
    import pyarrow as pa

    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError):
        pass
    if any(isinstance(value, list) for value in values):
        lists = [v if isinstance(v, list) else [] if v is None else [v] for v in values]
        return pa.array([[_text(value) for value in one] for one in lists], pa.list_(pa.string()))
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    try:
        return python_text(value)
    except DataError:
        return json.dumps(value)
