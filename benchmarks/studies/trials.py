"""How many trials does tuning need, for each model?

    PQRLEARN_DATA=... python -m benchmarks.studies.trials --set ml-100k

The validation loss that `tune` reaches with ever more trials, on the first split of the paper's
protocol: the mean over seeds of the search. Prints Markdown; docs/paper.md has the result.
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

import click

from benchmarks.machine import circumstances
from benchmarks.measure import tell
from benchmarks.results import table
from pqrlearn.paper.sources import Source
from pqrlearn.tune import Task, tune

COUNTS = (27, 54, 108, 216, 432)
SEEDS = (1, 2, 3)
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "lr": ("lr", {}),
    "pqr": ("pqr", {"interaction_scale": None}),
    "pqr, own rate": ("pqr", {}),
    "fm": ("fm", {}),
    "fm, sgd": ("fm", {"optimizer": "sgd"}),
    "difacto": ("difacto", {}),
    "cfm": ("cfm", {}),
    "ccfm": ("ccfm", {}),
}


def losses(name: str, model: str, counts: tuple[int, ...], seeds: tuple[int, ...]) -> list[float]:
    """The mean validation loss for each number of trials."""
    source, (kind, fixed) = Source(name), MODELS[model]
    parts = source.parts(1)
    task = Task(kind, source.rows().loss, parts.train, parts.validation, fixed)
    found = []
    for count in counts:
        found.append(fmean(tune(task, trials=count, seed=seed).score for seed in seeds))
        tell(f"{name}, {model}: {count} trials, {found[-1]:.5f}")
    return found


@click.command()
@click.option("--set", "name", default="ml-100k", show_default=True)
@click.option("--model", "models", multiple=True, type=click.Choice([*MODELS]), default=[*MODELS])
@click.option("--most", default=COUNTS[-1], show_default=True)
@click.option("--seeds", default=len(SEEDS), show_default=True)
def main(name: str, models: tuple[str, ...], most: int, seeds: int) -> None:
    """Prints the validation loss against the number of trials."""
    about, counts = circumstances(), tuple(count for count in COUNTS if count <= most)
    lines = []
    for model in models:
        found = losses(name, model, counts, SEEDS[:seeds])
        lines.append([model, *(f"{loss:.5f}" for loss in found)])
    print(f"## {name}\n\n{table(['trials', *map(str, counts)], lines)}")
    print(f"{about['date']}, commit {about['commit']}, {about['machine']['cpu']}")


if __name__ == "__main__":
    main()
