"""pqr demo: training from end to end on a simulated click stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, stdev
from tempfile import TemporaryDirectory
from typing import Any

import click

from pqrlearn.cli import options, show
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.explain import strongest
from pqrlearn.hyper import AdaGrad, Ftrl
from pqrlearn.learners import FM, LR, PQR, Auto, DiFacto, Learner
from pqrlearn.metrics import Metrics
from pqrlearn.progressive import Pass, evaluate, learn
from pqrlearn.readers import read, read_names
from pqrlearn.separation import Counts

ORDERS = {100: 0.1, 450: 0.05, 2000: 0.05}
"""Orders of PQR, with the alpha of each."""
SETTINGS = """\
Auto has no settings (docs/auto.md); the others have the best settings of a small
grid on another stream (docs/models.md).
{repeats} runs: ± is the standard deviation over random starts, time is the median."""

Make = Callable[[str, int], Learner]
"""Makes a learner from the path of the rows, which PQR counts first, and a seed."""


def _projective(order: int, alpha: float) -> Make:
    def make(train: str, seed: int) -> Learner:
        separation = Counts.of_files([train]).separate(order=order)
        return PQR(separation, optimizer=Ftrl(alpha=alpha), interaction_scale=None)

    return make


CONTENDERS: dict[str, Make] = {
    "Auto, untouched": lambda train, seed: Auto(),
    "LR": lambda train, seed: LR(),
    "FM, rank 64": lambda train, seed: FM(optimizer=AdaGrad(factor_eta=0.03), rank=64, seed=seed),
    "DiFacto": lambda train, seed: DiFacto(
        tiers=[(10, 16), (100, 32), (1000, 64)], factor_eta=0.05, seed=seed
    ),
    **{f"PQR, order {order:,}": _projective(order, alpha) for order, alpha in ORDERS.items()},
}


@dataclass(frozen=True)
class Run:
    learner: Learner
    seconds: float
    training: Pass
    held_out: Pass

    def figures(self) -> dict[str, float]:
        return {
            "seconds": self.seconds,
            "progressive_logloss": self.training.figures["logloss"],
            "progressive_auc": self.training.figures["auc"],
            "held_out_logloss": self.held_out.figures["logloss"],
            "held_out_auc": self.held_out.figures["auc"],
            "nonzeros": sum(self.learner.nonzeros().values()),
        }


@click.command(short_help="Train on a simulated click stream and show what was found.")
@click.option(
    "--rows",
    type=click.IntRange(min=1000),
    metavar="N",
    default=400_000,
    show_default=True,
    help="Number of rows to train on; a quarter more are held out.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Random seed of the stream.")
@click.option(
    "--repeats",
    type=click.IntRange(min=2),
    metavar="N",
    default=5,
    show_default=True,
    help="Number of runs of each model; FM and DiFacto start from a new seed each time.",
)
@options.quiet
@options.as_json
def demo(rows: int, seed: int, repeats: int, quiet: bool, as_json: bool) -> None:
    """Simulate a click stream with planted interactions, train Auto, LR, FM, DiFacto and PQR on it
    in one pass each, and show how they compare and which interactions PQR found."""
    stream = ClickStream.demo(seed)
    with TemporaryDirectory(prefix="pqr-demo-") as folder:
        train, test, names = (Path(folder) / name for name in ("train", "test", "names"))
        if not as_json:
            show.note(f"simulating {rows:,} rows, and {rows // 4:,} to hold out ...")
        stream.write_libsvm(train, rows, names_path=names)
        stream.write_libsvm(test, rows // 4, start=rows)
        learner, results = _compare(str(train), str(test), repeats, quiet or as_json)
        learner.use_names(read_names(names))
    best_possible = _truth(stream, rows)
    found = _found(stream, learner)
    if as_json:
        pairs = [{"features": list(n), "weight": w, "planted": p} for n, w, p in found]
        show.print_json({"models": results, "best_possible": best_possible, "strongest": pairs})
    else:
        _print(rows, results, best_possible, found)


def _compare(
    train: str, test: str, repeats: int, quiet: bool
) -> tuple[Learner, list[dict[str, Any]]]:
    """The last learner, to inspect, and the figures of all. Models take turns, so that a slow
    minute of the machine affects all of them."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
    for seed in range(repeats):
        for name, make in CONTENDERS.items():
            title = f"{seed + 1}/{repeats} {name}"
            run = _run(make, title, seed, train, test, quiet)
            runs[name].append(run.figures())
    return run.learner, [{"model": name, **_summary(figures)} for name, figures in runs.items()]


def _summary(runs: list[dict[str, float]]) -> dict[str, Any]:
    """Means and standard deviations; the median of times."""
    columns = {name: [run[name] for run in runs] for name in runs[0]}
    means = {name: mean(column) for name, column in columns.items()}
    return {
        "runs": len(runs),
        **means,
        "seconds": median(columns["seconds"]),
        "standard_deviation": {name: stdev(column) for name, column in columns.items()},
    }


def _run(make: Make, title: str, seed: int, train: str, test: str, quiet: bool) -> Run:
    """Trains and evaluates one model; its time includes reading and counting."""
    start = time.perf_counter()
    learner = make(train, seed)
    training = _pass(learn, f"{title}, training", learner, train, quiet)
    seconds = time.perf_counter() - start
    held_out = _pass(evaluate, f"{title}, held out", learner, test, quiet)
    return Run(learner, seconds, training, held_out)


def _pass(run: Any, title: str, learner: Learner, path: str, quiet: bool) -> Pass:
    inputs = read(path, loss=learner.loss)
    with show.progress(title, inputs.fraction, quiet=quiet) as watch:
        result: Pass = run(learner, inputs, watch)
    return result


def _truth(stream: ClickStream, rows: int) -> dict[str, float]:
    """Metrics of the true probabilities on the held-out rows."""
    metrics = Metrics("logistic")
    for batch in stream.batches(rows // 4, start=rows):
        metrics.update(stream.margins(batch), batch.labels, batch.weights)
    return metrics.result()


def _found(stream: ClickStream, learner: Learner) -> list[tuple[tuple[str, ...], float, bool]]:
    """The strongest pairs of the model by name, and whether they were planted."""
    planted = {frozenset(map(stream.name, pair)) for pair, _ in stream.planted()}
    return [
        (tuple(names), weight, frozenset(names) in planted)
        for names, weight, *_ in strongest(learner, "pair", 10)
    ]


def _print(
    rows: int,
    results: list[dict[str, Any]],
    best_possible: dict[str, float],
    found: list[tuple[tuple[str, ...], float, bool]],
) -> None:
    linear = next(result["seconds"] for result in results if result["model"] == "LR")
    cells = [
        (
            result["model"],
            _with_spread(result, "held_out_logloss"),
            _with_spread(result, "held_out_auc"),
            f"{result['progressive_logloss']:.4f}",
            f"{result['seconds'] / linear:.1f} ×",
            f"{result['nonzeros']:,.0f}",
        )
        for result in results
    ]
    truth = (f"{best_possible['logloss']:.4f}", f"{best_possible['auc']:.4f}")
    cells.append(("the truth itself", *truth, "", "", ""))
    columns = ["", "held out", "", "progressive", "", "non-zero"]
    units = ("model", "LogLoss", "AUC", "LogLoss", "time", "weights")
    show.table(f"one pass over {rows:,} rows", columns, [units, *cells])
    print(SETTINGS.format(repeats=max(result["runs"] for result in results)))
    pairs = [
        (" × ".join(names), f"{weight:+.2f}", "planted" if planted else "")
        for names, weight, planted in found
    ]
    title = f"\nstrongest interactions found by {results[-1]['model']}"
    show.table(title, ["pair", "weight", ""], pairs)


def _with_spread(result: dict[str, Any], name: str) -> str:
    """The mean, and the standard deviation of a model with a random start."""
    spread = result["standard_deviation"][name]
    return f"{result[name]:.4f}" + (f" ± {spread:.4f}".replace("0.", ".") if spread else "")
