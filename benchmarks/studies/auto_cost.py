"""What a row costs the self-tuning learner, beside PQR with the same high features.

    python -m benchmarks.studies.auto_cost

Rows are in memory; Auto and PQR learn them in turn, three times. `learn_one` is of 39 named
features that have all risen. Prints Markdown.
"""

from __future__ import annotations

import time
from statistics import median

import numpy as np

from benchmarks.machine import circumstances
from pqrlearn import PQR, Auto, Batch, Separation
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.learners.base import Learner

ROUNDS, CHUNK = 3, 1 << 15
SHAPES = {"avazu": (ClickStream.avazu, 500_000), "criteo": (ClickStream.criteo, 200_000)}


def _microseconds(learner: Learner, batch: Batch) -> float:
    start = time.perf_counter()
    for at in range(0, len(batch), CHUNK):
        learner.learn_margins(batch.part(at, min(at + CHUNK, len(batch))))
    return (time.perf_counter() - start) / len(batch) * 1e6


def many(shape: str) -> list[str]:
    stream, rows = SHAPES[shape]
    batch = Batch.joined(stream().batches(rows))
    ours, theirs = [], []
    for _ in range(ROUNDS):
        model = Auto()
        ours.append(_microseconds(model, batch))
        high = Separation(model.high.copy(), np.ones(len(model.high), np.uint64), rows, rows)
        theirs.append(_microseconds(PQR(high), batch))
    auto, pqr = median(ours), median(theirs)
    return [shape, f"{len(model.high):,}", f"{auto:.2f}", f"{pqr:.2f}", f"{auto / pqr:.1f}"]


def one() -> float:
    """The least of seven rounds over 300 rows."""
    rng = np.random.default_rng(0)
    rows = [{f"f{i}": str(rng.integers(0, 3)) for i in range(39)} for _ in range(300)]
    model, best = Auto(), float("inf")
    for number in range(10):
        start = time.perf_counter()
        for at, row in enumerate(rows):
            model.learn_one(row, at % 2)
        if number >= 3:
            best = min(best, (time.perf_counter() - start) / len(rows) * 1e6)
    return best


def main() -> None:
    print("| shape | high | Auto, µs a row | PQR, µs a row | ratio |\n|---|---|---|---|---|")
    for shape in SHAPES:
        print("| " + " | ".join(many(shape)) + " |")
    print(f"\nlearn_one: {one():.1f} µs\n\n{circumstances()}")


if __name__ == "__main__":
    main()
