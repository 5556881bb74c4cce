"""LR over a frame in memory, whose columns are categories:

    python -m benchmarks.frame_rows pandas|polars PARQUET MODEL ALPHA BETA

Reads a Parquet file into a frame, times learn_many over all of it and nothing else, then scores and
saves. Prints rows, progressive LogLoss and the times of learning as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.peers.timing import timed
from benchmarks.table_rows import LABEL
from pqrlearn import LR, Ftrl


def main(kind: str, path: str, model_path: str, alpha: float, beta: float) -> None:
    names = [name for name in pq.read_schema(path).names if name not in ("id", LABEL)]
    table = pq.read_table(path, read_dictionary=names).unify_dictionaries()
    clicks = table.column(LABEL).to_numpy().astype(np.float64)
    frame = _frame(kind, table.select(names))
    model = LR(optimizer=Ftrl(alpha=alpha, beta=beta))
    chances: list[Any] = []
    times = timed(lambda: chances.append(model.learn_many(frame, clicks)))
    loss = -np.log(np.where(clicks == 1, chances[0], 1 - chances[0])).mean()
    model.save(model_path)
    print(json.dumps({"rows": model.rows, "loss": float(loss), **times}))


def _frame(kind: str, table: Any) -> Any:
    if kind == "pandas":
        return table.to_pandas()
    import polars

    return polars.from_arrow(table)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), float(sys.argv[5]))
