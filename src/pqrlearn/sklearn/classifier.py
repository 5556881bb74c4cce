"""Classifiers: one model for two classes, one for each of more."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets

from pqrlearn.errors import DataError
from pqrlearn.learners.params import parameters
from pqrlearn.loss import loss_named
from pqrlearn.rows import FloatArray
from pqrlearn.sklearn.base import Estimator


@parameters
class Classifier(ClassifierMixin, Estimator):
    """Two classes are the labels of one model; of more, each is told from the rest by its own."""

    @property
    def _loss(self) -> str:
        return "logistic"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forgets all rows, then learns these, in order."""
        passes = self._passes()
        self.__dict__.pop("classes_", None)
        return self._taught(X, y, sample_weight, first=True, passes=passes)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learns more rows; the first call needs all `classes`, and settles what columns are."""
        first = _check_partial_fit_first_call(self, classes) or not hasattr(self, "models_")
        return self._taught(X, y, sample_weight, first=first, passes=1)

    def _labels(self, y: Any, weights: Any, first: bool) -> list[FloatArray]:
        check_classification_targets(y)
        if not hasattr(self, "classes_"):
            self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise DataError(
                f"y has one class, {self.classes_[0]!r}: a classifier needs two or more"
            )
        places = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        if (unknown := self.classes_[places] != y).any():
            raise DataError(f"y has {y[unknown][0]!r}, which is not one of the classes")
        told = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        return [(places == place).astype(np.float64) for place in told]

    def decision_function(self, X: Any) -> FloatArray:
        """Margins: of the second of two classes, or of each of more."""
        margins = self._margins(X)
        return margins.ravel() if margins.shape[1] == 1 else margins

    def predict_proba(self, X: Any) -> FloatArray:
        """The probability of each class; of more than two they are made to sum to 1."""
        margins = self._margins(X)
        link = loss_named("logistic").link
        if margins.shape[1] == 1:
            return np.column_stack([link(-margins[:, 0]), link(margins[:, 0])])
        found: FloatArray = np.maximum(link(margins), np.finfo(np.float64).tiny)
        found /= found.sum(axis=1, keepdims=True)
        return found

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The likeliest class of each row."""
        margins = self._margins(X)
        if margins.shape[1] == 1:
            places = (margins[:, 0] > 0).astype(np.int64)
        else:
            places = margins.argmax(axis=1)
        found: npt.NDArray[Any] = self.classes_[places]
        return found
