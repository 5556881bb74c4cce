"""Streaming metrics of predictions: one pass, weighted, O(1) memory.

Metrics are computed from margins, not predictions: the logistic loss of a margin is exact however
large it is, while a probability next to 1 has already lost the digits that matter.

Rows are collected in chunks of a fixed size, which are scored when full. So a call with few rows is
cheap, and no figure depends, by a single bit, on how the stream was cut into calls.

AUC is the probability that a click scores above a non-click, ties counting one half. The exact AUC
needs every margin; here margins are counted in 2^20 equal bins over [-20, 20] (larger ones fall
into the outermost bins). Two rows in different bins are ordered correctly and two in one bin count
as a tie, so the AUC is off by at most half the share of (click, non-click) pairs that share a bin.
That share is counted too and reported as `auc_error`: a measured bound, below 1e-5 for the margins
of a click model.

An undefined figure (AUC with a single class, anything with zero weight) is nan, and so is every
figure that depends on a nan margin.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn import _core
from pqrlearn.errors import DataError
from pqrlearn.loss import FloatArray, Loss, LossName, loss_named

CHUNK_ROWS = 2**15
BINS = 2**20
REACH = 20.0


@dataclass(frozen=True)
class Totals:
    """Weighted sums over rows; `spread` is the loss of predicting the mean label."""

    rows: int = 0
    weight: float = 0.0
    loss: float = 0.0
    label: float = 0.0
    prediction: float = 0.0
    spread: float = 0.0

    def mean(self, total: float) -> float:
        return total / self.weight if self.weight > 0 else math.nan


class Metrics:
    """Metrics of all rows given to `update` so far, in any number of calls.

    Reading `result` or `progress` changes no later result.

    >>> clicks = Metrics("logistic")
    >>> clicks.update(margins=[2.0, -1.0, 0.5], labels=[1, 0, 0])
    >>> clicks.result()["auc"]
    1.0
    >>> ratings = Metrics("squared")
    >>> ratings.update(margins=[3.0, 4.0], labels=[4.0, 4.0], weights=[1.0, 3.0])
    >>> ratings.result()["rmse"]
    0.5
    """

    def __init__(self, loss: LossName) -> None:
        self._loss_of = loss_named(loss)
        self._chunk = np.empty((3, CHUNK_ROWS))
        self._size = 0
        self._totals = Totals()
        self._last_progress = Totals()
        self._ranking = _Ranking() if self._loss_of.metrics.ranks else None

    def update(
        self,
        margins: npt.ArrayLike,
        labels: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
    ) -> None:
        """Adds rows: their margins, labels and weights (default: 1).

        >>> clicks = Metrics("logistic")
        >>> clicks.update([0.0], [1])
        >>> round(clicks.result()["logloss"], 4)
        0.6931
        """
        margins, labels = np.asarray(margins), np.asarray(labels)
        weights = np.ones(len(labels)) if weights is None else np.asarray(weights)
        if not len(margins) == len(labels) == len(weights):
            raise DataError(
                f"{len(margins)} margins, {len(labels)} labels and {len(weights)} weights: "
                "each row needs one of each"
            )
        done = 0
        while done < len(labels):
            take = min(CHUNK_ROWS - self._size, len(labels) - done)
            here, there = slice(self._size, self._size + take), slice(done, done + take)
            for column, added in zip(self._chunk, (margins, labels, weights), strict=True):
                column[here] = added[there]
            self._size, done = self._size + take, done + take
            if self._size == CHUNK_ROWS:
                self._flush()

    def result(self) -> dict[str, float]:
        """All figures, over all rows so far.

        >>> ratings = Metrics("squared")
        >>> ratings.update([1.0, 2.0], [1.0, 4.0])
        >>> sorted(ratings.result())
        ['constant_rmse', 'mean_label', 'mean_prediction', 'rmse', 'rows', 'weight']
        """
        totals, measures = self._so_far(), self._loss_of.metrics
        loss, mean_label = self._loss(totals), totals.mean(totals.label)
        constant = measures.figure(totals.mean(totals.spread))
        if measures.entropy is not None:
            constant = measures.entropy(mean_label)
        ranking = {}
        if self._ranking is not None:
            ranking = self._ranking.result(self._pending(), known=not math.isnan(loss))
        return {
            "rows": totals.rows,
            "weight": totals.weight,
            measures.key: loss,
            **ranking,
            "mean_label": mean_label,
            "mean_prediction": totals.mean(totals.prediction),
            f"constant_{measures.key}": constant,
        }

    def progress(self) -> dict[str, float]:
        """For a progress line: `rows`, their `loss`, and the `recent` loss since the last call.

        Costs at most one chunk; the loss is the LogLoss, the RMSE or the deviance.

        >>> ratings = Metrics("squared")
        >>> ratings.update([1.0, 2.0], [2.0, 3.0])
        >>> ratings.progress()
        {'rows': 2, 'loss': 1.0, 'recent': 1.0}
        """
        now, last = self._so_far(), self._last_progress
        window = Totals(weight=now.weight - last.weight, loss=now.loss - last.loss)
        self._last_progress = now
        return {"rows": now.rows, "loss": self._loss(now), "recent": self._loss(window)}

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """All of it as arrays, for `from_state`.

        >>> clicks = Metrics("logistic")
        >>> clicks.update([0.5], [1])
        >>> Metrics.from_state("logistic", clicks.state()).result() == clicks.result()
        True
        """
        found = {"totals": np.array(astuple(self._totals)), "pending": self._pending().copy()}
        if self._ranking is not None:
            found |= self._ranking.state()
        return found

    @classmethod
    def from_state(cls, loss: LossName, state: Mapping[str, npt.NDArray[Any]]) -> Metrics:
        """The inverse; KeyError, ValueError or IndexError if `state` has not made it.

        >>> Metrics.from_state("squared", Metrics("squared").state()).result()["rows"]
        0
        """
        found = cls(loss)
        rows, *sums = state["totals"].tolist()
        found._totals = found._last_progress = Totals(int(rows), *sums)
        if found._ranking is not None:
            found._ranking.restore(state)
        found.update(*state["pending"])
        return found

    def _loss(self, totals: Totals) -> float:
        """The mean loss as its reported figure."""
        return self._loss_of.metrics.figure(totals.mean(totals.loss))

    def _flush(self) -> None:
        if self._ranking is not None:
            self._ranking.add(self._pending())
        self._totals, self._size = self._so_far(), 0

    def _so_far(self) -> Totals:
        with np.errstate(over="ignore", invalid="ignore"):  # squares of huge labels: inf or nan
            return self._together(self._totals, self._score(*self._pending()))

    def _score(self, margins: FloatArray, labels: FloatArray, weights: FloatArray) -> Totals:
        """The totals of these rows."""
        _check_labels(self._loss_of, labels)
        labels = self._loss_of.kept(labels)
        sums = _core.sum_rows(self._loss_of.name, margins, labels, weights)
        divergence = self._loss_of.metrics.divergence
        if divergence is None:
            return Totals(len(labels), *sums)
        weight, _, label, _ = sums
        mean = label / weight if weight > 0 else 0.0
        # Not np.dot: BLAS threads would compete with the learner.
        spread = float(np.sum(weights * divergence(labels, mean)))
        return Totals(len(labels), *sums, spread)

    def _together(self, a: Totals, b: Totals) -> Totals:
        """The totals of two groups of rows together.

        The spread around the common mean is that around each group's own mean, plus the distance of
        these means from it. Sums of squared labels would cancel if the mean is large against the
        spread.
        """
        weight, label = a.weight + b.weight, a.label + b.label
        spread, divergence = a.spread + b.spread, self._loss_of.metrics.divergence
        if divergence is not None and a.weight > 0 and b.weight > 0:
            means = np.array([a.mean(a.label), b.mean(b.label)])
            spread += float(np.sum(divergence(means, label / weight) * (a.weight, b.weight)))
        rows, loss = a.rows + b.rows, a.loss + b.loss
        return Totals(rows, weight, loss, label, a.prediction + b.prediction, spread)

    def _pending(self) -> FloatArray:
        return self._chunk[:, : self._size]


class _Ranking:
    """The margins of clicks and of non-clicks, counted in bins."""

    def __init__(self) -> None:
        self._bins = np.zeros(2 * (BINS + 1))

    def add(self, rows: FloatArray) -> None:
        _core.bin_clicks(self._bins, REACH, *rows)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """The bins that are not empty."""
        used = np.flatnonzero(self._bins)
        return {"bins": used.astype(np.uint32), "counts": self._bins[used]}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self._bins[state["bins"]] = state["counts"]

    def result(self, pending: FloatArray, *, known: bool) -> dict[str, float]:
        """AUC including the pending rows; nan unless the loss is `known`."""
        bins = self._bins.copy()
        _core.bin_clicks(bins, REACH, *pending)
        pairs, ordered, tied = _core.compare_clicks(bins)
        if not (known and pairs > 0):
            return {"auc": math.nan, "auc_error": math.nan}
        return {"auc": (ordered + tied / 2) / pairs, "auc_error": tied / 2 / pairs}


def _check_labels(loss: Loss, labels: FloatArray) -> None:
    fit = loss.check_label(labels)
    if not fit.all():
        raise DataError(f"label {labels[~fit][0]} {loss.wants}")
