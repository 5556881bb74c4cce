"""Trained models: they predict columns, and save what Spark and pqrlearn need."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.ml import Model
from pyspark.ml.functions import array_to_vector
from pyspark.ml.util import MLReadable, MLReader, MLWritable, MLWriter
from pyspark.sql import DataFrame, functions

from pqrlearn.errors import RowError
from pqrlearn.learners import Learner, from_bytes
from pqrlearn.merging.rounds import Round
from pqrlearn.rows import Batch
from pqrlearn.spark.checks import check_columns, check_inputs
from pqrlearn.spark.params import ClickParams, LossParams, PairParams, Shared
from pqrlearn.spark.plan import quoted
from pqrlearn.spark.reading import vector_parts
from pqrlearn.spark.saving import ModelReader, ModelWriter


@lru_cache(maxsize=2)
def _loaded(data: bytes) -> Learner:
    return from_bytes(data)


class NativeModel(Model, Shared, PairParams, MLReadable[Any], MLWritable):
    """A model: `native` is the plain pqrlearn model, `report` what each round showed."""

    native: Learner
    report: list[Round]

    def _predicted(self, dataset: DataFrame) -> tuple[DataFrame, str]:
        """The rows with a column of margins and predictions, and its name."""
        data, columns = self.native.to_bytes(), self._columns()
        vector = columns.vector
        inputs = [vector] if vector is not None else list(columns.inputs)
        check_columns(dataset, inputs)
        check_inputs(dataset, columns)

        def predict(rows: pa.Array) -> pa.Array:
            learner = _loaded(data)
            try:
                if vector is not None:
                    parts = vector_parts(rows.field(vector), vector)
                    margins = learner.margin_many(Batch._made(*parts, None, None))
                else:
                    batch = pa.RecordBatch.from_struct_array(rows)
                    margins = learner.margin_many(pa.Table.from_batches([batch]))
            except RowError as error:  # its number in a batch of Spark's says nothing
                raise RowError(re.sub(r"^row \d+: ", "", error.message)) from None
            predictions = learner._linked(margins.copy())
            arrays = [pa.array(margins), pa.array(predictions)]
            return pa.StructArray.from_arrays(arrays, ["margin", "prediction"])

        rows = functions.struct(*(functions.col(quoted(name)).alias(name) for name in inputs))
        task = functions.arrow_udf(predict, "margin double, prediction double")  # type: ignore[attr-defined]
        found = "pqr_found"
        while found in dataset.columns:
            found += "_"
        return dataset.withColumn(found, task(rows)), found

    def write(self) -> MLWriter:
        return ModelWriter(self)

    @classmethod
    def read(cls) -> MLReader[Any]:
        return ModelReader(cls)


class ClassifierModel(NativeModel, ClickParams):
    """Predicts clicks: a raw prediction, a probability and a prediction of 0 or 1."""

    def _transform(self, dataset: DataFrame) -> DataFrame:
        rows, found = self._predicted(dataset)
        margin, chance = functions.col(f"{found}.margin"), functions.col(f"{found}.prediction")
        made = {
            self.getRawPredictionCol(): array_to_vector(functions.array(-margin, margin)),
            self.getProbabilityCol(): array_to_vector(functions.array(1 - chance, chance)),
            self.getPredictionCol(): (margin > 0).cast("double"),
        }
        return rows.withColumns({name: made[name] for name in made if name}).drop(found)


class RegressorModel(NativeModel, LossParams):
    """Predicts ratings or mean counts."""

    def _transform(self, dataset: DataFrame) -> DataFrame:
        rows, found = self._predicted(dataset)
        prediction = functions.col(f"{found}.prediction")
        return rows.withColumn(self.getPredictionCol(), prediction).drop(found)
