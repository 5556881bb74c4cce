"""What every data set has: where it comes from, what it holds, and its rows as Batches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pqrlearn.datasets import store
from pqrlearn.datasets.store import Download, Watch
from pqrlearn.errors import DataError, PqrError
from pqrlearn.files import mark
from pqrlearn.names import Names
from pqrlearn.readers import Inputs, Reader, Source, open_source
from pqrlearn.rows import Batch

Read = Callable[[Sequence[Source], Names], Iterator[Batch]]
"""The rows of the files of one layout, in order; new features are added to the names."""


@dataclass(frozen=True)
class Layout:
    """One form in which a data set is found: its files, and how they are read together.

    `sample` marks files that hold only some of the rows.
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
        return "; ".join(mark(path) for path in self._files)


@dataclass(frozen=True)
class Printed:
    """What the paper's table of statistics prints of a data set."""

    title: str
    rows: int
    features: int


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
    """In two words; `source` is the page that has all of them."""
    source: str
    folders: tuple[str, ...]
    layouts: tuple[Layout, ...]
    """The first whose files are all there is read."""
    downloads: tuple[Download, ...] = ()
    """Empty where a person must agree to something first."""
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
        """Whether there is anything to read, be it only a sample."""
        return self._found() is not None

    def whole(self) -> bool:
        """Whether all of it is there."""
        found = self._found()
        return found is not None and not found[1].sample

    @property
    def home(self) -> Path:
        """Where its files are, or would be."""
        found = self._found()
        return found[0] if found else store.places(self.folders)[0]

    def files(self) -> list[Path]:
        """The files that are read; DataError when there are none."""
        home, layout = self._located()
        return [home / name for name in layout.files]

    def read(self) -> Inputs:
        """The rows in file order, in bounded memory, as `pqrlearn.read` gives those of files."""
        return Inputs([LayoutReader(self.files(), self._located()[1].read)])

    def load(self, watch: Watch | None = None) -> Loaded:
        """All of it in memory; the names are apart, so that learners do not learn them."""
        rows = self.read()
        batch = Batch.joined(b.without_names() for b in watched(rows, watch))
        files = [path.name for path in self.files()]
        return Loaded(batch, rows.names, len(batch) < self.rows, files)

    def fetch(self, watch: Watch | None = None) -> None:
        """Downloads what is not there; PqrError when that takes a person, or goes wrong."""
        if not self.downloads:
            files = " or ".join(layout.files[0] for layout in self.layouts if not layout.sample)
            raise PqrError(
                f"{self.title} takes an account and a consent: download it from {self.source} and "
                f"put {files} into {self.home}"
            )
        for download in self.downloads:
            if not (download.target and (self.home / download.target).exists()):
                store.fetch(download, self.home, watch)

    def _located(self) -> tuple[Path, Layout]:
        found = self._found()
        if found is None:
            error = DataError(
                f"{self.title} is not there: let $PQRLEARN_DATA be the folder that holds "
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


def watched(inputs: Inputs, watch: Watch | None) -> Iterator[Batch]:
    """All batches; `watch` is told how many rows are done, and which share of all is read."""
    rows = 0
    for batch in inputs:
        yield batch
        rows += len(batch)  # not those of the inputs: their thread is ahead
        if watch is not None:
            watch(rows, inputs.fraction())
