"""Every hyper-parameter: its name, default, range and meaning, validated once, here."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar, Final

from pqrlearn.errors import HyperError

INTERACTION_SCALE: Final = 1.0
"""Default factor of the interaction scale: see docs/decisions/0004-interaction-scale.md."""

SAMPLE_ROWS: Final = 1_000_000
"""How many rows of a file are counted to tell frequent features from rare ones."""

SCHEDULES: Final = ("fixed", "sqrt")
"""Of the steps of online gradient descent."""

MAX_ORDER: Final = 2**32 - 2

ORDERS: Final = (0, 1, 4, 16)
"""Orders to choose from, in units of the default order ⌈√d⌉: nothing high, the paper's suggestion,
and more. The loss changes slowly with the order, so steps of 4 are fine enough. Four orders cost at
most ln 4 = 1.39 nats of LogLoss in total; 16√d features have at most 128·d pairs."""

RANK: Final = 8
"""Default number of factors of a feature."""

MAX_RANK: Final = 512

INIT: Final = 0.02
"""Factors start uniform between -INIT and INIT, by a hash of seed, feature and component."""

TIERS: Final = ((10, 4), (100, 8), (1000, 16))
"""Default tiers of DiFacto: from how many rows on a feature has how many factors."""

FACTOR_ETA: Final = 0.02
"""Default learning rate of factors, by AdaGrad."""

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
    """`check_number` within bounds that keep what is learned within a 32-bit float."""
    rate = check_number(name, value, above=above)
    if rate and not 1e-12 <= rate <= 1e12:
        raise HyperError(f"{name}={value!r} must be from 1e-12 to 1e12")
    return rate


def check_interaction_scale(factor: float | None) -> float | None:
    """None leaves interaction values as they are; f multiplies them by f / √(how many they are)."""
    return None if factor is None else check_rate("interaction_scale", factor, above=0)


def check_radius(radius: float | None) -> float:
    """As a number: no bound is infinity."""
    return math.inf if radius is None else check_rate("radius", radius, above=0)


def check_whole(name: str, value: object, *, least: int, most: int | None = None) -> int:
    good = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not good or (most is not None and value > most):  # type: ignore[operator]
        bound = f"from {least} to {most}" if most is not None else f">= {least}"
        raise HyperError(f"{name}={value!r} must be a whole number {bound}")
    return value  # type: ignore[return-value]


def check_tiers(tiers: object) -> tuple[tuple[int, int], ...]:
    """Pairs of a count and a rank, both rising."""
    try:
        pairs = tuple((count, rank) for count, rank in tiers)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise HyperError(f"tiers={tiers!r} must be pairs of a count and a rank") from None
    for count, rank in pairs:
        check_whole("tiers: count", count, least=1, most=2**32 - 1)
        check_whole("tiers: rank", rank, least=1, most=MAX_RANK)
    if any(a[0] >= b[0] or a[1] >= b[1] for a, b in pairwise(pairs)):
        raise HyperError(f"tiers={tiers!r} must rise, in count and in rank")
    return pairs


@dataclass(frozen=True)
class Optimizer:
    """What turns gradients into weights: a name, and settings that are rates of the core."""

    name: ClassVar[str]

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, **asdict(self)}


@dataclass(frozen=True)
class LinearOptimizer(Optimizer):
    """One of a model that is linear in its weights."""

    def rates(self) -> dict[str, float]:
        """By the names that the native optimizer declares."""
        raise NotImplementedError


@dataclass(frozen=True)
class Ftrl(LinearOptimizer):
    """FTRL-Proximal (Algorithm 2 of the paper).

    alpha: learning rate; beta: damps the first steps; l1: weights whose gradients do not add up
    to more are exactly zero (never the bias); l2: pulls weights towards zero.
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
    """Online gradient descent: weights - step · gradient, then back into the ball of a radius.

    eta: the step; schedule: "sqrt" divides it by √t at row t, "fixed" does not; radius: the largest
    l2 norm of all weights, the bias among them, or None for no bound.
    """

    name: ClassVar[str] = "ogd"
    eta: float = 0.1
    schedule: str = "sqrt"
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

    eta: the step, fixed; radius: the ball of weights it chooses from, or None for all space.
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

    After each step a touched coordinate moves towards zero by step size · l1, stopping there, and
    is then divided by 1 + step size · l2.
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
        return False

    def rates(self) -> list[float]:
        """eta, beta, l1 and l2 of the linear weights, then of the factors."""
        beta = getattr(self, "beta", 1.0)
        factor_eta = self.eta if self.factor_eta is None else self.factor_eta
        factor_l2 = self.l2 if self.factor_l2 is None else self.factor_l2
        return [self.eta, beta, self.l1, self.l2, factor_eta, beta, self.l1, factor_l2]


@dataclass(frozen=True)
class AdaGrad(Descent):
    """Steps of eta / (beta + √(sum of squared gradients)), for each coordinate by itself.

    eta: learning rate; beta: damps the first steps; l1, l2: pull weights and factors towards zero;
    factor_eta, factor_l2: those of the factors, where they are not the same (None).
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
    weights and factors towards zero; factor_eta, factor_l2: those of the factors, where they are
    not the same (None).
    """

    name: ClassVar[str] = "sgd"
    adaptive: ClassVar[bool] = False
    eta: float = 0.01
    schedule: str = "fixed"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schedule not in SCHEDULES:
            raise HyperError(f"schedule={self.schedule!r} must be one of {', '.join(SCHEDULES)}")

    @property
    def decays(self) -> bool:
        return self.schedule == "sqrt"


DIFACTO_FTRL: Final = Ftrl(l1=0.1)
"""Default of DiFacto's linear weights: those that l1 keeps at zero mask their factors."""


@dataclass(frozen=True)
class NuclearBall:
    """Where the interactions of CFM and CCFM live, and how they move there.

    radius: the largest nuclear norm of the matrix; eta: the learning rate; block_rows: rows from
    one step to the next.
    """

    radius: float = 100.0
    eta: float = 1.0
    block_rows: int = 256

    def __post_init__(self) -> None:
        for name in ("radius", "eta"):
            check_rate(name, getattr(self, name), above=0)
        check_whole("block_rows", self.block_rows, least=1)

    def settings(self) -> dict[str, Any]:
        return asdict(self)


def ball_from(settings: object) -> NuclearBall:
    """The ball that `settings()` described, in full."""
    names = {field.name for field in fields(NuclearBall)}
    if not isinstance(settings, dict) or set(settings) != names:
        raise HyperError(f"ball={settings!r} is not described in full")
    return NuclearBall(**settings)


OPTIMIZERS: Final[dict[str, type[LinearOptimizer]]] = {o.name: o for o in (Ftrl, Ogd, FtrlGeneral)}
"""Of models that are linear in their weights."""

DESCENTS: Final[dict[str, type[Descent]]] = {d.name: d for d in (AdaGrad, Sgd)}
"""Of models with factors."""


def optimizer_from(settings: object) -> Optimizer:
    """The optimizer that `settings()` described, in full: nothing missing is guessed."""
    rates = dict(settings) if isinstance(settings, dict) else {}
    name = rates.pop("name", "")
    kind = OPTIMIZERS.get(name) or DESCENTS.get(name)
    if kind is None or set(rates) != {field.name for field in fields(kind)}:
        raise HyperError(f"optimizer={settings!r} is not described in full")
    return kind(**rates)
