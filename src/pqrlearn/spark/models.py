"""Trained models: they predict columns, and save what Spark and pqrlearn need."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.ml import Model
from pyspark.ml.functions import array_to_vector
from pyspark.ml.util import (
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql import DataFrame, functions

from pqrlearn.learners import Learner, from_bytes
from pqrlearn.merging.rounds import Round
from pqrlearn.rows import Batch
from pqrlearn.spark.params import ClickParams, LossParams, PairParams, Shared
from pqrlearn.spark.reading import vector_parts

_PIECE = 1 << 26  # bytes in a cell
_FOUND = "pqr_found"


@lru_cache(maxsize=2)
def _loaded(data: bytes) -> Learner:
    return from_bytes(data)


class NativeModel(Model, Shared, PairParams, MLReadable[Any], MLWritable):
    """A model: `native` is the plain pqrlearn model, `report` what each round showed."""

    native: Learner
    report: list[Round]

    def _predicted(self, dataset: DataFrame) -> DataFrame:
        """The rows with a column of margins and predictions."""
        data, vector = self.native.to_bytes(), self._columns().vector
        columns = [vector] if vector is not None else list(self._columns().inputs)

        def predict(rows: pa.Array) -> pa.Array:
            learner = _loaded(data)
            if vector is not None:
                made: Any = Batch._made(*vector_parts(rows.field(vector)), None, None)
            else:
                made = pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)])
            margins = learner.margin_many(made)
            predictions = learner._linked(margins.copy())
            arrays = [pa.array(margins), pa.array(predictions)]
            return pa.StructArray.from_arrays(arrays, ["margin", "prediction"])

        rows = functions.struct(*(functions.col(f"`{name}`").alias(name) for name in columns))
        task = functions.arrow_udf(predict, "margin double, prediction double")  # type: ignore[attr-defined]
        return dataset.withColumn(_FOUND, task(rows))

    def write(self) -> MLWriter:
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader[Any]:
        return _Reader(cls)


class ClassifierModel(NativeModel, ClickParams):
    """Predicts clicks: a raw prediction, a probability and a prediction of 0 or 1."""

    def _transform(self, dataset: DataFrame) -> DataFrame:
        found = self._predicted(dataset)
        margin, chance = functions.col(f"{_FOUND}.margin"), functions.col(f"{_FOUND}.prediction")
        made = {
            self.getRawPredictionCol(): array_to_vector(functions.array(-margin, margin)),
            self.getProbabilityCol(): array_to_vector(functions.array(1 - chance, chance)),
            self.getPredictionCol(): (margin > 0).cast("double"),
        }
        return found.withColumns({name: column for name, column in made.items() if name}).drop(
            _FOUND
        )


class RegressorModel(NativeModel, LossParams):
    """Predicts ratings or mean counts."""

    def _transform(self, dataset: DataFrame) -> DataFrame:
        found = self._predicted(dataset)
        return found.withColumn(
            self.getPredictionCol(), functions.col(f"{_FOUND}.prediction")
        ).drop(_FOUND)


class _Writer(MLWriter):
    def __init__(self, model: NativeModel) -> None:
        super().__init__()
        self._model = model

    def saveImpl(self, path: str) -> None:  # noqa: N802  (Spark's name)
        report = json.dumps([asdict(each) for each in self._model.report])
        extra = {"report": report}
        DefaultParamsWriter.saveMetadata(self._model, path, self.sparkSession, extra)
        data = self._model.native.to_bytes()
        rows = [
            (number, bytearray(data[start : start + _PIECE]))
            for number, start in enumerate(range(0, len(data), _PIECE))
        ]
        frame = self.sparkSession.createDataFrame(rows, "number int, data binary")
        frame.coalesce(1).write.parquet(f"{path}/native")


class _Reader(MLReader[Any]):
    def __init__(self, cls: type[NativeModel]) -> None:
        super().__init__()
        self._cls = cls

    def load(self, path: str) -> NativeModel:
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession)
        model = self._cls()
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        rows = self.sparkSession.read.parquet(f"{path}/native").orderBy("number").collect()
        model.native = from_bytes(b"".join(bytes(row["data"]) for row in rows))
        model.report = [Round(**each) for each in json.loads(metadata["report"])]
        return model
