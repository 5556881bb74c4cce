"""pqr paper regret: the regret of the optimizers, beside Theorem 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from pqrlearn import datasets, plots
from pqrlearn.cli import options, show, words
from pqrlearn.hyper import OPTIMIZERS, FtrlGeneral, Optimizer
from pqrlearn.paper.experts import auto_regret
from pqrlearn.paper.experts import table as experts_table
from pqrlearn.paper.regret import TITLES, Game, Point, RegretConfig, measure, panels, tables
from pqrlearn.paper.tables import Table
from pqrlearn.readers import at_most
from pqrlearn.rows import Batch


class Optimizers(click.ParamType[tuple[str, ...]]):
    """Names separated by commas."""

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
    default=RegretConfig.radius,
    show_default=True,
    help="Radius of the ball: bound on the l2 norm of all weights, including the bias.",
)
@options.single_order
@click.option(
    "--rows",
    type=words.SampleRows(),
    metavar="N|all",
    default=RegretConfig.rows,
    show_default=True,
    help="Number of rows, from the first on; their interactions are held in memory.",
)
@click.option(
    "--points",
    type=click.IntRange(min=1),
    metavar="N",
    default=RegretConfig.points,
    show_default=True,
    help="Number of values of T at which the regret is computed.",
)
@click.option(
    "--optimizers",
    type=Optimizers(),
    default=",".join(TITLES),
    show_default=True,
    help="Optimizers, separated by commas.",
)
@click.option(
    "--eta",
    type=float,
    default=RegretConfig.eta,
    show_default=True,
    help="ogd: step size, divided by √t at row t.",
)
@click.option(
    "--alpha",
    type=float,
    default=RegretConfig.alpha,
    show_default=True,
    help="ftrl: the learning rate.",
)
@click.option(
    "--interaction-scale",
    type=words.Scale(),
    metavar="FACTOR|none",
    default="none",
    show_default=True,
    help="Multiply the interactions of a row by FACTOR/√(their number); none is the paper's model.",
)
@click.option(
    "--tolerance",
    type=float,
    default=RegretConfig.tolerance,
    show_default=True,
    help="How much the mean loss of the best fixed weights may exceed its minimum.",
)
@click.option("--figure", metavar="PATH", help="Draw the curves, as PNG and as SVG.")
@options.quiet
@options.as_json
def regret(
    name: str,
    order: int | str | None,
    interaction_scale: float | str,
    figure: str | None,
    quiet: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Measure the regret of OGD, FTRL and FTRL-Proximal on the data set NAME.

    The regret after T rows is the loss of learning them one by one, minus that of the best PQR in
    the ball for those T rows. FTRL is Algorithm 1 with the step of Theorem 1 for T, and is shown
    beside the bound of the theorem. The regret of Auto is that against the best of its experts,
    beside its own bound.
    """
    data = datasets.get(name)
    config = RegretConfig(
        order=options.one_order(order, "the regret is that of one order"),
        interaction_scale=None if isinstance(interaction_scale, str) else interaction_scale,
        **rest,
    )
    with show.steps(f"regret on {name}", quiet=quiet or as_json) as step:
        step(0.0, "reading")
        batch = Batch.joined(at_most(data.read(), config.rows or data.rows))
        game, chosen = config.game(batch, data.loss), config.chosen()
        points = measure(game, batch, chosen, config.points, config.tolerance, watch=step)
        step(1.0, "Auto and its experts")
        auto = auto_regret(batch, data.loss, [point.rows for point in points])
    title = f"{data.title}, {len(batch):,} rows"
    if figure:
        for path in plots.save(plots.draw(panels(points, title, game)), figure):
            show.note(f"drawn as {path}")
    if as_json:
        experts = [asdict(point) for point in auto]
        show.print_json(_json(name, game, batch, chosen, points) | {"experts": experts})
    else:
        _print([*tables(points, title, game), experts_table(auto, title)])


def _print(found: Sequence[Table]) -> None:
    for table in found:
        show.table(f"{table.title}\n", table.columns, table.rows, table.text_columns)
        print("\n".join(["", *table.notes, ""]) if table.notes else "")


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
