"""What the rows between two steps of CFM and CCFM cost and change, on MovieLens 100K.

One pass over 80 % of the rows, then the RMSE on the last 10 %; processor seconds, so that a busy
machine does not show. One row per step is measured on the first thousand rows only.

    PQRLEARN_DATA=... .venv/bin/python -m benchmarks.convex_blocks
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from benchmarks.interaction_scale import as_batch, movielens_100k
from benchmarks.machine import commit, machine
from pqrlearn import CCFM, CFM, LR, Batch, Ftrl, NuclearBall
from pqrlearn.learners.base import Learner

BLOCKS = (1, 64, 256, 1024)
RATES = Ftrl(alpha=0.1)


def learners(block_rows: int) -> list[Learner]:
    return [
        CFM("squared", RATES, NuclearBall(radius=10, eta=0.1, block_rows=block_rows)),
        CCFM("squared", NuclearBall(radius=30, eta=0.1, block_rows=block_rows)),
    ]


def measured(model: Learner, train: Batch, test: Batch | None) -> str:
    start = time.process_time()
    model.learn_many(train)
    seconds = time.process_time() - start
    each = f"{seconds:.2f} | {1e6 * seconds / len(train):.1f}"
    if test is None:
        return f"| {len(train):,} | {each} | – |"
    rmse = np.sqrt(np.mean((model.predict_many(test) - test.labels) ** 2))
    return f"| {len(train):,} | {each} | {rmse:.4f} |"


def main() -> None:
    home = Path(os.environ["PQRLEARN_DATA"])
    batch = as_batch(movielens_100k(home / "ml-100k"), shuffled=True)
    train, test = batch.part(0, 80_000), batch.part(90_000, 100_000)
    where = machine()
    print(f"{where['cpu']}, {where['cores']} cores, {commit()}\n")
    print("| model | B | rows | seconds | µs/row | test RMSE |\n|---|---|---|---|---|---|")
    print("| lr | – " + measured(LR("squared", RATES), train, test), flush=True)
    for block_rows in BLOCKS:
        few = block_rows == 1
        rows = batch.part(0, 1000) if few else train
        for model in learners(block_rows):
            cells = measured(model, rows, None if few else test)
            print(f"| {model.kind} | {block_rows} {cells}", flush=True)


if __name__ == "__main__":
    main()
