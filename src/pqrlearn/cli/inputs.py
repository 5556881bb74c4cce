"""The files of a command, as one stream of Batches read on a second thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO

import click

from pqrlearn.cache import CacheReader, is_cache, kept
from pqrlearn.errors import DataError
from pqrlearn.readers import LibsvmReader, Source, ahead, open_source
from pqrlearn.rows import Batch


class Inputs:
    """Files read one after the other; `-` is stdin.

    With a `room`, a folder, they are parsed once: what was read to its end is kept there.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        loss: str | None = None,
        on_bad_row: str = "stop",
        keep_bad: IO[bytes] | None = None,
        room: Path | None = None,
    ) -> None:
        if list(paths).count("-") > 1:
            raise click.UsageError("- (stdin) can be read only once")
        self.paths = list(paths)
        self.loss = loss
        self._on_bad_row, self._keep_bad = on_bad_row, keep_bad
        self._cache = room / "rows.cache" if room else None
        self._readers: list[LibsvmReader | CacheReader] = []
        self._sources: list[Source | CacheReader] = []
        self._sizes: list[int | None] = []

    def batches(self, prepare: Callable[[Batch], Batch] = lambda batch: batch) -> Iterator[Batch]:
        """All rows in order, parsed while the caller works; an input without rows is an error.

        What is to be done with a batch before its turn is done on the thread that reads.
        """
        return ahead(self._prepared(prepare))

    def _prepared(self, prepare: Callable[[Batch], Batch]) -> Iterator[Batch]:
        with closing(self._read()) as batches:
            for batch in batches:
                yield prepare(batch)

    def _read(self) -> Generator[Batch, None, None]:
        if self._cache is None:
            yield from self._read_files()
        elif not self._cache.exists():
            yield from kept(self._cache, self._read_files())
        else:
            reader = CacheReader(self._cache, loss=self.loss)
            self._sources, self._sizes = [reader], [_size(str(self._cache))]
            yield from reader.batches()

    def _read_files(self) -> Iterator[Batch]:
        with ExitStack() as stack:
            self._readers, self._sources = [], []
            self._sizes = [_size(path) for path in self.paths]
            for path in self.paths:
                yield from self._opened(path, stack).batches()
        self._keep_bad = None  # a second pass meets the same bad rows again
        if not any(reader.rows for reader in self._readers):
            raise DataError(f"{', '.join(self.paths)}: no rows")

    def _opened(self, path: str, stack: ExitStack) -> LibsvmReader | CacheReader:
        reader: LibsvmReader | CacheReader
        if is_cache(path):
            reader = CacheReader(path, loss=self.loss)
            self._sources.append(reader)
        else:
            source = stack.enter_context(open_source(path))
            self._sources.append(source)
            reader = LibsvmReader(
                source, loss=self.loss, on_bad_row=self._on_bad_row, keep_bad=self._keep_bad
            )
        self._readers.append(reader)
        return reader

    def size(self) -> int:
        """Of all files, in bytes; what is no file has none."""
        return sum(_size(path) or 0 for path in self.paths)

    def fraction(self) -> float | None:
        """How much of the files has been read; None when their size is not known."""
        if not self._sizes or any(size is None for size in self._sizes):
            return None
        total = sum(size for size in self._sizes if size is not None)
        done = sum(source.position for source in self._sources)
        return min(1.0, done / total) if total else 1.0

    @property
    def bad_rows(self) -> int:
        return sum(reader.bad_rows for reader in self._readers)

    def first_bad(self) -> list[str]:
        return [str(error) for reader in self._readers for error in reader.first_bad]


def _size(path: str) -> int | None:
    return os.path.getsize(path) if path != "-" and os.path.isfile(path) else None
