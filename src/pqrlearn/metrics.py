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
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pqrlearn import _core
from pqrlearn.errors import DataError
from pqrlearn.loss import FloatArray, Loss, loss_named

BLOCK = 2**15
BINS = 2**20
REACH = 20.0


@dataclass(frozen=True)
class Totals:
    """Weighted sums over rows; `spread` sums the losses of labels where their mean is predicted."""

    rows: int = 0
    weight: float = 0.0
    loss: float = 0.0
    label: float = 0.0
    prediction: float = 0.0
    spread: float = 0.0

    def mean(self, total: float) -> float:
        return total / self.weight if self.weight > 0 else math.nan


class Metrics:
    """Give `update` every row once, in any number of calls; ask for `result` at any time.

    Asking changes nothing: neither later results nor, except for the window of `progress`,
    later answers.

    >>> clicks = Metrics("logistic")
    >>> clicks.update(margins=[2.0, -1.0, 0.5], labels=[1, 0, 0])
    >>> clicks.result()["auc"]
    1.0
    >>> ratings = Metrics("squared")
    >>> ratings.update(margins=[3.0, 4.0], labels=[4.0, 4.0], weights=[1.0, 3.0])
    >>> ratings.result()["rmse"]
    0.5
    """

    def __init__(self, loss: str) -> None:
        self._loss_of = loss_named(loss)
        self._block = np.empty((3, BLOCK))
        self._held = 0
        self._totals = Totals()
        self._last_progress = Totals()
        self._ranking = _Ranking() if self._loss_of.metrics.ranks else None

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

    def result(self) -> dict[str, float]:
        """Every figure, over all rows so far."""
        totals, measures = self._so_far(), self._loss_of.metrics
        loss, mean_label = self._loss(totals), totals.mean(totals.label)
        constant = measures.figure(totals.mean(totals.spread))
        if measures.entropy is not None:
            constant = measures.entropy(mean_label)
        ranking = {}
        if self._ranking is not None:
            ranking = self._ranking.result(self._held_rows(), known=not math.isnan(loss))
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
        """For a progress line: `rows`, `loss` over all of them, `recent` loss since the last call.

        Costs at most one block; the loss is the LogLoss, the RMSE or the deviance.
        """
        now, last = self._so_far(), self._last_progress
        window = Totals(weight=now.weight - last.weight, loss=now.loss - last.loss)
        self._last_progress = now
        return {"rows": now.rows, "loss": self._loss(now), "recent": self._loss(window)}

    def _loss(self, totals: Totals) -> float:
        """The loss as people read it."""
        return self._loss_of.metrics.figure(totals.mean(totals.loss))

    def _settle(self) -> None:
        if self._ranking is not None:
            self._ranking.add(self._held_rows())
        self._totals, self._held = self._so_far(), 0

    def _so_far(self) -> Totals:
        with np.errstate(over="ignore", invalid="ignore"):  # squares of huge labels: inf or nan
            return self._together(self._totals, self._score(*self._held_rows()))

    def _score(self, margins: FloatArray, labels: FloatArray, weights: FloatArray) -> Totals:
        """The totals of some rows."""
        _check_labels(self._loss_of, labels)
        labels = self._loss_of.kept(labels)
        sums = _core.sum_rows(self._loss_of.name, margins, labels, weights)
        divergence = self._loss_of.metrics.divergence
        if divergence is None:
            return Totals(len(labels), *sums)
        weight, _, label, _ = sums
        mean = label / weight if weight > 0 else 0.0
        # Without BLAS, whose threads would fight with the learner's for arrays this small.
        spread = float(np.sum(weights * divergence(labels, mean)))
        return Totals(len(labels), *sums, spread)

    def _together(self, a: Totals, b: Totals) -> Totals:
        """Two groups of rows as one.

        Around the common mean their labels are spread as around their own, plus how far these are
        from it. Sums of squared labels would cancel when the mean is large against the spread.
        """
        weight, label = a.weight + b.weight, a.label + b.label
        spread, divergence = a.spread + b.spread, self._loss_of.metrics.divergence
        if divergence is not None and a.weight > 0 and b.weight > 0:
            means = np.array([a.mean(a.label), b.mean(b.label)])
            spread += float(np.sum(divergence(means, label / weight) * (a.weight, b.weight)))
        rows, loss = a.rows + b.rows, a.loss + b.loss
        return Totals(rows, weight, loss, label, a.prediction + b.prediction, spread)

    def _held_rows(self) -> FloatArray:
        return self._block[:, : self._held]


class _Ranking:
    """The margins of clicks and of others, counted in bins."""

    def __init__(self) -> None:
        self._bins = np.zeros(2 * (BINS + 1))

    def add(self, rows: FloatArray) -> None:
        _core.bin_clicks(self._bins, REACH, *rows)

    def result(self, held: FloatArray, *, known: bool) -> dict[str, float]:
        """With the rows still held; unless a margin among them all was not a number."""
        bins = self._bins.copy()
        _core.bin_clicks(bins, REACH, *held)
        pairs, ordered, tied = _core.rank_clicks(bins, REACH)
        if not (known and pairs > 0):
            return {"auc": math.nan, "auc_error": math.nan}
        return {"auc": (ordered + tied / 2) / pairs, "auc_error": tied / 2 / pairs}


def _check_labels(loss: Loss, labels: FloatArray) -> None:
    fit = loss.check_label(labels)
    if not fit.all():
        raise DataError(f"label {labels[~fit][0]} {loss.wants}")
