"""How good predictions are, measured while the rows stream by: one pass, weighted, O(1) memory.

Margins come in, not predictions: from a margin the logistic loss is exact however sure a model is,
while a probability next to 1 has already lost the digits that matter.

Rows are gathered into blocks of a fixed size and a block is scored when it is full. So a call with
few rows is cheap, and no figure depends, by a single bit, on how the stream was cut into calls.

AUC is the chance that a click scores above a non-click, ties counting one half. Exactly, it needs
every margin; here the margins are counted in 2^20 equal bins over [-20, 20] (what lies outside
falls into the outermost bins). Two rows in different bins are ordered rightly, two in one bin count
as a tie, so the AUC is off by at most half the share of (click, non-click) pairs that share a bin.
That share is counted too and reported as `auc_error`: a bound that was measured, below 1e-5 for the
margins of a click model.

A figure without meaning (AUC with a single class, anything without weight) is nan, and so is every
figure that a nan among the margins touches.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pqrlearn import _core
from pqrlearn.errors import DataError, HyperError

FloatArray = npt.NDArray[np.float64]

BLOCK = 2**15
BINS = 2**20
REACH = 20.0


@dataclass(frozen=True)
class Totals:
    """Weighted sums over rows; `spread` sums the squared distances of labels from their mean."""

    rows: int = 0
    weight: float = 0.0
    loss: float = 0.0
    label: float = 0.0
    prediction: float = 0.0
    spread: float = 0.0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.rows + other.rows,
            self.weight + other.weight,
            self.loss + other.loss,
            self.label + other.label,
            self.prediction + other.prediction,
            self.spread + other.spread + self._distance(other),
        )

    def mean(self, total: float) -> float:
        return total / self.weight if self.weight > 0 else math.nan

    def _distance(self, other: Totals) -> float:
        """What two groups add to the spread by having different means (Chan et al., 1979).

        Sums of squared labels would cancel when the mean is large against the spread.
        """
        if not (self.weight > 0 and other.weight > 0):
            return 0.0
        gap = self.mean(self.label) - other.mean(other.label)
        return gap * gap * self.weight * (other.weight / (self.weight + other.weight))


class Metrics(ABC):
    """Give `update` every row once, in any number of calls; ask for `result` at any time.

    Asking changes nothing: neither later results nor, except for the window of `progress`,
    later answers.
    """

    def __init__(self) -> None:
        self._block = np.empty((3, BLOCK))
        self._held = 0
        self._totals = Totals()
        self._last_progress = Totals()

    def update(
        self,
        margins: npt.ArrayLike,
        labels: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
    ) -> None:
        """Take in rows by their margins, labels and weights (1 if not given)."""
        margins, labels = np.asarray(margins), np.asarray(labels)
        weights = np.ones(len(labels)) if weights is None else np.asarray(weights)
        if not len(margins) == len(labels) == len(weights):
            raise DataError(
                f"{len(margins)} margins, {len(labels)} labels and {len(weights)} weights: "
                "each row needs one of each"
            )
        done = 0
        while done < len(labels):
            take = min(BLOCK - self._held, len(labels) - done)
            here, there = slice(self._held, self._held + take), slice(done, done + take)
            for held, given in zip(self._block, (margins, labels, weights), strict=True):
                held[here] = given[there]
            self._held, done = self._held + take, done + take
            if self._held == BLOCK:
                self._settle()

    @abstractmethod
    def result(self) -> dict[str, float]:
        """Every figure, over all rows so far."""

    def progress(self) -> dict[str, float]:
        """For a progress line: `rows`, `loss` over all of them, `recent` loss since the last call.

        Costs at most one block; the loss is the LogLoss or the RMSE.
        """
        now, last = self._so_far(), self._last_progress
        window = Totals(weight=now.weight - last.weight, loss=now.loss - last.loss)
        self._last_progress = now
        return {"rows": now.rows, "loss": self._loss(now), "recent": self._loss(window)}

    @abstractmethod
    def _score(self, margins: FloatArray, labels: FloatArray, weights: FloatArray) -> Totals:
        """The totals of some rows."""

    @abstractmethod
    def _loss(self, totals: Totals) -> float:
        """The loss as people read it."""

    def _settle(self) -> None:
        self._totals, self._held = self._so_far(), 0

    def _so_far(self) -> Totals:
        with np.errstate(over="ignore", invalid="ignore"):  # squares of huge labels: inf or nan
            return self._totals + self._score(*self._held_rows())

    def _held_rows(self) -> FloatArray:
        return self._block[:, : self._held]

    def _shared_figures(self, totals: Totals) -> dict[str, float]:
        return {
            "mean_label": totals.mean(totals.label),
            "mean_prediction": totals.mean(totals.prediction),
        }


class ClicksMetrics(Metrics):
    """The logistic loss: labels are 0 or 1, the prediction is the sigmoid of the margin.

    >>> metrics = ClicksMetrics()
    >>> metrics.update(margins=[2.0, -1.0, 0.5], labels=[1, 0, 0])
    >>> metrics.result()["auc"]
    1.0
    """

    def __init__(self) -> None:
        super().__init__()
        self._bins = np.zeros(2 * (BINS + 1))

    def result(self) -> dict[str, float]:
        totals = self._so_far()
        logloss, mean_label = self._loss(totals), totals.mean(totals.label)
        auc, auc_error = self._auc() if not math.isnan(logloss) else (math.nan, math.nan)
        return {
            "rows": totals.rows,
            "weight": totals.weight,
            "logloss": logloss,
            "auc": auc,
            "auc_error": auc_error,
            **self._shared_figures(totals),
            "constant_logloss": _entropy(mean_label),
        }

    def _score(self, margins: FloatArray, labels: FloatArray, weights: FloatArray) -> Totals:
        _check_clicks(labels)
        return Totals(len(labels), *_core.sum_clicks(margins, labels, weights))

    def _loss(self, totals: Totals) -> float:
        return totals.mean(totals.loss)

    def _settle(self) -> None:
        _core.bin_clicks(self._bins, REACH, *self._held_rows())
        super()._settle()

    def _auc(self) -> tuple[float, float]:
        bins = self._bins.copy()
        _core.bin_clicks(bins, REACH, *self._held_rows())
        pairs, ordered, tied = _core.rank_clicks(bins, REACH)
        if not pairs > 0:
            return math.nan, math.nan
        return (ordered + tied / 2) / pairs, tied / 2 / pairs


class RatingMetrics(Metrics):
    """The squared loss: the prediction is the margin itself.

    >>> metrics = RatingMetrics()
    >>> metrics.update(margins=[3.0, 4.0], labels=[4.0, 4.0], weights=[1.0, 3.0])
    >>> metrics.result()["rmse"]
    0.5
    """

    def result(self) -> dict[str, float]:
        totals = self._so_far()
        return {
            "rows": totals.rows,
            "weight": totals.weight,
            "rmse": self._loss(totals),
            **self._shared_figures(totals),
            "constant_rmse": math.sqrt(totals.mean(totals.spread)),
        }

    def _score(self, margins: FloatArray, labels: FloatArray, weights: FloatArray) -> Totals:
        weight, label = float(np.sum(weights)), _dot(weights, labels)
        centre = label / weight if weight > 0 else 0.0
        return Totals(
            rows=len(labels),
            weight=weight,
            loss=_dot(weights, np.square(margins - labels)),
            label=label,
            prediction=_dot(weights, margins),
            spread=_dot(weights, np.square(labels - centre)),
        )

    def _loss(self, totals: Totals) -> float:
        return math.sqrt(totals.mean(totals.loss))


def make_metrics(loss: str) -> Metrics:
    """The metrics that belong to a loss: `logistic` or `squared`."""
    kinds: dict[str, type[Metrics]] = {"logistic": ClicksMetrics, "squared": RatingMetrics}
    if loss not in kinds:
        raise HyperError(f"loss={loss!r} must be one of {', '.join(kinds)}")
    return kinds[loss]()


def _dot(weights: FloatArray, values: FloatArray) -> float:
    """Without BLAS, whose threads would fight with the learner's for arrays this small."""
    return float(np.sum(weights * values))


def _check_clicks(labels: FloatArray) -> None:
    wrong = (labels != 0.0) & (labels != 1.0)
    if wrong.any():
        raise DataError(f"label {labels[wrong][0]} must be 0 or 1 (logistic loss)")


def _entropy(mean: float) -> float:
    """The least LogLoss of a constant prediction, reached by the mean label itself."""
    if not 0.0 < mean < 1.0:
        return 0.0 * mean
    return -mean * math.log(mean) - (1.0 - mean) * math.log1p(-mean)
