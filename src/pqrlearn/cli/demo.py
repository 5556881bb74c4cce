"""pqr demo: the main job, end to end, on a click stream made on the spot."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from pqrlearn.cli import options, show
from pqrlearn.cli.inputs import Inputs
from pqrlearn.cli.inspect import strongest
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.learners import LR, PQR, Learner
from pqrlearn.metrics import make_metrics
from pqrlearn.progressive import Pass, evaluate, learn
from pqrlearn.readers import read_names
from pqrlearn.separation import Counts

ORDERS = (100, 450, 2000)


@dataclass(frozen=True)
class Result:
    name: str
    learner: Learner
    seconds: float
    training: Pass
    held_out: Pass

    def figures(self) -> dict[str, Any]:
        return {
            "model": self.name,
            "seconds": self.seconds,
            "progressive_logloss": self.training.figures["logloss"],
            "progressive_auc": self.training.figures["auc"],
            "held_out_logloss": self.held_out.figures["logloss"],
            "held_out_auc": self.held_out.figures["auc"],
            "nonzeros": sum(self.learner.nonzeros().values()),
        }


@click.command(short_help="Train on a made-up click stream and show what was found.")
@click.option(
    "--rows",
    type=click.IntRange(min=1000),
    default=400_000,
    show_default=True,
    help="How many rows to train on; a quarter more are held out.",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Which stream: another one per number."
)
@options.quiet
@options.as_json
def demo(rows: int, seed: int, quiet: bool, as_json: bool) -> None:
    """Make a click stream with planted interactions, train LR and PQR on it in one pass each,
    and show how they compare and which interactions PQR found."""
    stream = ClickStream.demo(seed)
    with TemporaryDirectory(prefix="pqr-demo-") as folder:
        train, test, names = (Path(folder) / name for name in ("train", "test", "names"))
        if not as_json:
            show.note(f"making {rows:,} clicks and non-clicks, and {rows // 4:,} to hold out ...")
        stream.write_libsvm(train, rows, names_path=names)
        stream.write_libsvm(test, rows // 4, start=rows)
        results = [
            _run(order, str(train), str(test), names, quiet=quiet or as_json)
            for order in (None, *ORDERS)
        ]
    best_possible = _truth(stream, rows)
    found = _found(stream, results[-1].learner)
    if as_json:
        pairs = [{"features": list(n), "weight": w, "planted": p} for n, w, p in found]
        figures = [result.figures() for result in results]
        show.print_json({"models": figures, "best_possible": best_possible, "strongest": pairs})
    else:
        _print(rows, results, best_possible, found)


def _run(order: int | None, train: str, test: str, names: Path, *, quiet: bool) -> Result:
    """One model from the file to held-out figures; its time counts reading and counting too."""
    name = "LR" if order is None else f"PQR, order {order:,}"
    start = time.perf_counter()
    learner = LR() if order is None else PQR(Counts.of_files([train]).separate(order=order))
    training = _pass(learn, f"{name}: training", learner, train, quiet)
    seconds = time.perf_counter() - start
    held_out = _pass(evaluate, f"{name}: held-out rows", learner, test, quiet)
    learner.use_names(read_names(names))
    return Result(name, learner, seconds, training, held_out)


def _pass(run: Any, title: str, learner: Learner, path: str, quiet: bool) -> Pass:
    inputs = Inputs([path], clicks=True)
    with show.progress(title, inputs.fraction, quiet=quiet) as watch:
        result: Pass = run(learner, inputs.batches(), watch)
    return result


def _truth(stream: ClickStream, rows: int) -> dict[str, float]:
    """What the planted probabilities themselves score on the held-out rows."""
    metrics = make_metrics("logistic")
    for batch in stream.batches(rows // 4, start=rows):
        metrics.update(stream.margins(batch), batch.labels, batch.weights)
    return metrics.result()


def _found(stream: ClickStream, learner: Learner) -> list[tuple[tuple[str, ...], float, bool]]:
    """The strongest pairs of the model by name, and whether the stream planted them."""
    planted = {frozenset(map(stream.name, pair)) for pair, _ in stream.planted()}
    return [
        (tuple(names), weight, frozenset(names) in planted)
        for names, weight in strongest(learner, "pair", 10)
    ]


def _print(
    rows: int,
    results: list[Result],
    best_possible: dict[str, float],
    found: list[tuple[tuple[str, ...], float, bool]],
) -> None:
    base = results[0].seconds
    cells = [
        (
            result.name,
            f"{result.training.figures['logloss']:.4f}",
            f"{result.training.figures['auc']:.4f}",
            f"{result.held_out.figures['logloss']:.4f}",
            f"{result.held_out.figures['auc']:.4f}",
            f"{result.seconds / base:.1f} ×",
            f"{sum(result.learner.nonzeros().values()):,}",
        )
        for result in results
    ]
    truth = (f"{best_possible['logloss']:.4f}", f"{best_possible['auc']:.4f}")
    cells.append(("the truth itself", "", "", *truth, "", ""))
    columns = ["", "progressive", "", "held out", "", "training", "non-zero"]
    units = ("model", "LogLoss", "AUC", "LogLoss", "AUC", "time", "weights")
    show.table(f"one pass over {rows:,} rows", columns, [units, *cells])
    pairs = [
        (" × ".join(names), f"{weight:+.2f}", "planted" if planted else "")
        for names, weight, planted in found
    ]
    title = f"\nstrongest interactions found by {results[-1].name}"
    show.table(title, ["pair", "weight", ""], pairs)
