"""The parameters of estimators and models, in the manner of Spark."""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasFeaturesCol,
    HasInputCols,
    HasLabelCol,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
    HasWeightCol,
)

from pqrlearn.errors import HyperError
from pqrlearn.schema import Schema
from pqrlearn.spark.plan import Columns

SPARK_NAMES = {
    "features_col": "featuresCol",
    "input_cols": "inputCols",
    "label_col": "labelCol",
    "weight_col": "weightCol",
    "prediction_col": "predictionCol",
    "probability_col": "probabilityCol",
    "raw_prediction_col": "rawPredictionCol",
}
"""Arguments, and what Spark calls the parameters."""
SETTINGS = ("alpha", "beta", "l1", "l2", "interaction_scale", "bias")


def _own(name: str, doc: str, converter: Any) -> Any:
    return Param(Params._dummy(), name, doc, typeConverter=converter)


def _schema(given: Any) -> Schema:
    """A Schema, its JSON as a value or as text, or the path of its TOML."""
    if isinstance(given, str) and given.lstrip().startswith("{"):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise HyperError(f"the schema is no JSON: {error}") from None
    return Schema.of(given)


class Shared(HasFeaturesCol, HasInputCols, HasLabelCol, HasWeightCol, HasPredictionCol):
    """What estimators and their models share."""

    num_workers = _own("num_workers", "Workers that learn at once.", TypeConverters.toInt)
    rounds = _own("rounds", "Merges in a pass over the rows.", TypeConverters.toInt)
    passes = _own("passes", "Passes over the rows.", TypeConverters.toInt)
    held_rows = _own("held_rows", "Unlearned rows that judge a merge.", TypeConverters.toInt)
    order_col = _own("order_col", "Column that orders the rows.", TypeConverters.toString)
    work_folder = _own("work_folder", "Folder that all nodes share.", TypeConverters.toString)
    schema = _own("schema", "What the input columns are, as JSON.", TypeConverters.toString)
    alpha = _own("alpha", "Learning rate.", TypeConverters.toFloat)
    beta = _own("beta", "Damps the first steps.", TypeConverters.toFloat)
    l1 = _own("l1", "l1 regularisation.", TypeConverters.toFloat)
    l2 = _own("l2", "l2 regularisation.", TypeConverters.toFloat)
    bias = _own("bias", "Whether there is an always-on coordinate.", TypeConverters.toBoolean)

    def _set_given(self, given: dict[str, Any]) -> None:
        """Sets the arguments that are not None, under Spark's names."""
        self._check_names(given)
        arguments = {name: value for name, value in given.items() if value is not None}
        schema = arguments.get("schema")
        if schema is not None:
            arguments["schema"] = json.dumps(_schema(schema).to_json(), sort_keys=True)
        self._set(**{SPARK_NAMES.get(name, name): value for name, value in arguments.items()})

    def _check_names(self, given: dict[str, Any]) -> None:
        ours = {name: short for short, name in SPARK_NAMES.items()}
        known = [ours.get(param.name, param.name) for param in self.params]
        for name in given:
            if name not in known:
                near = get_close_matches(name, known, 1)
                way = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}"
                raise TypeError(f"{type(self).__name__} has no argument {name!r}: {way}")

    def _given(self, name: str) -> Any:
        """The value of a parameter, or None."""
        known = SPARK_NAMES.get(name, name)
        if not self.hasParam(known):
            return None
        param = self.getParam(known)
        return self.getOrDefault(param) if self.isDefined(param) else None

    def _columns(self) -> Columns:
        inputs, schema = self._given("input_cols"), self._given("schema")
        weight = self._given("weight_col")
        return Columns(
            label=self._given("label_col"),
            weight=weight or None,
            vector=None if inputs else self._given("features_col"),
            inputs=tuple(inputs or ()),
            schema=None if schema is None else Schema.from_json(json.loads(schema)),
        )


class PairParams(Params):
    """What PQR has beside."""

    order = _own("order", "How many features are high.", TypeConverters.toInt)
    interaction_scale = _own(
        "interaction_scale",
        "Scales interactions; 0 leaves them as they are.",
        TypeConverters.toFloat,
    )


class ClickParams(HasProbabilityCol, HasRawPredictionCol):
    """What classifiers have beside."""


class LossParams(Params):
    """What regressors have beside."""

    loss = _own("loss", "squared, or poisson for counts.", TypeConverters.toString)
