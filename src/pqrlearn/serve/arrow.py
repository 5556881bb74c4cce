"""Batches as Arrow streams, which may come from anybody: sizes are checked before rows are made."""

from __future__ import annotations

from struct import unpack_from
from typing import Any, Final

import msgspec

from pqrlearn.errors import DataError
from pqrlearn.serve.errors import Refused
from pqrlearn.serve.messages import BadRequest, Failed, Learn, Learned, Predicted, Score, Scored

MEDIA_TYPE: Final = b"application/vnd.apache.arrow.stream"
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(list[dict[str, Any]]).decode
_DICTIONARY, _RECORD_BATCH = 2, 3  # types of messages


def is_arrow(kind: bytes) -> bool:
    return kind.partition(b";")[0].strip() == MEDIA_TYPE


def requests(body: bytes, of: Any, most_rows: int, most_bytes: int) -> list[Any]:
    """The rows of a stream as requests. The columns id, label and weight are no features."""
    rows = _rows(_table(body, most_rows, most_bytes))
    if of is Score:
        return [Score(row) for row in rows]
    own = ("id", "label", "weight") if of is Learn else ("id",)
    found = []
    for row in rows:
        cells = {name: row.pop(name, None) for name in own}
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
    return _decode(_encode(table.to_pylist()))


def _table(body: bytes, most_rows: int, most_bytes: int) -> Any:
    import pyarrow as pa

    batches, rows, size = [], 0, 0
    try:
        _refuse_compressed(body)
        stream = pa.ipc.open_stream(pa.py_buffer(body))
        for name in stream.schema.names:
            if stream.schema.names.count(name) > 1:
                raise Refused(f"column {name!r} occurs twice")
        for batch in stream:
            batch.validate(full=True)
            rows, size = rows + batch.num_rows, size + sum(map(_cost, batch.columns))
            if rows > most_rows:
                raise Refused(f"a batch of more than {most_rows:,} rows")
            if size > most_bytes:
                raise Refused(f"a batch whose cells are more than {most_bytes:,} bytes")
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


def answers(found: list[Any], of: Any) -> bytes:
    """Answers as a stream: their fields, and `error` where a row was refused."""
    import pyarrow as pa

    kinds = {"id": pa.string(), "prediction": pa.float64(), "margin": pa.float64()}
    kinds |= {"learned": pa.bool_()}
    fields = {Predicted: ("id", "prediction", "margin"), Learned: ("learned",)}
    names = fields.get(of, Scored.__struct_fields__)
    failed = [isinstance(one, Failed) for one in found]
    columns = {
        name: pa.array(
            [None if bad else getattr(one, name) for one, bad in zip(found, failed, strict=True)],
            kinds[name],
        )
        for name in names
    }
    errors = [one.error if bad else None for one, bad in zip(found, failed, strict=True)]
    table = pa.table(columns | {"error": pa.array(errors, pa.string())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
