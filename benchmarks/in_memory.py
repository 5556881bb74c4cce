"""LR over rows that are in memory already:

    python -m benchmarks.in_memory CACHE MODEL ALPHA BETA

Reads all Batches of a cache, times learn_many over them and nothing else, then scores and saves.
Prints rows, progressive LogLoss and the times of learning as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np

from pqrlearn import LR, Ftrl
from pqrlearn.readers import CacheReader


def main(cache: str, model_path: str, alpha: float, beta: float) -> None:
    # A part of a batch keeps all of it alive: take() copies it.
    batches = [b.take(np.arange(len(b))) for b in CacheReader(cache, loss="logistic").batches()]
    model = LR(optimizer=Ftrl(alpha=alpha, beta=beta))
    before, start = os.times(), time.perf_counter()
    chances = [model.learn_many(batch) for batch in batches]
    seconds, after = time.perf_counter() - start, os.times()
    losses = [
        -np.log(np.where(batch.labels == 1, chance, 1 - chance))
        for batch, chance in zip(batches, chances, strict=True)
    ]
    model.save(model_path)
    shown = {
        "rows": model.rows,
        "logloss": float(np.concatenate(losses).mean()),
        "seconds": seconds,
        "user_seconds": after.user - before.user,
        "system_seconds": after.system - before.system,
    }
    print(json.dumps(shown))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
