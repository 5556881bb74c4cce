"""Base of Learners in Python: a row given as a dict becomes a Batch of one row."""

from __future__ import annotations

from pqrlearn import _core
from pqrlearn.errors import RowError
from pqrlearn.learners import frames
from pqrlearn.learners.base import Learner
from pqrlearn.learners.given import without_row
from pqrlearn.rows import Batch, Features, plain_error


class NumberedLearner(Learner):
    """A Learner that only handles Batches; the names of features are stored here."""

    def __init__(self) -> None:
        self._reader = _core.DictReader()

    def learn_one(self, x: Features, y: float, weight: float = 1.0) -> float:
        if self._schema is not None:
            return frames.learn_record(self, x, y, weight)
        try:
            row = self._reader.read_labelled(x, self.next_feature, self.loss, y, weight)
            margins = self._learn_batch(Batch._unchecked(*row))
        except ValueError as error:
            raise RowError(without_row(error)) from None
        except TypeError as error:
            raise plain_error(error, x, y, weight) from None
        if row[4][0] > 0:
            self._reader.keep()
        return float(self._linked(margins)[0])

    def margin_one(self, x: Features) -> float:
        if self._schema is not None:
            return frames.record_margin(self, x)
        try:
            row = Batch._unchecked(*self._reader.read(x, self.next_feature))
            return float(self._batch_margins(row)[0])
        except ValueError as error:
            raise RowError(without_row(error)) from None
        except TypeError as error:
            raise plain_error(error, x) from None

    @property
    def names(self) -> _core.Names:
        return self._reader.names

    def _share_names(self, names: _core.Names) -> None:
        self._reader.names = names
