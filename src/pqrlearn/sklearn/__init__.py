"""Estimators for scikit-learn: in pipelines, searches and cross-validation like any other.

Each class and what it does with columns is described in docs/python.md.
"""

from __future__ import annotations

from pqrlearn.errors import MissingExtra

try:
    from pqrlearn.sklearn.estimators import (
        AutoClassifier,
        AutoRegressor,
        DiFactoClassifier,
        DiFactoRegressor,
        FMClassifier,
        FMRegressor,
        LRClassifier,
        LRRegressor,
        PQRClassifier,
        PQRRegressor,
    )
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] != "sklearn":
        raise
    raise MissingExtra("estimators for scikit-learn", "sklearn") from None

__all__ = [
    "AutoClassifier",
    "AutoRegressor",
    "DiFactoClassifier",
    "DiFactoRegressor",
    "FMClassifier",
    "FMRegressor",
    "LRClassifier",
    "LRRegressor",
    "PQRClassifier",
    "PQRRegressor",
]
