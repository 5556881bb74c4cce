"""Every hyper-parameter: name, default, range and meaning; the one place that validates them."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Any, ClassVar, Final, Literal, TypedDict

from pqrlearn.errors import HyperError

INTERACTION_SCALE: Final = 1.0
"""Default of the interaction scale: see docs/decisions/0004-interaction-scale.md."""

SAMPLE_ROWS: Final = 1_000_000
"""Default number of rows that are counted to find the frequent features."""

Schedule = Literal["fixed", "sqrt"]
SCHEDULES: Final[tuple[Schedule, ...]] = ("fixed", "sqrt")
"""Schedules of the step size of gradient descent."""

MAX_ORDER: Final = 2**32 - 2

MAX_PAIRS_PER_ROW: Final = 1 << 22
"""Default bound on the pairs of a row: those of 2,896 high features. A pair takes 40 bytes while
its row is learned, and up to 80 where the rows around it are as long: 320 MB in all."""

ORDERS: Final = (0, 1, 4, 16)
"""Orders of a mixture, in units of the default order ⌈√d⌉: no high features, the paper's
suggestion, and more. The loss changes slowly with the order, so steps of 4 are fine enough. Mixing
four orders costs at most ln 4 = 1.39 nats of LogLoss in total; 16√d features have at most 128·d
pairs."""

RANK: Final = 16
"""Default number of factors of a feature."""

MAX_RANK: Final = 512

INIT: Final = 0.03
"""Factors start uniform in [-INIT, INIT], by a hash of the seed, the feature and the component."""

TIERS: Final = ((10, 4), (100, 8), (1000, 16))
"""Default tiers of DiFacto: a feature that was in 10 rows has 4 factors, and so on."""

FACTOR_ETA: Final = 0.03
"""Default AdaGrad learning rate of factors. This and the three beside it were chosen on five data
sets: see docs/notes/factor-defaults.md."""

FACTOR_BETA: Final = 0.3
"""Default of what damps the first steps of DiFacto's factors."""

MAX_SEED: Final = 2**63 - 1


def check_number(name: str, value: object, *, above: float | None = None) -> float:
    """`value` as a finite float, > `above` if given and >= 0 otherwise."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
    good = good and abs(value) <= sys.float_info.max  # type: ignore[arg-type]
    if not good or (value <= above if above is not None else value < 0):  # type: ignore[operator]
        bound = f"> {above:g}" if above is not None else ">= 0"
        raise HyperError(f"{name}={value!r} must be a number {bound}")
    return float(value)  # type: ignore[arg-type]


def check_rate(name: str, value: object, *, above: float | None = None) -> float:
    """`check_number`, with bounds that keep the learned state within 32-bit floats."""
    rate = check_number(name, value, above=above)
    if rate and not 1e-12 <= rate <= 1e12:
        raise HyperError(f"{name}={value!r} must be from 1e-12 to 1e12")
    return rate


def check_interaction_scale(factor: float | None) -> float | None:
    """None means no scaling; f multiplies the interactions of a row by f / √(their number)."""
    return None if factor is None else check_rate("interaction_scale", factor, above=0)


def check_max_pairs(pairs: object) -> int:
    return check_whole("max_pairs_per_row", pairs, least=1, most=2**63 - 1)


def check_radius(radius: float | None) -> float:
    """The radius as a number: no bound is infinity."""
    return math.inf if radius is None else check_rate("radius", radius, above=0)


def check_whole(
    name: str, value: object, *, least: int, most: int | None = None, of: str = ""
) -> int:
    good = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not good or (most is not None and value > most):  # type: ignore[operator]
        bound = f"from {least} to {most}" if most is not None else f">= {least}"
        raise HyperError(f"{name}={value!r} must be a whole number {of}{bound}")
    return value  # type: ignore[return-value]


def check_memory(memory: int | None) -> int | None:
    """What Auto may use, in bytes; None is as much as it needs."""
    if memory is not None:
        check_whole("memory", memory, least=10**6, most=2**60, of="of bytes ")
    return memory


def check_tiers(tiers: object) -> tuple[tuple[int, int], ...]:
    """Pairs of a count and a rank, both increasing."""
    try:
        pairs = tuple((count, rank) for count, rank in tiers)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise HyperError(f"tiers={tiers!r} must be pairs of a count and a rank") from None
    for count, rank in pairs:
        check_whole("tiers: count", count, least=1, most=2**32 - 1)
        check_whole("tiers: rank", rank, least=1, most=MAX_RANK)
    if any(a[0] >= b[0] or a[1] >= b[1] for a, b in pairwise(pairs)):
        raise HyperError(f"tiers={tiers!r} must increase, in count and in rank")
    return pairs


@dataclass(frozen=True)
class Optimizer:
    """How gradients become weights."""

    name: ClassVar[str]

    def settings(self) -> dict[str, Any]:
        """Its name and all rates, as a model file has them.

        >>> Ftrl(alpha=0.2).settings()
        {'name': 'ftrl', 'alpha': 0.2, 'beta': 1.0, 'l1': 0.0, 'l2': 0.0}
        """
        return {"name": self.name, **asdict(self)}


@dataclass(frozen=True)
class LinearOptimizer(Optimizer):
    """An optimizer of models that are linear in their weights."""

    def rates(self) -> dict[str, float]:
        """Its settings as numbers, under the names that the native optimizer declares.

        >>> Ogd(radius=2.0).rates()
        {'eta': 0.1, 'decays': 1.0, 'radius': 2.0}
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Ftrl(LinearOptimizer):
    """FTRL-Proximal (Algorithm 2 of the paper).

    alpha: learning rate; beta: damps the first steps; l1: a weight stays exactly zero until the
    sum of its gradients exceeds it (except the bias); l2: pulls weights towards zero.
    """

    name: ClassVar[str] = "ftrl"
    alpha: float = 0.1
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0

    def __post_init__(self) -> None:
        check_rate("alpha", self.alpha, above=0)
        for name in ("beta", "l1", "l2"):
            check_rate(name, getattr(self, name))

    def rates(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class Ogd(LinearOptimizer):
    """Online gradient descent: weights - step · gradient, then projected onto a ball.

    eta: the step; schedule: "sqrt" divides it by √t at row t, "fixed" does not; radius: bound on
    the l2 norm of all weights, including the bias, or None for no bound.
    """

    name: ClassVar[str] = "ogd"
    eta: float = 0.1
    schedule: Schedule = "sqrt"
    radius: float | None = None

    def __post_init__(self) -> None:
        check_rate("eta", self.eta, above=0)
        if self.schedule not in SCHEDULES:
            raise HyperError(f"schedule={self.schedule!r} must be one of {', '.join(SCHEDULES)}")
        check_radius(self.radius)

    def rates(self) -> dict[str, float]:
        decays = float(self.schedule == "sqrt")
        return {"eta": self.eta, "decays": decays, "radius": check_radius(self.radius)}


@dataclass(frozen=True)
class FtrlGeneral(LinearOptimizer):
    """FTRL (Algorithm 1 of the paper) with R = ‖θ‖²/2: -eta · (sum of gradients).

    eta: the step, fixed; radius: bound on the l2 norm of the weights, or None for no bound.
    """

    name: ClassVar[str] = "ftrl-general"
    eta: float = 0.01
    radius: float | None = None

    def __post_init__(self) -> None:
        check_rate("eta", self.eta, above=0)
        check_radius(self.radius)

    def rates(self) -> dict[str, float]:
        return {"eta": self.eta, "radius": check_radius(self.radius)}


@dataclass(frozen=True)
class Descent(Optimizer):
    """Gradient descent for models with factors; l1 and l2 are proximal.

    After each step an updated coordinate moves towards zero by at most step size · l1, and is then
    divided by 1 + step size · l2.
    """

    adaptive: ClassVar[bool]
    eta: float
    l1: float = 0.0
    l2: float = 0.0
    factor_eta: float | None = None
    factor_l2: float | None = None

    def __post_init__(self) -> None:
        check_rate("eta", self.eta, above=0)
        check_rate("l1", self.l1)
        check_rate("l2", self.l2)
        if self.factor_eta is not None:
            check_rate("factor_eta", self.factor_eta, above=0)
        if self.factor_l2 is not None:
            check_rate("factor_l2", self.factor_l2)

    @property
    def decays(self) -> bool:
        """Whether steps are divided by √t at row t.

        >>> Sgd(schedule="sqrt").decays, AdaGrad().decays
        (True, False)
        """
        return False

    def rates(self) -> list[float]:
        """eta, beta, l1 and l2 of the linear weights, then those of the factors.

        >>> AdaGrad(eta=0.5).rates()
        [0.5, 1.0, 0.0, 0.0, 0.03, 1.0, 0.0, 0.0]
        """
        beta = getattr(self, "beta", 1.0)
        factor_eta = self.eta if self.factor_eta is None else self.factor_eta
        factor_l2 = self.l2 if self.factor_l2 is None else self.factor_l2
        return [self.eta, beta, self.l1, self.l2, factor_eta, beta, self.l1, factor_l2]


@dataclass(frozen=True)
class AdaGrad(Descent):
    """Steps of eta / (beta + √(sum of squared gradients)), per coordinate.

    eta: learning rate; beta: damps the first steps; l1, l2: pull weights and factors towards zero;
    factor_eta, factor_l2: those of the factors; None means the same.
    """

    name: ClassVar[str] = "adagrad"
    adaptive: ClassVar[bool] = True
    eta: float = 0.1
    factor_eta: float | None = FACTOR_ETA
    beta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rate("beta", self.beta, above=0)


@dataclass(frozen=True)
class Sgd(Descent):
    """Online gradient descent, as the paper trains its FM: one step size for all coordinates.

    eta: the step; schedule: "sqrt" divides it by √t at row t, "fixed" does not; l1, l2: pull
    weights and factors towards zero; factor_eta, factor_l2: those of the factors; None means the
    same.
    """

    name: ClassVar[str] = "sgd"
    adaptive: ClassVar[bool] = False
    eta: float = 0.01
    schedule: Schedule = "fixed"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schedule not in SCHEDULES:
            raise HyperError(f"schedule={self.schedule!r} must be one of {', '.join(SCHEDULES)}")

    @property
    def decays(self) -> bool:
        return self.schedule == "sqrt"


DIFACTO_FTRL: Final = Ftrl(l1=0.1)
"""Default of DiFacto's linear weights; a weight that l1 keeps at zero masks its factors."""


@dataclass(frozen=True)
class NuclearBall:
    """The nuclear-norm ball that holds the interactions of CFM and CCFM, and their steps.

    radius: bound on the nuclear norm of the matrix; eta: learning rate; block_rows: rows from one
    step to the next.
    """

    radius: float = 100.0
    eta: float = 1.0
    block_rows: int = 256

    def __post_init__(self) -> None:
        for name in ("radius", "eta"):
            check_rate(name, getattr(self, name), above=0)
        check_whole("block_rows", self.block_rows, least=1)

    def settings(self) -> dict[str, Any]:
        """Radius, rate and rows of a step, as a model file has them.

        >>> NuclearBall(radius=5.0).settings()
        {'radius': 5.0, 'eta': 1.0, 'block_rows': 256}
        """
        return asdict(self)


def ball_from(settings: object) -> NuclearBall:
    """The ball with these settings, as `NuclearBall.settings` returns them."""
    names = {field.name for field in fields(NuclearBall)}
    if not isinstance(settings, dict) or set(settings) != names:
        raise HyperError(f"ball={settings!r} is incomplete")
    return NuclearBall(**settings)


OPTIMIZERS: Final[dict[str, type[LinearOptimizer]]] = {o.name: o for o in (Ftrl, Ogd, FtrlGeneral)}
"""Optimizers of models that are linear in their weights."""

DESCENTS: Final[dict[str, type[Descent]]] = {d.name: d for d in (AdaGrad, Sgd)}
"""Optimizers of FM."""


def optimizer_from(settings: object) -> Optimizer:
    """The optimizer with these settings, as `Optimizer.settings` returns them."""
    rates = dict(settings) if isinstance(settings, dict) else {}
    name = rates.pop("name", "")
    kind = OPTIMIZERS.get(name) or DESCENTS.get(name)
    if kind is None or set(rates) != {field.name for field in fields(kind)}:
        raise HyperError(f"optimizer={settings!r} is incomplete")
    return kind(**rates)


class FtrlRates(TypedDict, total=False):
    """The rates of Ftrl, as keywords of a learner."""

    alpha: float
    beta: float
    l1: float
    l2: float


class DescentRates(TypedDict, total=False):
    """The rates of AdaGrad, as keywords of a learner."""

    eta: float
    beta: float
    l1: float
    l2: float
    factor_eta: float | None
    factor_l2: float | None


def with_rates(
    learner: str, optimizer: Optimizer | None, default: Optimizer, rates: Mapping[str, Any]
) -> Optimizer:
    """The optimizer of a learner: as it is given, or its default with these rates.

    >>> with_rates("LR", None, Ftrl(), {"alpha": 0.2})
    Ftrl(alpha=0.2, beta=1.0, l1=0.0, l2=0.0)
    """
    name, known = type(default).__name__, [field.name for field in fields(default)]
    if unknown := [rate for rate in rates if rate not in known]:
        raise TypeError(
            f"{learner} has no setting {unknown[0]!r}; the rates of its optimizer, {name}, are "
            f"{', '.join(known)}"
        )
    if rates and optimizer is not None:
        rate = next(iter(rates))
        raise HyperError(
            f"{rate}={rates[rate]!r} beside optimizer={optimizer!r}: give the rates to the "
            f"optimizer, or leave it out, as in {learner}({rate}={rates[rate]!r})"
        )
    return replace(default, **rates) if rates else optimizer or default


class Settings(TypedDict, total=False):
    """The settings of any learner, under the names of the command's options.

    Missing settings have the learner's defaults; an `interaction_scale` of None means no scaling.
    """

    optimizer: str
    alpha: float
    beta: float
    l1: float
    l2: float
    eta: float
    schedule: Schedule
    radius: float
    factor_eta: float
    factor_l2: float
    factor_beta: float
    block_rows: int
    rank: int
    tiers: tuple[tuple[int, int], ...]
    seed: int
    init: float
    interaction_scale: float | None
    max_pairs_per_row: int
    bias: bool
    memory: int
