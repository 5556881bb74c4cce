"""Regressors: ratings by the squared loss, counts by the poisson loss."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import assert_all_finite

from pqrlearn.learners.params import parameters
from pqrlearn.loss import ANY_NUMBER, LossName, loss_named
from pqrlearn.rows import FloatArray
from pqrlearn.sklearn.base import Estimator


@parameters
class Regressor(RegressorMixin, Estimator):
    """One model. With the squared loss it learns y centred and scaled by the first rows."""

    @property
    def _loss(self) -> str:
        return ANY_NUMBER

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forgets all rows, then learns these, in order."""
        return self._taught(X, y, sample_weight, first=True, passes=self._passes())

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learns more rows; the first call settles what columns are, and the scale of y."""
        first = not hasattr(self, "models_")
        return self._taught(X, y, sample_weight, first=first, passes=1)

    def _labels(self, y: Any, weights: Any, first: bool) -> list[FloatArray]:
        y = np.asarray(y, np.float64)
        assert_all_finite(y, input_name="y")
        if first:
            self.target_center_, self.target_scale_ = 0.0, 1.0
            if self._loss == ANY_NUMBER:
                self.target_center_ = float(np.average(y, weights=weights))
                spread = np.average((y - self.target_center_) ** 2, weights=weights) ** 0.5
                self.target_scale_ = float(spread) if 0 < spread < np.inf else 1.0
        return [(y - self.target_center_) / self.target_scale_]

    def _unit(self) -> tuple[float, float]:
        return self.target_center_, self.target_scale_

    def predict(self, X: Any) -> FloatArray:
        """The expected label of each row."""
        margins = self._margins(X)[:, 0]
        return loss_named(self._loss).link(margins) * self.target_scale_ + self.target_center_


@parameters
class LossRegressor(Regressor):
    """With a `loss`: "squared", or "poisson" for counts."""

    loss: LossName = ANY_NUMBER

    @property
    def _loss(self) -> str:
        return self.loss
