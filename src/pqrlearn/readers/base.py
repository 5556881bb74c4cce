"""The interface of all readers."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, closing
from copy import copy
from functools import cached_property
from typing import ClassVar, Final, Literal, Protocol, Self

from pqrlearn.errors import DataError, HyperError, RowError
from pqrlearn.files import file_digest
from pqrlearn.names import Names
from pqrlearn.readers.source import (
    Source,
    estimated_lines,
    is_file,
    is_plain_file,
    is_stream,
    open_source,
)
from pqrlearn.rows import Batch
from pqrlearn.schema import Schema

KEPT_ERRORS: Final = 10
"""How many bad rows are described; the others are only counted."""

AnyPath = str | os.PathLike[str]
OnBadRow = Literal["stop", "skip"]


class BadRowFile(Protocol):
    """Where bad rows are kept: an open file, or whatever else they can be written to."""

    def write(self, row: bytes, /) -> object: ...


class Reader(ABC):
    """One input as a stream of Batches, in bounded memory.

    With `on_bad_row="skip"` bad rows are counted in `bad_rows`, the first few are described in
    `first_bad`, and all are written to `keep_bad`, if given. Of a schema that bounds the names,
    `replaced` values count as column=*. These attributes and `rows` refer to the last call of
    `batches`, so far.
    """

    named: ClassVar[bool] = False
    """Whether the format names its features; in other formats they are numbers."""
    ready: ClassVar[bool] = False
    """Whether rows are stored parsed, so that reading them again is cheap."""
    _ahead: int = 0  # rows of the batch to come that precede a bad one
    _used_up: bool = False  # a stream that has been read
    _reading: Source | None = None

    def __init__(
        self, path: AnyPath, *, on_bad_row: str = "stop", keep_bad: BadRowFile | None = None
    ) -> None:
        if on_bad_row not in ("stop", "skip"):
            raise HyperError(f"on_bad_row={on_bad_row!r} must be 'stop' or 'skip'")
        self.path, self.keep_bad = os.fspath(path), keep_bad
        self._skip = on_bad_row == "skip"
        self._begin(Names())

    @property
    def name(self) -> str:
        """What the input is called in messages."""
        return "<stdin>" if self.path == "-" else self.path

    @property
    def schema(self) -> Schema | None:
        """What the columns of a table are; other formats have none."""
        return None

    def batches(self, names: Names | None = None) -> Iterator[Batch]:
        """All rows in order, in non-empty Batches; RowError at a bad row, after the rows before it.

        Names of features are looked up in `names` and added to it, so that several inputs can share
        one numbering; new names also come with the Batch where they first occur. Every call reads
        the input from the start; a stream can be read only once.
        """
        self._begin(Names() if names is None else names)
        with closing(self._read()) as batches:
            for batch in batches:
                self.rows += len(batch)
                self._ahead = 0
                yield batch

    @abstractmethod
    def _read(self) -> Generator[Batch, None, None]:
        """The batches; counts bad rows and adds to `names`."""

    @property
    def position(self) -> int:
        """How many valid rows precede a bad one while it is written to `keep_bad`."""
        return self.rows + self._ahead

    def _begin(self, names: Names) -> None:
        self.names = names
        self.rows: int = 0
        self.bad_rows: int = 0
        self.replaced: int = 0
        self._ahead = 0
        self.first_bad: list[RowError] = []

    @property
    def bytes(self) -> int | None:
        """Size on disk; None if unknown."""
        return os.path.getsize(self.path) if is_file(self.path) else None

    def _opened(self) -> AbstractContextManager[Source]:
        if self._used_up:
            raise DataError(f"{self.name}: a stream can be read only once")
        self._used_up = is_stream(self.path)
        return open_source(self.path)

    def fraction(self) -> float | None:
        """The fraction that has been read, from 0 to 1; None if unknown."""
        source = self._reading
        if source is None or source.size is None:
            return None
        return min(1.0, source.position / source.size) if source.size else 1.0

    def digest(self) -> str:
        """Identifies the content of the input; "stream" for a stream."""
        return file_digest(self.path)

    # -- reading a part, for counting -----------------------------------------------

    @property
    def enterable(self) -> bool:
        """Whether reading can start in the middle, by `part`."""
        return False

    @property
    def size(self) -> int:
        """The length of an enterable input, in units of `part`: bytes of text, rows of a cache."""
        raise self._not_enterable()

    def starts(self, parts: int) -> list[int]:
        """Where about `parts` parts may begin that are spread over an enterable input."""
        return [part * self.size // parts for part in range(parts)]

    def estimated_rows(self) -> float:
        """The approximate number of rows of an enterable input."""
        raise self._not_enterable()

    def part(self, start: int, stop: int) -> Reader:
        """The rows that begin at `start` or later and before `stop`, in units of `size`.

        Adjacent parts have every row exactly once.
        """
        raise self._not_enterable()

    def _not_enterable(self) -> DataError:
        return DataError(f"{self.path}: only a plain file can be read in parts")


class LineReader(Reader):
    """Text whose rows are lines: a plain file can be entered anywhere, and parts are its bytes."""

    _start: int = 0
    _stop: int | None = None

    @cached_property
    def enterable(self) -> bool:
        return is_plain_file(self.path)

    @property
    def size(self) -> int:
        return self.bytes or 0

    def estimated_rows(self) -> float:
        return estimated_lines(self.path)

    def part(self, start: int, stop: int) -> Self:
        if not self.enterable:
            raise self._not_enterable()
        part = copy(self)
        part._start, part._stop = start, stop
        return part
