"""One adapter between Learners and scikit-learn: rows in, margins out, weights to look at."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from pqrlearn.errors import DataError
from pqrlearn.hyper import check_whole
from pqrlearn.learners import Learner
from pqrlearn.learners.given import as_batch
from pqrlearn.learners.params import Params, parameters
from pqrlearn.rows import Batch, FloatArray
from pqrlearn.schema import Schema
from pqrlearn.separation import Separation
from pqrlearn.sklearn import rows


@parameters
class Estimator(Params, BaseEstimator):
    """Learns one model for each array of labels that `_labels` makes of y.

    `schema` says what the columns of arrays and frames are. `models_` are the trained Learners,
    `schema_` is how they read columns (None for sparse rows).
    """

    schema: Any = None

    @property
    @abstractmethod
    def _loss(self) -> str: ...

    @abstractmethod
    def _labels(self, y: Any, weights: Any, first: bool) -> list[FloatArray]:
        """The labels of each model; `first` if y starts the models."""

    def _separation(self, X: Any) -> Separation | None:
        """What the models need to know of X before they learn it."""
        return None

    def _unit(self) -> tuple[float, float]:
        """What a margin of 0 means, and by how much one of 1 is more."""
        return 0.0, 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    # -- learning ---------------------------------------------------------------

    def _taught(self, X: Any, y: Any, sample_weight: Any, *, first: bool, passes: int) -> Self:
        if y is None:
            raise DataError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        X = rows.checked(self, X, reset=first)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        weights = _check_sample_weight(sample_weight, y, dtype=np.float64)
        labels = self._labels(y, weights, first)
        if first:
            self.schema_ = self._schema_of(X)
            separation = self._separation(X)
            self.models_ = [self._started(separation) for _ in labels]
        batches: Iterable[tuple[int, Batch]] = rows.batches(self, self.models_[0], X)
        if passes > 1:
            batches = list(batches)  # read once
        for _ in range(passes):
            self._learn(batches, labels, weights)
        return self

    def _schema_of(self, X: Any) -> Schema | None:
        return rows.schema_of(self, X) if self.schema is None else Schema.of(self.schema)

    def _started(self, separation: Separation | None) -> Learner:
        learner = self._new_learner(self._loss, separation)
        learner.schema = self.schema_
        return learner

    def _learn(
        self, batches: Iterable[tuple[int, Batch]], labels: list[FloatArray], weights: FloatArray
    ) -> None:
        """All models learn the same Batches, so that their features have the same numbers."""
        for start, batch in batches:
            part = slice(start, start + len(batch))
            for model, of_model in zip(self.models_, labels, strict=True):
                model.learn_margins(as_batch(batch, of_model[part], weights[part]))

    def _passes(self) -> int:
        """How often `fit` learns each row."""
        return 1

    # -- predicting -------------------------------------------------------------

    def _margins(self, X: Any) -> FloatArray:
        """A row for each row of X, a column for each model."""
        check_is_fitted(self, "models_")
        X = rows.checked(self, X, reset=False)
        found = [
            np.column_stack([model.margin_many(batch) for model in self.models_])
            for _, batch in rows.batches(self, self.models_[0], X)
        ]
        return np.concatenate(found)


@parameters
class Passes(Params):
    """`passes` is how often `fit` learns each row.

    A fixed learning rate does not get far in one pass over few rows.
    """

    passes: int = 10

    def _passes(self) -> int:
        return check_whole("passes", self._number(self.passes), least=1)


class LinearWeights(Estimator):
    """Weights of LR and PQR as sparse arrays, with a row for each model.

    Columns are features as the model sees them: those of a sparse matrix, or those that `schema_`
    makes of a table, whose numbers are centred and scaled. `features_` names them.
    """

    @property
    def features_(self) -> npt.NDArray[np.object_]:
        """The names of the features."""
        names = [self.models_[0].name_of(feature) for feature in range(self._width())]
        return np.array(names, dtype=object)

    @property
    def coef_(self) -> csr_array:
        """The linear weights: a sparse array with a row for each model."""
        return self._rows_of("linear")

    @property
    def intercept_(self) -> FloatArray:
        """The bias of each model."""
        check_is_fitted(self, "models_")
        center, scale = self._unit()
        return np.array([model.weights("bias")[1][0] * scale + center for model in self.models_])

    def _width(self) -> int:
        check_is_fitted(self, "models_")
        first = self.models_[0]
        known = max(first.next_feature, first.names.next_feature)
        return int(self.n_features_in_ if self.schema_ is None else known)

    def _rows_of(self, block: str) -> csr_array:
        width, found = self._width(), [model.weights(block) for model in self.models_]
        rows = np.repeat(np.arange(len(found)), [len(keys) for keys, _ in found])
        columns = np.concatenate([keys for keys, _ in found]).astype(np.int64)
        values = np.concatenate([values for _, values in found])
        return self._sparse(values, rows, columns, (len(found), width))

    def _sparse(self, values: Any, rows: Any, columns: Any, shape: tuple[int, int]) -> csr_array:
        """In the unit of y, without the weights that are zero."""
        found = csr_array((values.astype(np.float64) * self._unit()[1], (rows, columns)), shape)
        found.eliminate_zeros()
        return found


class PairWeights(LinearWeights):
    """Those of PQR; `interaction_scale` multiplies the interactions of a row besides."""

    @property
    def interactions_(self) -> list[csr_array]:
        """The weights of pairs of high features: an upper triangle for each model."""
        shape, found = (self._width(), self._width()), []
        for model in self.models_:
            keys, values = model.weights("pair")
            ordered = np.sort(keys.reshape(-1, 2), axis=1).astype(np.int64)
            found.append(self._sparse(values, ordered[:, 0], ordered[:, 1], shape))
        return found

    @property
    def shared_(self) -> csr_array:
        """The weight that a high feature has in its pairs with low ones."""
        return self._rows_of("shared")
