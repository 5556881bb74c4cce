"""Rows of an Arrow table, a column at a time: their margins, and the texts that the log keeps.

The features are those of the same rows in JSON. Where that takes more than a look at a column, the
answer is None, and the rows are looked at one by one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from pqrlearn.encoder import Encoder, batch_of
from pqrlearn.errors import PqrError
from pqrlearn.learners import FM, Learner
from pqrlearn.learners.frames import fresh_names
from pqrlearn.names import Coded, Texts, code_texts
from pqrlearn.rows import Batch
from pqrlearn.serve.batches import Rows
from pqrlearn.serve.messages import encode
from pqrlearn.serve.scoring import fits_size
from pqrlearn.serve.service import LARGEST_ROW
from pqrlearn.serve.settings import Settings
from pqrlearn.values import as_numpy, plain, text_parts

_LARGEST = float(np.finfo(np.float32).max)
_QUOTE, _BACKSLASH, _SPACE = b'"\\ '


def scored(model: Learner, table: Any, settings: Settings, *, kept: bool = True) -> Rows | None:
    """Margins of all rows and, if they are to be `kept`, their texts."""
    if not fits_size(model, table.num_columns, settings):
        return None
    arrays = {name: _simple(table.column(name)) for name in table.schema.names}
    if None in arrays.values() or "" in arrays:
        return None
    try:
        by_name = model.schema is None
        batch = _by_name(model, arrays, table.num_rows) if by_name else _by_schema(model, table)
        if batch.new_names is not None and isinstance(model, FM):
            return None  # whose seeded factors go by a number, which depends on the rows before
        margins = model.margin_many(batch).tolist()
    except PqrError:
        return None  # some row is refused: which one, and why, is said one by one
    texts = _texts(arrays, table.num_rows) if kept else [None] * table.num_rows
    return None if texts is None else Rows(margins, texts, {})


def _simple(column: Any) -> Any:
    """An array of texts, or of finite numbers with NaN as missing; None for anything else."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array, types = plain(column), pa.types
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return array if types.is_string(kind) else array.cast(pa.string())
    if types.is_integer(kind) or types.is_boolean(kind):
        return array
    if not types.is_floating(kind):
        return None
    array = array.cast(pa.float64())
    if pc.any(pc.is_nan(array)).as_py():
        array = pc.if_else(pc.is_nan(array), None, array)
    return array if pc.all(pc.is_finite(array)).as_py() in (True, None) else None


def _by_schema(model: Learner, table: Any) -> Batch:
    """Rows of a table that the schema describes."""
    schema, given = model.schema, set(table.schema.names)
    assert schema is not None
    if not {c.name for c in schema.features} <= given <= {c.name for c in schema.columns}:
        raise PqrError("columns are missing, or not in the schema")
    encoder = Encoder(schema, None, labelled=False)
    return encoder.batch(table, model.names, fresh_names(model))


def _by_name(model: Learner, arrays: dict[str, Any], rows: int) -> Batch:
    """Rows as dicts have them: a text is the feature name=text, a number the feature name."""
    columns = [_coded(name, array) for name, array in arrays.items()]
    nowhere = np.full(rows, np.nan)
    return batch_of(columns, model.names, nowhere, fresh=fresh_names(model))


def _coded(name: str, array: Any) -> Coded:
    import pyarrow as pa

    if not pa.types.is_string(array.type):
        return _number(name, array)
    offsets, data, valid = text_parts(array)
    codes, texts = code_texts(offsets, data, valid)
    empty = (codes < 0) if valid is None else (codes < 0) & valid
    if empty.any():  # an empty text is a text, not a missing one
        codes = np.where(empty, np.int32(len(texts)), codes)
        texts = Texts(np.append(texts.offsets, texts.offsets[-1]), texts.data)
    return Coded(texts, codes, prefix=f"{name}=")


def _number(name: str, array: Any) -> Coded:
    import pyarrow as pa

    missing = as_numpy(array.is_null()) if array.null_count else np.zeros(len(array), np.bool_)
    array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    values = as_numpy(array).astype(np.float64)
    if np.abs(values).max(initial=0.0) > _LARGEST:
        raise PqrError("a value is too large")
    codes = np.where(missing, np.int32(-1), np.int32(0))
    return Coded([""], codes, values.astype(np.float32), prefix=name)


def _texts(arrays: dict[str, Any], rows: int) -> list[bytes] | None:
    """Rows as JSON, without what is missing; None if one is too long."""
    import pyarrow.compute as pc

    whole = [name for name, array in arrays.items() if not array.null_count]
    parts: list[Any] = []
    literal = "{"
    for name in whole:  # first, so that commas need no thought
        head, cells, tail = _member(name, arrays[name])
        parts += [literal + head, cells]
        literal = tail + ","
    literal = literal.removesuffix(",")
    for name in (name for name in arrays if name not in whole):
        head, cells, tail = _member(name, arrays[name])
        parts += [literal, pc.binary_join_element_wise(f",{head}", cells, tail, "")]
        literal = ""
    joined = pc.binary_join_element_wise(
        *parts, literal + "}", "", null_handling="replace", null_replacement=""
    )
    if not parts:
        return [b"{}"] * rows
    if pc.max(pc.binary_length(joined)).as_py() > LARGEST_ROW:
        return None
    offsets, data, _ = text_parts(joined)
    ends, text = offsets.tolist(), data.tobytes()
    found = [text[begin:end] for begin, end in pairwise(ends)]
    return found if whole else [row.replace(b"{,", b"{", 1) for row in found]


def _member(name: str, array: Any) -> tuple[str, Any, str]:
    """What stands before a cell in JSON, the cell, and what stands behind it."""
    import pyarrow as pa

    key = f"{encode(name).decode()}:"
    if not pa.types.is_string(array.type):
        return key, array.cast(pa.string()), ""
    if not _has_escapes(array):
        return f'{key}"', array, '"'
    cells = [cell if cell is None else encode(cell).decode() for cell in array.to_pylist()]
    return key, pa.array(cells, pa.string()), ""


def _has_escapes(array: Any) -> bool:
    """Whether JSON has to write some of these texts in another way."""
    offsets, data, _ = text_parts(array)
    used = data[offsets[0] : offsets[-1]]
    return bool(((used < _SPACE) | (used == _QUOTE) | (used == _BACKSLASH)).any())
