"""The interface of every Learner. tests/contract.py has the checks that all of them pass."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import index
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from pqrlearn import _core, modelfile, threads  # noqa: F401  (which reads PQRLEARN_THREADS)
from pqrlearn.errors import Corrupt, HyperError, NotAModel, RowError
from pqrlearn.frames import is_frame
from pqrlearn.learners import frames
from pqrlearn.learners.given import are_dicts, as_batch, each_row, located
from pqrlearn.learners.looking import Looking
from pqrlearn.learners.state import State
from pqrlearn.loss import LossName
from pqrlearn.rows import Batch, Features, FloatArray, Numbers, RowsLike, as_numbers
from pqrlearn.schema import Schema
from pqrlearn.separation import add_names, name_tensors, names_from


class Learner(Looking, ABC):
    """A model that learns and predicts, one row at a time.

    A Learner never counts, splits or shuffles rows. The same rows in the same order give the same
    bits, however they are cut into batches.
    """

    kind: ClassVar[str]
    blocks: tuple[str, ...]
    loss: LossName
    progress: Any = None
    """If it was loaded from a checkpoint: how far that run had come."""
    run: Any = None
    """What the run of `pqrlearn.train` showed: a Pass."""
    held_out: Any = None
    """What the finished model showed on the rows that `pqrlearn.train` held out: a Pass."""
    _schema: Schema | None = None
    _records: Any = None
    _learned_names: int | None = None  # while names are lent: those that it has learned are below

    @property
    def schema(self) -> Schema | None:
        """What the columns are of the tables it learns from; saved with the model.

        Dicts are then rows of such a table: the schema says what their values are.

        >>> from pqrlearn import LR, Column, Schema
        >>> model = LR()
        >>> model.schema = Schema((Column("user", "category"),))
        >>> _ = model.learn_one({"user": 17}, 1)
        >>> model.name_of(0)
        'user=17'
        """
        return self._schema

    @schema.setter
    def schema(self, schema: Schema | None) -> None:
        self._schema = None if schema is None else Schema.of(schema)

    # -- learning and predicting ------------------------------------------------

    @abstractmethod
    def learn_one(self, x: Features, y: float, weight: float = 1.0) -> float:
        """Predicts `x`, then learns its label `y`; returns the prediction.

        >>> from pqrlearn import LR
        >>> model = LR()
        >>> model.learn_one({"site": "news", "hour": "9"}, 1)
        0.5
        """

    @abstractmethod
    def margin_one(self, x: Features) -> float:
        """The raw score of one row; its prediction is link(margin).

        >>> from pqrlearn import LR
        >>> LR().margin_one({"site": "news"})
        0.0
        """

    def learn_margins(self, batch: Batch) -> FloatArray:
        """Like `learn_many`, but returns margins.

        Labels and weights are checked before the first row is learned. A row whose values are too
        large, or that has too many pairs, raises RefusedRow after the rows before it have been
        learned. New names of the batch are added to the model's, including those of rows with
        weight 0, so that numbers are unique.

        >>> from pqrlearn import LR, Batch
        >>> LR().learn_margins(Batch.from_rows([([3], [1.0])], labels=[1])).tolist()
        [0.0]
        """
        if batch.new_names is not None:
            try:
                _core.check_targets(self.loss, batch.labels, batch.weights)
            except ValueError as error:
                raise located(error, batch) from None
            add_names(self.names, batch.new_names)
            if self._learned_names is not None:
                last = int(batch.new_names.indices[-1])
                self._learned_names = max(self._learned_names, last + 1)
        return self._learn_batch(batch)

    @abstractmethod
    def _learn_batch(self, batch: Batch) -> FloatArray: ...

    def _prepared(self, batch: Batch) -> Batch:
        """The same rows, prepared as far as possible without the model's state; thread-safe."""
        return batch

    def _why_refused(self, row: Batch, *, learns: bool) -> str:
        """Why it refuses the first row of a Batch."""
        return _core.TOO_LARGE

    @abstractmethod
    def _batch_margins(self, batch: Batch) -> FloatArray:
        """`margin_many` for a Batch."""

    def predict_one(self, x: Features) -> float:
        """A click probability, a rating or a mean count, by the loss.

        >>> from pqrlearn import LR
        >>> model = LR()
        >>> _ = model.learn_one({"site": "news"}, 1)
        >>> model.predict_one({"site": "news"}) > 0.5
        True
        """
        return float(self._linked(np.array([self.margin_one(x)]))[0])

    def learn_many(
        self, X: RowsLike, y: Numbers | None = None, weights: Numbers | None = None
    ) -> FloatArray:
        """`learn_one` for each row; returns the predictions made before each was learned.

        Labels and weights may come with a Batch, or as columns of a frame that the schema names.

        >>> from pqrlearn import LR
        >>> model = LR()
        >>> model.learn_many([{"site": "news"}, {"site": "shop"}], [1, 0]).round(2).tolist()
        [0.5, 0.51]
        """
        if are_dicts(X):
            return self._learn_dicts(X, y, weights)
        if is_frame(X):
            return self._linked(frames.learn_frame(self, X, y, weights))
        return self._linked(self.learn_margins(as_batch(X, y, weights)))

    def predict_many(self, X: RowsLike) -> FloatArray:
        """`predict_one` for each row.

        >>> from pqrlearn import LR
        >>> LR("squared").predict_many([{"site": "news"}, {"site": "shop"}]).tolist()
        [0.0, 0.0]
        """
        if are_dicts(X) or is_frame(X):
            return self._linked(self.margin_many(X))
        return self._batch_predictions(as_batch(X))

    def _batch_predictions(self, batch: Batch) -> FloatArray:
        return self._linked(self._batch_margins(batch))

    def margin_many(self, X: RowsLike) -> FloatArray:
        """The raw scores; the predictions are link(margin).

        >>> from pqrlearn import LR
        >>> LR().margin_many([{"site": "news"}]).tolist()
        [0.0]
        """
        if are_dicts(X):
            return each_row(X, self.margin_one)
        if is_frame(X):
            return frames.predict_frame(self, X)
        return self._batch_margins(as_batch(X))

    def _linked(self, margins: FloatArray) -> FloatArray:
        """Turns margins into predictions in place."""
        _core.link(self.loss, margins)
        return margins

    def _learn_dicts(self, X: Sequence[Features], y: Any, weights: Any) -> FloatArray:
        labels = np.zeros(0) if y is None else as_numbers("labels", y)
        amounts = np.ones(len(X)) if weights is None else as_numbers("weights", weights)
        if len(labels) != len(X) or len(amounts) != len(X):
            raise RowError("labels and weights must have one entry per row")
        try:
            _core.check_targets(self.loss, labels, amounts.astype(np.float32))
        except ValueError as error:
            raise RowError(str(error)) from None
        triples = list(zip(X, labels.tolist(), amounts.tolist(), strict=True))
        return each_row(triples, lambda triple: self.learn_one(*triple))

    # -- inspecting -------------------------------------------------------------

    def __repr__(self) -> str:
        nonzeros = sum(self.nonzeros().values())
        about = {"loss": self.loss, **self._size(), "rows": self.rows, "nonzeros": nonzeros}
        shown = ", ".join(f"{name}={value!r}" for name, value in about.items())
        return f"{type(self).__name__}({shown})"

    def _size(self) -> dict[str, Any]:
        """What `repr` shows beside loss, rows and weights: the order, the rank, what rose."""
        return {}

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many rows it has learned.

        >>> from pqrlearn import LR
        >>> LR().rows
        0
        """

    @property
    @abstractmethod
    def names(self) -> _core.Names:
        """The names of its features.

        >>> from pqrlearn import LR
        >>> model = LR()
        >>> _ = model.learn_one({"site": "news"}, 1)
        >>> model.names.name(0), model.names.find("site=news")
        ('site=news', 0)
        """

    @property
    @abstractmethod
    def next_feature(self) -> int:
        """One more than the largest index of a feature that it has learned.

        >>> from pqrlearn import LR
        >>> model = LR()
        >>> _ = model.learn_one({7: 1.0}, 1)
        >>> model.next_feature
        8
        """

    def use_names(self, names: _core.Names) -> None:
        """Sets the names of features, copied. To be called before learning.

        >>> from pqrlearn import LR
        >>> first, second = LR(), LR()
        >>> _ = first.learn_one({"site": "news"}, 1)
        >>> second.use_names(first.names)
        >>> second.name_of(0)
        'site=news'
        """
        if not isinstance(names, _core.Names):
            raise TypeError(
                "names must be those of a model, a separation or a reader, "
                f"not {type(names).__name__}"
            )
        self._share_names(names.copy())

    @abstractmethod
    def _share_names(self, names: _core.Names) -> None:
        """The same without a copy: the dictionary is shared."""

    def _lend_names(self) -> _core.Names:
        """Its names, to which a reader adds those of rows that are learned later, in order.

        Until `_take_names_back`, only the names of rows that it has learned are saved.
        """
        self.names.start_at(self.next_feature)
        self._learned_names = self.names.next_feature
        return self.names

    def _take_names_back(self) -> None:
        """Drops names of rows that were read, but not learned."""
        if self._learned_names != self.names.next_feature:
            self._share_names(names_from(name_tensors(self.names, self._learned_names)))
        self._learned_names = None

    @abstractmethod
    def weights(self, block: str) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.floating[Any]]]:
        """The features of each coordinate of a block, and its weight.

        >>> from pqrlearn import LR
        >>> model = LR()
        >>> _ = model.learn_one({"site": "news"}, 1)
        >>> features, weights = model.weights("linear")
        >>> [model.name_of(feature) for feature in features], weights > 0
        (['site=news'], array([ True]))
        """

    def nonzeros(self) -> dict[str, int]:
        """How many weights of each block are not zero.

        >>> from pqrlearn import LR
        >>> model = LR()
        >>> _ = model.learn_one({"site": "news", "hour": "9"}, 1)
        >>> model.nonzeros()
        {'bias': 1, 'linear': 2}
        """
        return {block: int(np.count_nonzero(self.weights(block)[1])) for block in self.blocks}

    def _strengths(
        self, block: str
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.floating[Any]]]:
        """The features of a block and one number for each, for display."""
        return self.weights(block)

    def name_of(self, feature: int) -> str:
        """The name of a feature, or its number if it has none.

        >>> from pqrlearn import LR
        >>> LR().name_of(7)
        '7'
        """
        number = index(feature)
        return (self.names.name(number) if 0 <= number < 2**32 else None) or str(number)

    # -- saving -----------------------------------------------------------------

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything but the tensors that a loaded model needs to continue exactly.

        >>> from pqrlearn import LR
        >>> LR(alpha=0.2).settings()["optimizer"]["alpha"]
        0.2
        """

    @abstractmethod
    def _tensors(self) -> modelfile.Tensors: ...

    def _tensors_in_parts(self) -> tuple[modelfile.Tensors, modelfile.InParts]:
        """The same; large tensors may be computed while they are written."""
        return self._tensors(), modelfile.NO_PARTS

    @classmethod
    @abstractmethod
    def _restored(
        cls, settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> Self:
        """The inverse, which takes ownership of the names; KeyError, ValueError or TypeError if the
        parts are invalid."""

    def state(self) -> State:
        """A copy of its settings and of everything it has learned.

        >>> from pqrlearn import LR
        >>> model = LR()
        >>> _ = model.learn_one({"site": "news"}, 1)
        >>> state = model.state()
        >>> state.kind, state.arrays["linear.keys"].tolist(), state.names.name(0)
        ('lr', [0], 'site=news')
        >>> LR.from_state(state).to_bytes() == model.to_bytes()
        True
        """
        with self._paused():
            return State(self.kind, self._all_settings(), self._tensors(), self.names.copy())

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The Learner with this state; HyperError if its parts are inconsistent.

        >>> from pqrlearn import LR
        >>> LR.from_state(LR("squared").state()).loss
        'squared'
        """
        if state.kind != cls.kind:
            raise HyperError(f"a state of {state.kind}, not of {cls.kind}")
        settings = dict(state.settings)
        schema = settings.pop("schema", None)
        try:
            model = cls._restored(settings, state.arrays, state.names.copy())
            model.schema = None if schema is None else Schema.from_json(schema)
            return model
        except (KeyError, ValueError, TypeError) as error:
            raise HyperError(f"an inconsistent state of {cls.kind}: {error}") from None

    def save(self, path: str | os.PathLike[str], *, progress: dict[str, Any] | None = None) -> None:
        """Writes the model to `path`, atomically.

        With the `progress` of a run the file is a checkpoint.

        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from pqrlearn import LR, load
        >>> with TemporaryDirectory() as folder:
        ...     LR("squared").save(Path(folder, "ratings.pqr"))
        ...     load(Path(folder, "ratings.pqr"))
        LR(loss='squared', rows=0, nonzeros=0)
        """
        with self._paused():
            settings = self._all_settings() | ({} if progress is None else {"progress": progress})
            tensors, in_parts = self._tensors_in_parts()
            tensors |= name_tensors(self.names, self._learned_names)
            modelfile.write(path, self.kind, settings, tensors, in_parts)

    def to_bytes(self) -> bytes:
        """What `save` writes; equal models are equal bytes.

        >>> from pqrlearn import LR
        >>> LR().to_bytes() == LR().to_bytes()
        True
        """
        state = self.state()
        return modelfile.to_bytes(
            state.kind, state.settings, state.arrays | name_tensors(state.names)
        )

    def _all_settings(self) -> dict[str, Any]:
        schema = {} if self.schema is None else {"schema": self.schema.to_json()}
        return self.settings() | schema

    def _paused(self) -> AbstractContextManager[None]:
        """Blocks learning, so that everything read inside the block is consistent."""
        return nullcontext()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The model saved at `path`, ready to continue learning with its settings.

        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from pqrlearn import LR
        >>> with TemporaryDirectory() as folder:
        ...     LR().save(Path(folder, "clicks.pqr"))
        ...     LR.load(Path(folder, "clicks.pqr"))
        LR(loss='logistic', rows=0, nonzeros=0)
        """
        return cls._from_parts(str(path), *modelfile.read(path))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The inverse of `to_bytes`.

        >>> from pqrlearn import LR
        >>> LR.from_bytes(LR("squared").to_bytes()).loss
        'squared'
        """
        return cls._from_parts("<bytes>", *modelfile.from_bytes(data))

    @classmethod
    def _from_parts(
        cls, name: str, kind: str, settings: dict[str, Any], tensors: modelfile.Tensors
    ) -> Self:
        if kind != cls.kind:
            raise NotAModel(f"{name}: a {kind} file, not a {cls.kind} model")
        progress, schema = settings.pop("progress", None), settings.pop("schema", None)
        try:
            model = cls._restored(settings, tensors, names_from(tensors))
            model.progress = progress
            model.schema = None if schema is None else Schema.from_json(schema)
            return model
        except (KeyError, ValueError, TypeError) as error:
            raise Corrupt(f"{name}: a damaged {kind} model ({error})") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __copy__(self) -> Self:
        return type(self).from_bytes(self.to_bytes())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()
