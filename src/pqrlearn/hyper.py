"""Every hyper-parameter: its name, default, range and meaning, validated once, here."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Final, Literal, get_args

from pqrlearn.errors import HyperError

Loss = Literal["logistic", "squared"]
LOSSES: Final[tuple[Loss, ...]] = get_args(Loss)

INTERACTION_SCALE: Final = 1.0
"""Default factor of the interaction scale: see docs/decisions/0004-interaction-scale.md."""

SAMPLE_ROWS: Final = 1_000_000
"""How many rows of a file are counted to tell frequent features from rare ones."""

SCHEDULES: Final = ("fixed", "sqrt")
"""Of the steps of online gradient descent."""

MAX_ORDER: Final = 2**32 - 2


def check_loss(loss: str) -> Loss:
    if loss not in LOSSES:
        raise HyperError(f"loss={loss!r} must be one of {', '.join(LOSSES)}")
    return loss


def check_number(name: str, value: object, *, above: float | None = None) -> float:
    """`value` as a finite float, > `above` if given and >= 0 otherwise."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
    good = good and abs(value) <= sys.float_info.max  # type: ignore[arg-type]
    if not good or (value <= above if above is not None else value < 0):  # type: ignore[operator]
        bound = f"> {above:g}" if above is not None else ">= 0"
        raise HyperError(f"{name}={value!r} must be a number {bound}")
    return float(value)  # type: ignore[arg-type]


def check_interaction_scale(factor: float | None) -> float | None:
    """None leaves interaction values as they are; f multiplies them by f / √(how many they are)."""
    return None if factor is None else check_number("interaction_scale", factor, above=0)


def check_radius(radius: float | None) -> float:
    """As a number: no bound is infinity."""
    return math.inf if radius is None else check_number("radius", radius, above=0)


def check_whole(name: str, value: object, *, least: int, most: int | None = None) -> int:
    good = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not good or (most is not None and value > most):  # type: ignore[operator]
        bound = f"from {least} to {most}" if most is not None else f">= {least}"
        raise HyperError(f"{name}={value!r} must be a whole number {bound}")
    return value  # type: ignore[return-value]


@dataclass(frozen=True)
class Optimizer:
    """What turns gradients into weights: a name, and rates that the core takes in order."""

    name: ClassVar[str]

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, **asdict(self)}

    def rates(self) -> list[float]:
        raise NotImplementedError


@dataclass(frozen=True)
class Ftrl(Optimizer):
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
        check_number("alpha", self.alpha, above=0)
        for name in ("beta", "l1", "l2"):
            check_number(name, getattr(self, name))

    def rates(self) -> list[float]:
        return [self.alpha, self.beta, self.l1, self.l2]


@dataclass(frozen=True)
class Ogd(Optimizer):
    """Online gradient descent: weights - step · gradient, then back into the ball of a radius.

    eta: the step; schedule: "sqrt" divides it by √t at row t, "fixed" does not; radius: the largest
    l2 norm of all weights, the bias among them, or None for no bound.
    """

    name: ClassVar[str] = "ogd"
    eta: float = 0.1
    schedule: str = "sqrt"
    radius: float | None = None

    def __post_init__(self) -> None:
        check_number("eta", self.eta, above=0)
        if self.schedule not in SCHEDULES:
            raise HyperError(f"schedule={self.schedule!r} must be one of {', '.join(SCHEDULES)}")
        check_radius(self.radius)

    def rates(self) -> list[float]:
        return [self.eta, float(self.schedule == "sqrt"), check_radius(self.radius)]


@dataclass(frozen=True)
class FtrlGeneral(Optimizer):
    """FTRL (Algorithm 1 of the paper) with R = ‖θ‖²/2: -eta · (sum of gradients).

    eta: the step, fixed; radius: the ball of weights it chooses from, or None for all space.
    """

    name: ClassVar[str] = "ftrl-general"
    eta: float = 0.01
    radius: float | None = None

    def __post_init__(self) -> None:
        check_number("eta", self.eta, above=0)
        check_radius(self.radius)

    def rates(self) -> list[float]:
        return [self.eta, check_radius(self.radius)]


OPTIMIZERS: Final[dict[str, type[Optimizer]]] = {o.name: o for o in (Ftrl, Ogd, FtrlGeneral)}


def optimizer_from(settings: object) -> Optimizer:
    """The optimizer that `settings()` described, in full: nothing missing is guessed."""
    rates = dict(settings) if isinstance(settings, dict) else {}
    kind = OPTIMIZERS.get(rates.pop("name", ""))
    if kind is None or set(rates) != {field.name for field in fields(kind)}:
        raise HyperError(f"optimizer={settings!r} is not described in full")
    return kind(**rates)
