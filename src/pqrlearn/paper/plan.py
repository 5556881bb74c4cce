"""How much is measured: splits, seeds and trials.

What a cell gives does not depend on this file, so a larger plan reuses the cells of a smaller one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pqrlearn.paper.protocol import BLOCK_ROWS, Cell, Contender
from pqrlearn.paper.sources import Source
from pqrlearn.tune import trials_of

USUAL_SPLITS, SPLITS = 5, {"ml-1m": 3, "ml-10m": 3, "criteo": 3}
USUAL_REPEATS, REPEATS = 20, {"ml-1m": 5, "ml-10m": 5}
"""How often a data set is split, and seeds on each split; fewer where rows are many."""


@dataclass(frozen=True)
class Plan:
    """The amount of work; the report states all of it. None means as much as is usual."""

    splits: int | None = None
    repeats: int | None = None
    """Seeds per split, for models that start from one."""
    trials: int | None = None
    """Settings tried per cell; None means what each model needs (`tune.trials_of`)."""
    costly_splits: int = 2
    """Splits on which CFM and CCFM are tuned; the others use the settings of these."""
    timings: int = 7
    seed: int = 1
    """Seed of the first split; the others follow."""

    def splits_of(self, source: Source, contender: Contender | None = None) -> int:
        """The number of splits of a source; costly models have fewer on large ones."""
        usual = SPLITS.get(source.name, USUAL_SPLITS) if source.fraction is None else 1
        few = contender is not None and contender.costly and source.name in BLOCK_ROWS
        found = self.splits or usual
        return min(found, self.costly_splits) if few else found

    def repeats_of(self, source: Source) -> int:
        """Of simulated streams only time and size are shown, so one is enough."""
        usual = REPEATS.get(source.name, USUAL_REPEATS) if source.fraction is None else 1
        return self.repeats or usual


FULL = Plan()
QUICK = Plan(splits=1, repeats=3, costly_splits=1, timings=3)
"""Fewer splits and seeds, but as many trials: those that need many would lose the most."""


def cell(plan: Plan, source: Source, contender: Contender, split: int, **known: Any) -> Cell:
    """The cell of a plan; splits are numbered from 0."""
    trials = plan.trials or trials_of(contender.kind, source.rows().loss, contender.fixed)
    repeats = plan.repeats_of(source) if contender.random else 1
    return Cell(source, contender, plan.seed + split, trials, repeats, **known)
