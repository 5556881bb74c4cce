"""Statistics of a data set: rows, features, labels, and how often features occur."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn.datasets import store
from pqrlearn.datasets.base import DataSet, watched
from pqrlearn.datasets.store import OnProgress
from pqrlearn.errors import PqrError
from pqrlearn.files import atomic_write
from pqrlearn.rows import Batch
from pqrlearn.separation import Counts, Separation

POINTS = 1000
"""Points of a curve: more than a picture can show."""
TOP = 1000
"""Most frequent features that are kept by name."""
FEW_NONZEROS = 8_000_000
"""What takes seconds to count: a million ratings, or 200,000 rows of Criteo."""


@dataclass(frozen=True)
class Statistics:
    """Statistics of rows; `high` has all features, the most frequent first."""

    nonzeros: int
    mean_label: float
    high: Separation

    @property
    def rows(self) -> int:
        return self.high.rows

    @property
    def features(self) -> int:
        return self.high.distinct

    def most_frequent(self, top: int) -> list[tuple[str, int]]:
        names = [self.high.names.name(f) or str(f) for f in self.high.features[:top].tolist()]
        return list(zip(names, self.high.counts.tolist(), strict=False))

    def occurrence(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        """Ranks from 1 on, and the number of rows of the feature of each: the paper's Figure 1.

        At most POINTS ranks, evenly spaced on a logarithmic axis.
        """
        ranks = np.unique(np.geomspace(1, max(1, self.features), POINTS).round().astype(np.int64))
        return ranks, self.high.counts[ranks - 1]


@dataclass(frozen=True)
class Summary:
    """What is shown of Statistics, small enough to be stored.

    `all_rows` says whether all rows of the files were counted, or only the first ones.
    """

    rows: int
    features: int
    nonzeros: int
    mean_label: float
    all_rows: bool
    most_frequent: list[list[Any]]
    """At most TOP features by name, each with its number of rows."""
    occurrence: list[list[int]]
    """Ranks, and the number of rows of the feature of each."""


def measure(data: DataSet, watch: OnProgress | None = None) -> Statistics:
    """Reads all rows once; memory grows with the number of features only."""
    return _counted(watched(data.read(), watch))


def summarised(
    data: DataSet, watch: OnProgress | None = None, *, all_rows: bool = False
) -> Summary:
    """The statistics of the files: of all rows if they are few, were counted before, or if
    `all_rows`; else of the first rows.

    Counts of all rows are stored in the user's cache, under a digest of the files.
    """
    stored = _stored(data)
    with suppress(OSError, ValueError, TypeError, KeyError):
        return Summary(**json.loads(stored.read_text()))
    first = _First(watched(data.read(), watch), None if all_rows else FEW_NONZEROS)
    counted = _counted(first)
    ranks, rows = counted.occurrence()
    found = Summary(
        *(counted.rows, counted.features, counted.nonzeros, counted.mean_label, first.exhausted),
        [[name, count] for name, count in counted.most_frequent(TOP)],
        [ranks.tolist(), rows.tolist()],
    )
    if found.all_rows:
        with suppress(OSError, PqrError):  # without a cache, the next call counts again
            stored.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(stored, json.dumps(asdict(found)).encode())
    return found


class _First:
    """Batches up to about a number of non-zeros; then `exhausted` says whether these were all."""

    def __init__(self, batches: Iterator[Batch], nonzeros: int | None) -> None:
        self._batches, self._left = batches, nonzeros
        self.exhausted = False

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._batches:
            if self._left is not None and self._left <= 0:
                return
            yield batch
            if self._left is not None:
                self._left -= len(batch.indices)
        self.exhausted = True


def _counted(batches: Iterator[Batch] | _First) -> Statistics:
    counts = Counts()
    nonzeros, labels = 0, 0.0
    for batch in batches:
        counts.add(batch)
        nonzeros += len(batch.indices)
        labels += float(batch.labels.sum())
    return Statistics(nonzeros, labels / counts.rows, counts.separate(min_count=1))


def _stored(data: DataSet) -> Path:
    """Where the statistics of these files, read by this code, are stored."""
    digest = blake2b(f"{_code()} {data.name} {data.read().digest()}".encode(), digest_size=8)
    return store.cache() / "statistics" / f"{data.name}-{digest.hexdigest()}.json"


@cache
def _code() -> str:
    """A digest of the code that reads data sets, which decides what a feature is."""
    digest = blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
