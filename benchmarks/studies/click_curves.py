"""Do interactions pay on the click samples, and does that change with the number of rows?

    PQRLEARN_DATA=... python -m benchmarks.studies.click_curves --set kdd2012

Two kinds of evidence, on splits of the paper's protocol. Learning curves: LR, PQR (order, rates and
the rate of interactions searched) and FM, each tuned anew on the first 1/8, 1/4, 1/2 and all of the
training rows, as the difference of their test LogLoss from LR's. And the batch optimum of LR and
PQR, with an l2 of their own for interactions: what one pass leaves on the table. An l2 of
interactions is the common one with their columns scaled. Prints Markdown; docs/paper.md has the
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from benchmarks.machine import circumstances
from benchmarks.measure import tell
from benchmarks.results import table
from pqrlearn import LR, PQR, Batch, Counts
from pqrlearn.batch import Minimum, Problem, expanded, minimise
from pqrlearn.learners import Learner
from pqrlearn.loss import FloatArray, loss_named
from pqrlearn.paper.printed import ORDERS
from pqrlearn.paper.sources import Parts, Source
from pqrlearn.tune import Task, tune

SHARES = (8, 4, 2, 1)
MODELS = ("lr", "pqr", "fm")
L2 = (30.0, 10.0, 3.0, 1.0)
FACTORS = (1.0, 10.0, 100.0)
"""The l2 of interactions, as multiples of the common one."""
TOLERANCE = 1e-4
LOGISTIC = loss_named("logistic")


def losses(learner: Learner, rows: Batch) -> FloatArray:
    return LOGISTIC.loss(learner.margin_many(rows), rows.labels)


def difference(mine: FloatArray, other: FloatArray) -> str:
    """A mean, and its standard error over the rows.

    >>> difference(np.array([2.0, 3.0]), np.array([1.0, 1.0]))
    '+1.5000 ± 0.5000'
    """
    apart = mine - other
    error = apart.std(ddof=1) / np.sqrt(len(apart))
    return f"{apart.mean():+.4f} ± {error:.4f}"


def curve(source: Source, splits: tuple[int, ...], trials: int | None = None) -> list[list[str]]:
    """A line for each number of rows."""
    lines = []
    for share in SHARES:
        found: dict[str, list[FloatArray]] = {kind: [] for kind in MODELS}
        orders, rows = [], 0
        for split in splits:
            parts = source.parts(split)
            train = parts.train.part(0, len(parts.train) // share)
            for kind in MODELS:
                task = Task(kind, "logistic", train, parts.validation, {})
                tuned = tune(task, trials=trials)
                found[kind].append(losses(task.trained(tuned.settings), parts.test))
                if kind == "pqr":
                    orders.append(f"{tuned.settings['order']:,}")
                tell(f"{source.name} 1/{share}, split {split}, {kind}: {tuned.score:.5f}")
            rows = len(train)
        every = {kind: np.concatenate(found[kind]) for kind in MODELS}
        apart = [difference(every[kind], every["lr"]) for kind in MODELS[1:]]
        lines.append([f"{rows:,}", f"{every['lr'].mean():.4f}", *apart, "; ".join(orders)])
    return lines


def optimum(
    parts: Parts, order: int, penalties: Sequence[float] = L2, factors: Sequence[float] = FACTORS
) -> tuple[dict[str, Any], FloatArray]:
    """The batch optimum on the training part, its penalties chosen on the validation part."""
    together = Batch.joined([parts.train, parts.validation, parts.test])
    high = Counts.of(parts.train).separate(order=order)
    model = PQR(high, interaction_scale=None) if order else LR()
    rows = expanded(model, together)
    ends = np.cumsum([len(parts.train), len(parts.validation)])
    linear = rows.columns("linear").stop
    best: tuple[float, dict[str, Any], FloatArray] | None = None
    labels, weights = together.labels, np.ones(len(together))
    for factor in factors if order else (1.0,):
        scale = np.ones(rows.matrix.shape[1])
        scale[linear:] = factor**-0.5
        matrix = rows.matrix.multiply(scale[None, :]).tocsr()
        found: Minimum | None = None  # each search starts from the one before
        for l2 in penalties:
            whole = Problem(LOGISTIC, matrix, labels, weights, l2)
            found = minimise(whole.head(ends[0]), TOLERANCE, found)
            loss = LOGISTIC.loss(matrix @ found.theta, labels)
            score = float(loss[ends[0] : ends[1]].mean())
            tell(f"order {order}, l2 {l2:g}, of interactions {factor * l2:g}: {score:.5f}")
            if best is None or score < best[0]:
                best = score, {"l2": l2, "own": factor * l2}, loss[ends[1] :]
    assert best is not None
    return best[1], best[2]


def optima(source: Source, orders: Sequence[int], *grid: Sequence[float]) -> list[list[str]]:
    """A line for LR and for each order."""
    parts = source.parts(1)
    linear, lines = None, []
    for order in (0, *orders):
        chosen, loss = optimum(parts, order, *grid)
        linear = loss if linear is None else linear
        own = f"{chosen['own']:g}" if order else ""
        name = f"PQR {order:,}" if order else "LR"
        cells = [f"{loss.mean():.4f}", difference(loss, linear) if order else ""]
        lines.append([name, f"{chosen['l2']:g}", own, *cells])
    return lines


@click.command()
@click.option("--set", "name", default="kdd2012", type=click.Choice(["avazu", "criteo", "kdd2012"]))
@click.option("--splits", default=1, show_default=True)
@click.option("--trials", type=int, help="Per model. Default: what each needs.")
@click.option("--order", "orders", type=int, multiple=True)
@click.option("--l2", "penalties", type=float, multiple=True, default=L2, show_default=True)
@click.option("--factor", "factors", type=float, multiple=True, default=FACTORS, show_default=True)
@click.option("--part", "chosen", multiple=True, default=["curve", "optimum"])
def main(
    name: str,
    splits: int,
    trials: int | None,
    orders: tuple[int, ...],
    penalties: tuple[float, ...],
    factors: tuple[float, ...],
    chosen: tuple[str, ...],
) -> None:
    """Prints learning curves and batch optima."""
    about, source = circumstances(), Source(name)
    print(f"## {source.title}\n")
    if "curve" in chosen:
        head = ["training rows", "LR", "PQR − LR", "FM − LR", "order of PQR"]
        print(table(head, curve(source, tuple(range(1, splits + 1)), trials)))
    if "optimum" in chosen:
        head = ["batch optimum", "l2", "l2 of interactions", "test LogLoss", "− LR"]
        print(table(head, optima(source, orders or ORDERS[name], penalties, factors)))
    print(f"{about['date']}, commit {about['commit']}, {about['machine']['cpu']}")


if __name__ == "__main__":
    main()
