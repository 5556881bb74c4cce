"""pqr paper regret: what learning row by row costs against the best fixed weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from pqrlearn import datasets, plots
from pqrlearn.cli import options, show
from pqrlearn.hyper import INTERACTION_SCALE, OPTIMIZERS, Ftrl, FtrlGeneral, Ogd, Optimizer
from pqrlearn.paper.regret import TITLES, TOLERANCE, Game, Point, measure, panels, tables
from pqrlearn.readers import at_most
from pqrlearn.rows import Batch
from pqrlearn.separation import Counts

ROWS = 20_000


class Optimizers(click.ParamType[tuple[str, ...]]):
    """Names with commas between them."""

    name = "NAME,..."

    def convert(self, value: Any, param: Any, context: Any) -> tuple[str, ...]:
        names = tuple(value.split(",")) if isinstance(value, str) else tuple(value)
        for name in names:
            if name not in OPTIMIZERS:
                self.fail(f"{name!r} is not one of {', '.join(OPTIMIZERS)}")
        return names


@click.command(short_help="Measure the regret of three optimizers, beside Theorem 1.")
@click.argument("name")
@click.option(
    "--radius",
    type=float,
    default=10.0,
    show_default=True,
    help="The ball: the largest l2 norm of all weights, the bias among them.",
)
@options.order
@click.option(
    "--rows",
    type=options.SampleRows(),
    default=ROWS,
    show_default=True,
    help="How many rows, from the first one on. The matrix of their interactions is in memory.",
)
@click.option(
    "--points",
    type=click.IntRange(min=1),
    default=12,
    show_default=True,
    help="At how many numbers of rows T the regret is computed.",
)
@click.option(
    "--optimizers",
    type=Optimizers(),
    default=",".join(TITLES),
    show_default=True,
    help="Which optimizers, with commas between them.",
)
@click.option(
    "--eta", type=float, default=Ogd.eta, show_default=True, help="ogd: the step, over √t at row t."
)
@click.option(
    "--alpha", type=float, default=Ftrl.alpha, show_default=True, help="ftrl: the learning rate."
)
@click.option(
    "--interaction-scale",
    type=options.Scale(),
    default=INTERACTION_SCALE,
    show_default=True,
    help="Factor of the interactions, over √(how many a row has); none leaves them alone.",
)
@click.option(
    "--tolerance",
    type=float,
    default=TOLERANCE,
    show_default=True,
    help="How far the mean loss of the best fixed weights may be from its minimum.",
)
@click.option("--figure", metavar="PATH", help="Draw the curves, as PNG and as SVG.")
@options.quiet
@options.as_json
def regret(name: str, as_json: bool, **given: Any) -> None:
    """Measure the regret of OGD, FTRL and FTRL-Proximal on the data set NAME.

    The regret after T rows is the loss of learning them one by one, less that of the PQR which is
    best for those T rows among all in the ball. FTRL is Algorithm 1, with the step that Theorem 1
    prescribes for T, and stands beside the theorem's bound.
    """
    data = datasets.get(name)
    with show.steps(f"regret on {name}", quiet=given["quiet"] or as_json) as step:
        step(0.0, "reading")
        batch = Batch.joined(at_most(data.read(), given["rows"] or data.rows))
        counts = Counts.of(batch)
        scale = None if given["interaction_scale"] == "none" else given["interaction_scale"]
        game = Game(counts.separate(order=given["order"]), data.loss, given["radius"], scale)
        chosen = [_optimizer(each, given) for each in given["optimizers"]]
        points = measure(
            game,
            batch,
            chosen,
            points=given["points"],
            tolerance=given["tolerance"],
            watch=step,
        )
    title = f"{data.title}, {len(batch):,} rows"
    if given["figure"]:
        drawn = plots.draw(panels(points, title, game))
        for path in plots.save(drawn, given["figure"]):
            show.note(f"drawn as {path}")
    if as_json:
        show.print_json(_json(name, game, batch, chosen, points))
    else:
        for table in tables(points, title, game):
            show.table(f"{table.title}\n", table.columns, table.rows, table.text_columns)
            print("\n".join(["", *table.notes, ""]) if table.notes else "")


def _optimizer(name: str, given: dict[str, Any]) -> Optimizer:
    if name == Ogd.name:
        return Ogd(given["eta"], radius=given["radius"])
    return Ftrl(given["alpha"]) if name == Ftrl.name else FtrlGeneral(radius=given["radius"])


def _json(
    name: str, game: Game, batch: Batch, chosen: Sequence[Optimizer], points: Sequence[Point]
) -> dict[str, Any]:
    return {
        "data": name,
        "loss": game.loss,
        "rows": len(batch),
        "order": game.separation.order,
        "interaction_scale": game.interaction_scale,
        "radius": game.radius,
        "optimizers": [o.settings() for o in chosen if not isinstance(o, FtrlGeneral)],
        "points": [point.figures() for point in points],
    }
