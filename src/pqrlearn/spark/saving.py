"""Models and estimators in folders, by Spark's ML persistence.

All files go through the session's file systems, so that a folder may be any URI that Spark knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader, MLWriter

from pqrlearn.errors import Corrupt, HyperError, NotAModel
from pqrlearn.learners import from_bytes
from pqrlearn.merging.rounds import Round
from pqrlearn.spark.failures import in_a_sentence, reason_of

_PIECE = 1 << 26  # bytes in a cell
_FAILURES = (PySparkException, Py4JJavaError, ValueError, KeyError, TypeError)
"""What a folder that somebody else wrote, or damaged, may lead to."""


class ModelWriter(MLWriter):
    """Saves Spark's metadata, the report, and the model's bytes as a table."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model = model

    def saveImpl(self, path: str) -> None:  # noqa: N802  (Spark's name)
        extra = {"report": json.dumps([asdict(each) for each in self._model.report])}
        data = self._model.native.to_bytes()
        rows = [
            (number, bytearray(data[start : start + _PIECE]))
            for number, start in enumerate(range(0, len(data), _PIECE))
        ]
        frame = self.sparkSession.createDataFrame(rows, "number int, data binary")
        with in_a_sentence(f"to save {path}"), _told_how_to_overwrite(path):
            DefaultParamsWriter.saveMetadata(self._model, path, self.sparkSession, extra)
            frame.coalesce(1).write.parquet(f"{path}/native")


@contextmanager
def _told_how_to_overwrite(path: str) -> Iterator[None]:
    try:
        yield
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise HyperError(
            f"{path} has a model already: model.write().overwrite().save(path) replaces it"
        ) from None


class ModelReader(MLReader[Any]):
    """Loads what ModelWriter has saved."""

    def __init__(self, cls: Any) -> None:
        super().__init__()
        self._cls = cls

    def load(self, path: str) -> Any:
        metadata = _metadata(path, self.sparkSession, self._cls)
        model = self._cls()
        with _damage(path):
            model._resetUid(metadata["uid"])
            DefaultParamsReader.getAndSetParams(model, metadata)
            rows = self.sparkSession.read.parquet(f"{path}/native").collect()
            pieces = {row["number"]: bytes(row["data"]) for row in rows}
            model.native = from_bytes(b"".join(pieces[number] for number in sorted(pieces)))
            model.report = [Round(**each) for each in json.loads(metadata["report"])]
        return model


class EstimatorReader(DefaultParamsReader[Any]):
    """Loads an estimator, and no other class than the one that is asked."""

    cls: Any

    def __init__(self, cls: Any) -> None:
        super().__init__(cls)

    def load(self, path: str) -> Any:
        _metadata(path, self.sparkSession, self.cls)
        with _damage(path):
            return super().load(path)


def _metadata(path: str, session: Any, cls: Any) -> dict[str, Any]:
    """What Spark saves of all classes; NotAModel unless it is of this one."""
    try:
        found = DefaultParamsReader.loadMetadata(path, session)
    except _FAILURES:
        raise NotAModel(f"{path}: there is no {cls.__name__}, as its save would write it") from None
    name = found["class"]
    if name != f"{cls.__module__}.{cls.__name__}":
        raise NotAModel(f"{path} has a {name.rpartition('.')[2]}, not a {cls.__name__}")
    return found


@contextmanager
def _damage(path: str) -> Iterator[None]:
    try:
        yield
    except (*_FAILURES, AttributeError) as error:
        raise Corrupt(f"{path} is incomplete or damaged: {reason_of(error)}") from None
