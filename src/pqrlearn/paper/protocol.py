"""The paper's protocol: who takes part, on which rows, and how a cell of a table is measured.

A cell is one contender on one split of one source. Its settings are chosen on the validation part,
it learns the training part in one pass, and the test part is measured once. Counting for a
separation sees the training part only. Models that start from a seed do so several times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pqrlearn import hyper
from pqrlearn.journal import Journal, key_of
from pqrlearn.paper.printed import ORDERS, RATINGS
from pqrlearn.paper.sources import Source
from pqrlearn.progressive import evaluate
from pqrlearn.separation import Counts
from pqrlearn.tune import Settings, Task, chunks, tune

Result = dict[str, Any]
SCALES = {"none": None, "default": hyper.INTERACTION_SCALE}
"""Of PQR: the paper's products as they are, and ours."""
_COST = {"lr": 1, "pqr": 4, "fm": 6, "difacto": 8, "cfm": 200, "ccfm": 150}
"""Roughly, of learning a row: for the order of work and the time that is left."""


@dataclass(frozen=True)
class Plan:
    """How much is done. Everything here is said in the report."""

    splits: int = 5
    repeats: int = 20
    """Seeds of models that start from one, on every split."""
    trials: int = 81
    costly_trials: int = 27
    """Of CFM and CCFM, which are tuned on the first split only."""
    study_trials: int = 27
    timings: int = 7
    seed: int = 1
    """Of the first split; the others follow."""

    def settings(self) -> dict[str, int]:
        return asdict(self)


FULL = Plan()
QUICK = Plan(splits=2, repeats=3, trials=18, costly_trials=6, study_trials=9, timings=3)


@dataclass(frozen=True)
class Contender:
    """One row of a table: a learner, what of it is not searched, and its column in the paper."""

    title: str
    kind: str
    order: int | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    printed: str | None = None

    @property
    def random(self) -> bool:
        """Whether it starts from a seed."""
        return self.kind in ("fm", "difacto")

    @property
    def costly(self) -> bool:
        return self.kind in ("cfm", "ccfm")


def pqr(order: int, scale: str, printed: str | None = None) -> Contender:
    fixed = {"interaction_scale": SCALES[scale]}
    return Contender(f"PQR k={order} ({scale})", "pqr", order, fixed, printed)


def contenders(data: str) -> list[Contender]:
    """Who takes part on a data set: the paper's models, and both forms of PQR."""
    found = [Contender("LR", "lr", printed="lr"), Contender("FM", "fm", printed="fm")]
    if data in RATINGS:
        # The matrix steps every so many rows, and steps are what takes time.
        ball = {"block_rows": 256 if data == "ml-100k" else 1024}
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
    """A contender on a split; `settings` when they are known from another split."""

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
        """What is to be tuned; the separation is counted on the training part only."""
        parts, mine = self.source.parts(self.split), self.contender
        separation = None
        if mine.order is not None:
            separation = Counts.of(parts.train).separate(order=mine.order)
        loss, fixed = self.source.rows().loss, dict(mine.fixed)
        return Task(mine.kind, loss, parts.train, parts.validation, fixed, separation)

    def cost(self) -> float:
        """Of learning, roughly, in rows of LR."""
        passes = self.repeats + (0 if self.settings else self.trials / 3)
        return passes * len(self.source.rows().batch) * _COST[self.contender.kind]


def cell(plan: Plan, source: Source, contender: Contender, split: int, **known: Any) -> Cell:
    """The cell of a plan; splits are numbered from 0."""
    trials = plan.costly_trials if contender.costly else plan.trials
    repeats = plan.repeats if contender.random else 1
    return Cell(source, contender, plan.seed + split, trials, repeats, **known)


def measure(cell: Cell, trials: Path | None = None) -> Result:
    """Chooses settings, learns, and measures the test part once for every seed.

    Trials of costly models are kept in the journal `trials`, as one cell may take minutes.
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
