"""CSV and other separated text, parsed by pyarrow: cells are text, and the schema says the rest."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from pqrlearn.errors import DataError, RowError
from pqrlearn.readers.prefetch import prefetch
from pqrlearn.readers.source import (
    MAX_LINE_BYTES,
    estimated_lines,
    is_plain_file,
    lines_between,
)
from pqrlearn.readers.tables import Piece, TableReader
from pqrlearn.schema import first_twice

CHUNK_BYTES: Final = 1 << 23
PARSE_BYTES: Final = 1 << 22  # of a chunk, on one thread
DELIMITERS: Final = ",\t;|"
_MARK = b"\xef\xbb\xbf"
_MARKS = '",;|\t\r\n'
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_QUOTED = re.compile(r'"[^"]*"')
_HEAD_BYTES = 1 << 20
_FOREIGN = "is not UTF-8 text"
_NEWLINE = ord("\n")
_COUNTED_BYTES = 1 << 16
_END = "\x00end of file\x00"


@dataclass(frozen=True)
class _Layout:
    """How lines are cut into cells, what the columns are called, and where the rows begin."""

    delimiter: str
    names: list[str]
    header_bytes: int

    @property
    def width(self) -> int:
        return len(self.names)

    @property
    def last_row(self) -> bytes:
        """A row behind the last one: it is found again unless a quote is open before it."""
        return f"\n{self.delimiter.join([_END] * self.width)}\n".encode()


@dataclass(frozen=True)
class _Chunk:
    """Whole lines, of which `line` is the first and `count` how many; and their rows.

    There is no table where a line is bad, or where cells are quoted and a row may go on in the next
    chunk.
    """

    text: bytes
    line: int
    count: int
    layout: _Layout
    table: Any
    quoted: bool = False


class CsvReader(TableReader):
    """The rows of a text file. The delimiter is told by the first line, unless it is given.

    The first line has the names, unless they are given. As long as no cell is in quotes, a row is a
    line, and large pieces are parsed side by side; from the first quote on cells may hold line
    ends, and rows are counted instead of lines. `start` and `stop` are bytes of a plain file.
    """

    typed = False
    _start: int = 0
    _stop: int | None = None
    _known_layout: _Layout | None = None
    _pieces_rows: int = 0

    def _pieces(self) -> Generator[Piece, None, None]:
        with self._opened() as source:
            self._reading, self._pieces_rows = source, 0
            chunks = lines_between(source, CHUNK_BYTES, self._start, self._stop)
            with closing(prefetch(self._chunks(chunks, source.size is None), depth=1)) as parsed:
                for chunk in parsed:
                    if chunk.quoted and chunk.table is None:  # the last: the rest is read here
                        yield from self._quoted(source.name, chunk.text, chunks, chunk.layout)
                        return
                    for piece in self._whole(source.name, chunk):
                        self._pieces_rows += len(piece.lines)
                        yield piece

    def _chunks(
        self, chunks: Iterator[tuple[int, memoryview]], streamed: bool
    ) -> Generator[_Chunk, None, None]:
        """Parsed ahead of the rows that are being read, and so without noting anything."""
        layout, line = self._known_layout, 1
        for _, chunk in chunks:
            if len(chunk) > MAX_LINE_BYTES and chunk[-1] != _NEWLINE:
                raise DataError(f"{self.name}: a line is longer than 64 MiB")
            text = self._in_utf8(bytes(chunk), line)
            if layout is None:
                layout = self._layout(text)
            if line == 1 and self._start == 0:
                line += text.count(b"\n", 0, layout.header_bytes)
                text = text[layout.header_bytes :]
            if b'"' in text:
                table = self._closed(text, layout) if streamed else None
                yield _Chunk(text, line, 0, layout, table, quoted=True)
                if table is None:
                    return
                line += text.count(b"\n")
            elif text:
                count = _line_ends(text) + (not text.endswith(b"\n"))
                yield _Chunk(text, line, count, layout, self._table(text, layout, count))
                line += count

    def _table(self, text: bytes, layout: _Layout, count: int) -> Any:
        """The rows of a text whose lines are all good."""
        import pyarrow as pa

        with suppress(pa.ArrowInvalid, UnicodeDecodeError):
            check_text(text)
            table = _parsed(text, layout, self.wanted(layout.names))
            if table.num_rows == count:
                return table
        return None

    def _in_utf8(self, text: bytes, line: int) -> bytes:
        if line == 1 and text[:2] in _WIDE_MARKS:
            raise DataError(f"{self.name}: UTF-16 text; convert it to UTF-8 first, as iconv does")
        encoding = self.table.encoding
        if encoding.lower() in ("utf-8", "utf8"):
            return text
        try:
            if _MARKS.encode(encoding) != _MARKS.encode():  # lines are cut before they are decoded
                raise DataError(f"{self.name}: {encoding} text; convert it to UTF-8 first")
            return text.decode(encoding).encode()
        except (UnicodeDecodeError, LookupError) as error:
            raise DataError(f"{self.name}: from line {line} on: {error}") from None

    # -- the first line ----------------------------------------------------------

    def _layout(self, text: bytes) -> _Layout:
        begin = len(_MARK) if text.startswith(_MARK) else 0
        end = _row_end(text, begin)
        first = text[begin:end].decode(errors="replace").rstrip("\r\n")
        if "\r" in first and b"\n" not in text:
            raise DataError(f"{self.name}: lines end in CR alone; convert it first, as tr does")
        delimiter = self.table.delimiter or _delimiter_of(first)
        cells = next(csv.reader(first.splitlines(keepends=True), delimiter=delimiter), [])
        names = self._names_given(len(cells))
        if names is not None:
            return _Layout(delimiter, names, begin)
        self._check_names(cells)
        return _Layout(delimiter, cells, end)

    def _names_given(self, width: int) -> list[str] | None:
        """Those of a file that does not name its columns; it may lack the label."""
        names = list(self.table.columns)
        if not names:
            schema = self.schema
            if schema is None or schema.header:
                return None
            names = [column.name for column in schema.columns]
            if width < len(names) and not self.table.labelled:
                names = [c.name for c in schema.columns if c.is_feature or c.kind == "ignored"]
        if len(names) != width:
            raise RowError(f"expected {len(names)} cells, found {width}", path=self.name, line=1)
        return names

    def _check_names(self, cells: Sequence[str]) -> None:
        wrong = ""
        if "" in cells or not cells:
            wrong = f"column {[*cells, ''].index('') + 1} has no name"
        elif twice := first_twice(cells):
            wrong = f"column {twice!r} occurs twice"
        elif not self._knows_one(cells):
            more = ", ..." if len(cells) > 5 else ""
            wrong = f"the schema has none of the columns {', '.join(map(repr, cells[:5]))}{more}"
        if wrong:
            error = RowError(f"{wrong} in the first line", path=self.name, line=1)
            error.case = ("no header",)
            raise error

    def _knows_one(self, cells: Sequence[str]) -> bool:
        schema = self.schema
        return schema is None or self.table.accept or any(cell in schema for cell in cells)

    @property
    def header(self) -> bool:
        schema = self.schema
        return not self.table.columns and (schema is None or schema.header)

    # -- lines -------------------------------------------------------------------

    def _whole(self, name: str, chunk: _Chunk) -> Iterator[Piece]:
        """The rows of a chunk: lines, unless it is quoted; with bad ones it is read by line."""
        text, line = chunk.text, chunk.line
        if chunk.quoted:
            first = self._pieces_rows + 1
            rows = np.arange(first, first + chunk.table.num_rows)
            yield from _cut(chunk.table, rows, f"{name}:row", None)
            return
        if chunk.table is None:
            yield from self._good_lines(name, text, chunk.layout, line)
            return
        lines = np.arange(line, line + chunk.count)
        yield from _cut(chunk.table, lines, name, _raw_lines(text, line))

    def _good_lines(self, name: str, text: bytes, layout: _Layout, line: int) -> Iterator[Piece]:
        good: list[bytes] = []
        places: list[int] = []
        error: RowError | None = None
        for at, row in enumerate(text.split(b"\n"), line):
            if not row.strip(b"\r"):
                continue
            if message := _wrong(row, layout):
                error = self._bad_row(message, name, at)
                error.case = ("encoding",) if message.endswith(_FOREIGN) else error.case
                self._note_error(error, row)
                self._pieces_rows += 1
                if not self._skip:
                    break
            else:
                good.append(row)
                places.append(at)
        if good:
            table = _parsed(b"\n".join(good), layout, self.wanted(layout.names))
            yield from _cut(table, np.array(places), name, _raw_lines(text, line))
        if error is not None and not self._skip:
            raise error

    # -- quotes ------------------------------------------------------------------

    def _closed(self, text: bytes, layout: _Layout) -> Any:
        """A chunk of a stream in which all quotes are closed, or None if there is more to it.

        It is read at once: whoever sent it may be waiting for an answer.
        """
        import pyarrow as pa

        if text.count(b'"') % 2:
            return None
        with suppress(pa.ArrowInvalid, UnicodeDecodeError):
            check_text(text)
            wanted = self.wanted(layout.names)
            table = _parsed(text + layout.last_row, layout, wanted, quoted=True)
            if table.column(0)[-1].as_py() == _END:
                return table.slice(0, table.num_rows - 1)
        return None

    def _quoted(self, name: str, text: bytes, chunks: Any, layout: _Layout) -> Iterator[Piece]:
        """All that is left, where a row may be several lines; rows are counted from here on."""
        import pyarrow as pa
        from pyarrow.csv import open_csv

        bad: list[Any] = []
        last = layout.last_row if self._stop is None else b""  # a part may end within quotes
        file = pa.PythonFile(_Joined(text, chunks, self._in_utf8, last), mode="r")
        options = _options(layout, self.wanted(layout.names), bad, quoted=True)
        source, row, noted = f"{name}:row", self._pieces_rows + 1, 0
        before = self._pieces_rows
        try:
            check_text(text)
            for batch in _before(last, open_csv(file, *options)):
                wrong = [before + one.number for one in bad]
                rows = np.arange(row, row + batch.num_rows + len(wrong))
                rows = np.setdiff1d(rows, wrong)[: batch.num_rows]
                row = int(rows[-1]) + 1 if len(rows) else row
                stop = len(rows)
                if wrong and not self._skip:
                    stop = int(np.searchsorted(rows, wrong[0]))
                if stop:
                    yield Piece(batch.slice(0, stop), rows[:stop], source)
                noted = self._note_cells(bad, noted, source, before)
            self._note_cells(bad, noted, source, before)
        except _OpenQuote:
            message = "a quote is not closed before the file ends"
            raise DataError(f"{source}:{row} or later: {message}") from None
        except pa.ArrowInvalid as error:
            raise DataError(f"{source}:{row} or later: {error}") from None
        except UnicodeDecodeError as error:
            located = DataError(f"{source}:{row} or later: {not_utf8(error)}")
            located.case = ("encoding",)
            raise located from None

    def _note_cells(self, bad: list[Any], noted: int, source: str, before: int) -> int:
        for one in bad[noted:]:
            found, expected = one.actual_columns, one.expected_columns
            message = f"expected {expected} cells, found {found}"
            error = self._bad_row(message, source, before + one.number)
            self._note_error(error, one.text.encode())
            if not self._skip:
                raise error
        return len(bad)

    # -- parts -------------------------------------------------------------------

    @cached_property
    def enterable(self) -> bool:
        """A plain file in whose first rows no cell is in quotes."""
        if not is_plain_file(self.path):
            return False
        with open(self.path, "rb") as file:
            head = file.read(_HEAD_BYTES)
        self._known_layout = self._layout(self._in_utf8(head, 1))
        return b'"' not in head[self._known_layout.header_bytes :]

    @property
    def size(self) -> int:
        return self.bytes or 0

    def estimated_rows(self) -> float:
        return estimated_lines(self.path)

    def part(self, start: int, stop: int) -> CsvReader:
        if not self.enterable:
            raise self._not_enterable()
        part = copy(self)
        part._start, part._stop = start, stop
        return part


def _row_end(text: bytes, begin: int) -> int:
    """Behind the first line end that is not in quotes."""
    end = text.find(b"\n", begin)
    while end >= 0 and text.count(b'"', begin, end) % 2:
        end = text.find(b"\n", end + 1)
    return end + 1 or len(text)


def _delimiter_of(line: str) -> str:
    """The one that occurs most often outside of quotes."""
    plain = _QUOTED.sub("", line)
    return max(DELIMITERS, key=plain.count)


def _wrong(row: bytes, layout: _Layout) -> str | None:
    """What is wrong with a line that has no quotes."""
    found = row.count(layout.delimiter.encode()) + 1
    if found != layout.width:
        return f"expected {layout.width} cells, found {found}"
    try:
        row.decode()
    except UnicodeDecodeError as error:
        return not_utf8(error)
    return None


def _line_ends(text: bytes) -> int:
    """As text.count does, which is slow where there are many; piece by piece, within the cache."""
    cells, step = np.frombuffer(text, np.uint8), _COUNTED_BYTES
    pieces = (cells[at : at + step] == _NEWLINE for at in range(0, len(cells), step))
    return sum(int(np.count_nonzero(piece)) for piece in pieces)


def check_text(text: bytes) -> None:
    if not text.isascii():
        text.decode()


def not_utf8(error: UnicodeDecodeError) -> str:
    return f"byte 0x{error.object[error.start]:02x} {_FOREIGN}"


def _options(
    layout: _Layout, wanted: list[str], bad: list[Any] | None, *, quoted: bool
) -> list[Any]:
    """Bad rows are put into a list, if there is one; otherwise the first is an error."""
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions

    def note(row: Any) -> str:
        assert bad is not None
        bad.append(row)
        return "skip"

    # Only rows that are read one after the other are numbered.
    read = ReadOptions(column_names=layout.names, block_size=PARSE_BYTES, use_threads=not quoted)
    parse = ParseOptions(
        delimiter=layout.delimiter,
        newlines_in_values=quoted,
        # Threads of pyarrow call it and let it go, perhaps only when Python has ended, and abort.
        invalid_row_handler=None if bad is None else note,
    )
    convert = ConvertOptions(
        column_types=dict.fromkeys(wanted, pa.string()),
        include_columns=wanted,
        null_values=[],
        check_utf8=False,  # that has been done: see check_text
    )
    return [read, parse, convert]


def _parsed(text: bytes, layout: _Layout, wanted: list[str], *, quoted: bool = False) -> Any:
    """The rows of a text; pyarrow.ArrowInvalid if one is bad."""
    import pyarrow as pa
    from pyarrow.csv import read_csv

    options = _options(layout, wanted, None, quoted=quoted)
    return read_csv(pa.BufferReader(text), *options)


def _cut(table: Any, lines: Any, name: str, raw: Any) -> Iterator[Piece]:
    done = 0
    for batch in table.to_batches():
        rows = slice(done, done + batch.num_rows)
        yield Piece(batch, lines[rows], name, raw)
        done += batch.num_rows


def _raw_lines(text: bytes, first: int) -> Any:
    """A line by its number; cut only when it is asked for."""
    lines: list[bytes] = []

    def raw(line: int) -> bytes:
        if not lines:
            lines.extend(text.split(b"\n"))
        return lines[line - first].rstrip(b"\r")

    return raw


class _OpenQuote(Exception):
    """The last row goes on to the end of the file."""


def _before(last: bytes, batches: Iterator[Any]) -> Iterator[Any]:
    """All rows before the `last` one, if there is one, without a row whose quote is open."""
    held = None
    for batch in filter(len, batches):
        if held is not None:
            yield held
        held = batch
    if held is not None:
        yield held.slice(0, len(held) - bool(last))
    if last and (held is None or held.column(0)[-1].as_py() != _END):
        raise _OpenQuote


class _Joined(io.RawIOBase):
    """Some bytes, then chunks, then a last row, as one file."""

    def __init__(self, text: bytes, chunks: Any, decode: Any, last: bytes) -> None:
        self._ready, self._chunks, self._decode = memoryview(text), chunks, decode
        self._last = last

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = next(self._chunks, None)
            if chunk is None:
                text, self._last = self._last, b""
                if not text:
                    return 0
            else:
                text = self._decode(bytes(chunk[1]), 2)
                check_text(text)
            self._ready = memoryview(text)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
