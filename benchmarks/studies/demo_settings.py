"""Which settings should the demo give each model? Those that do best on another stream.

One progressive pass over 400,000 rows of the demo's stream with seed 2, for each model over a grid;
prints them all, the least progressive LogLoss of each model first.

    python -m benchmarks.studies.demo_settings
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from pqrlearn import FM, LR, PQR, AdaGrad, Counts, DiFacto, Ftrl
from pqrlearn.cli.demo import ORDERS
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.learners import Learner
from pqrlearn.progressive import learn
from pqrlearn.rows import Batch

FACTOR_RATES = (0.02, 0.03, 0.05, 0.07, 0.1)


def linear() -> Iterator[tuple[str, Learner]]:
    for alpha in (0.05, 0.1, 0.2, 0.4):
        yield f"alpha {alpha}", LR(optimizer=Ftrl(alpha=alpha))


def projective(batch: Batch, order: int) -> Iterator[tuple[str, Learner]]:
    separation = Counts.of(batch).separate(order=order)
    for alpha, scale in product((0.02, 0.05, 0.1, 0.2), (1.0, 2.0, None)):
        model = PQR(separation, optimizer=Ftrl(alpha=alpha), interaction_scale=scale)
        yield f"alpha {alpha}, scale {scale}", model


def machines() -> Iterator[tuple[str, Learner]]:
    for rank, rate in product((8, 16, 32, 64), FACTOR_RATES):
        yield f"rank {rank}, factors {rate}", FM(optimizer=AdaGrad(factor_eta=rate), rank=rank)


def difactos() -> Iterator[tuple[str, Learner]]:
    for rank, rate in product((16, 32, 64), FACTOR_RATES):
        tiers = ((10, rank // 4), (100, rank // 2), (1000, rank))
        yield f"ranks up to {rank}, factors {rate}", DiFacto(tiers=tiers, factor_eta=rate)


def main() -> None:
    batch = ClickStream.demo(seed=2).batch(0, 400_000)
    grids = {"LR": linear(), "FM": machines(), "DiFacto": difactos()}
    grids |= {f"PQR({order})": projective(batch, order) for order in ORDERS}
    for name, grid in grids.items():
        losses = [(learn(model, [batch]).metrics["logloss"], said) for said, model in grid]
        print(f"\n{name}")
        for loss, said in sorted(losses):
            print(f"  {loss:.4f}  {said}", flush=True)


if __name__ == "__main__":
    main()
