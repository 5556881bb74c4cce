"""Batches from text tables: one line is one row, and a cell names a feature.

Lines are processed in large pieces, column by column. The meaning of a cell is computed once and
cached, so checks and names are cheap, and no list is built per row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn.errors import RowError
from pqrlearn.names import Coded, Names
from pqrlearn.readers import Source, batch_of
from pqrlearn.readers.source import whole_lines
from pqrlearn.rows import Batch

CHUNK_BYTES = 1 << 22
CACHED_CELLS = 1 << 17
"""How many cells a column caches before it is cleared: there are many ids, most of them rare."""

Label = Callable[[str], float]
Field = Callable[[str], str]
"""The name of the feature of a cell, empty for no feature.

A Label or Field raises ValueError with a message about the cell.
"""


@dataclass(frozen=True)
class Columns:
    """The cells of some lines, column by column; `line` is the number of the first."""

    cells: Sequence[Sequence[str]]
    path: str
    line: int

    def __len__(self) -> int:
        return len(self.cells[0])

    def wrong(self, row: int, message: str) -> RowError:
        return RowError(message, path=self.path, line=self.line + row)


def read_columns(
    source: Source,
    width: int,
    separator: str,
    *,
    encoding: str = "ascii",
    header: str | None = None,
) -> Iterator[Columns]:
    """All lines in order; RowError at a line with a wrong number of cells."""
    line = 1
    for _, text in whole_lines(source, CHUNK_BYTES):
        lines = _decoded(bytes(text), encoding, source.name, line)
        if header is not None and line == 1:
            _check_header(lines.pop(0), header, source.name)
            line = 2
        ends = map(str.count, lines, repeat(separator))
        good = next((at for at, count in enumerate(ends) if count != width - 1), len(lines))
        if good:
            cells = separator.join(lines[:good]).split(separator)
            yield Columns([cells[column::width] for column in range(width)], source.name, line)
        line += good
        if good < len(lines):
            marks = "tabs" if separator == "\t" else repr(separator)
            found = lines[good].count(separator) + 1
            message = f"expected {width} cells separated by {marks}, found {found}"
            raise RowError(message, path=source.name, line=line)


def _decoded(text: bytes, encoding: str, path: str, line: int) -> list[str]:
    try:
        whole = text.decode(encoding)
    except UnicodeDecodeError as error:
        line += text.count(b"\n", 0, error.start)
        byte = error.start - text.rfind(b"\n", 0, error.start)
        message = f"byte 0x{text[error.start]:02x} is not {encoding.upper()} text"
        raise RowError(message, path=path, line=line, byte=byte) from None
    return whole.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _check_header(line: str, header: str, path: str) -> None:
    if line.replace('"', "") != header:
        raise RowError(f"expected the header {header}", path=path, line=1)


class Rows:
    """Turns the tables of one file into Batches; new names get the next free index.

    `label` and `fields` convert the cells of a column; a column may have several fields. Columns in
    `digits` are not features, but must contain digits.
    """

    def __init__(
        self,
        names: Names,
        label: tuple[int, Label],
        fields: Sequence[tuple[int, Field]],
        digits: Mapping[int, str],
    ) -> None:
        self._names, self._digits = names, digits
        self._label = _Meaning(*label)
        self._fields = [_Meaning(column, field) for column, field in fields]

    def batch(self, table: Columns) -> Batch:
        """Names are numbered in the order in which they appear in the file."""
        self._check_digits(table)
        meanings = [self._label, *self._fields]
        cells = {at: _Cells.of(table.cells[at]) for at in {m.column for m in meanings}}
        wrong = [w for at, m in enumerate(meanings) if (w := m.learn(cells[m.column], at))]
        if wrong:
            row, _, message = min(wrong)
            raise table.wrong(row, message)
        labels = np.array(self._label.of(cells[self._label.column]), np.float64)
        return batch_of(
            [Coded(m.of(cells[m.column]), cells[m.column].codes) for m in self._fields],
            self._names,
            labels[cells[self._label.column].codes],
            lines=np.arange(table.line, table.line + len(table)),
            source=table.path,
        )

    def _check_digits(self, table: Columns) -> None:
        for column, name in self._digits.items():
            cells = table.cells[column]
            if not all(map(str.isdigit, cells)):
                row = next(row for row, cell in enumerate(cells) if not cell.isdigit())
                raise table.wrong(row, f"{name} {shown(cells[row])} is not a whole number")


@dataclass(frozen=True)
class _Cells:
    """The distinct cells of a column in order of appearance, and the code of each cell."""

    distinct: list[str]
    codes: npt.NDArray[np.int32]

    @staticmethod
    def of(cells: Sequence[str]) -> _Cells:
        codes = {cell: code for code, cell in enumerate(dict.fromkeys(cells))}
        found = np.fromiter(map(codes.__getitem__, cells), np.int32, len(cells))
        return _Cells(list(codes), found)


class _Meaning:
    """Converts the cells of a column; caches what it has converted."""

    def __init__(self, column: int, meaning: Callable[[str], Any]) -> None:
        self.column, self._meaning = column, meaning
        self._known: dict[str, Any] = {}

    def learn(self, cells: _Cells, at: int) -> tuple[int, int, str] | None:
        """Converts new cells; returns row, `at` and message of the first bad one."""
        if len(self._known) > CACHED_CELLS:
            self._known.clear()
        for code, cell in enumerate(cells.distinct):
            if cell not in self._known:
                try:
                    self._known[cell] = self._meaning(cell)
                except ValueError as error:
                    return int(np.argmax(cells.codes == code)), at, str(error)
        return None

    def of(self, cells: _Cells) -> list[Any]:
        return [self._known[cell] for cell in cells.distinct]


# Fields of several tables.


def matching(name: str, pattern: str, expected: str) -> Field:
    """The feature `name=cell`, for cells that match a pattern."""
    form = re.compile(pattern)

    def field(cell: str) -> str:
        if not form.fullmatch(cell):
            raise ValueError(f"{name} {shown(cell)} is not {expected}")
        return f"{name}={cell}"

    return field


def whole(name: str) -> Field:
    return matching(name, r"-?[0-9]{1,20}", "a whole number")


def optional(field: Field) -> Field:
    """A field whose cells may be empty."""
    return lambda cell: field(cell) if cell else ""


def click(cell: str) -> float:
    if cell not in ("0", "1"):
        raise ValueError(f"label {shown(cell)} is not a click: expected 0 or 1")
    return float(cell)


def shown(cell: str) -> str:
    """A cell for a message: short, and safe to print."""
    return ascii(cell) if len(cell) <= 20 else f"{cell[:20]!a}..."
