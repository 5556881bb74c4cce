"""Tuning on a validation part: random settings, successive halving, then settings near the best.

The first trials are the defaults of a learner and what was good elsewhere (spaces.py); they learn
all training rows in one pass. Half of the others are spread evenly over the whole space. They learn
the first 1/27 of the rows, the best third learns three times as many, and so on, until the best
learn all rows. The rest is drawn in rounds near the best so far, closer from round to round, and
learns a third of the rows, or all of them.
Decision 18 has the measurements behind this.

The trials, and so the result, depend on a seed. Finished trials are in a journal, so a search that
was stopped resumes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from pqrlearn import spaces
from pqrlearn.errors import DataError, RefusedRow
from pqrlearn.hyper import Settings
from pqrlearn.journal import Journal, key_of
from pqrlearn.learners import LR, PQR, Learner, check_settings, make
from pqrlearn.learners.build import settings_of, unused
from pqrlearn.loss import check_loss, loss_named
from pqrlearn.progressive import evaluate
from pqrlearn.readers import AnyPath, Inputs, Reading, at_most, read_inputs
from pqrlearn.rows import Batch, FloatArray
from pqrlearn.separation import Counts, Separation

Chosen = dict[str, Any]
"""Settings of a learner and, for PQR, its order."""
_Scored = tuple[float, FloatArray]
OnTrial = Callable[[float, float], None]
"""Called after every trial with the share of the work that is done and the best score so far."""

KEEP = 3  # one in three trials goes on to the next rung
RUNGS, NEAR_RUNGS = 4, 2
ROUNDS, WIDTH, NARROWER = 8, 0.15, 0.85  # of the trials near the best
TRIALS = {
    "auto": 1,
    "lr": 216,
    "pqr": 216,
    "qr": 216,
    "fm": 216,
    "difacto": 216,
    "cfm": 54,
    "ccfm": 54,
}
"""So many that twice as many gain less than 0.0005 RMSE or 0.0003 LogLoss on validation rows: see
docs/paper.md."""
SQUARED_TRIALS = TRIALS | dict.fromkeys(("lr", "pqr", "qr", "fm", "difacto"), 108)
"""For squared loss half as many do, but not for plain gradient descent."""
CHUNK_ROWS = 2**16  # learned in one call: Ctrl-C works between two calls


@dataclass(frozen=True)
class Trial:
    """Settings, the number of rows learned with them, and the validation loss (inf: diverged)."""

    settings: Chosen
    rows: int
    score: float


@dataclass(frozen=True)
class Tuned:
    """The winner, every trial in the order of the search, and what is at an edge of its range."""

    kind: str
    settings: Chosen
    score: float
    trials: list[Trial]
    edges: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TuneConfig:
    """What to tune, on which rows, and how long to search.

    Fields have the names of the options of `pqr tune`. `settings` are fixed, all others of the
    model are searched, for PQR its order too. Trials are compared on the last share of the rows,
    `validation`.
    """

    inputs: tuple[AnyPath, ...]
    model: str = PQR.kind
    loss: str | None = None
    order: int | None = None
    settings: Settings = field(default_factory=Settings)
    reading: Reading = field(default_factory=Reading)
    rows: int | None = None
    shuffle: int | None = None
    validation: float = 0.1
    trials: int | None = None
    seed: int = 0
    cache: AnyPath | None = None
    jobs: int = 1

    def __post_init__(self) -> None:
        check_settings(self.model, self.settings)
        check_loss(self.loss or "logistic")
        if self.order is not None and self.model != PQR.kind:
            raise unused("order", self.model, [PQR.kind])

    def task(self) -> Task:
        """Reads the rows and splits them. Features are counted on the training part only."""
        inputs = read_inputs(self.inputs, self.reading, loss=check_loss(self.loss or "logistic"))
        loss = self._loss(inputs)
        rows = Batch.joined(inputs if self.rows is None else at_most(inputs, self.rows))
        if self.shuffle is not None:
            rows = rows.take(np.random.default_rng(self.shuffle).permutation(len(rows)))
        cut = len(rows) - max(1, round(self.validation * len(rows)))
        if cut < 1:
            raise DataError(f"{len(rows)} rows are too few for a training and a validation part")
        fixed: Chosen = {**self.settings} | ({} if self.order is None else {"order": self.order})
        return Task(self.model, loss, rows.part(0, cut), rows.part(cut, len(rows)), fixed)

    def _loss(self, inputs: Inputs) -> str:
        """The loss; if none is given, the labels of a table tell which one fits."""
        suggested = None if self.loss else inputs.suggested_loss()
        if suggested is not None:
            inputs.use_loss(check_loss(suggested))
        return suggested or self.loss or "logistic"

    def journal(self) -> Journal:
        return Journal(None if self.cache is None else Path(self.cache) / "trials.jsonl")


@dataclass(frozen=True)
class Task:
    """What to tune: the kind of learner, the rows to learn, and those to validate on.

    `fixed` settings are not searched; those of PQR may have an `order`. `TuneConfig` makes one from
    files.

    >>> rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 50, labels=[1, 0] * 50)
    >>> Task("lr", "logistic", rows.part(0, 90), rows.part(90, 100), fixed={}).trained({}).rows
    90
    """

    kind: str
    loss: str
    train: Batch
    validation: Batch
    fixed: Chosen

    def key(self) -> str:
        return key_of(self.kind, self.loss, self.train.digest(), self.validation.digest())

    @cached_property
    def counts(self) -> Counts:
        """Of the training part."""
        return Counts.of(self.train)

    @cached_property
    def _separations(self) -> dict[int | None, Separation]:
        return {}

    def separation(self, settings: Mapping[str, Any]) -> Separation | None:
        """The high features of PQR; without an order, as many as the paper suggests."""
        if self.kind != PQR.kind:
            return None
        order, known = settings.get("order"), self._separations
        if order not in known:
            known[order] = self.counts.separate(order=order)
        return known[order]

    def space(self) -> dict[str, spaces.Axis]:
        """What is searched."""
        given = cast(Settings, self.fixed)
        axes = spaces.space(self.kind, self.loss, given)
        if self.kind == PQR.kind and "order" not in self.fixed and self.counts.distinct:
            axes["order"] = spaces.order_axis(self.counts.distinct)
        return axes

    def default(self) -> Chosen:
        """All settings as they are by default, beside those that are fixed."""
        settings: Chosen = {**settings_of(self._learner(self.fixed))}
        for name in ("eta", "l2"):  # where factors have no rate of their own
            if f"factor_{name}" in settings and settings[f"factor_{name}"] is None:
                settings[f"factor_{name}"] = settings[name]
        if self.kind == PQR.kind:
            settings["order"] = self.fixed.get("order", self.counts.default_order())
        return settings

    def _learner(self, settings: Mapping[str, Any]) -> Learner:
        own = cast(Settings, {name: settings[name] for name in settings if name != "order"})
        return make(self.kind, self.loss, own, self.separation(settings))

    def trained(self, settings: Mapping[str, Any], rows: int | None = None) -> Learner:
        """A learner after one pass over the first `rows`; by default all."""
        learner = self._learner(settings)
        for part in chunks(self.train.part(0, len(self.train) if rows is None else rows)):
            learner.learn_margins(part)
        return learner

    def figures(self, settings: Mapping[str, Any], rows: int | None = None) -> dict[str, float]:
        """What a learner shows on the validation part, after one pass over the first `rows`."""
        return evaluate(self.trained(settings, rows), chunks(self.validation)).metrics

    def score(self, settings: Mapping[str, Any], rows: int | None = None) -> float | None:
        """The validation loss after one pass over the first `rows`; None if it diverged."""
        try:
            loss = self.figures(settings, rows)[loss_named(self.loss).metrics.key]
        except RefusedRow:
            return None
        return loss if math.isfinite(loss) else None

    def yardsticks(self) -> dict[str, float | None]:
        """Validation losses to compare a result with: of the defaults, of LR's defaults, and of the
        best constant in hindsight."""
        linear = Task(LR.kind, self.loss, self.train, self.validation, {})
        figures = linear.figures({}, 0)
        return {
            "default": self.score(self.fixed),
            "lr": linear.score({}),
            "constant": figures[f"constant_{loss_named(self.loss).metrics.key}"],
        }


def trials_of(kind: str, loss: str, fixed: Mapping[str, Any]) -> int:
    """How many trials a model needs.

    >>> trials_of("fm", "squared", {}), trials_of("fm", "squared", {"optimizer": "sgd"})
    (108, 216)
    """
    few = loss == "squared" and fixed.get("optimizer") != "sgd"
    return (SQUARED_TRIALS if few else TRIALS)[kind]


def chunks(batch: Batch) -> Iterator[Batch]:
    for start in range(0, len(batch), CHUNK_ROWS):
        yield batch.part(start, min(start + CHUNK_ROWS, len(batch)))


def tune(
    task: Task,
    *,
    trials: int | None = None,
    seed: int = 0,
    journal: Journal | None = None,
    jobs: int = 1,
    watch: OnTrial | None = None,
) -> Tuned:
    """Searches the space of the learner's kind for the best settings on the whole training part.

    `trials` is the number of settings to try; by default what the kind needs. `jobs` of them run at
    a time, on threads: native learners release the GIL while they learn.

    >>> rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 500, labels=[1, 0] * 500)
    >>> task = Task("lr", "logistic", rows.part(0, 900), rows.part(900, 1000), fixed={"l1": 0.0})
    >>> best = tune(task, trials=9)
    >>> sorted(best.settings), best.score < 0.1
    (['alpha', 'beta', 'l1', 'l2'], True)
    """
    space = task.space()
    count = trials or trials_of(task.kind, task.loss, task.fixed)
    if not space:
        count = 1
    each = count // 2 // ROUNDS
    few = count - each * ROUNDS
    start = spaces.start_points(task.kind, space, task.default())[:few]
    spread = spaces.random_points(len(space), few - len(start), seed)
    plan = [(len(start), 1), (len(spread), RUNGS), *[(each, NEAR_RUNGS)] * ROUNDS]
    search = _Search(task, space, journal or Journal(None), jobs, watch, plan)
    score, winner = search.halved(start, 1)
    if spread:
        score, winner = _better((score, winner), search.halved(spread, RUNGS))
    for turn in range(ROUNDS if each else 0):
        width = WIDTH * NARROWER**turn
        around = [spaces.near(winner, width, [seed, turn, at]) for at in range(each)]
        score, winner = _better((score, winner), search.halved(around, NEAR_RUNGS))
    settings = search.settings(winner)
    return Tuned(task.kind, settings, score, search.done, spaces.edges(space, settings))


def _better(a: _Scored, b: _Scored) -> _Scored:
    return b if b[0] < a[0] else a


class _Search:
    """Runs the trials, rung by rung."""

    def __init__(
        self,
        task: Task,
        space: spaces.Space,
        journal: Journal,
        jobs: int,
        watch: OnTrial | None,
        plan: Sequence[tuple[int, int]],
    ) -> None:
        self.task, self.space, self.journal = task, space, journal
        self.jobs, self.watch = jobs, watch
        self.done: list[Trial] = []
        self._key = task.key()
        self._cost = sum(self._rows(trials, rungs) for trials, rungs in plan)
        self._learned = 0
        self._best = math.inf

    def settings(self, point: FloatArray) -> Chosen:
        return {**self.task.fixed, **spaces.settings_at(self.space, point)}

    def halved(self, alive: list[FloatArray], rungs: int) -> _Scored:
        """Runs points on ever more rows; the best of those that learned all, with its score."""
        for rows in self._sizes(rungs):
            trials = self._rung([self.settings(point) for point in alive], rows)
            self.done += trials
            ranked = sorted((trial.score, at) for at, trial in enumerate(trials))
            alive = [alive[at] for _, at in ranked[: -(-len(ranked) // KEEP)]]
        return ranked[0][0], alive[0]

    def _sizes(self, rungs: int) -> list[int]:
        rows = len(self.task.train)
        return [max(1, rows // KEEP ** (rungs - 1 - rung)) for rung in range(rungs)]

    def _rows(self, trials: int, rungs: int) -> int:
        """How many rows a call of `halved` learns."""
        total = 0
        for size in self._sizes(rungs):
            total += trials * size
            trials = -(-trials // KEEP)
        return total

    def _rung(self, alive: Sequence[Chosen], rows: int) -> list[Trial]:
        """Runs the trials of a rung; each is in the journal as soon as it ends."""
        with ThreadPoolExecutor(self.jobs) as pool:
            work = [pool.submit(self._trial, settings, rows) for settings in alive]
            try:
                for future in as_completed(work):
                    self._report(rows, future.result().score)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return [future.result() for future in work]

    def _trial(self, settings: Chosen, rows: int) -> Trial:
        key = key_of(self._key, settings, rows)
        score = self.journal.once(key, lambda: self.task.score(settings, rows))
        return Trial(settings, rows, math.inf if score is None else score)

    def _report(self, rows: int, score: float) -> None:
        self._learned += rows
        self._best = min(self._best, score)
        if self.watch is not None:
            self.watch(min(1.0, self._learned / self._cost), self._best)
