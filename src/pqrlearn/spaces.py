"""The settings that tuning searches, for each learner: their ranges, and points within them.

Ranges are those of the paper: rates and penalties from 0.0001 to 10, ranks from 2 to 512 for
ratings and from 4 to 64 for clicks. Penalties may also be zero. What the paper does not give is
searched too: `beta`, `init`, the interaction scale, and the radius of CFM and CCFM.

A point is a number from 0 to 1 for each axis, so that "near" means the same on all of them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pqrlearn.hyper import MAX_ORDER, SCHEDULES, Settings
from pqrlearn.loss import FloatArray, loss_named

LOWEST, HIGHEST = 1e-4, 10.0
CLICK_RANKS, RATING_RANKS = (4, 8, 16, 32, 64), (2, 4, 8, 16, 32, 64, 128, 256, 512)
EDGE = 0.03
"""A value within this share of the end of its axis is at the edge."""


class Axis(Protocol):
    """The values of one setting, along the numbers from 0 to 1."""

    def value(self, place: float) -> Any:
        """The value at a place."""

    def place(self, value: Any) -> float:
        """A place of a value, or of the nearest one."""

    def edge(self, value: Any) -> str | None:
        """Which end of the range a value is at: "lowest", "highest", or neither."""


@dataclass(frozen=True)
class Log:
    """Numbers that are spread evenly on a logarithmic scale; a share of the axis may be zero.

    >>> Log(0.01, 1).value(0.5), Log(0.01, 1, zero=0.2).value(0.1)
    (0.1, 0.0)
    >>> Log(0.01, 1).edge(0.99), Log(0.01, 1).edge(0.5)
    ('highest', None)
    """

    low: float = LOWEST
    high: float = HIGHEST
    zero: float = 0.0
    whole: bool = False

    def value(self, place: float) -> float:
        if place < self.zero:
            return 0 if self.whole else 0.0
        along = (place - self.zero) / (1 - self.zero)
        exact = self.low * (self.high / self.low) ** along
        return round(exact) if self.whole else float(f"{exact:.3g}")

    def place(self, value: Any) -> float:
        if value == 0 and self.zero:
            return self.zero / 2
        inside = min(max(value, self.low), self.high)
        return self.zero + (1 - self.zero) * self._along(inside)

    def edge(self, value: Any) -> str | None:
        if value == 0:
            return None
        along = self._along(value)
        if along < EDGE and not self.zero:
            return "lowest"
        return "highest" if along > 1 - EDGE else None

    def _along(self, value: float) -> float:
        """Where a value is between the lowest, 0, and the highest, 1."""
        return math.log(value / self.low) / math.log(self.high / self.low)


@dataclass(frozen=True)
class Values:
    """A few values, in order; `ends` says whether the first and the last are edges.

    >>> Values((4, 8, 16)).value(0.5), Values((4, 8, 16)).edge(16)
    (8, 'highest')
    """

    values: tuple[Any, ...]
    ends: bool = True

    def value(self, place: float) -> Any:
        return self.values[min(int(place * len(self.values)), len(self.values) - 1)]

    def place(self, value: Any) -> float:
        known = value in self.values
        at = self.values.index(value) if known else bisect_left(self.values, value)
        return (min(at, len(self.values) - 1) + 0.5) / len(self.values)

    def edge(self, value: Any) -> str | None:
        if not self.ends or value not in (self.values[0], self.values[-1]):
            return None
        return "lowest" if value == self.values[0] else "highest"


@dataclass(frozen=True)
class Optional:
    """None on a share of the axis, and a number on the rest.

    >>> Optional(Log(0.1, 10)).value(0.1), Optional(Log(0.1, 10)).value(0.6)
    (None, 1.0)
    """

    axis: Log
    none: float = 0.2

    def value(self, place: float) -> float | None:
        return None if place < self.none else self.axis.value((place - self.none) / (1 - self.none))

    def place(self, value: Any) -> float:
        if value is None:
            return self.none / 2
        return self.none + (1 - self.none) * self.axis.place(value)

    def edge(self, value: Any) -> str | None:
        return None if value is None else self.axis.edge(value)


Space = Mapping[str, Axis]
RATE, PENALTY = Log(), Log(zero=0.2)
SCALE = Optional(Log(0.03, 30.0))


def space(kind: str, loss: str, fixed: Settings | None = None) -> dict[str, Axis]:
    """The axes to search for a learner, without the settings that are fixed.

    >>> [*space("lr", "logistic", {"l1": 0.0})]
    ['alpha', 'beta', 'l2']
    """
    given = fixed or {}
    ranks = CLICK_RANKS if loss_named(loss).metrics.ranks else RATING_RANKS
    ftrl: dict[str, Axis] = {"alpha": RATE, "beta": RATE, "l1": PENALTY, "l2": PENALTY}
    init = Log(1e-3, 1.0)
    ball: dict[str, Axis] = {"radius": Log(1.0, 1000.0), "eta": Log(0.01, 10.0)}
    spaces: dict[str, dict[str, Axis]] = {
        "auto": {},  # it tunes itself
        "lr": ftrl,
        "pqr": {**ftrl, "interaction_scale": SCALE},
        "qr": {**ftrl, "interaction_scale": SCALE},
        "fm": {
            "eta": RATE,
            "beta": RATE,
            "l1": PENALTY,
            "l2": PENALTY,
            "factor_eta": RATE,
            "factor_l2": PENALTY,
            "rank": Values(ranks),
            "init": init,
        },
        "difacto": {
            **ftrl,
            "factor_eta": RATE,
            "factor_beta": RATE,
            "factor_l2": PENALTY,
            "tiers": Values(tuple(map(tiers_of, ranks))),
            "init": init,
        },
        "cfm": {**ftrl, **ball},
        "ccfm": ball,
    }
    found = spaces[kind]
    if given.get("optimizer") == "sgd":  # what the paper ran: one step size, and l1
        schedule = Values(SCHEDULES, ends=False)
        found = {"eta": RATE, "schedule": schedule, "l1": PENALTY, "rank": Values(ranks)}
        found["init"] = init
    return {name: axis for name, axis in found.items() if name not in given}


def tiers_of(rank: int) -> tuple[tuple[int, int], ...]:
    """Tiers of DiFacto for a largest rank: a quarter of it from 10 rows on, half from 100 on."""
    steps = [(10, rank // 4), (100, rank // 2), (1000, rank)]
    return tuple((count, size) for count, size in steps if size)


STARTS: dict[str, tuple[dict[str, Any], ...]] = {
    "lr": ({"alpha": 0.05}, {"alpha": 0.2}),
    "pqr": (
        {"alpha": 0.05, "order": MAX_ORDER, "interaction_scale": None},
        {"alpha": 0.1, "order": MAX_ORDER, "interaction_scale": 1.0},
    ),
    "fm": (
        {"beta": 0.13, "factor_eta": 0.025, "init": 0.1, "rank": 128},
        {"eta": 0.05, "beta": 0.1, "factor_eta": 0.005, "init": 0.02, "rank": 16},
    ),
    "fm by sgd": (
        {"eta": 0.0015, "rank": 256, "init": 0.075},
        {"eta": 0.005, "rank": 64, "init": 0.1},
        {"eta": 0.05, "schedule": "sqrt", "rank": 32, "init": 0.1},
    ),
    "difacto": (
        {"beta": 0.1, "l1": 0.01, "factor_eta": 0.02, "factor_beta": 0.1, "init": 0.1}
        | {"tiers": tiers_of(128)},
        {"alpha": 0.05, "factor_eta": 0.001, "init": 0.02, "tiers": tiers_of(16)},
    ),
}
"""What was good on some data set: tried right after the defaults, which it changes."""


def start_points(kind: str, space: Space, default: Mapping[str, Any]) -> list[FloatArray]:
    """The defaults and STARTS, as points.

    >>> [point.round(2).tolist() for point in start_points("lr", {"alpha": Log()}, {"alpha": 0.1})]
    [[0.6], [0.54], [0.66]]
    """
    which = "fm by sgd" if "schedule" in space else kind
    known = [{**default, **start} for start in ({}, *STARTS.get(which, ()))]
    return [point_of(space, settings) for settings in known]


def order_axis(distinct: int) -> Axis:
    """Orders: no interactions, and 10 to all features."""
    if distinct <= 10:
        return Values(tuple(range(distinct + 1)), ends=False)
    return Log(10, distinct, zero=0.1, whole=True)


def random_points(axes: int, count: int, seed: int) -> list[FloatArray]:
    """Points that are spread evenly on every axis; more of them begin with the same ones as fewer.

    >>> [point.round(2).tolist() for point in random_points(2, 2, seed=0)]
    [[0.5, 0.5], [0.25, 0.07]]
    """
    root = _root(axes)
    steps = root ** -np.arange(1, axes + 1)
    start = np.random.default_rng([seed, axes]).random(axes) if seed else np.full(axes, 0.5)
    return [(start + at * steps) % 1.0 for at in range(count)]


def _root(axes: int) -> float:
    """The root of x^(axes + 1) = x + 1 above 1, whose powers fill a cube evenly (Roberts' R)."""
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (axes + 1))
    return root


def near(point: FloatArray, width: float, seed: Sequence[int]) -> FloatArray:
    """A point near a point: about half of the axes move, each by about `width`.

    >>> near(np.array([0.5, 0.5]), 0.1, seed=[1]).round(2).tolist()
    [0.37, 0.5]
    """
    generator = np.random.default_rng(seed)
    moves = generator.random(len(point)) < 0.5
    moves[generator.integers(len(point))] = True
    moved = np.abs(point + moves * generator.normal(0.0, width, len(point)))
    return np.clip(np.where(moved > 1, 2 - moved, moved), 0.0, 1.0)  # reflected at both ends


def settings_at(space: Space, point: FloatArray) -> Settings:
    """The settings of a point."""
    values = [axis.value(place) for axis, place in zip(space.values(), point.tolist(), strict=True)]
    return dict(zip(space, values, strict=True))  # type: ignore[return-value]


def point_of(space: Space, settings: Mapping[str, Any]) -> FloatArray:
    """The point of some settings, which have a value for every axis.

    >>> point_of({"alpha": Log(0.01, 1)}, {"alpha": 0.1}).tolist()
    [0.5]
    """
    return np.array([axis.place(settings[name]) for name, axis in space.items()])


def edges(space: Space, settings: Mapping[str, Any]) -> dict[str, str]:
    """The settings that are at an end of their range, and at which.

    >>> edges({"alpha": Log(), "rank": Values((2, 4))}, {"alpha": 0.1, "rank": 4})
    {'rank': 'highest'}
    """
    found = {name: axis.edge(settings[name]) for name, axis in space.items() if name in settings}
    return {name: edge for name, edge in found.items() if edge is not None}
