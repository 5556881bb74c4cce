"""What the rows between two steps of CFM and CCFM, and the terms they keep, cost and change.

On MovieLens 100K: one pass over the training part of the paper protocol's first split, then the
RMSE on its validation part; processor seconds, so that a busy machine does not show. One row per
step is measured on the first thousand rows only.

    PQRLEARN_DATA=... python -m benchmarks.studies.convex_blocks
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.machine import commit, machine
from pqrlearn import CCFM, CFM, LR, Batch, Ftrl, NuclearBall
from pqrlearn.learners import spectral
from pqrlearn.learners.base import Learner
from pqrlearn.paper.sources import Source

BLOCKS = (1, 16, 64, 256, 1024)
TERMS = (16, 64, 256)
RATES = Ftrl(alpha=0.1)


def learners(block_rows: int) -> list[Learner]:
    ball = NuclearBall(block_rows=block_rows)
    return [CFM("squared", RATES, ball), CCFM("squared", ball)]


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
    parts = Source("ml-100k").parts(1)
    train, test = parts.train, parts.validation
    where = machine()
    print(f"{where['cpu']}, {where['cores']} cores, {commit()}\n")
    print("| model | B | rows | seconds | µs/row | RMSE |\n|---|---|---|---|---|---|")
    print("| lr | – " + measured(LR("squared", RATES), train, test), flush=True)
    for block_rows in BLOCKS:
        few = block_rows == 1
        rows = train.part(0, 1000) if few else train
        for model in learners(block_rows):
            cells = measured(model, rows, None if few else test)
            print(f"| {model.kind} | {block_rows} {cells}", flush=True)
    print("\n| model | terms | rows | seconds | µs/row | RMSE |\n|---|---|---|---|---|---|")
    for terms in TERMS:
        spectral.MAX_TERMS, spectral.KEPT_TERMS = terms, terms // 2
        for model in learners(64):
            print(f"| {model.kind} | {terms} {measured(model, train, test)}", flush=True)


if __name__ == "__main__":
    main()
