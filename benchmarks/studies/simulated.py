"""How near are simulated click streams to the real samples that they are built after?

    PQRLEARN_DATA=... python -m benchmarks.studies.simulated

As many rows of each stream as the sample has, for three seeds, beside the sample: frequencies,
correlations, and the progressive LogLoss of each model at its best of a small grid, in hindsight.
The stream of KDD2012 has the click rate of the sample here, which was made from a log with a lower
one. Prints the tables of docs/simulated.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from statistics import mean

import numpy as np
from scipy.sparse import csr_array

from benchmarks.machine import circumstances
from benchmarks.studies.click_statistics import columns_of
from pqrlearn import FM, LR, PQR, AdaGrad, Auto, Batch, Counts, Ftrl, datasets
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.datasets.field import measured
from pqrlearn.learners import Learner
from pqrlearn.progressive import learn

STREAMS: dict[str, Callable[[int], ClickStream]] = {
    "avazu": ClickStream.avazu,
    "criteo": ClickStream.criteo,
    "kdd2012": ClickStream.kdd2012,
}
SEEDS = (1, 2, 3)
FREQUENT = 0.02
"""Share of rows from which on a feature is called frequent."""
RANKS = (10, 3000)
"""Between these the slope is fitted, every rank counting the same."""

ALPHAS, BETAS = (0.05, 0.1, 0.2), (0.2, 1.0)

Figures = dict[str, float]


def rows_like(name: str, seed: int) -> Batch:
    """As many simulated rows as the sample has, with its click rate."""
    known = measured()[name]
    return replace(STREAMS[name](seed), click_rate=known["click_rate"]).batch(0, known["rows"])


def shape(batch: Batch) -> Figures:
    """What rows look like, without a model."""
    counts = np.bincount(batch.indices)
    ranked = -np.sort(-counts)
    first, last = RANKS
    ranks = np.arange(first, min(last, int((counts > 0).sum())) + 1)
    slope = np.polyfit(np.log(ranks), np.log(ranked[ranks - 1]), 1)[0]
    return {
        "features per row": len(batch.indices) / len(batch),
        "different features": float((counts > 0).sum()),
        "slope of frequencies": float(slope),
        "frequent features": float((counts >= FREQUENT * len(batch)).sum()),
        "mean correlation": _correlation(batch, counts),
        "click rate": float(batch.labels.mean()),
    }


def _correlation(batch: Batch, counts: np.ndarray) -> float:
    """The mean |correlation| of two frequent features."""
    rows = csr_array((np.ones(len(batch.indices)), batch.indices.astype(np.int64), batch.indptr))
    often = np.flatnonzero((counts >= FREQUENT * len(batch)) & (counts < len(batch)))
    found = np.corrcoef(rows[:, often].toarray().T)
    return float(np.abs(found[np.triu_indices(len(often), 1)]).mean())


def losses(batch: Batch) -> Figures:
    """The progressive LogLoss of the best constant and of each model at its best."""
    rate = batch.labels.mean()
    found = {"constant": float(-(rate * np.log(rate) + (1 - rate) * np.log(1 - rate)))}
    for name, grid in models(batch).items():
        found[name] = min(learn(model, [batch]).metrics["logloss"] for model in grid)
    return found


def models(batch: Batch) -> dict[str, Iterator[Learner]]:
    rates = [Ftrl(alpha=alpha, beta=beta) for alpha, beta in product(ALPHAS, BETAS)]
    slow = [Ftrl(alpha=alpha) for alpha in (0.01, 0.02, 0.05)]
    steps = product(ALPHAS, BETAS, (0.005, 0.02, 0.05))
    return {
        "LR": (LR(optimizer=optimizer) for optimizer in rates),
        "PQR of the paper": projective(batch, 1, slow, [None]),
        "PQR": projective(batch, 4, rates, [0.3, 1.0]),
        "FM": (
            FM(optimizer=AdaGrad(eta=eta, beta=beta, factor_eta=factors), rank=16, seed=1)
            for eta, beta, factors in steps
        ),
        "Auto": iter([Auto()]),
    }


def projective(
    batch: Batch, times: int, rates: list[Ftrl], scales: Sequence[float | None]
) -> Iterator[Learner]:
    """Of an order of some times the square root of the number of features."""
    counts = Counts.of(batch)
    separation = counts.separate(order=times * counts.default_order())
    for optimizer, scale in product(rates, scales):
        yield PQR(separation, optimizer=optimizer, interaction_scale=scale)


def same_columns(name: str) -> Batch:
    """The sample in the columns of the stream; an empty cell is a feature, as it is there."""
    loaded = datasets.get(name).load()
    codes, features = [], 0
    for column in dict(columns_of(name, loaded)).values():
        values, numbers = np.unique(column, return_inverse=True)
        codes.append(numbers + features)
        features += len(values)
    indices = np.array(codes, np.uint32).T
    rows, width = indices.shape
    indptr = np.arange(0, (rows + 1) * width, width, dtype=np.int64)
    ones = np.ones(rows * width, np.float32)
    return Batch(indptr, indices.reshape(-1), ones, loaded.batch.labels, ones[:rows])


def line(name: str, real: list[Figures], simulated: list[Figures], form: str) -> str:
    """A line of the table; `real` has the sample and, if it is different, the same columns."""
    values = [one[name] for one in simulated]
    shown = [f"{one[name]:{form}}" for one in real] + [""] * (2 - len(real))
    cells = [
        name,
        *shown,
        f"{mean(values):{form}}",
        f"{min(values):{form}} to {max(values):{form}}",
    ]
    return f"| {' | '.join(cells)} |".replace("-", "−")


def differences(found: Figures) -> Figures:
    """LR beside the constant, the others beside LR."""
    base = {"LR": "constant"}
    return {
        f"{name} − {base.get(name, 'LR')}": found[name] - found[base.get(name, "LR")]
        for name in found
        if name != "constant"
    }


def page(name: str) -> Iterator[str]:
    real = datasets.get(name).load().batch
    streams = [rows_like(name, seed) for seed in SEEDS]
    yield f"\n### {datasets.get(name).title}, {len(real):,} rows\n"
    yield f"| | real | its columns | simulated | {len(SEEDS)} seeds |\n|---|---|---|---|---|"
    shapes = [shape(real), shape(same_columns(name))], [shape(batch) for batch in streams]
    forms = {"different features": ",.0f", "frequent features": ".0f", "features per row": ".1f"}
    for figure in shapes[0][0]:
        yield line(figure, *shapes, forms.get(figure, ".3f"))
    found = [losses(real)], [losses(batch) for batch in streams]
    for figure in ("constant", "LR"):
        yield line(figure, *found, ".4f")
    gains = [differences(one) for one in found[0]], [differences(one) for one in found[1]]
    for gain in gains[0][0]:
        yield line(gain, *gains, "+.4f")


def main() -> None:
    about = circumstances()
    warnings.simplefilter("ignore")  # settings that are worse than a constant are part of a grid
    for name in STREAMS:
        print("\n".join(page(name)), flush=True)
    print(f"\n`{about['command']}`, {about['date'][:10]}, commit {about['commit']}.")


if __name__ == "__main__":
    main()
