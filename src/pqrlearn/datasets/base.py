"""The interface of all data sets: origin, content, and rows as Batches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pqrlearn.datasets import store
from pqrlearn.datasets.store import Download, OnProgress
from pqrlearn.errors import DataError, PqrError
from pqrlearn.files import file_digest
from pqrlearn.loss import LossName
from pqrlearn.names import Names
from pqrlearn.readers import Inputs, Reader, Source, open_source
from pqrlearn.rows import Batch

Read = Callable[[Sequence[Source], Names], Iterator[Batch]]
"""Reads the files of a layout in order; new features are added to the names."""


@dataclass(frozen=True)
class Layout:
    """One form in which a data set is published: its files, and how to read them.

    `sample` marks files with only some of the rows.
    """

    files: tuple[str, ...]
    read: Read
    sample: bool = False


class LayoutReader(Reader):
    """The files of one layout, read together."""

    named = True

    def __init__(self, files: Sequence[Path], read: Read) -> None:
        super().__init__(files[0])
        self._files, self._layout_read = list(files), read
        self._sources: list[Source] = []

    def _read(self) -> Generator[Batch, None, None]:
        with ExitStack() as stack:
            self._sources = [stack.enter_context(open_source(path)) for path in self._files]
            yield from self._layout_read(self._sources, self.names)

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self._files)

    def fraction(self) -> float | None:
        size = sum(source.size or 0 for source in self._sources)
        done = sum(source.position for source in self._sources)
        return done / size if size else None

    def digest(self) -> str:
        return "; ".join(file_digest(path) for path in self._files)


@dataclass(frozen=True)
class Printed:
    """A data set in the paper's table of statistics."""

    title: str
    rows: int
    features: int


@dataclass(frozen=True)
class Loaded:
    """All rows of a data set in memory, in file order.

    `sample` says whether there are fewer rows than in the full data set.
    """

    batch: Batch
    names: Names
    sample: bool
    files: list[str]


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set. Files are looked up, read or downloaded only when a method needs them."""

    name: str
    title: str
    loss: LossName
    rows: int
    """Rows of the full data set, according to its publisher."""
    features: int | None
    """Distinct features, as defined here; None if unknown."""
    licence: str
    """A short name of the licence; `source` is the page with its text."""
    source: str
    folders: tuple[str, ...]
    layouts: tuple[Layout, ...]
    """The first layout whose files all exist is used."""
    downloads: tuple[Download, ...] = ()
    """Empty if a person must accept terms first."""
    paper: Printed | None = None

    @property
    def paper_title(self) -> str | None:
        return self.paper.title if self.paper else None

    @property
    def paper_rows(self) -> int | None:
        return self.paper.rows if self.paper else None

    @property
    def paper_features(self) -> int | None:
        return self.paper.features if self.paper else None

    def present(self) -> bool:
        """Whether there are files to read, possibly only a sample."""
        return self._found() is not None

    def whole(self) -> bool:
        """Whether the full data set is there."""
        found = self._found()
        return found is not None and not found[1].sample

    @property
    def home(self) -> Path:
        """The folder of its files, whether they exist or not."""
        found = self._found()
        return found[0] if found else store.places(self.folders)[0]

    def files(self) -> list[Path]:
        """The files that are read; DataError if there are none."""
        home, layout = self._located()
        return [home / name for name in layout.files]

    def read(self) -> Inputs:
        """The rows in file order, in bounded memory, as from `pqrlearn.read`."""
        return Inputs([LayoutReader(self.files(), self._located()[1].read)])

    def load(self, watch: OnProgress | None = None) -> Loaded:
        """All rows in memory; names are separate, so that learners do not add them."""
        rows = self.read()
        batch = Batch.joined(b.without_names() for b in watched(rows, watch))
        files = [path.name for path in self.files()]
        return Loaded(batch, rows.names, len(batch) < self.rows, files)

    def fetch(self, watch: OnProgress | None = None) -> None:
        """Downloads missing files; PqrError if that fails or a person has to do it."""
        if not self.downloads:
            files = " or ".join(layout.files[0] for layout in self.layouts if not layout.sample)
            raise PqrError(
                f"{self.title} needs an account and accepted terms: download it from {self.source} "
                f"and put {files} into {self.home}"
            )
        for download in self.downloads:
            if not (download.target and (self.home / download.target).exists()):
                store.fetch(download, self.home, watch)

    def _located(self) -> tuple[Path, Layout]:
        found = self._found()
        if found is None:
            error = DataError(
                f"{self.title} was not found: set $PQRLEARN_DATA to the folder with "
                f"{self.folders[0]}/{self.layouts[0].files[0]}, or fetch it"
            )
            error.case = ("missing data", self.name)
            raise error
        return found

    def _found(self) -> tuple[Path, Layout] | None:
        for layout in self.layouts:
            for home in store.places(self.folders):
                if all((home / name).is_file() for name in layout.files):
                    return home, layout
        return None


def watched(inputs: Inputs, watch: OnProgress | None) -> Iterator[Batch]:
    """All batches; `watch` is called with the rows done so far and the fraction read."""
    rows = 0
    for batch in inputs:
        yield batch
        rows += len(batch)  # not inputs.rows: reading is ahead
        if watch is not None:
            watch(rows, inputs.fraction())
