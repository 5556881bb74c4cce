"""The settings of learners as keyword arguments of a class, for estimators of other libraries.

scikit-learn and River read the signature of `__init__`, so each setting is spelled out. None means
the default of the model or its optimizer, as for an option of the command that is not given.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

import numpy as np

from pqrlearn.hyper import INIT, INTERACTION_SCALE, MAX_PAIRS_PER_ROW, RANK, TIERS
from pqrlearn.learners.base import Learner
from pqrlearn.learners.build import make
from pqrlearn.separation import Separation

T = TypeVar("T")


def setting(*, default: Any) -> Any:
    """A parameter that is a setting of the learner; others concern the estimator alone."""
    return field(default=default, metadata={"setting": True})


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(setting,))
def parameters(cls: type[T]) -> type[T]:
    """Fields become keyword arguments; equality, hash and repr stay those of the library."""
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


@parameters
class Params:
    """Base: the kind of the learner, and its settings."""

    kind: ClassVar[str]

    def _new_learner(self, loss: str, separation: Separation | None = None) -> Learner:
        """A learner with the settings that are not None; a scale of None means no scaling."""
        declared: Any = self
        names = [each.name for each in fields(declared) if "setting" in each.metadata]
        given = {name: self._number(getattr(self, name)) for name in names}
        settings: Any = {
            name: value
            for name, value in given.items()
            if value is not None or name == "interaction_scale"
        }
        return make(self.kind, loss, settings, separation)

    @staticmethod
    def _number(value: Any) -> Any:
        """A number of NumPy, as a search over a grid gives it, as one of Python."""
        return value.item() if isinstance(value, np.generic) else value


@parameters
class AutoParams(Params):
    """`memory` bounds the tables of features and pairs, in bytes."""

    kind = "auto"
    memory: int | None = setting(default=None)


@parameters
class _LinearParams(Params):
    optimizer: str | None = setting(default=None)
    alpha: float | None = setting(default=None)
    beta: float | None = setting(default=None)
    l1: float | None = setting(default=None)
    l2: float | None = setting(default=None)
    eta: float | None = setting(default=None)
    schedule: str | None = setting(default=None)
    radius: float | None = setting(default=None)
    bias: bool = setting(default=True)


@parameters
class LRParams(_LinearParams):
    """`alpha`, `beta`, `l1` and `l2` are rates of the optimizer "ftrl", the default.

    `eta`, `schedule` and `radius` are those of "ogd" and "ftrl-general".
    """

    kind = "lr"


@parameters
class PQRParams(_LinearParams):
    """`interaction_scale` is a factor of a row's interactions; None does not scale them.

    A row with more than `max_pairs_per_row` pairs is refused.
    """

    kind = "pqr"
    interaction_scale: float | None = setting(default=INTERACTION_SCALE)
    max_pairs_per_row: int = setting(default=MAX_PAIRS_PER_ROW)


@parameters
class _FactorParams(Params):
    l1: float | None = setting(default=None)
    l2: float | None = setting(default=None)
    factor_eta: float | None = setting(default=None)
    factor_l2: float | None = setting(default=None)
    beta: float | None = setting(default=None)
    seed: int = setting(default=0)
    init: float = setting(default=INIT)
    bias: bool = setting(default=True)


@parameters
class FMParams(_FactorParams):
    """`rank` is the number of factors; `optimizer` is "adagrad" or "sgd", with the rate `eta`."""

    kind = "fm"
    rank: int = setting(default=RANK)
    optimizer: str | None = setting(default=None)
    eta: float | None = setting(default=None)
    schedule: str | None = setting(default=None)


@parameters
class DiFactoParams(_FactorParams):
    """`tiers` are pairs of a number of rows and the number of factors from there on."""

    kind = "difacto"
    tiers: tuple[tuple[int, int], ...] = setting(default=TIERS)
    factor_beta: float | None = setting(default=None)
    alpha: float | None = setting(default=None)
