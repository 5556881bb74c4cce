"""Base of CFM and CCFM: the matrix takes a step every `block_rows` rows."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from pqrlearn import _core, modelfile
from pqrlearn.errors import HyperError
from pqrlearn.hyper import MAX_PAIRS_PER_ROW, NuclearBall, check_whole
from pqrlearn.learners.given import complete, located
from pqrlearn.learners.numbered import NumberedLearner
from pqrlearn.learners.spectral import Entries, IntArray, Spectrum
from pqrlearn.loss import LossName, check_loss, loss_named
from pqrlearn.rows import Batch, FloatArray

LARGEST = 1e200
"""Bound on sums of squared gradients: beyond it a step could overflow."""

_PREDICT_ROWS = 1024  # predicted at a time


class SpectralLearner(NumberedLearner):
    """A Learner whose interactions are a symmetric matrix in a nuclear-norm ball.

    Every row is predicted with the matrix of the last step. Rows are buffered, as part of the
    state, until there are enough for the next step.
    """

    _augmented: ClassVar[bool]
    """Whether position 0 is a coordinate that is always 1, and squares have weights."""

    def __init__(self, loss: LossName, ball: NuclearBall) -> None:
        super().__init__()
        if not isinstance(ball, NuclearBall):
            raise HyperError(f"ball={ball!r} must be a NuclearBall")
        self.loss = check_loss(loss)
        self._slope: Any = loss_named(loss).slope  # also works on scalars
        self.ball = ball
        self._spectrum = Spectrum(ball, squares=self._augmented)
        self._positions: dict[int, int] = {}
        self._rows = 0
        self._next_feature = 0
        self._waiting: list[Entries] = []
        self._waiting_slopes: list[float] = []

    # -- the linear part, unless it is in the matrix --------------------------------

    def _linear_margin(self, features: list[int], values: list[float]) -> float:
        return 0.0

    @abstractmethod
    def _learn_linear(self, features: list[int], values: list[float], slope: float) -> None: ...

    # -- learning and predicting ------------------------------------------------

    def _batch_margins(self, batch: Batch) -> FloatArray:
        margins = np.empty(len(batch))
        for start in range(0, len(batch), _PREDICT_ROWS):
            stop = min(start + _PREDICT_ROWS, len(batch))
            with self._turns.among():
                margins[start:stop] = self._spectrum.margins(self._entries(batch, start, stop))
                for row in range(start, start if self._augmented else stop):
                    margins[row] += self._linear_margin(*_listed(batch, row))
        wrong = np.flatnonzero(~np.isfinite(margins))
        return complete(margins[: wrong[0]] if len(wrong) else margins, batch)

    def _learn_batch(self, batch: Batch) -> FloatArray:
        try:
            _core.check_targets(self.loss, batch.labels, batch.weights)
        except ValueError as error:
            raise located(error, batch) from None
        margins = np.empty(len(batch))
        learned = np.flatnonzero(batch.weights > 0)
        done = 0
        while done < len(batch):
            with self._turns.alone():
                missing = self._spectrum.block_rows - len(self._waiting_slopes)
                last = int(np.searchsorted(learned, done)) + missing - 1
                stop = int(learned[last]) + 1 if last < len(learned) else len(batch)
                part = self._learn_part(batch, done, stop)
            margins[done : done + len(part)] = part
            done += len(part)
            if done < stop:
                break
        return complete(margins[:done], batch, partial(self._why_refused, learns=True))

    def _why_refused(self, row: Batch, *, learns: bool) -> str:
        pairs = _pairs_of(len(row.indices))
        if not learns or pairs <= MAX_PAIRS_PER_ROW:
            return super()._why_refused(row, learns=learns)
        return (
            f"its {len(row.indices)} features make {pairs} pairs, more than {MAX_PAIRS_PER_ROW}, "
            f"the most that {self.kind} learns from a row; use auto, fm or difacto"
        )

    def _learn_part(self, batch: Batch, start: int, stop: int) -> list[float]:
        """Learns rows up to the next step, then takes it if it is due; stops before a bad row."""
        entries = self._entries(batch, start, stop)
        scores = self._spectrum.margins(entries).tolist()
        reach = (entries.sums(entries.values**2) ** 2 + 1).tolist()
        margins: list[float] = []
        targets = zip(
            scores,
            reach,
            batch.labels[start:stop].tolist(),
            batch.weights[start:stop].tolist(),
            strict=True,
        )
        for row, (score, most, label, weight) in enumerate(targets, start):
            features, values = _listed(batch, row)
            margin = score + self._linear_margin(features, values)
            slope = (
                weight * float(self._slope(margin, label)) if abs(margin) < LARGEST else math.inf
            )
            if not slope * slope * most + self._spectrum.energy < LARGEST and weight > 0:
                break
            if not math.isfinite(margin):
                break
            if weight > 0 and _pairs_of(len(features)) > MAX_PAIRS_PER_ROW:
                break
            margins.append(margin)
            if weight > 0:
                self._learn_linear(features, values, slope)
                self._spectrum.energy += slope * slope
                self._spectrum.inner += slope * score
                self._waiting_slopes.append(slope)
        self._wait(batch, start, start + len(margins), entries)
        if len(self._waiting_slopes) == self._spectrum.block_rows:
            self._spectrum.add(Entries.joined(self._waiting), np.array(self._waiting_slopes))
            self._waiting, self._waiting_slopes = [], []
            self._spectrum.step(len(self._positions) + self._augmented)
        return margins

    def _entries(self, batch: Batch, start: int, stop: int) -> Entries:
        """Rows in terms of positions; a feature never learned has position -1."""
        begin, end = int(batch.indptr[start]), int(batch.indptr[stop])
        find = self._positions.get
        positions = np.array(
            [find(f, -1) for f in batch.indices[begin:end].tolist()], dtype=np.int64
        )
        indptr = batch.indptr[start : stop + 1] - begin
        values = batch.values[begin:end].astype(np.float64)
        if not self._augmented:
            return Entries(indptr, positions, values)
        heads = indptr[:-1]
        return Entries(
            indptr + np.arange(stop - start + 1),
            np.insert(positions, heads, 0),
            np.insert(values, heads, 1.0),
        )

    def _wait(self, batch: Batch, start: int, stop: int, entries: Entries) -> None:
        """Buffers the learned rows for the next step and assigns positions to new features."""
        taught = np.zeros(len(entries), bool)
        taught[: stop - start] = batch.weights[start:stop] > 0
        if not taught.any():
            return
        begin, end = int(batch.indptr[start]), int(batch.indptr[start + len(taught)])
        features = batch.indices[begin:end]
        lengths = np.diff(batch.indptr[start : start + len(taught) + 1])
        features = features[np.repeat(taught, lengths)]
        rows = entries.rows(taught)
        own = np.flatnonzero(rows.positions != 0) if self._augmented else slice(None)
        for feature in features[rows.positions[own] < 0].tolist():
            self._positions.setdefault(feature, len(self._positions) + self._augmented)
        rows.positions[own] = [self._positions[f] for f in features.tolist()]
        self._waiting.append(rows)
        self._rows += int(taught.sum())
        if len(features):
            self._next_feature = max(self._next_feature, int(features.max()) + 1)

    # -- inspecting -------------------------------------------------------------

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def next_feature(self) -> int:
        return self._next_feature

    @property
    def features(self) -> npt.NDArray[np.uint32]:
        """All features learned, in the order in which they first were.

        >>> from pqrlearn import CFM
        >>> model = CFM()
        >>> _ = model.learn_many([{"user": "ben"}, {"user": "ann"}], [1, 0])
        >>> [model.name_of(feature) for feature in model.features]
        ['user=ben', 'user=ann']
        """
        return np.array(list(self._positions), dtype=np.uint32)

    def _size(self) -> dict[str, Any]:
        return {"radius": self.ball.radius}

    def _features_at(self, positions: IntArray) -> npt.NDArray[np.uint32]:
        return self.features[positions - self._augmented]

    def _pair_weights(self) -> tuple[npt.NDArray[np.uint32], FloatArray]:
        """Weights of the pairs that occurred in rows up to the last step."""
        low, high = self._spectrum.pairs()
        pairs = (low < high) & (low >= int(self._augmented))
        low, high = low[pairs], high[pairs]
        keys = np.stack([self._features_at(low), self._features_at(high)], axis=1)
        return keys, self._spectrum.entries(low, high)

    def weights(self, block: str) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.floating[Any]]]:
        """The features of each coordinate of a block, and its weight in the margin.

        >>> from pqrlearn import CFM
        >>> model = CFM(ball=NuclearBall(block_rows=1))
        >>> _ = model.learn_one({"user": "ann", "film": "alien"}, 1)
        >>> model.weights("pair")[0].tolist()
        [[0, 1]]
        """
        if block not in self.blocks:
            raise KeyError(f"{self.kind} has no block {block!r}, only {', '.join(self.blocks)}")
        with self._turns.among():
            return self._pair_weights() if block == "pair" else self._block_weights(block)

    @abstractmethod
    def _block_weights(
        self, block: str
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.floating[Any]]]:
        """The same, of any other block than pairs."""

    # -- saving -----------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        return {
            "loss": self.loss,
            "ball": self.ball.settings(),
            "rows": self._rows,
            "next_feature": self._next_feature,
            "steps": self._spectrum.steps,
            "terms": len(self._spectrum.weights),
        }

    def _tensors(self) -> modelfile.Tensors:
        waiting = Entries.joined(self._waiting)
        return self._spectrum.tensors() | {
            "features": self.features,
            "waiting.indptr": waiting.indptr,
            "waiting.positions": waiting.positions.astype(np.uint32),
            "waiting.values": waiting.values.astype(np.float32),
            "waiting.slopes": np.array(self._waiting_slopes, np.float64),
        }

    def _restore(
        self, settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> Self:
        features = modelfile.tensor(tensors, "features", np.uint32, 1).tolist()
        self._positions = {f: at for at, f in enumerate(features, int(self._augmented))}
        if len(self._positions) != len(features):
            raise ValueError("a feature occurs twice")
        size = len(features) + self._augmented
        self._spectrum.restore(tensors, size)
        if settings["terms"] != len(self._spectrum.weights):
            raise ValueError("the number of terms is not that of the settings")
        self._spectrum.steps = check_whole("steps", settings["steps"], least=0, most=2**63)
        self._rows = check_whole("rows", settings["rows"], least=0, most=2**63)
        self._restore_waiting(tensors, size)
        self._next_feature = check_whole(
            "next_feature", settings["next_feature"], least=0, most=2**32
        )
        if self._next_feature <= max(features, default=-1):
            raise ValueError("next_feature is the index of a known feature")
        self._share_names(names)
        return self

    def _restore_waiting(self, tensors: modelfile.Tensors, size: int) -> None:
        indptr = modelfile.tensor(tensors, "waiting.indptr", np.int64, 1)
        positions = modelfile.tensor(tensors, "waiting.positions", np.uint32, 1)
        values = modelfile.tensor(tensors, "waiting.values", np.float32, 1)
        slopes = modelfile.tensor(tensors, "waiting.slopes", np.float64, 1)
        self._spectrum.rows = self._rows - len(slopes)
        if len(indptr) != len(slopes) + 1 or len(slopes) >= self._spectrum.block_rows:
            raise ValueError("the waiting rows are inconsistent")
        if indptr[0] != 0 or indptr[-1] != len(positions) or (np.diff(indptr) < 0).any():
            raise ValueError("the indptr of the waiting rows is invalid")
        if len(values) != len(positions) or (len(positions) and positions.max() >= size):
            raise ValueError("the waiting rows have unknown features")
        if not (np.isfinite(values).all() and np.isfinite(slopes).all()):
            raise ValueError("a waiting row is not finite")
        if len(slopes):
            rows = Entries(indptr, positions.astype(np.int64), values.astype(np.float64))
            self._waiting, self._waiting_slopes = [rows], slopes.tolist()


def _pairs_of(features: int) -> int:
    return features * (features - 1) // 2


def _listed(batch: Batch, row: int) -> tuple[list[int], list[float]]:
    begin, end = batch.indptr[row], batch.indptr[row + 1]
    return batch.indices[begin:end].tolist(), batch.values[begin:end].tolist()
