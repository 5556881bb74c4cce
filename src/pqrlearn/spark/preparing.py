"""From a DataFrame to numbered rows in order, cut into pieces; and exact counts of features."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import IntegerType, LongType, StructField, StructType, UserDefinedType

from pqrlearn.errors import DataError, HyperError
from pqrlearn.guess import SAMPLE_ROWS, Choices, guess
from pqrlearn.names import Names
from pqrlearn.spark import reading
from pqrlearn.spark.folder import Folder
from pqrlearn.spark.plan import LOCAL, ORDER, PART, Columns, Cuts, quoted

_LOG = logging.getLogger("pqrlearn.spark")
_SHUFFLE = re.compile(r"^[\W\d]*(Exchange|CollectLimit|TakeOrderedAndProject)\b", re.MULTILINE)


@dataclass(frozen=True)
class Placed:
    """Rows in order, in a table, and the number of the first row of each of its partitions."""

    table: Folder
    offsets: dict[int, int]
    rows: int


@dataclass(frozen=True)
class Found:
    """What was counted: features that occur, rising, each with its count; and their names."""

    features: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint64]
    names: Names
    name_table: Folder | None


def place(frame: DataFrame, columns: Columns, order_col: str | None, folder: Folder) -> Placed:
    """Sorts the rows and numbers them: by a column, or by the names of their files."""
    keys = _keys(frame, order_col)
    pairs = zip(columns.all, columns.stored, strict=True)
    wanted = [functions.col(quoted(name)).alias(stored) for name, stored in pairs]
    shown = [functions.col(quoted(order_col)).alias(ORDER)] if order_col else []
    names = [f"pqr_key_{number}" for number in range(len(keys))]
    keyed = [key.alias(name) for key, name in zip(keys, names, strict=True)]
    ordered = frame.select(*wanted, *shown, *keyed).orderBy(*names).drop(*names)
    fields = [
        StructField(each.name, _plain(each.dataType), each.nullable)
        for each in ordered.schema.fields
        if each.name != ORDER
    ]
    placing = [StructField(PART, IntegerType()), StructField(LOCAL, LongType())]
    shared = folder / "shared"
    shared.make()
    table = folder / "rows"
    task = partial(reading.placed, ordered_by=order_col, shared=shared)
    table.write(ordered.mapInArrow(task, StructType([*fields, *placing])))
    counted = _read(frame, table).groupBy(PART).count().collect()
    sizes = {row[PART]: row["count"] for row in counted}
    offsets, start = {}, 0
    for part in sorted(sizes):
        offsets[part] = start
        start += sizes[part]
    if not start:
        raise DataError("the DataFrame has no rows to learn from")
    return Placed(table, offsets, start)


def _keys(frame: DataFrame, order_col: str | None) -> list[Any]:
    if order_col is not None:
        return [functions.col(quoted(order_col))]
    keys = [functions.col("_metadata.file_path"), functions.col("_metadata.file_block_start")]
    shown = logging.getLogger("DataFrameQueryContextLogger")
    before, shown.disabled = shown.disabled, True  # Spark would print a page about a question
    try:
        plan = frame.select(*keys)._jdf.queryExecution().executedPlan().toString()
    except AnalysisException:
        raise HyperError(
            "the rows come from no files whose names would tell their order: give order_col, "
            "a column whose values differ"
        ) from None
    finally:
        shown.disabled = before
    if _SHUFFLE.search(plan):
        raise HyperError(
            "the rows of the files have lost their places (by orderBy, repartition, limit or the "
            "like): give order_col, a column whose values differ"
        )
    return [*keys, functions.monotonically_increasing_id()]


def _plain(kind: Any) -> Any:
    return kind.sqlType() if isinstance(kind, UserDefinedType) else kind


def _read(frame: DataFrame, folder: Folder) -> DataFrame:
    return frame.sparkSession.read.parquet(folder.uri)


def with_schema(frame: DataFrame, columns: Columns, placed: Placed) -> Columns:
    """Columns whose schema is guessed from the first rows, unless it is known."""
    if columns.vector is not None or columns.schema is not None:
        return columns
    first = _read(frame, placed.table).orderBy(PART, LOCAL).limit(SAMPLE_ROWS)
    choices = Choices(label=columns.label, weight=columns.weight)
    try:
        sample = first.select(*columns.stored).toArrow().rename_columns(columns.all)
        schema = guess(sample, choices)
    except HyperError as error:
        if error.case[:1] != ("text label",):
            raise
        raise HyperError(f"{error} in a schema, or make numbers of it, by StringIndexer") from None
    for name in columns.inputs:
        if schema[name].kind == "ignored":
            _LOG.warning("column %r is ignored: %s", name, schema.notes[name])
    return replace(columns, schema=schema)


def count(frame: DataFrame, columns: Columns, loss: str, placed: Placed, folder: Folder) -> Found:
    """In how many rows each feature is, by one aggregation; names are numbered as they come."""
    about: dict[str, Any] = {"columns": columns, "loss": loss, "offsets": placed.offsets}
    rows = _read(frame, placed.table)
    if columns.vector is not None:
        task = partial(reading.numbered_counts, **about)
        numbered = rows.mapInArrow(task, "feature long, count long").groupBy("feature")
        table = numbered.agg(functions.sum("count").alias("count")).orderBy("feature").toArrow()
        features = table.column("feature").to_numpy().astype(np.uint32)
        return Found(features, table.column("count").to_numpy().astype(np.uint64), Names(), None)
    task = partial(reading.named_counts, **about)
    named = rows.mapInArrow(task, "name string, count long, first long, within long")
    place = functions.min(functions.struct("first", "within")).alias("place")
    total = functions.sum("count").alias("count")
    counted = named.groupBy("name").agg(total, place).orderBy("place").select("name", "count")
    return _named(frame, counted.toArrow(), folder)


def _named(frame: DataFrame, table: Any, folder: Folder) -> Found:
    """The dictionary on the driver, and once in the folder for the tasks."""
    import pyarrow as pa

    features = np.arange(table.num_rows, dtype=np.int64)
    numbered = pa.table({"feature": features, "name": table.column("name")})
    folder.write(frame.sparkSession.createDataFrame(numbered).coalesce(1))
    counts = table.column("count").to_numpy().astype(np.uint64)
    return Found(features.astype(np.uint32), counts, reading.read_names(folder), folder)


def cut(
    frame: DataFrame,
    columns: Columns,
    loss: str,
    placed: Placed,
    found: Found,
    cuts: Cuts,
    folder: Folder,
) -> None:
    """Writes numbered rows, a folder for each piece, in order."""
    task = partial(
        reading.encoded,
        columns=columns,
        loss=loss,
        offsets=placed.offsets,
        names=found.name_table,
        ends=cuts.ends,
    )
    rows = _read(frame, placed.table).mapInArrow(task, reading.NUMBERED)
    pieces = min(len(cuts.ends), 1_000)
    sorted_rows = rows.repartition(pieces, "piece").sortWithinPartitions("piece", "at")
    folder.write(sorted_rows, "piece")
