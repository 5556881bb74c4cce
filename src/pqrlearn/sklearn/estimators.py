"""The ten estimators."""

from __future__ import annotations

from typing import Any

from pqrlearn.learners.params import (
    AutoParams,
    DiFactoParams,
    FMParams,
    LRParams,
    PQRParams,
    parameters,
)
from pqrlearn.separation import Separation
from pqrlearn.sklearn import rows
from pqrlearn.sklearn.base import LinearWeights, PairWeights, Passes
from pqrlearn.sklearn.classifier import Classifier
from pqrlearn.sklearn.regressor import LossRegressor, Regressor


@parameters
class AutoClassifier(AutoParams, Classifier):
    """Auto, the learner that tunes itself, for classes.

    `memory` bounds its tables, in bytes. `schema` says what the columns of arrays and frames are;
    without it numbers are scaled, and all else is guessed.

    >>> X = [[0, 1], [1, 1], [1, 0], [0, 0]] * 100
    >>> y = ["odd", "even", "odd", "even"] * 100
    >>> model = AutoClassifier().fit(X, y)
    >>> model.score(X, y)
    1.0
    """


@parameters
class AutoRegressor(AutoParams, Regressor):
    """Auto, the learner that tunes itself, for numbers.

    Its parameters are those of AutoClassifier.

    >>> X = [[n % 7, n % 3] for n in range(300)]
    >>> model = AutoRegressor().fit(X, [1000 * a * b for a, b in X])
    >>> model.predict([[6, 2]]).round(-3).tolist()
    [12000.0]
    """


@parameters
class LRClassifier(LRParams, Passes, LinearWeights, Classifier):
    """Logistic regression, learned row by row.

    `alpha`, `beta`, `l1` and `l2` are the rates of FTRL-Proximal; `optimizer` may be "ogd", with
    `eta`, `schedule` and `radius`, or "ftrl-general", with `eta` and `radius`. What is None has the
    optimizer's default. `bias=False` leaves the bias out. `fit` learns each row `passes` times.
    `schema` says what the columns of arrays and frames are.

    >>> model = LRClassifier(alpha=0.5).fit([[0.0], [1.0]] * 50, ["no", "yes"] * 50)
    >>> model.predict([[0.0], [1.0]]).tolist()
    ['no', 'yes']
    >>> model.coef_.shape, model.features_.tolist()
    ((1, 1), ['0'])
    """


@parameters
class LRRegressor(LRParams, Passes, LinearWeights, LossRegressor):
    """Linear regression, learned row by row; `loss="poisson"` for counts.

    Its other parameters are those of LRClassifier.

    >>> model = LRRegressor().fit([[0.0], [1.0]] * 50, [10.0, 30.0] * 50)
    >>> model.predict([[1.0]]).round().tolist()
    [30.0]
    """


@parameters
class _Separated(PQRParams, Passes, PairWeights):
    """Counts features before it learns: the `order` most frequent are high, ⌈√d⌉ by default."""

    order: int | None = None

    def _separation(self, X: Any) -> Separation:
        return rows.counted(self, X, self.schema_).separate(order=self._number(self.order))


@parameters
class PQRClassifier(_Separated, Classifier):
    """Projective quadratic regression for classes: weights for pairs of frequent features.

    `order` is how many features are high. `fit` counts them first, the first `partial_fit` counts
    those of its rows.

    `interaction_scale` is a factor of a row's interactions, and None leaves them as they are. Its
    other parameters are those of LRClassifier.

    >>> X = [[0, 1], [1, 1], [1, 0], [0, 0]] * 100
    >>> y = ["odd", "even", "odd", "even"] * 100
    >>> model = PQRClassifier(order=2).fit(X, y)
    >>> model.score(X, y)
    1.0
    >>> model.interactions_[0].nnz
    1
    """


@parameters
class PQRRegressor(_Separated, LossRegressor):
    """Projective quadratic regression for numbers; `loss="poisson"` for counts.

    Its other parameters are those of PQRClassifier.

    >>> X = [[n % 7, n % 3] for n in range(300)]
    >>> model = PQRRegressor(order=2).fit(X, [1000 * a * b for a, b in X])
    >>> model.predict([[6, 2]]).round(-3).tolist()
    [12000.0]
    """


@parameters
class FMClassifier(FMParams, Passes, Classifier):
    """A factorization machine for classes.

    `rank` is the number of factors of a feature; they start within ±`init`, by `seed`. `optimizer`
    is "adagrad", with `eta`, `beta`, `l1`, `l2`, `factor_eta` and `factor_l2`, or "sgd", with a
    `schedule` instead of `beta`. `bias`, `passes` and `schema` are those of LRClassifier.

    >>> X = [[0, 1], [1, 1], [1, 0], [0, 0]] * 100
    >>> model = FMClassifier(rank=4).fit(X, ["a", "b", "b", "a"] * 100)
    >>> model.predict([[1, 1]]).tolist()
    ['b']
    """


@parameters
class FMRegressor(FMParams, Passes, LossRegressor):
    """A factorization machine for numbers; `loss="poisson"` for counts.

    Its other parameters are those of FMClassifier.

    >>> X = [[n % 7, n % 3] for n in range(300)]
    >>> model = FMRegressor().fit(X, [10 * a + b for a, b in X])
    >>> model.score(X, [10 * a + b for a, b in X]) > 0.9
    True
    """


@parameters
class DiFactoClassifier(DiFactoParams, Passes, Classifier):
    """DiFacto for classes: frequent features have more factors.

    `tiers` are pairs of a number of rows and the number of factors from there on, `factor_eta`,
    `factor_beta` and `factor_l2` the rates of factors; they start within ±`init`, by `seed`.
    `alpha`, `beta`, `l1` and `l2` are the rates of linear weights. The rest is that of
    LRClassifier.

    >>> X = [[0, 1], [1, 1], [1, 0], [0, 0]] * 100
    >>> model = DiFactoClassifier(tiers=((2, 4),)).fit(X, ["a", "b", "b", "a"] * 100)
    >>> model.predict([[1, 1]]).tolist()
    ['b']
    """


@parameters
class DiFactoRegressor(DiFactoParams, Passes, LossRegressor):
    """DiFacto for numbers; `loss="poisson"` for counts.

    Its other parameters are those of DiFactoClassifier.

    >>> X = [[n % 7, n % 3] for n in range(300)]
    >>> model = DiFactoRegressor().fit(X, [10 * a + b for a, b in X])
    >>> model.score(X, [10 * a + b for a, b in X]) > 0.9
    True
    """
