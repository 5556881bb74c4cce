"""A frame in memory as an input, like a file."""

from __future__ import annotations

from collections.abc import Generator
from copy import copy
from typing import Any

import numpy as np

from pqrlearn.errors import ROW, DataError
from pqrlearn.frames import Frame
from pqrlearn.readers.tables import Piece, TableReader


class FrameReader(TableReader):
    """Whatever speaks the Arrow C stream, or is an array. Parts are cut by rows, where it is no
    stream."""

    _start: int = 0
    _stop: int | None = None

    def __init__(self, frame: Any, **options: Any) -> None:
        super().__init__("<frame>", **options)
        self._frame = Frame(frame)
        self._done = 0

    def _pieces(self) -> Generator[Piece, None, None]:
        if self._used_up:
            raise DataError(f"{self.path}: a stream can be read only once")
        self._used_up, self._done = self._frame.table is None, 0
        for first, table in self._frame.slices(self._start, self._stop):
            lines = np.arange(first, first + table.num_rows)
            yield Piece(table, lines, self.path + ROW)
            self._done += table.num_rows

    @property
    def bytes(self) -> int | None:
        return None if self._frame.table is None else int(self._frame.table.nbytes)

    def fraction(self) -> float | None:
        return None if self._frame.table is None else self._done / max(self.size, 1)

    def digest(self) -> str:
        return "stream"

    @property
    def enterable(self) -> bool:
        return self._frame.table is not None

    @property
    def size(self) -> int:
        if self._frame.table is None:
            raise self._not_enterable()
        return int(self._frame.table.num_rows)

    def estimated_rows(self) -> float:
        return self.size

    def part(self, start: int, stop: int) -> FrameReader:
        part = copy(self)
        part._start, part._stop = start, min(stop, self.size)
        return part
