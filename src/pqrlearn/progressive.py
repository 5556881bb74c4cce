"""The online loop: predict, score, then learn. Every row is a test row once."""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pqrlearn.errors import RefusedRow
from pqrlearn.learners import Learner
from pqrlearn.loss import Measures, loss_named
from pqrlearn.metrics import Metrics
from pqrlearn.rows import Batch

Watch = Callable[[Metrics], None]
"""Told after every batch, with the metrics of those before it: a progress line, for example."""


@dataclass(frozen=True)
class Pass:
    """What one pass over the rows showed."""

    measures: Measures
    seconds: float
    figures: dict[str, float]
    refused: list[RefusedRow]

    @property
    def loss(self) -> float:
        """The figure by which models are compared: LogLoss, RMSE or deviance."""
        return self.figures[self.measures.key]

    @property
    def rows(self) -> int:
        return int(self.figures["rows"])

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    def worse_than_constant(self) -> str | None:
        """A sentence, when predicting one number for every row would have been better."""
        key, title = self.measures.key, self.measures.title
        loss, constant = self.figures[key], self.figures[f"constant_{key}"]
        if not loss > constant:
            return None
        return (
            f"the progressive {title} of {loss:.4f} is worse than {constant:.4f}, "
            "the best constant's"
        )


def learn(
    learner: Learner,
    batches: Iterable[Batch],
    watch: Watch | None = None,
    *,
    skip_refused: bool = False,
) -> Pass:
    """Learns every row once, in order, and scores each prediction made before.

    A row whose values are too large for the model is an error, or is left out and kept in
    `Pass.refused`.
    """
    return _run(learner.loss, learner.learn_margins, batches, watch, skip_refused)


def evaluate(
    learner: Learner,
    batches: Iterable[Batch],
    watch: Watch | None = None,
    *,
    skip_refused: bool = False,
) -> Pass:
    """Scores the model as it is; learns nothing."""
    return _run(learner.loss, learner.margin_many, batches, watch, skip_refused)


def _run(
    loss: str,
    margins_of: Callable[[Batch], Any],
    batches: Iterable[Batch],
    watch: Watch | None,
    skip_refused: bool,
) -> Pass:
    metrics = Metrics(loss)
    refused: list[RefusedRow] = []
    start = time.perf_counter()
    with _Scorer(metrics) as scorer:
        for whole in batches:
            done, batch = 0, whole
            while done < len(batch):
                if done > 0:
                    batch = batch.part(done, len(batch))
                try:
                    margins, done = margins_of(batch), len(batch)
                except RefusedRow as error:
                    if not skip_refused:
                        raise
                    margins, done = error.margins, error.row + 1
                    refused.append(error)
                scorer.wait()
                if watch is not None and done == len(batch):
                    watch(metrics)
                scorer.start(margins, batch)
    return Pass(loss_named(loss).metrics, time.perf_counter() - start, metrics.result(), refused)


class _Scorer:
    """Scores a batch on a thread of its own, while the next one is learned."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._pool = ThreadPoolExecutor(1, "scorer")
        self._running: Future[None] | None = None

    def start(self, margins: Any, batch: Batch) -> None:
        labels, weights = batch.labels[: len(margins)], batch.weights[: len(margins)]
        self._running = self._pool.submit(self._metrics.update, margins, labels, weights)

    def wait(self) -> None:
        if self._running is not None:
            self._running.result()

    def __enter__(self) -> _Scorer:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._pool.shutdown()
        if error is None:
            self.wait()


def peak_memory() -> int:
    """The most memory this process has held, in bytes."""
    try:  # getrusage would also remember the process that started this one
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def finite(figures: dict[str, float]) -> dict[str, float | None]:
    """Figures for JSON, which has neither nan nor infinity."""
    return {name: value if math.isfinite(value) else None for name, value in figures.items()}
