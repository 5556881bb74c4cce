"""The paper's protocol: contenders, rows, and how a cell of a table is measured.

A cell is one contender on one split of one source. Its settings are chosen on the validation part,
it learns the training part in one pass, and the test part is measured once. Features are counted
on the training part only. Models that start from a seed are repeated.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pqrlearn import hyper
from pqrlearn.hyper import Settings
from pqrlearn.journal import Journal, key_of
from pqrlearn.paper.printed import ORDERS, RATINGS
from pqrlearn.paper.sources import Source
from pqrlearn.progressive import evaluate
from pqrlearn.separation import Counts
from pqrlearn.tune import Task, chunks, tune

Result = dict[str, Any]
SCALES = {"none": None, "default": hyper.INTERACTION_SCALE}
"""Interaction scales of PQR: none, as in the paper, and our default."""
_COST = {"lr": 1, "pqr": 4, "fm": 6, "difacto": 8, "cfm": 200, "ccfm": 150}
"""Rough cost of learning a row, to schedule work and to estimate the time left."""


@dataclass(frozen=True)
class Plan:
    """The amount of work; the report states all of it."""

    splits: int = 5
    repeats: int = 20
    """Seeds per split, for models that start from one."""
    trials: int = 81
    costly_trials: int = 27
    """Trials of CFM and CCFM, which are tuned on the first split only."""
    study_trials: int = 27
    timings: int = 7
    seed: int = 1
    """Seed of the first split; the others follow."""

    def settings(self) -> dict[str, int]:
        return asdict(self)


FULL = Plan()
QUICK = Plan(splits=2, repeats=3, trials=18, costly_trials=6, study_trials=9, timings=3)


@dataclass(frozen=True)
class Contender:
    """One row of a table: a learner, its fixed settings, and its column in the paper."""

    title: str
    kind: str
    order: int | None = None
    fixed: Settings = field(default_factory=Settings)
    printed: str | None = None

    @property
    def random(self) -> bool:
        """Whether it starts from a seed."""
        return self.kind in ("fm", "difacto")

    @property
    def costly(self) -> bool:
        return self.kind in ("cfm", "ccfm")


def pqr(order: int, scale: str, printed: str | None = None) -> Contender:
    fixed: Settings = {"interaction_scale": SCALES[scale]}
    return Contender(f"PQR k={order} ({scale})", "pqr", order, fixed, printed)


def contenders(data: str) -> list[Contender]:
    """The contenders on a data set: the paper's models, and both forms of PQR."""
    found = [Contender("LR", "lr", printed="lr"), Contender("FM", "fm", printed="fm")]
    if data in RATINGS:
        # Steps of the matrix take most of the time.
        ball: Settings = {"block_rows": 256 if data == "ml-100k" else 1024}
        found += [
            Contender("CFM", "cfm", fixed=ball, printed="cfm"),
            Contender("CCFM", "ccfm", fixed=ball),
        ]
    found.append(Contender("DiFacto", "difacto", printed="difacto"))
    for scale in SCALES:
        found += [pqr(k, scale, f"pqr {k}") for k in ORDERS[data]]
    return found


@dataclass(frozen=True)
class Cell:
    """A contender on a split; `settings` if they are known from another split."""

    source: Source
    contender: Contender
    split: int
    trials: int
    repeats: int
    settings: Settings | None = None

    def key(self) -> str:
        mine = [asdict(self.contender), self.split, self.trials, self.repeats, self.settings]
        return key_of("cell", self.source.name, self.source.rows().digest, *mine)

    def task(self) -> Task:
        """The tuning task; features are counted on the training part only."""
        parts, mine = self.source.parts(self.split), self.contender
        separation = None
        if mine.order is not None:
            separation = Counts.of(parts.train).separate(order=mine.order)
        loss = self.source.rows().loss
        return Task(mine.kind, loss, parts.train, parts.validation, mine.fixed, separation)

    def cost(self) -> float:
        """Rough cost of learning, in rows of LR."""
        passes = self.repeats + (0 if self.settings else self.trials / 3)
        return passes * len(self.source.rows().batch) * _COST[self.contender.kind]


def cell(plan: Plan, source: Source, contender: Contender, split: int, **known: Any) -> Cell:
    """The cell of a plan; splits are numbered from 0."""
    trials = plan.costly_trials if contender.costly else plan.trials
    repeats = plan.repeats if contender.random else 1
    return Cell(source, contender, plan.seed + split, trials, repeats, **known)


def measure(cell: Cell, trials: Path | None = None) -> Result:
    """Chooses settings, learns, and measures the test part once per seed.

    Trials of costly models are stored in the journal `trials`, because a cell may take minutes.
    """
    task, test = cell.task(), cell.source.parts(cell.split).test
    chosen, validation = cell.settings, None
    if chosen is None:
        journal = Journal(trials if cell.contender.costly else None)
        tuned = tune(task, trials=cell.trials, journal=journal)
        chosen, validation = tuned.settings, tuned.score
    tests = []
    for seed in range(1, cell.repeats + 1):
        learner = task.trained(chosen | ({"seed": seed} if cell.contender.random else {}))
        figures = evaluate(learner, chunks(test)).figures
        tests.append({measure: figures[measure] for measure in cell.source.rows().measures})
    return {
        "settings": chosen,
        "validation": validation,
        "tests": tests,
        "nonzeros": sum(learner.nonzeros().values()),
        "order": task.separation.order if task.separation else None,
        "truth": cell.source.parts(cell.split).truth,
    }
