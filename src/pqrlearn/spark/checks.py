"""Whether a DataFrame has what is needed, asked on the driver before any task runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from pyspark.ml.linalg import VectorUDT
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, AtomicType, BooleanType, NumericType

from pqrlearn.errors import HyperError
from pqrlearn.schema import Schema
from pqrlearn.spark.plan import Columns


def check_frame(frame: Any, columns: Columns, order_col: str | None) -> None:
    """HyperError, in one sentence, if rows cannot be learned from a DataFrame."""
    if not isinstance(frame, DataFrame):
        raise HyperError(f"fit takes a DataFrame of Spark, not {type(frame).__name__}")
    if frame.isStreaming:
        raise HyperError("fit takes a DataFrame that is no stream: write the stream to a table")
    check_columns(frame, [*columns.all, *([order_col] if order_col else [])])
    _check_roles(columns)
    types = {each.name: each.dataType for each in frame.schema.fields}
    if order_col is not None and not isinstance(types[order_col], AtomicType):
        raise _wrong("order_col", order_col, types, "take a column of numbers, texts or times")
    if columns.vector is None:
        check_inputs(frame, columns)
        return
    if columns.schema is not None:
        raise HyperError("a schema describes input_cols: give them, too")
    check_inputs(frame, columns)
    for role, name in (("label_col", columns.label), ("weight_col", columns.weight)):
        if name is not None and not isinstance(types[name], NumericType | BooleanType):
            raise _wrong(role, name, types, "make numbers of it, by StringIndexer or cast")


def check_columns(frame: DataFrame, wanted: Iterable[str]) -> None:
    """All of them are there, once."""
    known = Counter(frame.columns)
    for name in wanted:
        if not known[name]:
            shown = ", ".join(known)
            raise HyperError(f"the DataFrame has no column {name!r}, only {shown}")
        if known[name] > 1:
            raise HyperError(f"the DataFrame has {known[name]} columns {name!r}: rename one")


def check_inputs(frame: DataFrame, columns: Columns) -> None:
    """Features are vectors, or plain columns."""
    types = {each.name: each.dataType for each in frame.schema.fields}
    if columns.vector is not None:
        if not isinstance(types[columns.vector], VectorUDT):
            way = "make vectors of it, by VectorAssembler or array_to_vector, or give input_cols"
            raise _wrong("features_col", columns.vector, types, way)
        return
    for name in columns.inputs:
        if isinstance(types[name], VectorUDT):
            raise _wrong("input_cols", name, types, f"give features_col={name!r} instead")
        if not isinstance(types[name], AtomicType | ArrayType) and types[name].typeName() != "void":
            raise _wrong("input_cols", name, types, "make plain columns of it first")


def _check_roles(columns: Columns) -> None:
    """No column is two things."""
    twice = [name for name, count in Counter(columns.all).items() if count > 1]
    if twice:
        raise HyperError(
            f"column {twice[0]!r} is named twice among input_cols, features_col, label_col and "
            "weight_col: each column is one thing"
        )
    if columns.schema is not None and columns.vector is None:
        _check_schema(columns, columns.schema)


def _check_schema(columns: Columns, schema: Schema) -> None:
    if schema.hash_bits is not None or schema.max_features is not None:
        raise HyperError(
            "hash_bits and max_features of a schema are not for Spark: names are counted exactly"
        )
    for name in columns.all:
        if name not in schema:
            raise HyperError(f"the schema does not say what column {name!r} is")
    for name in schema.used():
        if name not in columns.all:
            raise HyperError(
                f"column {name!r} of the schema is not among input_cols, label_col and weight_col"
            )
    for role, kind, wanted in (
        ("label_col", "label", columns.label),
        ("weight_col", "weight", columns.weight),
    ):
        if wanted is not None and schema[wanted].kind != kind:
            raise HyperError(
                f"{role}={wanted!r}: in the schema that column is {schema[wanted].kind}, not {kind}"
            )
    for name in columns.inputs:
        if schema[name].kind in ("label", "weight"):
            raise HyperError(
                f"input_cols: in the schema column {name!r} is {schema[name].kind}, not a feature"
            )


def _wrong(role: str, name: str, types: dict[str, Any], way_out: str) -> HyperError:
    found = types[name]
    kind = "vector" if isinstance(found, VectorUDT) else found.simpleString()
    return HyperError(f"{role}: column {name!r} is of type {kind}: {way_out}")
