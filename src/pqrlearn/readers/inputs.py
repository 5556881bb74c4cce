"""Several inputs as one stream of Batches, read on a second thread."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import IO

from pqrlearn.errors import DataError, HyperError, RowError
from pqrlearn.names import Names, copied
from pqrlearn.readers.ahead import ahead
from pqrlearn.readers.base import Reader
from pqrlearn.readers.cache import CacheReader, kept
from pqrlearn.readers.sample import first_rows
from pqrlearn.rows import Batch


class Inputs:
    """Inputs read one after the other. Iterating over them gives Batches, each time anew.

    `names` are what features are called, as far as rows have been read.
    """

    schema: None = None
    """What the columns of a table are; none of today's formats has one."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self.readers = list(readers)
        if not self.readers:
            raise HyperError("nothing to read: give at least one input")
        if self.paths.count("-") > 1:
            raise HyperError("- (stdin) can be read only once")
        self.names = Names()
        self._known, self._next_feature = self.names, 0
        self._begun: list[Reader] = []  # in this pass
        self._cache: Path | None = None
        self._again: CacheReader | None = None
        self._head: list[Batch] = []
        self._rest: Generator[Batch, None, None] | None = None

    def use_names(self, names: Names, next_feature: int = 0) -> None:
        """Makes features keep the names that a model has for them; before reading.

        A new name gets a number from `next_feature` on.
        """
        self._known, self._next_feature = names, next_feature

    def keep_bad(self, file: IO[bytes]) -> None:
        """Writes bad rows that are skipped to `file`, in the first pass."""
        for reader in self.readers:
            reader.keep_bad = file

    def keep_in(self, folder: Path) -> None:
        """Parses only once: what has been read to its end is kept in `folder` for later passes."""
        if not all(reader.ready for reader in self.readers):
            self._cache = folder / "rows.cache"

    def __iter__(self) -> Iterator[Batch]:
        return self.batches()

    def batches(self, prepare: Callable[[Batch], Batch] | None = None) -> Iterator[Batch]:
        """All rows in order, parsed while the caller works; inputs without rows are an error.

        `prepare` is applied to each batch before its turn, on the thread that reads.
        """
        return ahead(self._prepared(prepare))

    def head(self, rows: int | None) -> list[Batch]:
        """Whole batches with the first `rows` rows or a few more, or all of them.

        They are held in memory: the next pass begins with them, so that a stream can be looked
        into before it is learned.
        """
        self._rest = self._read()
        self._head = list(first_rows(self._rest, rows))
        return list(self._head)

    def _prepared(self, prepare: Callable[[Batch], Batch] | None) -> Generator[Batch, None, None]:
        rest, self._rest = self._rest, None
        with closing(self._read() if rest is None else rest) as batches:
            self._head.reverse()
            while self._head:  # each is let go once it has been handed out
                batch = self._head.pop()
                yield batch if prepare is None else prepare(batch)
            for batch in batches:
                yield batch if prepare is None else prepare(batch)

    def _read(self) -> Generator[Batch, None, None]:
        if self._cache is None:
            yield from self._read_inputs()
        elif not self._cache.exists():
            yield from kept(self._cache, self._read_inputs())
        else:
            self._again = CacheReader(self._cache)
            yield from self._again.batches()

    def _read_inputs(self) -> Iterator[Batch]:
        if any(reader.named for reader in self.readers):
            self.names = copied(self._known, self._next_feature)
        self._begun = []
        for reader in self.readers:
            self._begun.append(reader)
            yield from reader.batches(self.names)
        for reader in self.readers:
            reader.keep_bad = None  # a second pass meets the same bad rows again
        if not self.rows:
            raise DataError(f"{', '.join(self.paths)}: no rows")

    @property
    def paths(self) -> list[str]:
        return [reader.path for reader in self.readers]

    @property
    def enterable(self) -> bool:
        """Whether parts can be read, and then all of it."""
        return all(reader.enterable for reader in self.readers)

    @property
    def rows(self) -> int:
        """How many good rows the last pass over the inputs has read, so far."""
        return sum(reader.rows for reader in self._begun)

    @property
    def bad_rows(self) -> int:
        """How many rows it has left out."""
        return sum(reader.bad_rows for reader in self._begun)

    @property
    def first_bad(self) -> list[RowError]:
        return [error for reader in self._begun for error in reader.first_bad]

    @property
    def bytes(self) -> int:
        """Of all files; what is no file has none."""
        return sum(reader.bytes or 0 for reader in self.readers)

    def fraction(self) -> float | None:
        """How much of the inputs has been read; None when that is unknown."""
        readers = self.readers if self._again is None else [self._again]
        done = total = 0.0
        for reader in readers:
            size = reader.bytes
            begun = reader is self._again or reader in self._begun
            share = reader.fraction() if begun else 0.0
            if size is None or share is None:
                return None
            done, total = done + size * share, total + size
        return min(1.0, done / total) if total else 1.0

    def digests(self) -> tuple[str, ...]:
        """What each input is known by."""
        return tuple(reader.digest() for reader in self.readers)

    def digest(self) -> str:
        """What the inputs are known by: the same for the same content in the same order."""
        return "; ".join(self.digests())
