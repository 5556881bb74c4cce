"""Base of Learners in Python: a row given as a dict becomes a Batch of one row."""

from __future__ import annotations

from contextlib import AbstractContextManager

from pqrlearn import _core
from pqrlearn.errors import RowError
from pqrlearn.learners import frames
from pqrlearn.learners.base import Learner
from pqrlearn.learners.given import without_row
from pqrlearn.learners.turns import Turns
from pqrlearn.rows import Batch, Features, plain_error


class NumberedLearner(Learner):
    """A Learner that only handles Batches; the names of features are stored here.

    Whatever changes the model takes a turn of `_turns` alone, for as few rows as it can; whatever
    reads more than one number of it takes one among readers.
    """

    def __init__(self, *, outer: bool = False) -> None:
        self._names = _core.Names()
        self._turns = Turns(outer=outer)

    def _paused(self) -> AbstractContextManager[None]:
        return self._turns.among()

    def learn_one(self, x: Features, y: float, weight: float = 1.0) -> float:
        if self._schema is not None:
            return frames.learn_record(self, x, y, weight)
        with self._turns.alone():
            reader = self._dict_reader()
            try:
                row = reader.read_labelled(x, self.next_feature, self.loss, y, weight)
                margins = self._learn_batch(Batch._unchecked(*row))
            except ValueError as error:
                raise RowError(without_row(error)) from None
            except TypeError as error:
                raise plain_error(error, x, y, weight) from None
            if row[4][0] > 0:
                reader.keep()
        return float(self._linked(margins)[0])

    def margin_one(self, x: Features) -> float:
        if self._schema is not None:
            return frames.record_margin(self, x)
        try:
            row = Batch._unchecked(*self._dict_reader().read(x, self.next_feature))
            return float(self._batch_margins(row)[0])
        except ValueError as error:
            raise RowError(without_row(error)) from None
        except TypeError as error:
            raise plain_error(error, x) from None

    def _dict_reader(self) -> _core.DictReader:
        """One for each row: it holds the row that it reads, and several threads may read."""
        reader = _core.DictReader()
        reader.names = self._names
        return reader

    @property
    def names(self) -> _core.Names:
        return self._names

    def _share_names(self, names: _core.Names) -> None:
        self._names = names
