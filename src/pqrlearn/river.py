"""Estimators for River: one row at a time, in its pipelines, metrics and model selection.

A row is a dict: a number is a feature with that value, a text is the feature key=value, None is
absent. Learners are as they are without River; docs/python.md says what they ask of a pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pqrlearn.errors import MissingExtra, RowError
from pqrlearn.learners import Learner
from pqrlearn.learners.params import (
    AutoParams,
    DiFactoParams,
    FMParams,
    LRParams,
    Params,
    PQRParams,
    parameters,
)
from pqrlearn.loss import ANY_NUMBER, LossName
from pqrlearn.separation import Separation

try:
    from river import base
    from river.utils.pretty import print_table
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] != "river":
        raise
    raise MissingExtra("estimators for River", "river") from None

__all__ = [
    "AutoClassifier",
    "AutoRegressor",
    "DiFactoClassifier",
    "DiFactoRegressor",
    "FMClassifier",
    "FMRegressor",
    "LRClassifier",
    "LRRegressor",
    "PQRClassifier",
    "PQRRegressor",
]


@parameters
class _Estimator(Params):
    """One Learner, at `learner`, made with the estimator: a clone has a new one."""

    def __post_init__(self) -> None:
        self.learner: Learner = self._new_learner(self._loss())

    def _loss(self) -> str:
        return "logistic"

    def debug_one(self, x: dict[Any, Any], decimals: int = 5) -> str:
        """A table of what each feature adds: the margin of the row, less that of the row without.

        Interactions count for each of their features, so the contributions need not sum to the
        margin. `Intercept` is the margin of an empty row.
        """
        row = _named(x)
        margin = self.learner.margin_one(row)
        added = {key: margin - self.learner.margin_one(_without(row, key)) for key in row}
        contributions = [*added.values(), self.learner.margin_one({})]
        order = sorted(range(len(contributions)), key=contributions.__getitem__, reverse=True)
        values = [_shown(value, decimals) for value in [*row.values(), 1.0]]
        columns = [[*row, "Intercept"], values, [_shown(c, decimals) for c in contributions]]
        table: str = print_table(["Name", "Value", "Contribution"], columns, order=order)
        return table


def _shown(value: Any, decimals: int) -> str:
    return f"{value:,.{decimals}f}" if isinstance(value, float) else str(value)


def _named(x: dict[Any, Any]) -> dict[Any, Any]:
    """With names as keys: some transformers make pairs of words, or numbers beside names."""
    if all(type(key) is str for key in x):
        return x
    return {key if isinstance(key, str) else str(key): value for key, value in x.items()}


def _without(x: dict[Any, Any], key: str) -> dict[Any, Any]:
    return {other: value for other, value in x.items() if other != key}


@parameters
class _Classifier(_Estimator, base.Classifier):
    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learns that the label of `x` is `y`, True or False; `w` is the weight of the row."""
        if y not in (False, True):
            raise RowError(
                f"label {y!r} is neither True nor False; tell more classes apart by "
                "river.multiclass.OneVsRestClassifier"
            )
        self.learner.learn_one(_named(x), float(y), w)

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """The probabilities of False and True."""
        chance = self.learner.predict_one(_named(x))
        return {False: 1.0 - chance, True: chance}


@parameters
class _Regressor(_Estimator, base.Regressor):
    def _loss(self) -> str:
        return ANY_NUMBER

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learns that the label of `x` is `y`; `w` is the weight of the row."""
        self.learner.learn_one(_named(x), float(y), w)

    def predict_one(self, x: dict[Any, Any]) -> float:
        """The expected label."""
        return self.learner.predict_one(_named(x))


@parameters
class _LossRegressor(_Regressor):
    loss: LossName = ANY_NUMBER

    def _loss(self) -> str:
        return self.loss


@parameters
class _Separated(PQRParams, _Estimator):
    """A stream cannot be counted ahead, so the separation is given."""

    separation: Separation | None = None

    def __post_init__(self) -> None:
        self.learner = self._new_learner(self._loss(), self.separation)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"separation": Separation.top_k([{"feature": 1.0}], order=1)}


@parameters
class AutoClassifier(AutoParams, _Classifier):
    """Auto, the learner that tunes itself, for labels True and False.

    `memory` bounds its tables, in bytes. `learner` is the model itself, to look into and to save.

    >>> from river import datasets, evaluate, metrics
    >>> rows, model = datasets.Phishing(), AutoClassifier()
    >>> bool(evaluate.progressive_val_score(rows, model, metrics.ROCAUC()).get() > 0.94)
    True
    """


@parameters
class AutoRegressor(AutoParams, _Regressor):
    """Auto, the learner that tunes itself, for numbers.

    Its parameters are those of AutoClassifier.

    >>> model = AutoRegressor()
    >>> for n in range(100):
    ...     model.learn_one({"day": "Sat" if n % 2 else "Mon"}, 4.0 if n % 2 else 1.0)
    >>> round(model.predict_one({"day": "Sat"}), 1)
    4.0
    """


@parameters
class LRClassifier(LRParams, _Classifier):
    """Logistic regression by FTRL-Proximal; `optimizer="ogd"` or "ftrl-general" for others.

    `alpha`, `beta`, `l1` and `l2` are its rates; `eta`, `schedule` and `radius` are those of the
    other optimizers. What is None has the optimizer's default. `bias=False` leaves the bias out.

    >>> model = LRClassifier(alpha=0.5)
    >>> for n in range(100):
    ...     model.learn_one({"site": "news" if n % 2 else "sport"}, n % 2 == 1)
    >>> model.predict_one({"site": "news"})
    True
    """


@parameters
class LRRegressor(LRParams, _LossRegressor):
    """Linear regression by FTRL-Proximal; `loss="poisson"` for counts.

    Its other parameters are those of LRClassifier.

    >>> model = LRRegressor(alpha=0.5)
    >>> for n in range(300):
    ...     model.learn_one({"day": "Sat" if n % 2 else "Mon"}, 4.0 if n % 2 else 1.0)
    >>> round(model.predict_one({"day": "Sat"}), 1)
    4.0
    """


@parameters
class PQRClassifier(_Separated, _Classifier):
    """Projective quadratic regression; the `separation` says which features are high.

    Where nothing was counted before, use AutoClassifier: its features rise while it learns.

    `interaction_scale` is a factor of a row's interactions, and None leaves them as they are. Its
    other parameters are those of LRClassifier.

    >>> rows = [{"site": "news", "ad": "x"}, {"site": "news", "ad": "y"}]
    >>> model = PQRClassifier(separation=Separation.top_k(rows, order=2))
    >>> for n in range(100):
    ...     model.learn_one(rows[n % 2], n % 2 == 1)
    >>> model.predict_one(rows[1])
    True
    """


@parameters
class PQRRegressor(_Separated, _LossRegressor):
    """Projective quadratic regression for numbers; `loss="poisson"` for counts.

    Its other parameters are those of PQRClassifier.

    >>> rows = [{"site": "news", "ad": "x"}, {"site": "news", "ad": "y"}]
    >>> model = PQRRegressor(separation=Separation.top_k(rows, order=2))
    >>> for n in range(300):
    ...     model.learn_one(rows[n % 2], 1.0 + n % 2)
    >>> round(model.predict_one(rows[1]), 1)
    2.0
    """


@parameters
class FMClassifier(FMParams, _Classifier):
    """A factorization machine.

    `rank` is the number of factors of a feature; they start within ±`init`, by `seed`. `optimizer`
    is "adagrad", with `eta`, `beta`, `l1`, `l2`, `factor_eta` and `factor_l2`, or "sgd", with a
    `schedule` instead of `beta`.

    >>> model = FMClassifier(rank=4)
    >>> for n in range(100):
    ...     model.learn_one({"site": "news" if n % 2 else "sport"}, n % 2 == 1)
    >>> model.predict_one({"site": "news"})
    True
    """


@parameters
class FMRegressor(FMParams, _LossRegressor):
    """A factorization machine for numbers; `loss="poisson"` for counts.

    Its other parameters are those of FMClassifier.

    >>> model = FMRegressor(eta=0.5)
    >>> for n in range(300):
    ...     model.learn_one({"day": "Sat" if n % 2 else "Mon"}, 4.0 if n % 2 else 1.0)
    >>> round(model.predict_one({"day": "Sat"}), 1)
    4.0
    """


@parameters
class DiFactoClassifier(DiFactoParams, _Classifier):
    """DiFacto: frequent features have more factors.

    `tiers` are pairs of a number of rows and the number of factors from there on, `factor_eta`,
    `factor_beta` and `factor_l2` the rates of factors; they start within ±`init`, by `seed`.
    `alpha`, `beta`, `l1` and `l2` are the rates of linear weights.

    >>> model = DiFactoClassifier(tiers=((2, 4), (20, 8)))
    >>> for n in range(100):
    ...     model.learn_one({"site": "news" if n % 2 else "sport"}, n % 2 == 1)
    >>> model.predict_one({"site": "news"})
    True
    """


@parameters
class DiFactoRegressor(DiFactoParams, _LossRegressor):
    """DiFacto for numbers; `loss="poisson"` for counts.

    Its other parameters are those of DiFactoClassifier.

    >>> model = DiFactoRegressor(alpha=0.5)
    >>> for n in range(300):
    ...     model.learn_one({"day": "Sat" if n % 2 else "Mon"}, 4.0 if n % 2 else 1.0)
    >>> round(model.predict_one({"day": "Sat"}), 1)
    4.0
    """
