"""What the figures of a model are drawn from, in one read of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pqrlearn.comparison import Race, Racer
from pqrlearn.errors import DataError
from pqrlearn.learners import LR, Frozen, Learner, Mixture, make, settings_of
from pqrlearn.loss import Loss, loss_named
from pqrlearn.names import Names
from pqrlearn.readers import at_most
from pqrlearn.rows import Batch, FloatArray
from pqrlearn.separation import add_names

Watch = Callable[[int], None]
"""Called now and then with the number of rows done."""
_SAMPLE_ROWS = 1000  # whose terms are looked at
_REFERENCE = 1.0  # any number between whose distances the constants of features are found


@dataclass(frozen=True, eq=False)
class Gathered:
    """Rows with labels, and what models have predicted for them."""

    model: Learner
    loss: Loss
    labels: FloatArray
    weights: FloatArray
    margins: FloatArray
    """Of the model as it is, which learns nothing."""
    progressive: dict[str, FloatArray]
    """Losses of models that learned these rows from the start, by name."""
    features: Features
    sample: list[Batch]
    names: Names
    """Of features that the model does not know."""
    refused: int = 0

    @property
    def predictions(self) -> FloatArray:
        return self.loss.link(self.margins)

    @property
    def losses(self) -> FloatArray:
        return self.loss.loss(self.margins, self.labels)

    def name_of(self, feature: int) -> str:
        return self.names.name(feature) or self.model.name_of(feature)


@dataclass(frozen=True, eq=False)
class Features:
    """Sums over the rows in which each feature is."""

    features: npt.NDArray[np.uint32]
    rows: FloatArray
    weight: FloatArray
    squared_weight: FloatArray
    loss: FloatArray
    squared_loss: FloatArray
    label: FloatArray
    apart: FloatArray
    """Of the distance of labels from _REFERENCE."""

    def mean_losses(self) -> tuple[FloatArray, FloatArray]:
        """The mean loss of each feature's rows, and its standard error."""
        mean = self.loss / self.weight
        spread = np.maximum(self.squared_loss / self.weight - mean**2, 0.0)
        return mean, np.sqrt(spread * self.squared_weight) / self.weight

    def constants(self, loss: Loss) -> FloatArray:
        """The mean loss of the constant that fits the rows of each feature best."""
        mean = self.label / self.weight
        if loss.metrics.divergence is None:
            assert loss.metrics.entropy is not None
            return np.array([loss.metrics.entropy(one) for one in mean.tolist()])
        # The sum of distances from any point: that from the mean, and the mean's from it.
        return self.apart / self.weight - loss.metrics.divergence(mean, _REFERENCE)


@dataclass
class _Sums:
    """Adds up what Features has; parts are merged as they become many."""

    loss: Loss
    parts: list[tuple[npt.NDArray[np.uint32], FloatArray]] = field(default_factory=list)

    def add(self, batch: Batch, losses: FloatArray) -> None:
        w, y = batch.weights.astype(np.float64), self.loss.kept(batch.labels)
        divergence = self.loss.metrics.divergence
        apart = np.zeros(len(y)) if divergence is None else divergence(y, _REFERENCE)
        columns = [np.ones(len(y)), w, w * w, w * losses, w * losses**2, w * y, w * apart]
        sizes = np.diff(batch.indptr)
        features, at = np.unique(batch.indices, return_inverse=True)
        sums = [np.bincount(at, np.repeat(c, sizes), len(features)) for c in columns]
        self.parts.append((features, np.array(sums)))
        if len(self.parts) >= 32:
            self.parts = [self._merged()]

    def _merged(self) -> tuple[npt.NDArray[np.uint32], FloatArray]:
        every = np.concatenate([features for features, _ in self.parts])
        features, at = np.unique(every, return_inverse=True)
        columns = np.concatenate([sums for _, sums in self.parts], axis=1)
        return features, np.array([np.bincount(at, c, len(features)) for c in columns])

    def result(self) -> Features:
        """Of features in rows that count."""
        features, sums = self._merged()
        kept = sums[1] > 0
        return Features(features[kept], *sums[:, kept])


class _AsItIs:
    """A model in a race that learns nothing."""

    def __init__(self, model: Learner) -> None:
        self._model = model

    def learn_margins(self, batch: Batch) -> FloatArray:
        return self._model.margin_many(batch)


def untaught(model: Learner) -> Learner | None:
    """A model of the same kind and settings that has learned nothing; a frozen one has none.

    >>> from pqrlearn import LR
    >>> model = LR(alpha=0.2)
    >>> _ = model.learn_one({"site": "news"}, 1)
    >>> untaught(model)
    LR(loss='logistic', rows=0, nonzeros=0)
    """
    if isinstance(model, Frozen):
        return None
    if isinstance(model, Mixture):
        return Mixture([one for one in map(untaught, model.learners) if one is not None])
    separation = getattr(model, "separation", None)
    return make(model.kind, model.loss, settings_of(model), separation)


def gather(
    model: Learner,
    batches: Iterable[Batch],
    rows: int | None = None,
    watch: Watch | None = None,
    *,
    skip_refused: bool = False,
) -> Gathered:
    """Predicts all rows, or the first `rows`, and lets new models learn them beside."""
    loss, contenders = loss_named(model.loss), _contenders(model)
    taking_part: list[Racer] = [_AsItIs(model), *contenders.values()]
    race = Race(
        taking_part, batches if rows is None else at_most(batches, rows), skip_refused=skip_refused
    )
    parts: list[tuple[FloatArray, ...]] = []
    sums, names, sample, done = _Sums(loss), Names(), list[Batch](), 0
    for batch, margins in race:
        if batch.new_names is not None:
            add_names(names, batch.new_names)
        labels = loss.kept(batch.labels)
        losses = [loss.loss(one, labels) for one in margins]
        sums.add(batch, losses[0])
        parts.append((labels, batch.weights.astype(np.float64), margins[0], *losses[1:]))
        if done < _SAMPLE_ROWS:
            sample.append(batch.part(0, min(len(batch), _SAMPLE_ROWS - done)))
        done += len(batch)
        if watch is not None:
            watch(done)
    if not done:
        raise DataError("nothing to report: there are no rows")
    labels, weights, own, *others = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not weights.sum() > 0:
        raise DataError("nothing to report: all rows have weight 0")
    progressive = dict(zip(contenders, others, strict=True))
    found = sums.result()
    return Gathered(
        model, loss, labels, weights, own, progressive, found, sample, names, len(race.refused)
    )


def _contenders(model: Learner) -> dict[str, Learner]:
    """Who learns the rows from the start: a model of the same kind, and LR."""
    found = {} if (own := untaught(model)) is None else {model.kind: own}
    if model.kind != LR.kind:
        found[LR.kind] = LR(model.loss)
    for one in found.values():
        one.use_names(model.names)
    return found
