"""The estimators: `fit` runs rounds on the cluster, and returns a model."""

from __future__ import annotations

from typing import Any, ClassVar

from pyspark.ml import Estimator
from pyspark.ml.util import DefaultParamsWritable, MLReadable
from pyspark.sql import DataFrame

from pqrlearn.errors import HyperError
from pqrlearn.merging.rounds import HELD_ROWS
from pqrlearn.spark.checks import check_frame
from pqrlearn.spark.failures import in_a_sentence
from pqrlearn.spark.fitting import Run, fit
from pqrlearn.spark.models import ClassifierModel, NativeModel, RegressorModel
from pqrlearn.spark.params import SETTINGS, ClickParams, LossParams, PairParams, Shared
from pqrlearn.spark.saving import EstimatorReader

__all__ = [
    "ClassifierModel",
    "LRClassifier",
    "LRRegressor",
    "PQRClassifier",
    "PQRRegressor",
    "RegressorModel",
]


_NUMBERS = ("squared", "poisson")
"""Losses of regressors."""


class _Native(Estimator[Any], Shared, MLReadable[Any], DefaultParamsWritable):
    kind: ClassVar[str]
    model: ClassVar[type[NativeModel]]

    def __init__(self, **given: Any) -> None:
        super().__init__()
        self._setDefault(num_workers=1, rounds=8, passes=1, held_rows=HELD_ROWS)
        if self.hasParam("loss"):
            self._setDefault(loss="squared")
        self._set_given(given)

    @classmethod
    def read(cls) -> EstimatorReader:
        return EstimatorReader(cls)

    def _loss(self) -> str:
        if not self.hasParam("loss"):
            return "logistic"
        found: str = self._given("loss")
        if found not in _NUMBERS:
            raise HyperError(
                f"loss={found!r} must be one of {', '.join(_NUMBERS)}; clicks are for classifiers"
            )
        return found

    def _run(self) -> Run:
        settings = {name: self._given(name) for name in SETTINGS}
        settings = {name: value for name, value in settings.items() if value is not None}
        if settings.get("interaction_scale") == 0:
            settings["interaction_scale"] = None
        return Run(
            kind=self.kind,
            loss=self._loss(),
            settings=settings,
            columns=self._columns(),
            order=self._given("order"),
            order_col=self._given("order_col"),
            workers=self._given("num_workers"),
            rounds=self._given("rounds"),
            passes=self._given("passes"),
            held=self._given("held_rows"),
            folder=self._given("work_folder"),
        )

    def _fit(self, dataset: DataFrame) -> Any:
        run = self._run()
        check_frame(dataset, run.columns, run.order_col)
        model = self.model()
        self._copyValues(model)
        with in_a_sentence("to fit"):
            model.native, model.report = fit(dataset, run)
        return model


_COLUMNS = """`features_col` is a column of vectors, `input_cols` are plain columns that a `schema`
    describes or that are guessed from the first rows; `label_col`, `weight_col` and `order_col`,
    a column of different values that says in which order rows are learned (by default files by
    name). `num_workers` learn at once; in each of the `rounds` of a pass all start from one state
    and are merged, judged by `held_rows` rows that nobody has learned. `work_folder` is one that
    all nodes share."""


class PQRClassifier(_Native, PairParams, ClickParams):
    __doc__ = f"""Projective quadratic regression for clicks.

    {_COLUMNS} `order`, `alpha`, `beta`, `l1`, `l2`, `interaction_scale`, `bias` are those of PQR.

    >>> PQRClassifier(input_cols=["site", "hour"], label_col="click", rounds=4).getLabelCol()
    'click'
    """

    kind, model = "pqr", ClassifierModel


class PQRRegressor(_Native, PairParams, LossParams):
    __doc__ = f"""Projective quadratic regression for ratings, or with loss="poisson" for counts.

    {_COLUMNS} `order`, `alpha`, `beta`, `l1`, `l2`, `interaction_scale`, `bias` are those of PQR.

    >>> PQRRegressor(features_col="x", loss="poisson").getFeaturesCol()
    'x'
    """

    kind, model = "pqr", RegressorModel


class LRClassifier(_Native, ClickParams):
    __doc__ = f"""Logistic regression for clicks.

    {_COLUMNS} `alpha`, `beta`, `l1`, `l2` and `bias` are those of LR.

    >>> LRClassifier(num_workers=4).getPredictionCol()
    'prediction'
    """

    kind, model = "lr", ClassifierModel


class LRRegressor(_Native, LossParams):
    __doc__ = f"""Linear regression for ratings, or with loss="poisson" for counts.

    {_COLUMNS} `alpha`, `beta`, `l1`, `l2` and `bias` are those of LR.

    >>> LRRegressor(num_workers=4).getLabelCol()
    'label'
    """

    kind, model = "lr", RegressorModel
