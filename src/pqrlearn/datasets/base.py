"""What every data set has: where it comes from, what it holds, and its rows as Batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pqrlearn.datasets import store
from pqrlearn.errors import DataError
from pqrlearn.readers import Names, Source, open_source
from pqrlearn.rows import Batch

Read = Callable[[Sequence[Source], Names], Iterator[Batch]]
"""The rows of the files of one layout, in order; new features are added to the names."""
Watch = Callable[[int, float | None], None]
"""Told after every batch: how many rows there were so far, and which share of the files is read."""


@dataclass(frozen=True)
class Layout:
    """One form in which a data set is found: its files, and how they are read together."""

    files: tuple[str, ...]
    read: Read


@dataclass(frozen=True)
class Loaded:
    """All rows of a data set in memory, in file order.

    `sample` says that there are fewer rows than the data set has.
    """

    batch: Batch
    names: Names
    sample: bool
    files: list[str]


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set by name. Nothing is looked for, read or downloaded before it is asked for."""

    name: str
    title: str
    loss: str
    rows: int
    """Of the whole data set, as its publisher counts them."""
    features: int | None
    """Distinct ones, with the features made here; None where nobody has counted them."""
    licence: str
    source: str
    folders: tuple[str, ...]
    layouts: tuple[Layout, ...]
    """The first whose files are all there is read."""
    paper_title: str | None = None
    paper_rows: int | None = None
    paper_features: int | None = None

    def present(self) -> bool:
        return self._found() is not None

    @property
    def home(self) -> Path:
        """Where its files are, or would be."""
        found = self._found()
        return found[0] if found else store.places(self.folders)[0]

    def files(self) -> list[Path]:
        """The files that are read; DataError when there are none."""
        home, layout = self._located()
        return [home / name for name in layout.files]

    def batches(self, names: Names, watch: Watch | None = None) -> Iterator[Batch]:
        """The rows in file order, in bounded memory; `names` must be new and grows on the way."""
        home, layout = self._located()
        with ExitStack() as stack:
            sources = [stack.enter_context(open_source(home / name)) for name in layout.files]
            size = sum(source.size or 0 for source in sources)
            rows = 0
            for batch in layout.read(sources, names):
                yield batch
                rows += len(batch)
                if watch is not None:
                    done = sum(source.position for source in sources)
                    watch(rows, done / size if size else None)
        if not rows:
            raise DataError(f"{sources[0].name}: no rows")

    def load(self, watch: Watch | None = None) -> Loaded:
        """All of it in memory."""
        names = Names()
        batch = joined(list(self.batches(names, watch)))
        files = [path.name for path in self.files()]
        return Loaded(batch, names, len(batch) < self.rows, files)

    def _located(self) -> tuple[Path, Layout]:
        found = self._found()
        if found is None:
            raise DataError(
                f"{self.title} is not there: pqr data get {self.name} fetches it or says how, "
                f"and $PQRLEARN_DATA may name the folder that holds {self._wanted()}"
            )
        return found

    def _wanted(self) -> str:
        return f"{self.folders[0]}/{self.layouts[0].files[0]}"

    def _found(self) -> tuple[Path, Layout] | None:
        for layout in self.layouts:
            for home in store.places(self.folders):
                if all((home / name).is_file() for name in layout.files):
                    return home, layout
        return None


def joined(batches: Sequence[Batch]) -> Batch:
    """One Batch of the rows of several; their lines are forgotten."""
    if len(batches) == 1:
        return batches[0]
    ends = np.cumsum([0, *(len(batch.indices) for batch in batches)])
    indptr = [batch.indptr[1:] + end for batch, end in zip(batches, ends[:-1], strict=True)]
    return Batch(
        np.concatenate([[0], *indptr]),
        np.concatenate([batch.indices for batch in batches]),
        np.concatenate([batch.values for batch in batches]),
        np.concatenate([batch.labels for batch in batches]),
        np.concatenate([batch.weights for batch in batches]),
    )
