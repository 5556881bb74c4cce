"""Parquet, and Arrow files and streams (Feather is such a file): tables with types."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import numpy as np

from pqrlearn.arrow import flattened
from pqrlearn.errors import DataError
from pqrlearn.frames import BATCH_ROWS
from pqrlearn.readers.parquet_pages import coded_columns
from pqrlearn.readers.prefetch import prefetch
from pqrlearn.readers.source import Source, is_file
from pqrlearn.readers.tables import Piece, TableReader
from pqrlearn.values import is_text

PARQUET_MAGIC: Final = b"PAR1"
ARROW_MAGIC: Final = b"ARROW1"
STREAM_MAGIC: Final = b"\xff\xff\xff\xff"
GROUP_ROWS: Final = 1 << 18
"""Of a row group at a time. With fewer, pyarrow copies the dictionaries of columns more often; with
more, it asks the system for fresh memory each time."""
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"


class _ArrowReader(TableReader):
    """Rows in groups: row groups of Parquet, record batches of Arrow. Errors give both numbers.

    A folder between `root` and the file that is called column=value is a column, as Hive has it.
    """

    _start: int = 0
    _stop: int | None = None
    root: Path | None = None

    @cached_property
    def partitions(self) -> dict[str, str | None]:
        if self.root is None:
            return {}
        folders = Path(self.path).parent.relative_to(self.root).parts
        pairs = [folder.partition("=") for folder in folders if "=" in folder]
        return {k: None if v == _NO_PARTITION else unquote(v) for k, _, v in pairs}

    def _cut(self, group: int, table: Any, first: int) -> Iterator[Piece]:
        """The rows of a part of a group, whose first one is number `first` of it, from 0."""
        import pyarrow as pa

        table = flattened(table)
        table.schema.names  # noqa: B018 raises where they are not UTF-8
        for name, value in self.partitions.items():
            cells = pa.nulls(table.num_rows, pa.string()) if value is None else None
            cells = pa.repeat(value, table.num_rows) if cells is None else cells
            table = table.append_column(name, cells)
        source = f"{self.name}:{group + 1}"
        for at in range(0, table.num_rows, BATCH_ROWS):
            part = table.slice(at, BATCH_ROWS)
            lines = np.arange(first + at + 1, first + at + 1 + part.num_rows)
            yield Piece(part, lines, source)

    def _top(self, names: list[str]) -> list[str]:
        """The columns needed of those that may be structs: `a` where the schema has `a.b`."""
        return self.wanted(names)


class ParquetReader(_ArrowReader):
    """The rows of a Parquet file, which is read group by group. Parts are cut by rows."""

    @contextmanager
    def _file(self) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not is_file(self.path):
            raise DataError(
                f"{self.name}: Parquet needs a plain file, as its contents are at its end; "
                "save it to one first"
            )
        try:
            fields = pq.read_schema(self.path)
            texts = [field.name for field in fields if is_text(field.type)]
            with pq.ParquetFile(self.path, read_dictionary=texts) as file:
                yield file
        except (pa.ArrowException, OSError, MemoryError, ValueError) as error:
            raise DataError(
                f"{self.name}: cannot be read as Parquet: {_first_line(error)}"
            ) from None

    @cached_property
    def _groups(self) -> list[int]:
        """How many rows each row group has."""
        with self._file() as file:
            about = file.metadata
            return [about.row_group(at).num_rows for at in range(about.num_row_groups)]

    def _pieces(self) -> Generator[Piece, None, None]:
        self._done = 0
        with closing(prefetch(self._decoded(), depth=1)) as parts:
            for group, batch, first in parts:
                yield from self._cut(group, batch, first)
                self._done += batch.num_rows

    def _decoded(self) -> Generator[tuple[int, Any, int], None, None]:
        """Parts of groups, ahead of the rows that are being read: group, rows, and the first."""
        with self._file() as file:
            before = 0
            for group, rows in enumerate(self._groups):
                begin = max(self._start - before, 0)
                end = rows if self._stop is None else min(rows, self._stop - before)
                if begin < end:
                    for batch, first in self._group(file, group, begin, end):
                        yield group, batch, first
                before += rows

    def _group(self, file: Any, group: int, begin: int, end: int) -> Iterator[tuple[Any, int]]:
        at = 0
        for batch in self._batches_of(file, group, end):
            first, last = max(begin, at), min(end, at + batch.num_rows)
            if first < last:
                yield batch.slice(first - at, last - first), first
            at += batch.num_rows
            if at >= end:  # the rest of the group need not be decoded
                return

    def _batches_of(self, file: Any, group: int, rows: int) -> Iterator[Any]:
        """The rows of a group: columns of codes are read by page, the others by pyarrow."""
        import pyarrow as pa

        columns = self._top(file.schema_arrow.names)
        with open(self.path, "rb") as source:
            coded = coded_columns(file, group, columns, source)
        if coded and len(coded) == len(columns):  # pyarrow must read one at least
            del coded[min(coded, key=lambda name: coded[name].texts)]
        rest = [name for name in columns if name not in coded]
        dictionaries = any(is_text(file.schema_arrow.field(name).type) for name in rest)
        size = min(GROUP_ROWS if dictionaries else BATCH_ROWS, rows)
        for batch in file.iter_batches(batch_size=size, row_groups=[group], columns=rest):
            batch.validate(full=True)  # damaged pages give codes without texts, and foreign bytes
            if not coded:
                yield batch
                continue
            cells = {name: column.read(batch.num_rows) for name, column in coded.items()}
            cells |= zip(batch.schema.names, batch.columns, strict=True)
            yield pa.record_batch({name: cells[name] for name in columns})

    _done: int = 0

    def fraction(self) -> float:
        stop = self.size if self._stop is None else self._stop
        return min(1.0, self._done / max(stop - self._start, 1))

    @property
    def enterable(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return sum(self._groups)

    def starts(self, parts: int) -> list[int]:
        """Those of row groups: to enter one in the middle is to read all of it before."""
        firsts = np.cumsum([0, *self._groups])[:-1]
        chosen = np.linspace(0, len(firsts) - 1, min(parts, len(firsts)))
        return firsts[chosen.round().astype(np.int64)].tolist() if len(firsts) else []

    def estimated_rows(self) -> float:
        return self.size

    def part(self, start: int, stop: int) -> ParquetReader:
        part = copy(self)
        part._start, part._stop = start, stop
        return part


class ArrowReader(_ArrowReader):
    """The record batches of an Arrow file or stream, checked as input from strangers."""

    def _pieces(self) -> Generator[Piece, None, None]:
        import pyarrow as pa

        with self._opened() as source:
            self._reading = source
            try:
                for group, batch in enumerate(_record_batches(source)):
                    batch.validate(full=True)
                    wanted = self._top(batch.schema.names)
                    yield from self._cut(group, batch.select(wanted), 0)
            except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
                message = f"cannot be read as Arrow: {_first_line(error)}"
                raise DataError(f"{self.name}: {message}") from None


def _record_batches(source: Source) -> Iterator[Any]:
    """A file is a stream behind eight bytes, and with a table of contents that is not needed."""
    import pyarrow as pa

    head = source.read(8)
    file = _File(b"" if head.startswith(ARROW_MAGIC) else head, source)
    with pa.ipc.open_stream(pa.PythonFile(file, mode="r")) as stream:
        yield from stream
    while source.read(1 << 16):  # what a file has behind its rows
        pass


class _File(io.RawIOBase):
    """Some bytes, then a Source, as Python has files."""

    def __init__(self, head: bytes, source: Source) -> None:
        self._head, self._source = head, source

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """No more memory than there are bytes, however many a hostile file announces."""
        head = self._head if size < 0 else self._head[:size]
        self._head = self._head[len(head) :]
        return head + self._source.read(size if size < 0 else size - len(head))


def _first_line(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is"
    return (str(error) or type(error).__name__).splitlines()[0][:200]
