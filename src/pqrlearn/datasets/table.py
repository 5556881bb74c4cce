"""Text tables become Batches: one line is one row, and a cell stands for a feature by name.

Lines are taken in large pieces and worked on column by column. What a cell means is found once and
remembered, so checking and naming it costs little, and no list is made per row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from pqrlearn.errors import RowError
from pqrlearn.readers import Names, Source
from pqrlearn.readers.source import whole_lines
from pqrlearn.rows import Batch

CHUNK_BYTES = 1 << 22
REMEMBERED = 1 << 17
"""How many cells a column remembers before it starts anew: ids are many, and most are rare."""

Label = Callable[[str], float]
Field = Callable[[str], str]
"""The name of the feature that a cell stands for, empty when it stands for none.

Label and Field raise a ValueError that says what is wrong with a cell.
"""

_ABSENT = 0xFFFFFFFF  # sorts behind every feature


@dataclass(frozen=True)
class Columns:
    """The cells of some lines, column by column; `line` is the first one's number."""

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
    """All lines in order; RowError at one that has more or fewer cells, after those before it."""
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
    """Turns the tables of one file into Batches, and gives new names the next free index.

    `label` and `fields` say what the cells of a column mean; a column may have several fields.
    Columns in `digits` are no features, but must hold digits.
    """

    def __init__(
        self,
        names: Names,
        label: tuple[int, Label],
        fields: Sequence[tuple[int, Field]],
        digits: Mapping[int, str],
    ) -> None:
        self._names, self._fields, self._digits = names, fields, digits
        self._label_at, self._label = label
        self._labels: dict[str, float] = {}
        self._features: list[dict[str, int]] = [{} for _ in fields]

    def batch(self, table: Columns) -> Batch:
        """Indices follow the order in which names appear in the file, wherever it is cut."""
        self._check_digits(table)
        self._learn(table)
        rows, labels = len(table), table.cells[self._label_at]
        matrix = np.empty((rows, len(self._fields)), np.uint32)
        for at, (column, _) in enumerate(self._fields):
            found = map(self._features[at].__getitem__, table.cells[column])
            matrix[:, at] = np.fromiter(found, np.uint32, rows)
        matrix.sort(axis=1)
        present = matrix != _ABSENT
        indices = matrix[present]
        return Batch(
            np.concatenate([[0], np.cumsum(present.sum(axis=1))]),
            indices,
            np.ones(len(indices), np.float32),
            np.fromiter(map(self._labels.__getitem__, labels), np.float64, rows),
            np.ones(rows, np.float32),
            np.arange(table.line, table.line + rows),
            table.path,
        )

    def _check_digits(self, table: Columns) -> None:
        for column, name in self._digits.items():
            cells = table.cells[column]
            if not all(map(str.isdigit, cells)):
                row = next(row for row, cell in enumerate(cells) if not cell.isdigit())
                raise table.wrong(row, f"{name} {shown(cells[row])} is not a whole number")

    def _learn(self, table: Columns) -> None:
        """Finds out what cells mean that are not known, in the order of the file."""
        new = [(row, -1) for row in _first_rows(table.cells[self._label_at], self._labels)]
        first: dict[int, list[int]] = {}  # the fields of a column know the same cells
        for at, (column, _) in enumerate(self._fields):
            known = self._features[at]
            if len(known) > REMEMBERED:
                known.clear()
            if column not in first:
                first[column] = _first_rows(table.cells[column], known)
            new += [(row, at) for row in first[column]]
        for row, at in sorted(new):
            try:
                self._learn_cell(table, row, at)
            except ValueError as error:
                raise table.wrong(row, str(error)) from None

    def _learn_cell(self, table: Columns, row: int, at: int) -> None:
        if at < 0:
            cell = table.cells[self._label_at][row]
            self._labels[cell] = self._label(cell)
            return
        column, field = self._fields[at]
        cell = table.cells[column][row]
        name = field(cell)
        self._features[at][cell] = self._index(name) if name else _ABSENT

    def _index(self, name: str) -> int:
        index = self._names.find(name)
        if index is None:
            index = len(self._names)
            self._names.add(index, name)
        return index


def _first_rows(cells: Sequence[str], known: Mapping[str, object]) -> list[int]:
    """Where each cell that is not known stands first."""
    new = set(cells).difference(known)
    if not new:
        return []
    first = dict(zip(reversed(cells), reversed(range(len(cells))), strict=True))
    return [first[cell] for cell in new]


# Cells that several tables have.


def matching(name: str, pattern: str, expected: str) -> Field:
    """Cells of one form, as the feature `name=cell`."""
    form = re.compile(pattern)

    def field(cell: str) -> str:
        if not form.fullmatch(cell):
            raise ValueError(f"{name} {shown(cell)} is not {expected}")
        return f"{name}={cell}"

    return field


def whole(name: str) -> Field:
    return matching(name, r"-?[0-9]{1,20}", "a whole number")


def optional(field: Field) -> Field:
    """Cells that may be empty."""
    return lambda cell: field(cell) if cell else ""


def click(cell: str) -> float:
    if cell not in ("0", "1"):
        raise ValueError(f"label {shown(cell)} is not a click: expected 0 or 1")
    return float(cell)


def shown(cell: str) -> str:
    """A cell for a message: short, and safe on a terminal."""
    return ascii(cell) if len(cell) <= 20 else f"{cell[:20]!a}..."
