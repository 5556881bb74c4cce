"""The one seam of reading: an input, whatever its format, is a Reader."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import IO, ClassVar, Final

from pqrlearn.errors import DataError, HyperError, RowError
from pqrlearn.files import mark
from pqrlearn.names import Names
from pqrlearn.readers.source import is_file
from pqrlearn.rows import Batch

KEPT_ERRORS: Final = 10
"""How many bad rows are described; the others are counted."""

AnyPath = str | os.PathLike[str]


class Reader(ABC):
    """One input as a stream of Batches, in memory that does not grow with the input.

    With `on_bad_row="skip"` bad rows are counted in `bad_rows`, the first few are described in
    `first_bad`, and all are written to `keep_bad`, if that is given. These and `rows` are of the
    last call of `batches`, so far.
    """

    named: ClassVar[bool] = False
    """Whether the format has names for features; others number them."""
    ready: ClassVar[bool] = False
    """Whether rows are stored as they are in memory, so that reading again costs little."""

    def __init__(
        self, path: AnyPath, *, on_bad_row: str = "stop", keep_bad: IO[bytes] | None = None
    ) -> None:
        if on_bad_row not in ("stop", "skip"):
            raise HyperError(f"on_bad_row={on_bad_row!r} must be 'stop' or 'skip'")
        self.path, self.keep_bad = os.fspath(path), keep_bad
        self._skip = on_bad_row == "skip"
        self._begin(Names())

    def batches(self, names: Names | None = None) -> Iterator[Batch]:
        """In order, none of them empty; RowError at a bad row, after the rows before it.

        Names that the input has for features are looked up in `names` and added to it, so that
        several inputs can be numbered together; new ones also come with the Batch that has them
        first. Every call reads anew; of a stream there can be only one.
        """
        self._begin(Names() if names is None else names)
        with closing(self._read()) as batches:
            for batch in batches:
                self.rows += len(batch)
                yield batch

    @abstractmethod
    def _read(self) -> Generator[Batch, None, None]:
        """The batches; notes bad rows and adds to `names`."""

    def _begin(self, names: Names) -> None:
        self.names = names
        self.rows = self.bad_rows = 0
        self.first_bad: list[RowError] = []

    @property
    def bytes(self) -> int | None:
        """Its size on disk; None when that is unknown."""
        return os.path.getsize(self.path) if is_file(self.path) else None

    def fraction(self) -> float | None:
        """How much of it has been read, from 0 to 1; None when that is unknown."""
        return None

    def digest(self) -> str:
        """What the input is known by: the same for the same content; "stream" for a stream."""
        return mark(self.path)

    # -- reading a part of it, as counting does -----------------------------------

    @property
    def enterable(self) -> bool:
        """Whether `part` works; otherwise only the first rows can be had without reading all."""
        return False

    @property
    def size(self) -> int:
        """What parts are cut by, where it is enterable: bytes of text, rows of a cache."""
        raise self._not_enterable()

    def estimated_rows(self) -> float:
        """About how many rows it has, where it is enterable."""
        raise self._not_enterable()

    def part(self, start: int, stop: int) -> Reader:
        """The rows that begin at `start` or later, and before `stop`, out of `size`.

        Parts side by side share out the rows, none lost and none twice.
        """
        raise self._not_enterable()

    def _not_enterable(self) -> DataError:
        return DataError(f"{self.path}: only a plain file can be read in parts")
