"""Separated text as Arrow tables: how lines are cut into cells, all of which are text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pqrlearn.readers.tables import Piece

PARSE_BYTES: Final = 1 << 22  # of a chunk, on one thread
NOT_UTF8: Final = "is not UTF-8 text"


@dataclass(frozen=True)
class Layout:
    """How lines are cut into cells, what the columns are called, and where the rows begin."""

    delimiter: str
    names: list[str]
    header_bytes: int

    @property
    def width(self) -> int:
        return len(self.names)


def check_text(text: bytes) -> None:
    if not text.isascii():
        text.decode()


def not_utf8(error: UnicodeDecodeError) -> str:
    return f"byte 0x{error.object[error.start]:02x} {NOT_UTF8}"


def options(layout: Layout, wanted: list[str], bad: list[Any] | None, *, quoted: bool) -> list[Any]:
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


def parsed(text: bytes, layout: Layout, wanted: list[str], *, quoted: bool = False) -> Any:
    """The rows of a text; pyarrow.ArrowInvalid if one is bad."""
    import pyarrow as pa
    from pyarrow.csv import read_csv

    how = options(layout, wanted, None, quoted=quoted)
    return read_csv(pa.BufferReader(text), *how)


def cut(table: Any, lines: Any, name: str, raw: Any) -> Iterator[Piece]:
    done = 0
    for batch in table.to_batches():
        rows = slice(done, done + batch.num_rows)
        yield Piece(batch, lines[rows], name, raw)
        done += batch.num_rows
