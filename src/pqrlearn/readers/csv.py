"""CSV and other separated text, parsed by pyarrow: cells are text, and the schema says the rest."""

from __future__ import annotations

import csv
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from pqrlearn.errors import ROW, DataError, RowError
from pqrlearn.readers.base import LineReader
from pqrlearn.readers.cells import NOT_UTF8, Layout, check_text, cut, not_utf8, parsed
from pqrlearn.readers.prefetch import prefetch
from pqrlearn.readers.quoted import OpenQuote, closed, quoted_rows
from pqrlearn.readers.source import MAX_LINE_BYTES, is_plain_file, lines_between
from pqrlearn.readers.tables import Piece, TableReader
from pqrlearn.schema import first_twice

CHUNK_BYTES: Final = 1 << 23
DELIMITERS: Final = ",\t;|"
_MARK = b"\xef\xbb\xbf"
_MARKS = '",;|\t\r\n'
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_QUOTED = re.compile(r'"[^"]*"')
_HEAD_BYTES = 1 << 20
_NEWLINE = ord("\n")
_COUNTED_BYTES = 1 << 16


@dataclass(frozen=True)
class _Chunk:
    """Whole lines, of which `line` is the first and `count` how many; and their rows.

    There is no table where a line is bad, or where cells are quoted and a row may go on in the next
    chunk.
    """

    text: bytes
    line: int
    count: int
    layout: Layout
    table: Any
    quoted: bool = False


class CsvReader(LineReader, TableReader):
    """The rows of a text file. The delimiter is told by the first line, unless it is given.

    The first line has the names, unless they are given. As long as no cell is in quotes, a row is a
    line, and large pieces are parsed side by side; from the first quote on cells may hold line
    ends, and rows are counted instead of lines. `start` and `stop` are bytes of a plain file.
    """

    typed = False
    _known_layout: Layout | None = None
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
                # Read at once if it is complete: whoever sent it may be waiting for an answer.
                table = closed(text, layout, self.wanted(layout.names)) if streamed else None
                yield _Chunk(text, line, 0, layout, table, quoted=True)
                if table is None:
                    return
                line += text.count(b"\n")
            elif text:
                count = _line_ends(text) + (not text.endswith(b"\n"))
                yield _Chunk(text, line, count, layout, self._table(text, layout, count))
                line += count

    def _table(self, text: bytes, layout: Layout, count: int) -> Any:
        """The rows of a text whose lines are all good."""
        import pyarrow as pa

        with suppress(pa.ArrowInvalid, UnicodeDecodeError):
            check_text(text)
            table = parsed(text, layout, self.wanted(layout.names))
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

    def _layout(self, text: bytes) -> Layout:
        begin = len(_MARK) if text.startswith(_MARK) else 0
        end = _row_end(text, begin)
        first = text[begin:end].decode(errors="replace").rstrip("\r\n")
        if "\r" in first and b"\n" not in text:
            raise DataError(f"{self.name}: lines end in CR alone; convert it first, as tr does")
        delimiter = self.table.delimiter or _delimiter_of(first)
        cells = next(csv.reader(first.splitlines(keepends=True), delimiter=delimiter), [])
        names = self._names_given(len(cells))
        if names is not None:
            return Layout(delimiter, names, begin)
        self._check_names(cells)
        return Layout(delimiter, cells, end)

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
            yield from cut(chunk.table, rows, name + ROW, None)
            return
        if chunk.table is None:
            yield from self._good_lines(name, text, chunk.layout, line)
            return
        lines = np.arange(line, line + chunk.count)
        yield from cut(chunk.table, lines, name, _raw_lines(text, line))

    def _good_lines(self, name: str, text: bytes, layout: Layout, line: int) -> Iterator[Piece]:
        good: list[bytes] = []
        places: list[int] = []
        error: RowError | None = None
        for at, row in enumerate(text.split(b"\n"), line):
            if not row.strip(b"\r"):
                continue
            if message := _wrong(row, layout):
                error = self._bad_row(message, name, at)
                error.case = ("encoding",) if message.endswith(NOT_UTF8) else error.case
                self._note_error(error, row)
                self._pieces_rows += 1
                if not self._skip:
                    break
            else:
                good.append(row)
                places.append(at)
        if good:
            table = parsed(b"\n".join(good), layout, self.wanted(layout.names))
            yield from cut(table, np.array(places), name, _raw_lines(text, line))
        if error is not None and not self._skip:
            raise error

    def _quoted(self, name: str, text: bytes, chunks: Any, layout: Layout) -> Iterator[Piece]:
        """All that is left, where a row may be several lines; rows are counted from here on."""
        import pyarrow as pa

        bad: list[Any] = []
        before = self._pieces_rows
        row, noted = before + 1, 0
        more = (self._in_utf8(bytes(chunk), 2) for _, chunk in chunks)
        wanted, whole = self.wanted(layout.names), self._stop is None
        try:
            for batch, numbers in quoted_rows(text, more, layout, wanted, bad, whole=whole):
                rows = before + numbers
                row = int(rows[-1]) + 1 if len(rows) else row
                stop = len(rows)
                if bad and not self._skip:
                    stop = int(np.searchsorted(rows, before + bad[0].number))
                if stop:
                    yield Piece(batch.slice(0, stop), rows[:stop], name + ROW)
                noted = self._note_cells(bad, noted, name + ROW, before)
            self._note_cells(bad, noted, name + ROW, before)
        except (OpenQuote, pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise _unreadable(error, f"{name}{ROW} {row} or later") from None

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


def _wrong(row: bytes, layout: Layout) -> str | None:
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


def _unreadable(error: Exception, where: str) -> DataError:
    if isinstance(error, UnicodeDecodeError):
        located = DataError(f"{where}: {not_utf8(error)}")
        located.case = ("encoding",)
        return located
    open_quote = isinstance(error, OpenQuote)
    return DataError(
        f"{where}: {'a quote is not closed before the file ends' if open_quote else error}"
    )


def _raw_lines(text: bytes, first: int) -> Any:
    """A line by its number; cut only when it is asked for."""
    lines: list[bytes] = []

    def raw(line: int) -> bytes:
        if not lines:
            lines.extend(text.split(b"\n"))
        return lines[line - first].rstrip(b"\r")

    return raw
