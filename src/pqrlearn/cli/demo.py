"""pqr demo: training from end to end on a simulated click stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
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
Auto has no settings (docs/auto.md); the others have the best settings of a
small grid on another stream (docs/models.md). A larger order gives more pairs a
weight of their own, rarer ones too, so it takes more rows to pay.
{repeats} runs: ± is the standard deviation over random starts, time is the median."""
SHOWN = 10
"""Interactions that are shown."""

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
        tiers=[(10, 16), (100, 32), (1000, 64)], factor_eta=0.03, seed=seed
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
            "progressive_logloss": self.training.metrics["logloss"],
            "progressive_auc": self.training.metrics["auc"],
            "held_out_logloss": self.held_out.metrics["logloss"],
            "held_out_auc": self.held_out.metrics["auc"],
            "nonzeros": sum(self.learner.nonzeros().values()),
        }


@dataclass(frozen=True)
class Found:
    """A pair of the model with its weight, and the effect that was planted, if any was."""

    features: tuple[str, ...]
    weight: float
    effect: float | None


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
    in one pass each, and show how they compare and which interactions PQR found.

    The interactions are stronger than in real clicks, to show after so few rows.
    """
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
        pairs = [asdict(pair) | {"planted": pair.effect is not None} for pair in found[:SHOWN]]
        recovered = {"planted": len(found), "recovered": _recovered(found)}
        report = {"models": results, "best_possible": best_possible, "strongest": pairs}
        show.print_json(report | recovered)
    else:
        _print_models(rows, results, best_possible)
        _print_pairs(results[-1]["model"], found)


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


def _found(stream: ClickStream, learner: Learner) -> list[Found]:
    """The strongest pairs of the model, as many as were planted."""
    planted = {frozenset(map(stream.name, pair)): effect for pair, effect in stream.planted()}
    return [
        Found(tuple(names), weight, planted.get(frozenset(names)))
        for names, weight, *_ in strongest(learner, "pair", len(planted))
    ]


def _recovered(found: list[Found]) -> int:
    return sum(pair.effect is not None for pair in found)


def _print_models(
    rows: int, results: list[dict[str, Any]], best_possible: dict[str, float]
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


def _print_pairs(model: str, found: list[Found]) -> None:
    pairs = [
        (" × ".join(pair.features), f"{pair.weight:+.2f}", _signed(pair.effect))
        for pair in found[:SHOWN]
    ]
    title = f"\nstrongest interactions found by {model}"
    show.table(title, ["pair", "weight", "planted"], pairs)
    planted = len(found)
    print(f"{_recovered(found)} of the {planted} planted pairs are among its {planted} strongest.")


def _signed(effect: float | None) -> str:
    return "no" if effect is None else f"{effect:+.2f}"


def _with_spread(result: dict[str, Any], name: str) -> str:
    """The mean, and the standard deviation of a model with a random start."""
    spread = result["standard_deviation"][name]
    return f"{result[name]:.4f}" + (f" ± {spread:.4f}".replace("0.", ".") if spread else "")
