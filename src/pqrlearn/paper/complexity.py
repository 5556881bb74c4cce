"""The paper's complexity table, and the measured cost of a row against each of its variables.

Rows are one-hot, from the simulated click stream: s of d features are 1. Every cell is the median
processor time of a few passes over the same rows in memory, with models taking turns.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.hyper import Settings
from pqrlearn.learners import make
from pqrlearn.paper.printed import COMPLEXITY
from pqrlearn.paper.tables import Table
from pqrlearn.paper.work import Workspace
from pqrlearn.rows import Batch
from pqrlearn.separation import Counts

ROWS, ROUNDS = 20_000, 3
GRID = {
    "d": (10_000, 100_000, 1_000_000),
    "s": (8, 16, 32),
    "m": (4, 16, 64),
    "k": (100, 1_000, 10_000),
}
NAMES = {
    "d": "d, features",
    "s": "s, non-zeros of a row",
    "m": "m, rank",
    "k": "k, order",
}


@dataclass(frozen=True)
class Shape:
    """Rows with s of d features, rank m, order k."""

    d: int = 100_000
    s: int = 16
    m: int = 8
    k: int = 1_000

    def rows(self) -> Batch:
        return ClickStream(fields=self.s, features=self.d, click_rate=0.2).batch(0, ROWS)


DEPENDS_ON = {"lr": "ds", "fm": "dsm", "difacto": "dsm", "pqr": "dsk"}
"""Which variables each model depends on."""


def tables(workspace: Workspace) -> list[Table]:
    printed = [[name, *cells] for name, cells in COMPLEXITY.items()]
    columns = ["", "time", "space"]
    note = "n rows of d features, rank m, order k; a sparse row costs its s non-zeros, not d"
    paper = Table(
        "complexity paper", "Complexity, as the paper prints it", columns, printed, [note]
    )
    return [paper, *(_measured(workspace, letter) for letter in GRID)]


def _measured(workspace: Workspace, letter: str) -> Table:
    """Microseconds per row and non-zero weights, against one variable."""
    kinds = [kind for kind, letters in DEPENDS_ON.items() if letter in letters]
    lines, data = [], []
    for at, value in enumerate(GRID[letter], 1):
        shape = replace(Shape(), **{letter: value})
        found = _costs(shape, kinds)
        data.append({letter: value, "models": found})
        cells = [f"{found[kind]['microseconds']:.2f}" for kind in kinds]
        sizes = [f"{found[kind]['nonzeros']:,}" for kind in kinds]
        lines.append([f"{letter} = {value:,}", *cells, *sizes])
        workspace.watch(at / len(GRID[letter]), f"cost against {NAMES[letter]}")
    shown = [kind.upper() if kind != "difacto" else "DiFacto" for kind in kinds]
    columns = ["", *(f"{kind} µs/row" for kind in shown), *(f"{kind} non-zeros" for kind in shown)]
    base = Shape()
    others = ", ".join(f"{x} = {getattr(base, x):,}" for x in GRID if x != letter)
    title = f"Measured against {NAMES[letter]} ({others})"
    return Table(f"complexity {letter}", title, columns, lines, data=data)


def _costs(shape: Shape, kinds: list[str]) -> dict[str, dict[str, Any]]:
    rows = shape.rows()
    separation = Counts.of(rows).separate(order=shape.k)
    settings: dict[str, Settings] = {
        "fm": {"rank": shape.m},
        "difacto": {"tiers": ((1, shape.m),)},
    }
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    nonzeros = {}
    for _ in range(ROUNDS):
        for kind in kinds:
            learner = make(kind, "logistic", settings.get(kind, {}), separation)
            start = time.process_time()
            learner.learn_margins(rows)
            seconds[kind].append(time.process_time() - start)
            nonzeros[kind] = sum(learner.nonzeros().values())
    return {
        kind: {"microseconds": 1e6 * median(seconds[kind]) / ROWS, "nonzeros": nonzeros[kind]}
        for kind in kinds
    }
