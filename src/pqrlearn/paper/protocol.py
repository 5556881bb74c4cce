"""The paper's protocol: contenders, and how a cell of a table is measured.

A cell is one contender on one split of one source. Its settings are chosen on the validation part,
it learns the training part in one pass, and the test part is measured once. Features are counted
on the training part only. Models that start from a seed are repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pqrlearn import hyper
from pqrlearn.journal import Journal, key_of
from pqrlearn.learners import Auto
from pqrlearn.paper.printed import ORDERS, RATINGS
from pqrlearn.paper.sources import Source
from pqrlearn.progressive import evaluate
from pqrlearn.tune import Chosen, Task, chunks, tune

Result = dict[str, Any]
SCALES = {"none": None, "default": hyper.INTERACTION_SCALE}
"""Interaction scales of PQR: none, as in the paper, and our default."""
BLOCK_ROWS = {"ml-1m": 512, "ml-10m": 512}
"""Rows from one matrix step of CFM and CCFM to the next, where the default takes too long."""
_COST = {"auto": 15, "lr": 1, "pqr": 4, "fm": 12, "difacto": 12, "cfm": 400, "ccfm": 350}
"""Rough cost of learning a row, to schedule work and to estimate the time left."""


@dataclass(frozen=True)
class Contender:
    """One row of a table: a learner, its fixed settings, and its column in the paper."""

    title: str
    kind: str
    fixed: Chosen = field(default_factory=dict)
    printed: str | None = None

    @property
    def order(self) -> int | None:
        """The order of PQR; None if it is searched."""
        return self.fixed.get("order")

    @property
    def random(self) -> bool:
        """Whether it starts from a seed."""
        return self.kind in ("fm", "difacto")

    @property
    def costly(self) -> bool:
        return self.kind in ("cfm", "ccfm")


def pqr(order: int, scale: str, printed: str | None = None) -> Contender:
    fixed: Chosen = {"order": order, "interaction_scale": SCALES[scale]}
    return Contender(f"PQR k={order} ({scale})", "pqr", fixed, printed)


def contenders(data: str) -> list[Contender]:
    """The contenders on a data set: the paper's models, both forms of PQR at the paper's orders,
    PQR with the order searched too, and the learner that tunes itself."""
    found = [
        Contender("LR", "lr", printed="lr"),
        Contender("FM (AdaGrad)", "fm", printed="fm"),
        Contender("FM (OGD + l1, as the paper)", "fm", {"optimizer": "sgd"}, "fm"),
    ]
    if data in RATINGS:
        ball: Chosen = {"block_rows": BLOCK_ROWS[data]} if data in BLOCK_ROWS else {}
        found += [Contender("CFM", "cfm", ball, "cfm"), Contender("CCFM", "ccfm", ball)]
    found.append(Contender("DiFacto", "difacto", printed="difacto"))
    for scale in SCALES:
        found += [pqr(k, scale, f"pqr {k}") for k in ORDERS[data]]
    every: Chosen = {"order": hyper.MAX_ORDER, "interaction_scale": None}
    return [
        *found,
        Contender("PQR all features high (none)", "pqr", every),
        Contender("PQR best k (none)", "pqr", {"interaction_scale": None}),
        Contender("PQR best k, own rate of interactions", "pqr"),
        Contender("Auto, untouched", "auto"),
    ]


@dataclass(frozen=True)
class Cell:
    """A contender on a split; `settings` if they are known from another split."""

    source: Source
    contender: Contender
    split: int
    trials: int
    repeats: int
    settings: Chosen | None = None

    @property
    def fixed(self) -> Chosen:
        """The contender's settings. Orders from the number of features on are one model."""
        given, order = self.contender.fixed, self.contender.order
        return given if order is None else given | {"order": min(order, self.source.features())}

    def key(self) -> str:
        mine = [self.contender.kind, self.fixed, self.split, self.trials, self.repeats]
        return key_of("cell", self.source.name, self.source.rows().digest, *mine, self.settings)

    def task(self) -> Task:
        """The tuning task; features are counted on the training part only."""
        parts, mine = self.source.parts(self.split), self.contender
        loss = self.source.rows().loss
        return Task(mine.kind, loss, parts.train, parts.validation, self.fixed)

    def cost(self) -> float:
        """Rough cost of learning, in rows of LR."""
        passes = self.repeats + (self.trials / 2 if self.settings is None else 0)
        return passes * len(self.source.rows().batch) * _COST[self.contender.kind]


def measure(cell: Cell, trials: Path | None = None) -> Result:
    """Chooses settings, learns, and measures the test part once per seed.

    Trials of costly models are stored in the journal `trials`, because a cell may take minutes.
    """
    task, test = cell.task(), cell.source.parts(cell.split).test
    chosen, validation, edges = cell.settings, None, {}
    if chosen is None:
        journal = Journal(trials if cell.contender.costly else None)
        tuned = tune(task, trials=cell.trials, journal=journal)
        chosen, validation, edges = tuned.settings, tuned.score, tuned.edges
    tests, separation = [], task.separation(chosen)
    for seed in range(1, cell.repeats + 1):
        learner = task.trained(chosen | ({"seed": seed} if cell.contender.random else {}))
        figures = evaluate(learner, chunks(test)).metrics
        tests.append({measure: figures[measure] for measure in cell.source.rows().measures})
    return {
        "settings": chosen,
        "edges": edges,
        "validation": validation,
        "tests": tests,
        "nonzeros": sum(learner.nonzeros().values()),
        "order": separation.order if separation else None,
        "auto": _about(learner, task) if isinstance(learner, Auto) else None,
    }


def _about(learner: Auto, task: Task) -> dict[str, Any]:
    """What Auto found out, and how many of the features that rose are among the most frequent."""
    rose, frequent = learner.high, task.counts.separate(order=len(learner.high)).features
    share = float(np.isin(rose, frequent).mean()) if len(rose) else 0.0
    return learner.summary() | {"frequent": share}
