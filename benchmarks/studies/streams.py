"""What the self-tuning learner does on streams that are hard in one way each.

    python -m benchmarks.studies.streams

long       40 million rows of a 4 % click rate: sums in 32 bits must go on growing
drift      labels that turn over midway
negatives  non-clicks kept one in ten and weighted by ten: are predictions still calibrated?
passes     rows learned twice: how much too sure is it then?
Prints Markdown.
"""

from __future__ import annotations

import numpy as np

from benchmarks.machine import circumstances
from benchmarks.measure import tell
from pqrlearn import LR, Auto, Batch, Ftrl
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.learners.base import Learner
from pqrlearn.metrics import Metrics

CHUNK = 1 << 20


def _sigmoid(margins: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-margins))


def _two_fields(rng: np.random.Generator, rows: int) -> tuple[Batch, np.ndarray]:
    """Ten values of one field, five of another; an effect of each value, 4 % of clicks in all."""
    first, second = rng.integers(0, 10, rows), rng.integers(0, 5, rows)
    effects = np.linspace(-1, 1, 10)[first] + np.linspace(0.5, -0.5, 5)[second]
    chances = _sigmoid(effects - 3.4)
    indices = np.stack([first, 10 + second], axis=1).astype(np.uint32).ravel()
    labels = (rng.random(rows) < chances).astype(float)
    ones = np.ones(len(indices), np.float32)
    indptr = np.arange(0, 2 * rows + 1, 2, dtype=np.int64)
    return Batch(indptr, indices, ones, labels, np.ones(rows, np.float32)), chances


def long(millions: int = 40) -> list[str]:
    rng, model = np.random.default_rng(1), Auto()
    clicks = rows = 0.0
    for part in range(millions):
        batch, _ = _two_fields(rng, 1_000_000)
        model.learn_margins(batch)
        clicks, rows = clicks + batch.labels.sum(), rows + len(batch)
        if part % 10 == 9:
            tell(f"{part + 1} million rows")
    probe, chances = _two_fields(rng, 200_000)
    said = model.predict_many(probe)
    worst = max(
        abs(said[at].mean() / chances[at].mean() - 1)
        for value in range(15)
        for at in [(probe.indices.reshape(-1, 2) == value).any(axis=1)]
    )
    return [
        "long",
        f"{rows:,.0f} rows, click rate {clicks / rows:.4f}",
        f"mean prediction off by {said.mean() / chances.mean() - 1:+.2%}, "
        f"that of the worst of 15 values by {worst:.2%}",
    ]


def _stream_loss(model: Learner, batch: Batch, start: int) -> float:
    metrics = Metrics("logistic")
    for at in range(0, len(batch), CHUNK):
        part = batch.part(at, min(at + CHUNK, len(batch)))
        margins = model.learn_margins(part)
        late = np.arange(at, at + len(part)) >= start
        metrics.update(margins[late], part.labels[late])
    return metrics.result()["logloss"]


def drift(rows: int = 200_000) -> list[str]:
    """Clicks and non-clicks change places; the loss is that of the second half."""
    whole = Batch.joined(ClickStream.demo(3).batches(rows))
    turned = np.where(np.arange(rows) < rows // 2, whole.labels, 1 - whole.labels)
    batch = Batch(whole.indptr, whole.indices, whole.values, turned, whole.weights)
    best = min(
        (_stream_loss(LR(optimizer=Ftrl(alpha=alpha)), batch, rows // 2), alpha)
        for alpha in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    )
    found = _stream_loss(Auto(), batch, rows // 2)
    return [
        "drift",
        f"{rows:,} rows, labels turned over midway",
        f"second half {found:.4f}; best LR of six {best[0]:.4f} (alpha {best[1]:g})",
    ]


def negatives(rows: int = 400_000) -> list[str]:
    whole = Batch.joined(ClickStream.demo(4).batches(rows))
    keep = (whole.labels > 0) | (np.random.default_rng(2).random(rows) < 0.1)
    kept = whole.take(np.flatnonzero(keep))
    weights = np.where(kept.labels > 0, 1.0, 10.0).astype(np.float32)
    sampled = Batch(kept.indptr, kept.indices, kept.values, kept.labels, weights)
    test = Batch.joined(ClickStream.demo(4).batches(100_000, start=rows))
    cells = []
    for name, batch in (("all rows", whole), ("sampled", sampled)):
        model = Auto()
        model.learn_margins(batch)
        metrics = Metrics("logistic")
        metrics.update(model.margin_many(test), test.labels)
        found = metrics.result()
        off = found["mean_prediction"] / found["mean_label"] - 1
        cells.append(f"{name}: predictions {off:+.1%}, LogLoss {found['logloss']:.4f}")
    return ["negatives", f"{len(sampled):,} of {rows:,} rows, weights 10", "; ".join(cells)]


def passes(rows: int = 200_000) -> list[str]:
    train = Batch.joined(ClickStream.demo(5).batches(rows))
    test = Batch.joined(ClickStream.demo(5).batches(100_000, start=rows))
    model, cells = Auto(), []
    for number in (1, 2, 3):
        model.learn_margins(train)
        metrics = Metrics("logistic")
        metrics.update(model.margin_many(test), test.labels)
        cells.append(f"after {number}: {metrics.result()['logloss']:.4f}")
    return ["passes", f"{rows:,} rows", "held-out LogLoss " + ", ".join(cells)]


def main() -> None:
    found = [study() for study in (drift, negatives, passes, long)]
    print("| stream | rows | found |\n| --- | --- | --- |")
    for line in found:
        print("| " + " | ".join(line) + " |")
    about = circumstances()
    print(f"\n{about}")


if __name__ == "__main__":
    main()
