"""Estimators for Spark: rounds of workers that learn from one state, then merge.

Each class is described in docs/spark.md, the rule of merging in docs/merging.md.
"""

from __future__ import annotations

from pqrlearn.errors import MissingExtra

try:
    from pqrlearn.spark.estimators import (
        ClassifierModel,
        LRClassifier,
        LRRegressor,
        PQRClassifier,
        PQRRegressor,
        RegressorModel,
    )
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] not in ("pyspark", "py4j"):
        raise
    raise MissingExtra("estimators for Spark", "spark") from None

__all__ = [
    "ClassifierModel",
    "LRClassifier",
    "LRRegressor",
    "PQRClassifier",
    "PQRRegressor",
    "RegressorModel",
]
