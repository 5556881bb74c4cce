"""Tuning on a validation part, by successive halving on growing prefixes.

Every trial learns the first ninth of the training rows in one pass; the best third of the trials
learns the first third of the rows, and the best third of those learns all rows. The trials, and so
the result, depend on a seed. Finished trials are in a journal, so a search that was stopped
resumes.

The grids are within the ranges of the paper: rates and regularisation from 0.0001 to 10, ranks from
2 to 128 for ratings (the paper: 512) and from 4 to 64 for clicks. The radius of CFM and CCFM, which
the paper does not give, is from 5 to 500.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from pqrlearn.errors import DataError, RefusedRow
from pqrlearn.hyper import Settings
from pqrlearn.journal import Journal, key_of
from pqrlearn.learners import PQR, Learner, check_settings, make
from pqrlearn.learners.build import unused
from pqrlearn.loss import check_loss, loss_named
from pqrlearn.progressive import evaluate
from pqrlearn.readers import AnyPath, at_most, read
from pqrlearn.rows import Batch
from pqrlearn.separation import Counts, Separation

Grid = dict[str, Sequence[Any]]
OnTrial = Callable[[float, float], None]
"""Called after every trial with the share of the work that is done and the best score so far."""

KEEP = 3  # one in three trials goes on to the next rung
TRIALS = 27
RUNGS = 3
CHUNK_ROWS = 2**16  # learned in one call: Ctrl-C works between two calls

RATES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
PENALTIES = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
SMALL_PENALTIES = (1e-4, 1e-3, 1e-2, 0.1)
CLICK_RANKS, RATING_RANKS = (4, 8, 16, 32, 64), (2, 4, 8, 16, 32, 64, 128)
SCALES = (None, 0.3, 1.0, 3.0)


def space(kind: str, loss: str) -> Grid:
    """The values to try for each setting."""
    ftrl: Grid = {"alpha": RATES, "l1": PENALTIES, "l2": PENALTIES}
    ball: Grid = {
        "radius": (5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0),
        "eta": (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
    }
    ranks = CLICK_RANKS if loss_named(loss).metrics.ranks else RATING_RANKS
    factors: Grid = {"factor_eta": RATES, "factor_l2": PENALTIES}
    spaces: dict[str, Grid] = {
        "auto": {},  # it tunes itself
        "lr": ftrl,
        "pqr": {**ftrl, "interaction_scale": SCALES},
        "qr": {**ftrl, "interaction_scale": SCALES},
        "fm": {
            "eta": RATES,
            "l1": SMALL_PENALTIES,
            "l2": SMALL_PENALTIES,
            **factors,
            "rank": ranks,
        },
        "difacto": {**ftrl, **factors, "tiers": tuple(map(tiers_of, ranks))},
        "cfm": {"alpha": RATES, "l2": PENALTIES, **ball},
        "ccfm": ball,
    }
    return spaces[kind]


def tiers_of(rank: int) -> tuple[tuple[int, int], ...]:
    """Tiers of DiFacto for a largest rank: a quarter of it from 10 rows on, half from 100 on."""
    steps = [(10, rank // 4), (100, rank // 2), (1000, rank)]
    return tuple((count, size) for count, size in steps if size)


def points(grid: Grid, trials: int, seed: int) -> list[Settings]:
    """Settings to try, spread evenly: all values of an axis are used before one repeats.

    More trials start with the same settings as fewer.

    >>> points({"alpha": (0.1, 0.2), "l2": (1, 2, 3)}, 2, seed=0)
    [{'alpha': 0.1, 'l2': 3}, {'alpha': 0.2, 'l2': 1}]
    """
    columns = {}
    for at, (name, values) in enumerate(grid.items()):
        generator = np.random.default_rng([seed, at])
        rounds = -(-trials // len(values))
        order = [int(i) for _ in range(rounds) for i in generator.permutation(len(values))]
        columns[name] = [values[i] for i in order[:trials]]
    rows = zip(*columns.values(), strict=True)
    found = [cast(Settings, dict(zip(columns, row, strict=True))) for row in rows]
    return [point for at, point in enumerate(found) if point not in found[:at]]


@dataclass(frozen=True)
class Trial:
    """Settings, the number of rows learned with them, and the validation loss (inf: diverged)."""

    settings: Settings
    rows: int
    score: float


@dataclass(frozen=True)
class Tuned:
    """The winner, and every trial in the order of the search."""

    kind: str
    settings: Settings
    score: float
    trials: list[Trial]


@dataclass(frozen=True, kw_only=True)
class TuneConfig:
    """What to tune, on which rows, and how long to search.

    Fields have the names of the options of `pqr tune`. `settings` are fixed, all others of the
    model are searched. Trials are compared on the last share of the rows, `validation`.
    """

    inputs: tuple[AnyPath, ...]
    model: str = PQR.kind
    loss: str | None = None
    order: int | None = None
    settings: Settings = field(default_factory=Settings)
    rows: int | None = None
    shuffle: int | None = None
    validation: float = 0.1
    trials: int = TRIALS
    seed: int = 0
    cache: AnyPath | None = None
    jobs: int = 1

    def __post_init__(self) -> None:
        check_settings(self.model, self.settings)
        check_loss(self.loss or "logistic")
        if self.order is not None and self.model != PQR.kind:
            raise unused("order", self.model, [PQR.kind])

    def task(self) -> Task:
        """Reads the rows and splits them. A separation is counted on the training part only."""
        loss = check_loss(self.loss or "logistic")
        batches = read(self.inputs, loss=loss)
        rows = Batch.joined(batches if self.rows is None else at_most(batches, self.rows))
        if self.shuffle is not None:
            rows = rows.take(np.random.default_rng(self.shuffle).permutation(len(rows)))
        cut = len(rows) - max(1, round(self.validation * len(rows)))
        if cut < 1:
            raise DataError(f"{len(rows)} rows are too few for a training and a validation part")
        train, separation = rows.part(0, cut), None
        if self.model == PQR.kind:
            separation = Counts.of(train).separate(order=self.order)
        return Task(self.model, loss, train, rows.part(cut, len(rows)), self.settings, separation)

    def journal(self) -> Journal:
        return Journal(None if self.cache is None else Path(self.cache) / "trials.jsonl")


@dataclass(frozen=True)
class Task:
    """What to tune: the kind of learner, the rows to learn, and those to validate on.

    `fixed` settings are not searched; `separation` is for a learner that needs one. `TuneConfig`
    makes one from files.

    >>> rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 50, labels=[1, 0] * 50)
    >>> Task("lr", "logistic", rows.part(0, 90), rows.part(90, 100), fixed={}).trained({}).rows
    90
    """

    kind: str
    loss: str
    train: Batch
    validation: Batch
    fixed: Settings
    separation: Separation | None = None

    def key(self) -> str:
        high = [] if self.separation is None else self.separation.features.tolist()
        content = [self.train.digest(), self.validation.digest(), high]
        return key_of(self.kind, self.loss, *content)

    def trained(self, settings: Settings, rows: int | None = None) -> Learner:
        """A learner after one pass over the first `rows`; by default all."""
        learner = make(self.kind, self.loss, settings, self.separation)
        for part in chunks(self.train.part(0, len(self.train) if rows is None else rows)):
            learner.learn_margins(part)
        return learner

    def score(self, settings: Settings, rows: int) -> float | None:
        """The validation loss after one pass over the first `rows`; None if it diverged."""
        try:
            figures = evaluate(self.trained(settings, rows), chunks(self.validation)).figures
        except RefusedRow:
            return None
        loss = figures[loss_named(self.loss).metrics.key]
        return loss if math.isfinite(loss) else None


def chunks(batch: Batch) -> Iterator[Batch]:
    for start in range(0, len(batch), CHUNK_ROWS):
        yield batch.part(start, min(start + CHUNK_ROWS, len(batch)))


def tune(
    task: Task,
    *,
    trials: int = TRIALS,
    rungs: int = RUNGS,
    seed: int = 0,
    journal: Journal | None = None,
    jobs: int = 1,
    watch: OnTrial | None = None,
) -> Tuned:
    """Searches the space of the learner's kind for the best settings on the whole training part.

    `jobs` trials run at a time, on threads: native learners release the GIL while they learn.

    >>> rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 500, labels=[1, 0] * 500)
    >>> task = Task("lr", "logistic", rows.part(0, 900), rows.part(900, 1000), fixed={"l1": 0.0})
    >>> best = tune(task, trials=9)
    >>> sorted(best.settings), best.score < 0.1
    (['alpha', 'l1', 'l2'], True)
    """
    grid = {n: v for n, v in space(task.kind, task.loss).items() if n not in task.fixed}
    alive: list[Settings] = [task.fixed]
    if grid:
        alive = [{**task.fixed, **point} for point in points(grid, trials, seed)]
    rows = [max(1, len(task.train) // KEEP ** (rungs - 1 - rung)) for rung in range(rungs)]
    search = _Search(task, journal or Journal(None), jobs, watch, _cost(len(alive), rows))
    done: list[Trial] = []
    for size in rows:
        finished = search.rung(alive, size)
        done += finished
        ranked = sorted(finished, key=lambda trial: trial.score)
        alive = [trial.settings for trial in ranked[: -(-len(ranked) // KEEP)]]
    return Tuned(task.kind, ranked[0].settings, ranked[0].score, done)


def _cost(trials: int, rows: Sequence[int]) -> int:
    """How many rows a search learns in total."""
    total = 0
    for size in rows:
        total += trials * size
        trials = -(-trials // KEEP)
    return total


class _Search:
    """Runs the trials, rung by rung."""

    def __init__(
        self, task: Task, journal: Journal, jobs: int, watch: OnTrial | None, cost: int
    ) -> None:
        self.task, self.journal, self.jobs, self.watch, self.cost = task, journal, jobs, watch, cost
        self._key = task.key()
        self._learned = 0
        self._best = math.inf

    def rung(self, alive: Sequence[Settings], rows: int) -> list[Trial]:
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

    def _trial(self, settings: Settings, rows: int) -> Trial:
        key = key_of(self._key, settings, rows)
        score = self.journal.once(key, lambda: self.task.score(settings, rows))
        return Trial(settings, rows, math.inf if score is None else score)

    def _report(self, rows: int, score: float) -> None:
        self._learned += rows
        self._best = min(self._best, score)
        if self.watch is not None:
            self.watch(self._learned / self.cost, self._best)
