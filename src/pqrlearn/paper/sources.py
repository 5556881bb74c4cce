"""The rows of a column: from the files of a data set, or from a stream of its shape."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pqrlearn import datasets
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.loss import LossName, loss_named
from pqrlearn.rows import Batch
from pqrlearn.separation import Counts

STREAMS = {
    "avazu": ClickStream.avazu,
    "criteo": ClickStream.criteo,
    "kdd2012": ClickStream.kdd2012,
}


@dataclass(frozen=True)
class Rows:
    """Rows in memory, and their description."""

    batch: Batch
    loss: LossName
    note: str
    sample: bool
    digest: str

    @property
    def measures(self) -> tuple[str, ...]:
        metrics = loss_named(self.loss).metrics
        return ("auc", metrics.key) if metrics.ranks else (metrics.key,)


@dataclass(frozen=True)
class Source:
    """The data set `name`; with a `fraction`, a simulated stream with that share of its rows."""

    name: str
    fraction: float | None = None

    @property
    def title(self) -> str:
        data = datasets.get(self.name)
        title = data.paper_title or data.title
        if self.fraction is not None:
            return f"{title}, simulated"
        return f"{title} sample" if data.present() and not data.whole() else title

    def present(self) -> bool:
        return self.fraction is not None or datasets.get(self.name).present()

    def rows(self) -> Rows:
        return _rows(self)

    def features(self) -> int:
        """The number of different features."""
        return _features(self)

    def parts(self, split: int) -> Parts:
        return _parts(self, split)


@dataclass(frozen=True)
class Parts:
    """80, 10 and 10 % of the rows, at random; the split is the seed."""

    train: Batch
    validation: Batch
    test: Batch


@lru_cache(maxsize=8)
def _rows(source: Source) -> Rows:
    data = datasets.get(source.name)
    if source.fraction is None:
        loaded = data.load()
        batch, files = loaded.batch, ", ".join(loaded.files)
        part = f"a sample of the data set's {data.rows:,}" if loaded.sample else "complete"
        what = loss_named(data.loss).mean_label
        note = f"{len(batch):,} rows from {files} ({part}), {what} {batch.labels.mean():.4f}"
        return Rows(batch, data.loss, note, loaded.sample, batch.digest())
    assert data.paper_rows is not None
    stream = STREAMS[source.name]()
    rows = max(10, round(source.fraction * data.paper_rows))
    batch = Batch.joined(stream.batches(rows))
    note = (
        f"SIMULATED: {rows:,} rows ({source.fraction:g} of the paper's) of {stream.fields} one-hot "
        f"features out of {stream.features:,}, click rate {stream.click_rate:g}, "
        f"{stream.interactions} planted pairs, seed {stream.seed}"
    )
    return Rows(batch, data.loss, note, True, batch.digest())


@lru_cache(maxsize=8)
def _features(source: Source) -> int:
    return Counts.of(source.rows().batch).distinct


@lru_cache(maxsize=1)
def _parts(source: Source, split: int) -> Parts:
    rows = source.rows()
    order = np.random.default_rng(split).permutation(len(rows.batch))
    train, validation, test = np.split(order, [len(order) * 8 // 10, len(order) * 9 // 10])
    return Parts(rows.batch.take(train), rows.batch.take(validation), rows.batch.take(test))
