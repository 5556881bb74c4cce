"""Statistics of a data set: rows, features, labels, and how often features occur."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pqrlearn.datasets.base import DataSet, watched
from pqrlearn.datasets.store import OnProgress
from pqrlearn.separation import Counts, Separation

POINTS = 1000
"""Points of a curve: more than a picture can show."""


@dataclass(frozen=True)
class Statistics:
    """Statistics of the files; `high` has all features, the most frequent first."""

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


def measure(data: DataSet, watch: OnProgress | None = None) -> Statistics:
    """Reads all rows once; memory grows with the number of features only."""
    counts = Counts()
    nonzeros, labels = 0, 0.0
    for batch in watched(data.read(), watch):
        counts.add(batch)
        nonzeros += len(batch.indices)
        labels += float(batch.labels.sum())
    return Statistics(nonzeros, labels / counts.rows, counts.separate(min_count=1))
