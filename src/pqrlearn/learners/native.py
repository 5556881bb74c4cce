"""Base of Learners whose loop is native."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from pqrlearn import _core
from pqrlearn.errors import RowError
from pqrlearn.learners import frames
from pqrlearn.learners.base import Learner
from pqrlearn.learners.given import complete, located, without_row
from pqrlearn.rows import Batch, Features, FloatArray, plain_error


class NativeLearner(Learner):
    """A Learner whose loop is native.

    One thread may learn while others predict, save or copy: they see the model between two rows,
    never in the middle of one. Learning waits while the model is saved or copied.
    """

    _model: Any
    """The native model; all kinds have the same interface."""

    @contextmanager
    def _paused(self) -> Iterator[None]:
        self._model.hold()
        try:
            yield
        finally:
            self._model.release()

    def learn_one(self, x: Features, y: float, weight: float = 1.0) -> float:
        if self._schema is not None:
            return frames.learn_record(self, x, y, weight)
        try:
            prediction: float = self._model.learn_dict(x, y, weight)
            return prediction
        except ValueError as error:
            raise RowError(without_row(error)) from None
        except TypeError as error:
            raise plain_error(error, x, y, weight) from None

    def predict_one(self, x: Features) -> float:
        if self._schema is not None:
            return super().predict_one(x)
        try:
            prediction: float = self._model.predict_dict(x)
            return prediction
        except ValueError as error:
            raise RowError(without_row(error)) from None
        except TypeError as error:
            raise plain_error(error, x) from None

    def margin_one(self, x: Features) -> float:
        if self._schema is not None:
            return frames.record_margin(self, x)
        try:
            margin: float = self._model.margin_dict(x)
            return margin
        except ValueError as error:
            raise RowError(without_row(error)) from None
        except TypeError as error:
            raise plain_error(error, x) from None

    def _batch_margins(self, batch: Batch) -> FloatArray:
        margins = self._model.margin(batch.indptr, batch.indices, batch.values)
        return complete(margins, batch, partial(self._why_refused, learns=False))

    def _batch_predictions(self, batch: Batch) -> FloatArray:
        predictions: FloatArray = self._model.predict(batch.indptr, batch.indices, batch.values)
        complete = len(predictions) == len(batch)  # otherwise computing margins raises the error
        return predictions if complete else super()._batch_predictions(batch)

    def _learn_batch(self, batch: Batch) -> FloatArray:
        try:
            margins = self._learned(batch)
        except ValueError as error:
            raise located(error, batch) from None
        return complete(margins, batch, partial(self._why_refused, learns=True))

    def _why_refused(self, row: Batch, *, learns: bool) -> str:
        teaches = learns and bool(row.weights[0] > 0)
        why: str = self._model.why_refused(row.indptr, row.indices, row.values, teaches)
        return why

    def _learned(self, batch: Batch) -> FloatArray:
        margins: FloatArray = self._model.learn(
            batch.indptr, batch.indices, batch.values, batch.labels, batch.weights
        )
        return margins

    @property
    def rows(self) -> int:
        return int(self._model.rows)

    @property
    def names(self) -> _core.Names:
        names: _core.Names = self._model.names
        return names

    @property
    def next_feature(self) -> int:
        return int(self._model.next_feature)

    def _share_names(self, names: _core.Names) -> None:
        self._model.names = names
