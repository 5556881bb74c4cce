"""Batches as Arrow streams, which may come from anybody: sizes are checked before rows are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import unpack_from
from typing import Any, Final, NamedTuple

import msgspec

from pqrlearn.errors import DataError
from pqrlearn.serve.errors import Refused
from pqrlearn.serve.messages import BadRequest, Learn, Predict, Score

MEDIA_TYPE: Final = b"application/vnd.apache.arrow.stream"
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(list[dict[str, Any]]).decode
_OWN = {Learn: ("id", "label", "weight"), Predict: ("id",), Score: ()}
_DICTIONARY, _RECORD_BATCH = 2, 3  # types of messages


def is_arrow(kind: bytes) -> bool:
    return kind.partition(b";")[0].strip() == MEDIA_TYPE


class Own(NamedTuple):
    """What a batch says beside features."""

    ids: list[Any] | None
    labels: list[float]
    weights: list[float]
    features: Any
    """A table; None if the rows have no features."""


def own(table: Any, of: Any) -> Own | None:
    """The columns id, label and weight, which are no features; None if `requests` must look at
    each of their cells."""
    import pyarrow as pa

    names = [name for name in _OWN[of] if name in table.schema.names]
    cells = {name: table.column(name) for name in names}
    rest = table.drop_columns(names) if names else table
    size, ids, weights = table.num_rows, cells.get("id"), cells.get("weight")
    if ids is not None and not pa.types.is_string(ids.type):
        return None
    if of is not Learn:
        return Own(None if ids is None else ids.to_pylist(), [], [], rest)
    labels = _numbers(cells.get("label"))
    amounts = [1.0] * size if weights is None else _numbers(weights)
    if ids is None or ids.null_count or labels is None or amounts is None:
        return None
    return Own(ids.to_pylist(), labels, amounts, rest if rest.num_columns else None)


def _numbers(column: Any) -> list[float] | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    types = pa.types
    if column is None or not (types.is_integer(column.type) or types.is_floating(column.type)):
        return None
    column = column.cast(pa.float64())
    if column.null_count or not pc.all(pc.is_finite(column)).as_py():
        return None
    found: list[float] = column.to_pylist()
    return found


def requests(table: Any, of: Any) -> list[Any]:
    """The rows of a table as requests."""
    rows = _rows(table)
    if of is Score:
        return [Score(row) for row in rows]
    found = []
    for row in rows:
        cells = {name: row.pop(name, None) for name in _OWN[of]}
        given: dict[str, Any] = {name: cell for name, cell in cells.items() if cell is not None}
        if row or of is not Learn:
            given["features"] = row
        try:
            found.append(msgspec.convert(given, of, strict=False))
        except msgspec.ValidationError as error:
            raise Refused(f"row {len(found)}: {error}") from None
    return found


def _rows(table: Any) -> list[dict[str, Any]]:
    """As JSON has them, for that is what the log keeps: a time is a text, nan is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(table.schema.names, table.columns, strict=True):
        if pa.types.is_floating(column.type) and pc.any(pc.is_inf(column)).as_py():
            row = pc.index(pc.is_inf(column), True).as_py()
            raise Refused(f"row {row}: column {name!r}: {column[row].as_py()} is not finite")
    return _decode(_encode(table.to_pylist()))


def table_in(body: bytes, most_rows: int, most_bytes: int) -> Any:
    """The table of a stream, within limits: cells are counted as if each of them stood alone."""
    import pyarrow as pa

    batches, rows, size = [], 0, 0
    try:
        _refuse_compressed(body)
        stream = pa.ipc.open_stream(pa.py_buffer(body))
        names = stream.schema.names
        if len({*names}) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise Refused(f"column {twice!r} occurs twice")
        around = sum(len(name.encode()) + 4 for name in names)  # in the JSON of each row
        for batch in stream:
            batch.validate(full=True)
            size += sum(map(_cost, batch.columns)) + around * batch.num_rows
            rows += batch.num_rows
            if rows > most_rows:
                raise Refused(f"a batch of more than {most_rows:,} rows")
            if size > most_bytes:
                raise Refused(f"a batch whose rows are more than {most_bytes:,} bytes")
            batches.append(batch)
        return pa.Table.from_batches(batches, stream.schema)
    except (pa.ArrowException, OSError, DataError, UnicodeDecodeError) as error:
        raise BadRequest(f"not an Arrow stream: {error}") from None


def _cost(array: Any) -> int:
    """About how many bytes its cells take as Python objects, however cleverly they are stored."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_dictionary(kind):
        sizes = _text_sizes(array.dictionary)
        return len(array) if sizes is None else _sum(pc.take(sizes, array.indices))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return len(array) + _cost(array.flatten())
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType) or _is_strange(kind):
        raise Refused(f"columns of {kind} are not accepted; lists of texts or numbers are")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return int(array.nbytes)
    sizes = _text_sizes(array)
    return 8 * len(array) if sizes is None else len(array) + _sum(sizes)


def _is_strange(kind: Any) -> bool:
    import pyarrow as pa

    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return bool(
        binary
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_run_end_encoded(kind)
        or pa.types.is_duration(kind)
        or pa.types.is_interval(kind)
    )


def _text_sizes(array: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_string_view(kind):
        array = array.cast(pa.large_string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pc.cast(pc.binary_length(array), pa.int64())
    return None


def _sum(sizes: Any) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(sizes).as_py() or 0)


def _refuse_compressed(body: bytes) -> None:
    """A compressed stream may be a thousand times as large as its body."""
    import pyarrow as pa

    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
    for message in reader:
        metadata = message.metadata.to_pybytes()
        root = unpack_from("<I", metadata)[0]
        kind_at, header_at = _field(metadata, root, 1), _field(metadata, root, 2)
        if kind_at is None or header_at is None:
            continue
        kind, header = metadata[kind_at], _table_at(metadata, header_at)
        if kind == _DICTIONARY:
            inner = _field(metadata, header, 1)
            header = header if inner is None else _table_at(metadata, inner)
        if kind in (_DICTIONARY, _RECORD_BATCH) and _field(metadata, header, 3) is not None:
            raise Refused("compressed buffers are not accepted: write the stream without")


def _table_at(data: bytes, at: int) -> int:
    return at + int(unpack_from("<I", data, at)[0])


def _field(data: bytes, table: int, number: int) -> int | None:
    """Where the field of a table of FlatBuffers is, if it has it."""
    entries = table - int(unpack_from("<i", data, table)[0])
    at = 4 + 2 * number
    if at >= unpack_from("<H", data, entries)[0]:
        return None
    offset = int(unpack_from("<H", data, entries + at)[0])
    return table + offset if offset else None


def answers(columns: dict[str, Sequence[Any]], refused: Mapping[int, Refused]) -> bytes:
    """Answers as a stream: their fields, and `error` where a row was refused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = {"id": pa.string(), "prediction": pa.float64(), "margin": pa.float64()}
    kinds |= {"learned": pa.bool_()}
    arrays = {name: pa.array(cells, kinds[name]) for name, cells in columns.items()}
    size = len(next(iter(columns.values())))
    errors = pa.nulls(size, pa.string())
    if refused:
        said = [refused.get(row) for row in range(size)]
        errors = pa.array([error if error is None else str(error) for error in said], pa.string())
        arrays = {name: pc.if_else(errors.is_valid(), None, a) for name, a in arrays.items()}
    table = pa.table(arrays | {"error": errors})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
