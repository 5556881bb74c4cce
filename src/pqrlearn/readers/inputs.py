"""Several inputs as one stream of Batches, prefetched on a second thread."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from pqrlearn.errors import DataError, HyperError, RowError
from pqrlearn.guess import loss_of
from pqrlearn.names import Names, copied
from pqrlearn.readers.base import BadRowFile, Reader
from pqrlearn.readers.cache import CacheReader, kept
from pqrlearn.readers.log import LogReader
from pqrlearn.readers.prefetch import prefetch
from pqrlearn.readers.sample import first_rows
from pqrlearn.readers.tables import TableReader
from pqrlearn.rows import Batch
from pqrlearn.schema import Schema


class Inputs:
    """Inputs that are read one after the other. Each iteration reads them from the start.

    `names` are the names of the features in the rows read so far.
    """

    def __init__(self, readers: Sequence[Reader]) -> None:
        self.readers = list(readers)
        if not self.readers:
            raise HyperError("nothing to read: give at least one input")
        self.names = Names()
        self._known, self._next_feature, self._shared = self.names, 0, False
        self._begun: list[Reader] = []  # in this pass
        self._cache: Path | None = None
        self._again: CacheReader | None = None
        self._head: list[Batch] = []
        self._rest: Generator[Batch, None, None] | None = None

    def use_names(self, names: Names, next_feature: int = 0, *, shared: bool = False) -> None:
        """Uses the numbering of a model: its names, and `next_feature` for the first new one.

        To be called before reading. New names are added to a copy, or to `names` if it is shared.
        """
        self._known, self._next_feature, self._shared = names, next_feature, shared

    def keep_bad(self, file: BadRowFile | None) -> None:
        """Writes skipped rows to `file`, in the first pass."""
        for reader in self.readers:
            reader.keep_bad = file

    def keep_in(self, folder: Path) -> None:
        """Parses only once: caches the rows in `folder` for later passes."""
        if not all(reader.ready for reader in self.readers):
            self._cache = folder / "rows.cache"

    def __iter__(self) -> Iterator[Batch]:
        return self.batches()

    def batches(self, prepare: Callable[[Batch], Batch] | None = None) -> Iterator[Batch]:
        """All rows in order, prefetched on a second thread; having no rows at all is an error.

        `prepare` is applied to each batch on the reading thread.
        """
        return prefetch(self._prepared(prepare))

    def head(self, rows: int | None) -> list[Batch]:
        """Whole batches with at least the first `rows` rows, or all of them.

        They are kept in memory and the next pass starts with them, so that a stream can be counted
        before it is learned.
        """
        self._rest = self._read()
        self._head = list(first_rows(self._rest, rows))
        return list(self._head)

    def _prepared(self, prepare: Callable[[Batch], Batch] | None) -> Generator[Batch, None, None]:
        rest, self._rest = self._rest, None
        with closing(self._read() if rest is None else rest) as batches:
            self._head.reverse()
            while self._head:  # releases each batch once it is consumed
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
            known = self._known
            self.names = known if self._shared else copied(known, self._next_feature)
        self._begun = []
        for reader in self.readers:
            self._begun.append(reader)
            yield from reader.batches(self.names)
        for reader in self.readers:
            reader.keep_bad = None  # a second pass finds the same bad rows
        if not self.rows:
            raise DataError(f"{', '.join(self.paths)}: no rows")

    @property
    def schema(self) -> Schema | None:
        """What the columns of tables are; other formats have none."""
        schemas = (reader.schema for reader in self.readers)
        return next((schema for schema in schemas if schema is not None), None)

    def suggested_loss(self) -> str | None:
        """The loss that fits the labels of a table's first rows; before reading."""
        for reader in self.readers:
            if isinstance(reader, LogReader):
                return reader.served_loss
            if isinstance(reader, TableReader) and reader.schema is not None:
                return loss_of(reader.schema, reader.sample())
        return None

    def use_loss(self, loss: str) -> None:
        """Makes labels of tables fit a loss; before reading."""
        for reader in self.readers:
            if isinstance(reader, TableReader) and reader.schema is not None:
                reader.use(reader.schema, loss)
            elif isinstance(reader, LogReader):
                reader.use_loss(loss)

    @property
    def paths(self) -> list[str]:
        return [reader.path for reader in self.readers]

    @property
    def enterable(self) -> bool:
        """Whether all inputs can be read in parts, and again from the start."""
        return all(reader.enterable for reader in self.readers)

    @property
    def rows(self) -> int:
        """How many valid rows the current pass has read."""
        return sum(reader.rows for reader in self._begun)

    @property
    def position(self) -> int:
        """How many valid rows precede a bad one while it is kept; for the thread that reads."""
        return sum(reader.position for reader in self._begun)

    @property
    def bad_rows(self) -> int:
        """How many rows the current pass has skipped."""
        return sum(reader.bad_rows for reader in self._begun)

    @property
    def replaced(self) -> int:
        """How many values the current pass has counted as column=*, for want of room for names."""
        return sum(reader.replaced for reader in self._begun)

    @property
    def first_bad(self) -> list[RowError]:
        return [error for reader in self._begun for error in reader.first_bad]

    def fraction(self) -> float | None:
        """The fraction of all inputs that has been read; None if unknown."""
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
        """The digest of each input."""
        return tuple(reader.digest() for reader in self.readers)

    def digest(self) -> str:
        """One digest for all inputs, in order."""
        return "; ".join(self.digests())
