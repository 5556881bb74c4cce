"""JSON lines: one object per line; what is nested is called a.b."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from pqrlearn.arrow import array_of, flattened
from pqrlearn.errors import RowError
from pqrlearn.frames import BATCH_ROWS
from pqrlearn.readers.base import LineReader
from pqrlearn.readers.source import lines_between
from pqrlearn.readers.tables import Piece, TableReader

CHUNK_BYTES: Final = 1 << 22


class JsonLinesReader(LineReader, TableReader):
    """Chunks of lines are parsed by pyarrow; one that it cannot take, line by line.

    That is where a line is bad, where it is empty, and where a field has values of several types.
    A field that a line lacks is missing there.
    """

    has_times = False

    def _pieces(self) -> Generator[Piece, None, None]:
        with self._opened() as source:
            self._reading = source
            line = 1
            for _, chunk in lines_between(source, CHUNK_BYTES, self._start, self._stop):
                text = bytes(chunk)
                text = text.removeprefix(b"\xef\xbb\xbf") if line == 1 else text
                count = text.count(b"\n") + (not text.endswith(b"\n"))
                table = _parsed(text)
                if table is None or table.num_rows != count:
                    pieces = self._line_by_line(source.name, text, line)
                else:
                    lines = text.split(b"\n") if self.keep_bad is not None else None
                    pieces = _cut(table, np.arange(line, line + count), source.name, lines, line)
                for piece in pieces:
                    yield replace(piece, table=self._with_all(piece.table))
                line += text.count(b"\n")

    def _with_all(self, table: Any) -> Any:
        """With the columns of the schema that no line of it has."""
        import pyarrow as pa

        columns = () if self.schema is None else self.schema.columns
        for column in columns:
            if column.kind != "ignored" and column.name not in table.schema.names:
                table = table.append_column(column.name, pa.nulls(table.num_rows))
        return table

    def _line_by_line(self, name: str, text: bytes, first: int) -> Iterator[Piece]:
        rows: list[dict[str, Any]] = []
        places: list[int] = []
        error: RowError | None = None
        lines = text.split(b"\n")
        for at, line in enumerate(lines, first):
            if not line.strip():
                continue
            found = _object_in(line)
            if isinstance(found, str):
                error = self._bad_row(found, name, at)
                self._note_error(error, line)
                if not self._skip:
                    break
            else:
                rows.append(found)
                places.append(at)
        if rows:
            yield from _cut(_table(rows), np.array(places), name, lines, first)
        if error is not None and not self._skip:
            raise error


def _cut(
    table: Any, places: Any, name: str, lines: list[bytes] | None, first: int
) -> Iterator[Piece]:
    raw = None if lines is None else lambda line: lines[line - first]
    for at in range(0, table.num_rows, BATCH_ROWS):
        yield Piece(table.slice(at, BATCH_ROWS), places[at : at + BATCH_ROWS], name, raw)


def _parsed(text: bytes) -> Any:
    """A table, or None if pyarrow cannot. Texts stay text: it would take some of them for times."""
    import pyarrow as pa
    from pyarrow.json import ParseOptions, ReadOptions, read_json

    # pyarrow takes the line null for a row, and crashes if it is the first one.
    if not text.startswith(b"{") or text.count(b"\n{") != text.rstrip(b"\n").count(b"\n"):
        return None
    options = ReadOptions(block_size=len(text))
    try:
        text.decode()
        table = read_json(pa.BufferReader(text), options)
        texts = pa.schema([field.with_type(_as_text(field.type)) for field in table.schema])
        if texts != table.schema:
            explicit = ParseOptions(explicit_schema=texts)
            table = read_json(pa.BufferReader(text), options, explicit)
        return flattened(table)
    except (pa.ArrowException, UnicodeDecodeError):
        return None


def _as_text(kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_text(field.type)) for field in kind])
    return pa.list_(_as_text(kind.value_type)) if pa.types.is_list(kind) else kind


def _object_in(line: bytes) -> dict[str, Any] | str:
    """The fields of one line, or what is wrong with it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        array = line.lstrip().startswith(b"[")
        return f"not JSON: {'expected an object per line, not an array' if array else error}"
    if not isinstance(found, dict):
        return f"expected an object, found {type(found).__name__}"
    fields = list(_fields(found, ""))
    names = [name for name, _ in fields]
    if len(set(names)) < len(names):
        return "two fields have the same name"
    return dict(fields)


def _fields(found: Mapping[str, Any], head: str) -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if isinstance(value, dict):
            yield from _fields(value, f"{head}{name}.")
        else:
            yield head + name, value


def _table(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: array_of([row.get(name) for row in rows]) for name in names})
