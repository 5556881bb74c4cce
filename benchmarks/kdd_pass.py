"""One pass of one model over rows of the shape of KDD2012:

    python -m benchmarks.kdd_pass lr|pqr|auto ROWS

Makes Batches on one thread, learns them on another, and prints what it took as JSON. Imports
little, because its memory is measured.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pqrlearn import LR, PQR, Auto, Counts, Separation
from pqrlearn.cli import show
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.learners import Learner
from pqrlearn.metrics import Metrics
from pqrlearn.progressive import finite
from pqrlearn.readers.prefetch import prefetch
from pqrlearn.system import peak_memory

ORDER, COUNTED = 100, 1_000_000
BATCH_ROWS = 2**12
TITLES = {"lr": "LR", "pqr": f"PQR({ORDER})", "auto": "Auto"}
SLOT_BYTES, RANK_BYTES = 8, 4
AUTO_BYTES, AUTO_PAIR_BYTES = 72, 32


@dataclass
class Clock:
    """Adds up what is done inside of `running`: wall time, and CPU time of this thread."""

    wall: float = 0.0
    cpu: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.thread_time()
        yield
        self.wall += time.perf_counter() - wall
        self.cpu += time.thread_time() - cpu


def one_pass(name: str, rows: int) -> dict[str, Any]:
    stream, metrics = ClickStream.kdd2012(), Metrics("logistic")
    counting, learning, start = Clock(), Clock(), time.perf_counter()
    learner: Learner = LR() if name == "lr" else Auto()
    if name == "pqr":
        learner = PQR(separation(stream, rows, counting))
    with show.progress(TITLES[name], lambda: learner.rows / rows, quiet=False) as watch:
        for batch in prefetch(stream.batches(rows, BATCH_ROWS), depth=2):
            with learning.running():
                margins = learner.learn_margins(batch)
            metrics.update(margins, batch.labels, batch.weights)
            watch(metrics)
    total, peak = time.perf_counter() - start, peak_memory()
    figures, state = finite(metrics.result()), state_bytes(learner)
    return {
        **figures,
        "rows": learner.rows,
        "learn_seconds": learning.wall,
        "learn_cpu_seconds": learning.cpu,
        "count_seconds": counting.wall,
        "count_cpu_seconds": counting.cpu,
        "total_seconds": total,
        "peak_bytes": peak,
        "state_bytes": state,
        "peak_to_state": peak / state,
        "off_percent": 100 * abs(figures["mean_prediction"] / figures["mean_label"] - 1),
    }


def separation(stream: ClickStream, rows: int, clock: Clock) -> Separation:
    """Of the first million rows; making them is not on the clock."""
    counts = Counts()
    for batch in stream.batches(min(rows, COUNTED), BATCH_ROWS):
        with clock.running():
            counts.add(batch)
    with clock.running():
        return counts.separate(order=ORDER)


def state_bytes(learner: Learner) -> int:
    """What the model cannot do without: a slot for every coordinate learned, and the ranks."""
    if isinstance(learner, Auto):
        about = learner.summary()
        return int(about["features"]) * AUTO_BYTES + int(about["pairs"]) * AUTO_PAIR_BYTES
    slots = sum(len(learner.weights(block)[1]) for block in learner.blocks)
    ranks = learner.separation.order if isinstance(learner, PQR) else 0
    return slots * SLOT_BYTES + ranks * RANK_BYTES


if __name__ == "__main__":
    print(json.dumps(one_pass(sys.argv[1], int(sys.argv[2]))))
