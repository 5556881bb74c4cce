"""Rows for the tests of Spark, as tables of pyarrow and as vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pqrlearn import Batch
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.guess import Choices, guess

STREAM = ClickStream(fields=5, features=200, click_rate=0.3, interactions=10, pair_scale=1.5)
ROWS = Batch.joined(STREAM.batches(3_000))


def clicks(rows: int = 1_200) -> pa.Table:
    rng = np.random.default_rng(1)
    site, user = rng.integers(0, 9, rows), rng.integers(0, 60, rows)
    return pa.table(
        {
            "site": [f"s{n}" for n in site],
            "user": [f"u{n}" for n in user],
            "age": rng.integers(18, 80, rows).astype(float),
            "click": (rng.random(rows) < 0.1 + 0.08 * site).astype(int),
            "at": rng.permutation(rows),
        }
    )


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by("at").drop_columns(["at"])


INPUTS = ["site", "user", "age"]
TABLE = clicks()
IN_ORDER = in_order(TABLE)
SCHEMA = guess(IN_ORDER, Choices(label="click"))


def vectors(batch: Batch, size: int) -> list[tuple[int, Any, float, float]]:
    """Rows of a number, a vector, a label and a weight; every third vector is dense."""
    from pyspark.ml.linalg import Vectors

    ends = batch.indptr.tolist()
    found = []
    for row in range(len(batch)):
        part = slice(ends[row], ends[row + 1])
        vector: Any = Vectors.sparse(
            size, batch.indices[part].tolist(), batch.values[part].tolist()
        )
        if row % 3 == 0:
            vector = Vectors.dense(vector.toArray().tolist())
        found.append((row, vector, float(batch.labels[row]), 1.0 + row % 2))
    return found


def weighted(batch: Batch) -> Batch:
    """The same rows with the weights of `vectors`."""
    weights = (1.0 + np.arange(len(batch)) % 2).astype(np.float32)
    return Batch(batch.indptr, batch.indices, batch.values, batch.labels, weights)


def by_number(spark: Any) -> Any:
    frame = spark.createDataFrame(vectors(ROWS, 200), ["at", "features", "label", "amount"])
    return frame.repartition(4)
