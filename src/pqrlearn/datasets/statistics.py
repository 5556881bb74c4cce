"""What a data set holds: rows, features, labels, and how often each feature occurs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pqrlearn.datasets.base import DataSet, watched
from pqrlearn.datasets.store import Watch
from pqrlearn.separation import Counts, Separation

POINTS = 1000
"""Of a curve: more than a picture can show."""


@dataclass(frozen=True)
class Statistics:
    """Figures of the files at hand; `high` holds every feature, the most frequent first."""

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
        """Ranks from 1 on, and in how many rows the feature of each occurs: the paper's Figure 1.

        Of many features, POINTS ranks that are evenly spread on a logarithmic axis.
        """
        ranks = np.unique(np.geomspace(1, max(1, self.features), POINTS).round().astype(np.int64))
        return ranks, self.high.counts[ranks - 1]


def measure(data: DataSet, watch: Watch | None = None) -> Statistics:
    """Reads all of it once, in memory that grows with the features only."""
    counts = Counts()
    nonzeros, labels = 0, 0.0
    for batch in watched(data.read(), watch):
        counts.add(batch)
        nonzeros += len(batch.indices)
        labels += float(batch.labels.sum())
    return Statistics(nonzeros, labels / counts.rows, counts.separate(min_count=1))
