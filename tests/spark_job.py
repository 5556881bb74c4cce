"""What spark-submit runs in tests: learns a stream of clicks, and writes the model's bytes.

spark-submit spark_job.py WORK_FOLDER OUTPUT
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pqrlearn import Batch
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.spark import PQRClassifier

ROWS = 40_000


def clicks(session: Any) -> Any:
    """Rows made by the executors: each depends on its number alone."""
    stream = ClickStream(fields=8, features=3_000, click_rate=0.3, interactions=20)

    def made(batches: Any) -> Any:
        import pyarrow as pa

        for batch in batches:
            numbers = batch.column("id").to_pylist()
            rows: Batch = stream.batch(numbers[0], len(numbers))
            fields = rows.indices.reshape(len(numbers), -1).T
            columns = {field.name: fields[at] for at, field in enumerate(stream.layout)}
            texts = {name: pa.array(column.astype(str)) for name, column in columns.items()}
            yield pa.RecordBatch.from_pydict({"id": numbers, "click": rows.labels, **texts})

    schema = ", ".join(f"{field.name} string" for field in stream.layout)
    made_of = session.range(0, ROWS, 1, 4).mapInArrow(made, f"id long, click double, {schema}")
    return made_of, [field.name for field in stream.layout]


def main(work_folder: str, output: str) -> None:
    session = SparkSession.builder.getOrCreate()
    frame, inputs = clicks(session)
    estimator = PQRClassifier(
        input_cols=inputs,
        label_col="click",
        order_col="id",
        num_workers=2,
        rounds=4,
        held_rows=2_000,
        work_folder=work_folder,
    )
    model = estimator.fit(frame)
    Path(output).write_bytes(model.native.to_bytes())
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
