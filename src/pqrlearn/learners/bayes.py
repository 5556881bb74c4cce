"""Bayesian mixing of predictions, with a regret bound. It takes margins and knows no models.

With u_k the prediction of learner k of N, and L_k its loss so far, weighted by row weights ω:

    π_k ∝ exp(-η L_k)        B = Σ π_k u_k

    log loss       η = 1 / ω_max             Σ ω l(B) ≤ min_k L_k + ω_max ln N + excess
    squared loss   η = 1 / (2 R² ω_max)      Σ ω l(B) ≤ min_k L_k + ω_max R² (2 ln N + 1) + excess

ω_max is the largest weight so far, at least 1. Probabilities are clipped to [1e-7, 1 - 1e-7]. The
squared loss is (u - y)²; R is the width of the range of labels so far, to which predictions are
clipped; before the first label they are 0. For the posterior, a label outside of the range counts
as the nearest one inside; then the range widens, which costs ω_max R² in total. A row that raises
ω_max was predicted with an η too large for it: its loss beyond the growth of
Φ(η) = -1/η ln (Σ exp(-η L_k) / N) is the excess. tests/mixture_oracle.py has the proofs.

A learner may have no prediction for a row (NaN). Then B is that of the others, and that learner's
loss is the loss of B, which keeps the bounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np

from pqrlearn import _core
from pqrlearn.rows import FloatArray

EDGE: Final = 1e-7
"""Probabilities are clipped to this distance from 0 and 1."""
LARGEST: Final = 1e100
"""The largest label that any learner accepts."""


class Bayes(ABC):
    """The total losses of N learners and of their mixture.

    `lost` (learners) and `own` (mixture) are losses on the real labels; `counted` are the learners'
    losses on the clipped labels, which the posterior is computed from.
    """

    def __init__(self, size: int) -> None:
        self.counted, self.lost = np.zeros(size), np.zeros(size)
        self.own = self.excess = 0.0
        self.largest = 1.0
        self.low, self.high = math.inf, -math.inf

    def posterior(self) -> FloatArray:
        likelihoods = np.exp(self.eta * (self.counted.min() - self.counted))
        shares: FloatArray = likelihoods / likelihoods.sum()
        return shares

    def regret(self) -> float:
        return self.own - float(self.lost.min())

    def bound(self) -> float:
        price = float(self._price(self._width(), self.largest))
        return math.log(len(self.lost)) * price + self._widenings() + self.excess

    @property
    def eta(self) -> float:
        return float(_inverse(self._price(self._width(), self.largest)))

    def mixed(self, margins: FloatArray) -> FloatArray:
        """The margins of B, from N margins per row."""
        values = self._values(margins, np.float64(self.low), np.float64(self.high))
        return self._margins(_mean(self.counted[:, None], self.eta, values))

    def learn(self, margins: FloatArray, labels: FloatArray, weights: Any) -> FloatArray:
        """`mixed` of each row before it is learned.

        A row that some learner does not predict is processed alone: the loss of that learner is
        known only after mixing.
        """
        alone = np.flatnonzero(np.isnan(margins).any(axis=0)).tolist()
        ends = sorted({0, margins.shape[1], *alone, *(row + 1 for row in alone)})
        amounts = weights.astype(np.float64)
        runs = [
            self._learn_run(margins[:, start:stop], labels[start:stop], amounts[start:stop])
            for start, stop in pairwise(ends)
        ]
        return np.concatenate([np.zeros(0), *runs])

    def _learn_run(
        self, margins: FloatArray, labels: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """All rows at once; sums run in the order of rows, so results do not depend on cuts."""
        learned = weights > 0
        low = _running(np.minimum, self.low, np.where(learned, labels, math.inf))
        high = _running(np.maximum, self.high, np.where(learned, labels, -math.inf))
        largest = _running(np.maximum, self.largest, weights)
        values = self._values(margins, low[:-1], high[:-1])
        real = np.where(learned, labels, 0.0)
        seen = self._nearest(real, low[:-1], high[:-1])
        counted = _running(np.add, self.counted, weights * self._loss(values, seen))
        eta = _inverse(self._price(_width(low[:-1], high[:-1]), largest[:-1]))
        answers = _mean(counted[:, :-1], eta, values)
        values = np.where(np.isnan(values), answers, values)
        counted[:, -1] = counted[:, -2] + (weights * self._loss(values, seen))[:, -1]
        own = weights * self._loss(answers, seen)
        for row in np.flatnonzero(largest[1:] > largest[:-1]).tolist():
            smaller = float(eta[row] * largest[row] / largest[row + 1])
            grown = _potential(counted[:, row + 1], smaller) - _potential(
                counted[:, row], float(eta[row])
            )
            self.excess += max(0.0, float(own[row]) - grown)
        self.counted = counted[:, -1].copy()
        self.lost = _running(np.add, self.lost, weights * self._loss(values, real))[:, -1].copy()
        self.own = float(_running(np.add, self.own, weights * self._loss(answers, real))[-1])
        self.largest, self.low, self.high = float(largest[-1]), float(low[-1]), float(high[-1])
        return self._margins(answers)

    # -- saving -----------------------------------------------------------------

    def tensors(self) -> dict[str, FloatArray]:
        return {
            "losses": np.stack([self.counted, self.lost], axis=1),
            "scalars": np.array([self.own, self.excess, self.largest, self.low, self.high]),
        }

    def restore(self, losses: FloatArray, scalars: FloatArray) -> Self:
        """The inverse; ValueError if the state is invalid."""
        if losses.shape != (len(self.lost), 2) or scalars.shape != (5,):
            raise ValueError("the number of losses is not that of the learners")
        own, excess, largest, low, high = scalars.tolist()
        sums = [own, excess, *losses.ravel().tolist()]
        if not all(0 <= loss < math.inf for loss in sums) or not 1 <= largest < math.inf:
            raise ValueError("a loss or the largest weight is out of range")
        if not (-LARGEST <= low <= high <= LARGEST or (low, high) == (math.inf, -math.inf)):
            raise ValueError("the range of labels is invalid")
        self.counted, self.lost = losses.T.copy()
        self.own, self.excess, self.largest, self.low, self.high = own, excess, largest, low, high
        return self

    # -- what depends on the loss ---------------------------------------------------

    def _width(self) -> FloatArray:
        return _width(np.float64(self.low), np.float64(self.high))

    @abstractmethod
    def _price(self, width: Any, largest: Any) -> FloatArray:
        """1 / η; 0 if mixing cannot lose anything."""

    def _widenings(self) -> float:
        return 0.0

    @abstractmethod
    def _values(self, margins: FloatArray, low: Any, high: Any) -> FloatArray:
        """Clipped predictions, as a new array."""

    @abstractmethod
    def _margins(self, values: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _nearest(self, labels: FloatArray, low: Any, high: Any) -> FloatArray:
        """Labels clipped to the range, for the posterior."""

    @abstractmethod
    def _loss(self, values: FloatArray, labels: FloatArray) -> FloatArray: ...


class LogBayes(Bayes):
    """Predictions are probabilities, labels are 0 and 1."""

    def _price(self, width: Any, largest: Any) -> FloatArray:
        return np.asarray(largest, np.float64)

    def _values(self, margins: FloatArray, low: Any, high: Any) -> FloatArray:
        values = margins.copy()
        _core.link("logistic", values.reshape(-1))
        return np.clip(values, EDGE, 1 - EDGE)

    def _margins(self, values: FloatArray) -> FloatArray:
        margins: FloatArray = np.log(values / (1 - values))
        return margins

    def _nearest(self, labels: FloatArray, low: Any, high: Any) -> FloatArray:
        return labels

    def _loss(self, values: FloatArray, labels: FloatArray) -> FloatArray:
        losses: FloatArray = -np.log(np.where(labels > 0, values, 1 - values))
        return losses


class SquaredBayes(Bayes):
    """Predictions are margins clipped to the range of labels so far."""

    def _price(self, width: Any, largest: Any) -> FloatArray:
        return np.asarray(2 * width * width * largest, np.float64)

    def _widenings(self) -> float:
        return self.largest * float(self._width()) ** 2

    def _values(self, margins: FloatArray, low: Any, high: Any) -> FloatArray:
        return np.where(low <= high, np.clip(margins, low, high), 0.0)

    def _margins(self, values: FloatArray) -> FloatArray:
        return values

    def _nearest(self, labels: FloatArray, low: Any, high: Any) -> FloatArray:
        return np.where(low <= high, np.clip(labels, low, high), labels)

    def _loss(self, values: FloatArray, labels: FloatArray) -> FloatArray:
        return np.square(values - labels)


BAYES: Final[dict[str, type[Bayes]]] = {"logistic": LogBayes, "squared": SquaredBayes}
"""By loss. For other losses no bound is known."""


def _running(what: np.ufunc, start: Any, rows: FloatArray) -> FloatArray:
    """The start, and the accumulated result after each row."""
    first = np.broadcast_to(np.asarray(start, np.float64)[..., None], (*rows.shape[:-1], 1))
    found: FloatArray = what.accumulate(np.concatenate([first, rows], axis=-1), axis=-1)
    return found


def _width(low: Any, high: Any) -> FloatArray:
    width: FloatArray = np.maximum(0.0, high - low)
    return width


def _inverse(price: FloatArray) -> FloatArray:
    return np.divide(1.0, price, out=np.zeros_like(price), where=price > 0)


def _mean(losses: FloatArray, eta: Any, values: FloatArray) -> FloatArray:
    """Σ π_k u_k over the learners that predict a row, in order: the order of a NumPy sum depends on
    shapes."""
    known = ~np.isnan(values)
    least = np.where(known, losses, math.inf).min(axis=0)
    likelihoods = np.where(known, np.exp(np.minimum(0.0, eta * (least - losses))), 0.0)
    products = likelihoods * np.where(known, values, 0.0)
    mean: FloatArray = sum(products) / sum(likelihoods)
    return mean


def _potential(losses: FloatArray, eta: float) -> float:
    """Φ(η); its limit at η = 0 is the mean."""
    if eta == 0:
        return float(losses.mean())
    least = float(losses.min())
    return least - math.log(float(np.exp(eta * (least - losses)).mean())) / eta
