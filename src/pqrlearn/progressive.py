"""The online loop: predict, score, then learn. Every row is a test row once."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from pqrlearn.errors import RefusedRow
from pqrlearn.frames import is_frame
from pqrlearn.learners import Auto, Learner, Mixture
from pqrlearn.learners.frames import labelled_batches
from pqrlearn.loss import Measures, loss_named
from pqrlearn.metrics import Metrics
from pqrlearn.rows import Batch, FloatArray

WARNED_ROWS: Final = 1000
"""From how many rows on it is worth a warning that a constant would have been better."""

OnBatch = Callable[[Metrics], None]
"""Called after every batch with the metrics of those before it, to show progress."""


@dataclass(frozen=True)
class Pass:
    """The metrics of one pass over the rows.

    The reader has left out `bad_rows`, and counted `replaced` values as column=*.

    >>> from pqrlearn import LR, Batch
    >>> rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 500, labels=[1, 0] * 500)
    >>> result = learn(LR(), [rows])
    >>> result.rows, result.loss == result.metrics["logloss"]
    (1000, True)
    """

    measures: Measures
    seconds: float
    metrics: dict[str, float]
    refused: list[RefusedRow]
    bad_rows: int = 0
    replaced: int = 0

    def __repr__(self) -> str:
        """Short: what a person looks for first."""
        auc = [f"auc={self.metrics['auc']:.5f}"] if self.measures.ranks else []
        shown = [f"rows={self.rows:,}", f"{self.measures.key}={self.loss:.5f}", *auc]
        return f"Pass({', '.join([*shown, f'seconds={self.seconds:.2f}'])})"

    @property
    def loss(self) -> float:
        """The main figure: LogLoss, RMSE or deviance.

        >>> from pqrlearn import LR, Batch
        >>> evaluate(LR("squared"), [Batch.from_rows([([0], [1.0])], labels=[2])]).loss
        2.0
        """
        return self.metrics[self.measures.key]

    @property
    def rows(self) -> int:
        """How many rows were scored.

        >>> from pqrlearn import LR, Batch
        >>> evaluate(LR(), [Batch.from_rows([([0], [1.0])], labels=[1])]).rows
        1
        """
        return int(self.metrics["rows"])

    @property
    def rows_per_second(self) -> float:
        """The rate of the pass.

        >>> from pqrlearn import LR, Batch
        >>> evaluate(LR(), [Batch.from_rows([([0], [1.0])], labels=[1])]).rows_per_second > 0
        True
        """
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    def worse_than_constant(self) -> str | None:
        """A message, if predicting the same number for every row would have been better.

        >>> from pqrlearn import LR, Batch
        >>> ones = Batch.from_rows([([0], [1.0])] * 9, labels=[1] * 9)
        >>> evaluate(LR(), [ones]).worse_than_constant()
        "the progressive LogLoss of 0.6931 is worse than 0.0000, the best constant's"
        """
        key, title = self.measures.key, self.measures.title
        loss, constant = self.metrics[key], self.metrics[f"constant_{key}"]
        if not loss > constant:
            return None
        return (
            f"the progressive {title} of {loss:.4f} is worse than {constant:.4f}, "
            "the best constant's"
        )

    def without_weight(self) -> str | None:
        """A message, if no row counts: nothing is learned then, and figures are nan.

        >>> from pqrlearn import LR, Batch
        >>> evaluate(LR(), [Batch.from_rows([([0], [1.0])], [1], [0.0])]).without_weight()
        'the weight of all rows is 0: none counts, and figures are undefined'
        """
        if self.rows == 0 or self.metrics["weight"] > 0:
            return None
        return "the weight of all rows is 0: none counts, and figures are undefined"


class Loop:
    """Learns batches in order, and scores each prediction made before its row was learned.

    Iterating gives each batch once it is learned; `metrics` are then those of the batches before
    it. A row whose values are too large for the model is an error, or is skipped and kept in
    `refused`.

    >>> from pqrlearn import LR, Batch
    >>> rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 500, labels=[1, 0] * 500)
    >>> with Loop(LR(), [rows, rows]) as loop:
    ...     for batch in loop:
    ...         print(f"{loop.metrics.result()['rows']} rows scored, {len(batch)} more learned")
    0 rows scored, 1000 more learned
    1000 rows scored, 1000 more learned
    >>> loop.result().rows
    2000
    """

    def __init__(
        self,
        learner: Learner,
        batches: Iterable[Batch],
        *,
        skip_refused: bool = False,
        learns: bool = True,
        start: int = 0,
    ) -> None:
        self.metrics = Metrics(learner.loss)
        self.refused: list[RefusedRow] = []
        self._rows = start  # the number of the next row
        self._margins_of = learner.learn_margins if learns else learner.margin_many
        self._batches = labelled_batches(learner, batches) if is_frame(batches) else batches
        self._skip = skip_refused
        self._scorer = _Scorer(self.metrics)
        self._start, self._seconds = time.perf_counter(), 0.0
        self._measures = loss_named(learner.loss).metrics

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._batches:
            rest, done = batch, 0
            while done < len(rest):
                if done > 0:
                    rest = rest.part(done, len(rest))
                margins, done = self._margins(rest)
                self._rows += done
                self._scorer.wait()
                if done == len(rest):
                    yield batch
                self._scorer.start(margins, rest)

    def _margins(self, batch: Batch) -> tuple[FloatArray, int]:
        """Margins of the rows up to the first refused one, and how many rows are done."""
        try:
            return self._margins_of(batch), len(batch)
        except RefusedRow as error:
            if not self._skip:
                raise
            error.number = self._rows + error.row
            self.refused.append(error)
            return error.margins, error.row + 1

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._scorer.close(failed=error is not None)
        self._seconds = time.perf_counter() - self._start

    def result(self) -> Pass:
        """What the loop showed, once it has ended.

        >>> from pqrlearn import LR, Batch
        >>> with Loop(LR(), [Batch.from_rows([([0], [1.0])], labels=[1])]) as loop:
        ...     learned = [len(batch) for batch in loop]
        >>> learned, loop.result().rows
        ([1], 1)
        """
        return Pass(self._measures, self._seconds, self.metrics.result(), self.refused)


def learn(
    learner: Learner,
    batches: Iterable[Batch],
    watch: OnBatch | None = None,
    *,
    skip_refused: bool = False,
) -> Pass:
    """Learns every row once, in order, and scores each prediction made before.

    `batches` are Batches, what `pqrlearn.read` returns, or a frame with labels. A UserWarning says
    so if one constant prediction would have been better, from 1,000 rows on, or if all rows have
    weight 0.

    >>> from pqrlearn import LR, Batch
    >>> rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 500, labels=[1, 0] * 500)
    >>> learn(LR(), [rows]).metrics["auc"] > 0.9
    True
    """
    result = _watched(Loop(learner, batches, skip_refused=skip_refused), watch)
    warn_if_useless(result, learner)
    return result


def warn_if_useless(result: Pass, learner: Learner) -> None:
    """Warns, at the caller's caller, if a constant would have been better, or if no row counts.

    Of few rows nothing is said of constants: the best one is chosen in hindsight.
    """
    if nothing := result.without_weight():
        warnings.warn(nothing, UserWarning, stacklevel=3)
    message = result.worse_than_constant()
    if message and result.rows >= WARNED_ROWS:
        rate = rate_name(learner)
        advice = f"; try a smaller {rate}" if rate else ""
        warnings.warn(f"{message}{advice}", UserWarning, stacklevel=3)


def rate_name(learner: Learner) -> str | None:
    """The setting that is its learning rate; Auto has none.

    >>> from pqrlearn import FM, LR
    >>> rate_name(LR()), rate_name(FM())
    ('alpha', 'eta')
    """
    if isinstance(learner, Auto):
        return None
    one = learner.learners[0] if isinstance(learner, Mixture) else learner
    return "alpha" if "alpha" in one.settings().get("optimizer", {}) else "eta"


def evaluate(
    learner: Learner,
    batches: Iterable[Batch],
    watch: OnBatch | None = None,
    *,
    skip_refused: bool = False,
) -> Pass:
    """Scores the model as it is; learns nothing.

    >>> from pqrlearn import LR, Batch
    >>> round(evaluate(LR(), [Batch.from_rows([([0], [1.0])], labels=[1])]).loss, 4)
    0.6931
    """
    return _watched(Loop(learner, batches, skip_refused=skip_refused, learns=False), watch)


def _watched(loop: Loop, watch: OnBatch | None) -> Pass:
    with loop:
        for _ in loop:
            if watch is not None:
                watch(loop.metrics)
    return loop.result()


class _Scorer:
    """Scores a batch on a second thread, while the next one is learned."""

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

    def close(self, *, failed: bool) -> None:
        self._pool.shutdown()
        if not failed:
            self.wait()


def finite(figures: dict[str, float]) -> dict[str, float | None]:
    """Figures for JSON: nan and infinity become null."""
    return {name: value if math.isfinite(value) else None for name, value in figures.items()}
