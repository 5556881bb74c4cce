"""Which rates, first factors and rank should be the defaults of FM and DiFacto?

    PQRLEARN_DATA=... python -m benchmarks.studies.factor_defaults

One progressive pass over the first rows of each of five real data sets, for every point of a grid.
The excess of a point on a set is its loss over that of the best point there, in per cent. A default
is chosen for each set from the mean excess on the four others, so that its excess on the set itself
is what a new set can expect. Prints Markdown; docs/notes/factor-defaults.md has the result.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import click

from benchmarks.machine import circumstances
from benchmarks.measure import tell
from benchmarks.results import table
from benchmarks.studies.sets import STUDIES, rows_of
from pqrlearn.errors import RefusedRow
from pqrlearn.learners import make
from pqrlearn.progressive import learn

SETS = ("ml-100k", "ml-1m", "criteo", "avazu", "kdd2012")
ROWS = 200_000
"""Of each set, at most: no set should take most of the time."""
TIERS = {rank: ((10, rank // 4), (100, rank // 2), (1000, rank)) for rank in (8, 16, 32, 64)}
OLD: dict[str, dict[str, Any]] = {
    "fm": {"eta": 0.1, "beta": 1.0, "factor_eta": 0.02, "init": 0.02, "rank": 8},
    "difacto": {"factor_beta": 1.0, "factor_eta": 0.02, "init": 0.02, "tiers": TIERS[16]},
}
"""The defaults before this study."""
RATES = {"factor_eta": (0.01, 0.02, 0.03, 0.05, 0.08), "init": (0.02, 0.03, 0.05, 0.1)}
GRID: dict[str, dict[str, tuple[Any, ...]]] = {
    "fm": {"eta": (0.1,), "beta": (0.1, 0.3, 1.0), **RATES, "rank": (8, 16)},
    "difacto": {"factor_beta": (0.1, 0.3, 1.0), **RATES, "tiers": (TIERS[8], TIERS[16])},
}
Point = tuple[Any, ...]


def loss_of(kind: str, study: str, settings: dict[str, Any]) -> float:
    rows = rows_of(study)
    learner = make(kind, STUDIES[study].loss, settings)  # type: ignore[arg-type]
    try:
        result = learn(learner, [rows.part(0, min(ROWS, len(rows)))])
    except RefusedRow:
        return float("inf")
    return result.metrics[STUDIES[study].figure]


def excess(losses: dict[Point, dict[str, float]]) -> dict[Point, dict[str, float]]:
    """Per cent above the best point, for every set.

    >>> excess({(1,): {"a": 2.0}, (2,): {"a": 3.0}})
    {(1,): {'a': 0.0}, (2,): {'a': 50.0}}
    """
    studies = [*next(iter(losses.values()))]
    best = {study: min(found[study] for found in losses.values()) for study in studies}
    return {
        point: {study: 100 * (found[study] / best[study] - 1) for study in studies}
        for point, found in losses.items()
    }


def chosen(found: dict[Point, dict[str, float]], without: str | None = None) -> Point:
    """The point with the least mean excess on all sets but one.

    >>> chosen({(1,): {"a": 0.0, "b": 9.0}, (2,): {"a": 1.0, "b": 0.0}}, without="b")
    (1,)
    """
    return min(
        found, key=lambda point: sum(x for study, x in found[point].items() if study != without)
    )


def page(kind: str) -> str:
    """What was chosen, with and without each set, and what the rank adds."""
    names = [*GRID[kind]]
    grid = [*product(*GRID[kind].values())]
    losses: dict[Point, dict[str, float]] = {}
    for point in grid:
        settings = dict(zip(names, point, strict=True))
        losses[point] = {study: loss_of(kind, study, settings) for study in SETS}
        tell(f"{kind} {settings}")
    found = excess(losses)
    lines = []
    for study in SETS:
        point, best = chosen(found, without=study), min(found, key=lambda p: found[p][study])
        old = loss_of(kind, study, OLD[kind])
        cells = [losses[best][study], losses[point][study], losses[chosen(found)][study], old]
        lines.append([study, _words(names, point), *(f"{cell:.4f}" for cell in cells)])
    head = ["set", "chosen from the other four", "best of the grid", "chosen", "of all five", "old"]
    parts = [f"## {kind}\n", f"Chosen from all five: {_words(names, chosen(found))}\n"]
    parts += [table(head, lines), _ranks(kind, dict(zip(names, chosen(found), strict=True)))]
    return "\n".join(parts)


def _words(names: list[str], point: Point) -> str:
    shown = {**dict(zip(names, point, strict=True))}
    if "tiers" in shown:
        shown["tiers"] = shown["tiers"][-1][1]
    return " ".join(f"{name}={value:g}" for name, value in shown.items())


def _ranks(kind: str, settings: dict[str, Any]) -> str:
    """The losses of the chosen point with other ranks."""
    lines = []
    for rank, tiers in TIERS.items():
        size = {"rank": rank} if kind == "fm" else {"tiers": tiers}
        cells = [loss_of(kind, study, settings | size) for study in SETS]
        lines.append([f"rank {rank}", *(f"{cell:.4f}" for cell in cells)])
    return table(["", *SETS], lines)


@click.command()
@click.option("--model", "kinds", multiple=True, type=click.Choice([*GRID]), default=[*GRID])
def main(kinds: tuple[str, ...]) -> None:
    """Prints the chosen defaults, and what they lose on each set."""
    about = circumstances()
    for kind in kinds:
        print(page(kind))
    print(f"{about['date']}, commit {about['commit']}, {about['machine']['cpu']}")


if __name__ == "__main__":
    main()
