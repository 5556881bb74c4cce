"""Calls of `fit` that fail on the driver, before any task runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet

from pqrlearn.schema import Schema
from spark_rows import INPUTS, SCHEMA, TABLE


def lr(**more: Any) -> Any:
    """An estimator that would learn TABLE, but for what is said."""
    from pqrlearn.spark import LRClassifier

    columns = {"input_cols": INPUTS, "label_col": "click", "order_col": "at", "rounds": 1}
    return LRClassifier(**(columns | more))


def failing_fits(spark: Any, folder: Path) -> list[tuple[Any, Any, str]]:
    """Estimators, what they are to learn, and the pattern of the error."""
    from pyspark.sql import functions as sql

    from pqrlearn.spark import LRClassifier, PQRClassifier, PQRRegressor

    frame = spark.createDataFrame(TABLE)
    listed = frame.withColumn("site", sql.array("site"))
    nested = frame.withColumn("site", sql.struct("site")).withColumn("at", sql.struct("at"))
    described = {"columns": [{"name": name, "kind": "category"} for name in [*INPUTS, "click"]]}
    vector = LRClassifier(order_col="at", features_col="site", label_col="click")
    pyarrow.parquet.write_table(TABLE, folder / "rows.parquet")
    files = spark.read.parquet(f"file://{folder}")
    stream = spark.readStream.schema(frame.schema).parquet(f"file://{folder}")
    half = {"columns": described["columns"][:2]}
    return [
        (lr(label_col="clicks"), frame, "no column 'clicks', only site, user, age, click, at"),
        (lr(), frame.select("*", "site"), "has 2 columns 'site': rename one"),
        (lr(), nested, "order_col: column 'at' is of type struct<at:bigint>: take"),
        (lr(order_col="user"), nested, "input_cols: column 'site' is of type struct<site:string>"),
        (lr(), [1, 2], "fit takes a DataFrame of Spark, not list"),
        (lr(), stream, "fit takes a DataFrame that is no stream"),
        (lr(label_col="site"), frame, "column 'site' is named twice"),
        (lr(rounds=0), frame, "rounds=0 must be a whole number >= 1"),
        (lr(num_workers=2, held_rows=-1), frame, "held_rows=-1 must be a whole number >= 2"),
        (lr(alpha=-1.0), frame, "alpha=-1.0 must be a number > 0"),
        (PQRClassifier(label_col="click", order=-1, input_cols=INPUTS), frame, "order=-1 must be"),
        (PQRRegressor(loss="logistic"), frame, "loss='logistic' must be one of squared, poisson"),
        (vector, frame, "features_col: column 'site' is of type string: make vectors of it"),
        (vector, listed, "features_col: column 'site' is of type array<string>: make vectors"),
        (lr(schema=described), frame, "label_col='click': in the schema that column is category"),
        (lr(schema=half), frame, "the schema does not say what column 'age' is"),
        (lr(schema=Schema(SCHEMA.columns, hash_bits=10)), frame, "hash_bits and max_features"),
        (lr(work_folder="here"), frame, "work_folder='here' must be an absolute path or a URI"),
        (lr(work_folder="/proc/x"), frame, "work_folder: /proc/x/.* cannot be made"),
        (lr(work_folder="nope://x"), frame, "work_folder: nope://x/.* cannot be made"),
        (lr(order_col=None), frame, "the rows come from no files"),
        (lr(order_col=None), files.repartition(2), "have lost their places"),
        (lr(order_col=None), files.orderBy("at"), "have lost their places"),
        (lr(order_col=None), files.limit(9), "have lost their places"),
    ]
