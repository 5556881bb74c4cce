"""Every hyper-parameter: its name, default, range and meaning, validated once, here."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from pqrlearn.errors import HyperError

Loss = Literal["logistic", "squared"]
LOSSES: Final[tuple[Loss, ...]] = get_args(Loss)

INTERACTION_SCALE: Final = 1.0
"""Default factor of the interaction scale: see docs/decisions/0004-interaction-scale.md."""

SAMPLE_ROWS: Final = 1_000_000
"""How many rows of a file are counted to tell frequent features from rare ones."""

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


def check_whole(name: str, value: object, *, least: int, most: int | None = None) -> int:
    good = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not good or (most is not None and value > most):  # type: ignore[operator]
        bound = f"from {least} to {most}" if most is not None else f">= {least}"
        raise HyperError(f"{name}={value!r} must be a whole number {bound}")
    return value  # type: ignore[return-value]


@dataclass(frozen=True)
class Ftrl:
    """FTRL-Proximal (Algorithm 2 of the paper).

    alpha: learning rate; beta: damps the first steps; l1: weights whose gradients do not add up
    to more are exactly zero (never the bias); l2: pulls weights towards zero.
    """

    alpha: float = 0.1
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, above=0)
        for name in ("beta", "l1", "l2"):
            check_number(name, getattr(self, name))

    def settings(self) -> dict[str, Any]:
        return {"name": "ftrl", **asdict(self)}


def optimizer_from(settings: object) -> Ftrl:
    """The optimizer that `settings()` described, in full: nothing missing is guessed."""
    rates = dict(settings) if isinstance(settings, dict) else {}
    if rates.pop("name", None) != "ftrl" or set(rates) != {"alpha", "beta", "l1", "l2"}:
        raise HyperError(f"optimizer={settings!r} is not described in full")
    return Ftrl(**rates)
