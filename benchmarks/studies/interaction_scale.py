"""Which interaction scale and learning rate should be the defaults? (decision 4)

    PQRLEARN_DATA=... python -m benchmarks.studies.interaction_scale

One progressive pass over each of five real data sets, for LR and for PQR at two orders, over a grid
of scales and rates. Ratings are shuffled, clicks come in file order. Prints the loss of every cell
as Markdown; takes a few minutes. docs/notes/interaction-scale.md has the result.
"""

from __future__ import annotations

import click

from benchmarks.machine import circumstances
from benchmarks.measure import tell
from benchmarks.results import table
from benchmarks.studies.sets import STUDIES, rows_of
from pqrlearn import LR, PQR, Counts, Ftrl, datasets
from pqrlearn.learners import Learner
from pqrlearn.progressive import learn

SETS = ("ml-100k", "ml-1m", "criteo", "avazu", "kdd2012")
ALPHAS = (0.02, 0.05, 0.1, 0.2, 0.5)
SCALES = (None, 0.1, 0.3, 1.0, 3.0)
ORDER = 2000
"""Besides the default order of each set."""


def loss_of(study: str, model: Learner) -> str:
    return f"{learn(model, [rows_of(study)]).metrics[STUDIES[study].figure]:.4f}"


def lines(study: str) -> list[list[str]]:
    """A line for LR, and one for each order and scale of PQR; a column for each rate."""
    loss, counts = STUDIES[study].loss, Counts.of(rows_of(study))
    rates = [Ftrl(alpha=alpha) for alpha in ALPHAS]
    found = [["LR", "", *(loss_of(study, LR(loss, rate)) for rate in rates)]]
    for order in (counts.default_order(), ORDER):
        separation = counts.separate(order=order)
        for scale in SCALES:
            models = [PQR(separation, loss, rate, interaction_scale=scale) for rate in rates]
            cells = [loss_of(study, model) for model in models]
            found.append([f"PQR {separation.order}", str(scale or "none"), *cells])
            tell(f"{study}: order {separation.order}, scale {scale or 'none'}")
    return found


@click.command()
@click.option("--set", "studies", multiple=True, type=click.Choice(SETS), default=SETS)
def main(studies: tuple[str, ...]) -> None:
    """Prints the progressive loss of LR and PQR for every scale and rate."""
    about = circumstances()
    for study in studies:
        batch = rows_of(study)
        size = f"{len(batch):,} rows, {Counts.of(batch).distinct:,} features"
        print(f"## {datasets.get(study).title}: {size}, {STUDIES[study].figure}\n")
        print(table(["model", "scale", *(f"α={alpha}" for alpha in ALPHAS)], lines(study)))
    print(f"{about['date']}, commit {about['commit']}, {about['machine']['cpu']}")


if __name__ == "__main__":
    main()
