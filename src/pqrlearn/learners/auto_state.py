"""What the self-tuning learner has learned, as arrays: checked, and looked into.

The core gives and takes them; docs/auto.md has the equations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pqrlearn import _core

Array = npt.NDArray[Any]

EXPERTS: Final = 8
PAIRED: Final = 4
"""Experts with pairs, the last ones."""
FTRL_RIDGE: Final = 2.0
"""β / α of the FTRL experts, every fourth one, where Kalman experts have λ."""
EXPONENT_ZERO: Final = 128
"""Added to exponents, so that they have no sign."""
_AS_SAVED: Final = [1, 2, 3, 8, 9, 10, 11, 5, 6, 7, 12, 13, 14, 15]
"""Where the core has z of the seven experts with features, then I."""
_MOST_EXPONENT: Final = 100
_MOST_HIGH: Final = 65535


class Slots(NamedTuple):
    """All features that have been learned, and all pairs, as files hold them."""

    features: Array
    counts: Array
    squares: Array
    """M², of values in units of 2^exponent."""
    exponents: Array
    slots: Array
    """z of the seven experts with features, then I."""
    shared: Array
    """z of the four experts with pairs, then I, of each high feature."""
    pairs: Array
    """Ranks: later << 16 | earlier."""
    pair_slots: Array

    @classmethod
    def of(cls, model: _core.Auto) -> Slots:
        """The core's, where M² lies in the z of the expert without features."""
        features, counts, exponents, slots, shared, pairs, pair_slots = model.state()
        exponents = (exponents.astype(np.int16) + EXPONENT_ZERO).astype(np.uint8)
        squares, of_experts = slots[:, 0].copy(), np.ascontiguousarray(slots[:, _AS_SAVED])
        return cls(features, counts, squares, exponents, of_experts, shared, pairs, pair_slots)

    def give_to(self, model: _core.Auto) -> None:
        exponents = (self.exponents.astype(np.int16) - EXPONENT_ZERO).astype(np.int8)
        slots = np.zeros((len(self.features), 2 * EXPERTS), np.float32)
        slots[:, 0], slots[:, _AS_SAVED] = self.squares, self.slots
        counts, shared, pair_slots = self.counts, self.shared, self.pair_slots
        model.restore(self.features, counts, exponents, slots, shared, self.pairs, pair_slots)


def check_slots(given: Slots, high: Array, waiting: Array, most_pairs: int) -> None:
    """ValueError unless the parts fit together."""
    features, pairs, order = given.features, given.pairs, len(high)
    later, earlier = pairs >> 16, pairs & 0xFFFF
    size = len(features)
    columns = {"linear": 2 * (EXPERTS - 1), "shared": 2 * PAIRED, "pair": 2 * PAIRED}
    parts = (given.slots, size), (given.shared, order), (given.pair_slots, len(pairs))
    for (name, wide), (slots, long) in zip(columns.items(), parts, strict=True):
        if slots.shape != (long, wide):
            raise ValueError(f"{name}: slots of shape {slots.shape}, not {(long, wide)}")
        if not (np.all(np.abs(slots) <= 1e30) and np.all(slots[:, wide // 2 :] >= 0)):
            raise ValueError(f"{name}: invalid state")
    beside = given.counts, given.squares, given.exponents
    if not (
        all(len(part) == size for part in beside)
        and np.all(features[1:] > features[:-1])
        and np.all(given.counts > 0)
        and np.all((given.squares > 0) & (given.squares <= 1e14))
        and np.all(np.abs(given.exponents.astype(int) - EXPONENT_ZERO) <= _MOST_EXPONENT)
    ):
        raise ValueError("linear: invalid state")
    if order > _MOST_HIGH or len(np.unique(high)) != order or not _within(high, features):
        raise ValueError("high: not features that were learned, once each")
    if not _within(waiting, features):
        raise ValueError("waiting: not features that were learned")
    if not (
        len(pairs) <= most_pairs
        and np.all(pairs[1:] > pairs[:-1])
        and np.all((earlier < later) & (later < order))
        and np.all(given.pair_slots[:, PAIRED] > 0)
    ):
        raise ValueError("pair: not pairs of high features, in order")


def _within(some: Array, features: Array) -> bool:
    return bool(np.all(np.isin(some, features)))


def _bayes(size: int) -> list[tuple[Any, ...]]:
    return [("counted", "f8", size), ("lost", "f8", size), ("own", "f8"), ("excess", "f8")]


_SCALARS: Final = np.dtype(
    [
        ("bias", [("z", "f8"), ("info", "f8")], EXPERTS),
        ("experts", _bayes(EXPERTS)),
        ("two", _bayes(2)),
        ("a", "f8", EXPERTS + 1),
        ("P", "f8", (EXPERTS + 1, EXPERTS + 1)),
        *((name, "f8") for name in ("largest", "total", "low", "high")),
        *((name, "f8") for name in ("rows", "features", "meetings", "low_sum", "refresh_at")),
        *((name, "f8") for name in ("mean_features", "mean_low")),
    ]
)


@dataclass(frozen=True)
class Scalars:
    """The numbers that the core keeps in double, in its order, and what follows from them."""

    flat: Array
    squared: bool

    def __post_init__(self) -> None:
        if self.flat.nbytes != _SCALARS.itemsize:
            raise ValueError(f"scalars: {self.flat.size} numbers, not {_SCALARS.itemsize // 8}")

    def __getitem__(self, name: str) -> Any:
        return self.flat.view(_SCALARS)[0][name]

    def check(self) -> None:
        """ValueError unless learning can lead there."""
        infinite = int(np.isinf(self.flat).sum())
        clicks, rows = self["bias"][0]
        empty = self["total"] == 0  # no label yet: the range is infinite
        if not (
            np.all((np.abs(self.flat) <= 1e60) | np.isinf(self.flat))
            and np.all(self["bias"]["info"] >= 0)
            and (self.squared or 0 <= clicks <= rows)
            and (infinite <= 2 if empty else infinite == 0 and self["low"] <= self["high"])
            and self["largest"] >= 1
            and min(self["total"], self["rows"]) >= 0
            and min(self["mean_features"], self["mean_low"]) >= 1
        ):
            raise ValueError("scalars: invalid state")

    @property
    def price(self) -> float:
        """1 / η of the mixture."""
        width = max(0.0, self["high"] - self["low"])
        return float(self["largest"] * (2 * width**2 if self.squared else 1))

    def posterior(self, eta: float | None = None) -> Array:
        """The share of each expert in B: π ∝ exp(-η L)."""
        eta = self._eta if eta is None else eta
        counted = self["experts"]["counted"]
        heights = np.exp(eta * (counted.min() - counted))
        return np.asarray(heights / heights.sum())

    @property
    def stacked(self) -> float:
        """The share of S in F."""
        bayes, stacked = self["two"]["counted"]
        return 1 / (1 + math.exp(min(700.0, self._eta * (stacked - bayes))))

    def coefficients(self) -> Array:
        """F as a linear function of the experts' margins, as far as it is one."""
        noise = (self["experts"]["counted"].min() + 1) / max(self["total"], 1)
        centre = self.posterior(0.5 / noise) if self.squared else self.posterior()
        a, a_0 = self["a"][:-1], self["a"][-1]
        stacked = centre * (1 - a.sum() + a_0) + a
        return np.asarray((1 - self.stacked) * self.posterior() + self.stacked * stacked)

    def regret(self) -> float:
        return float(self["two"]["own"] - self["experts"]["lost"].min())

    def bound(self) -> float:
        widenings = self.price / 2 if self.squared else 0.0
        excess = self["experts"]["excess"] + self["two"]["excess"]
        return float(math.log(2 * EXPERTS) * self.price + widenings + excess)

    @property
    def _eta(self) -> float:
        return 1 / self.price if self.price > 0 else 0.0


def weights(
    block: str, given: Slots, high: Array, scalars: Scalars, priors: list[list[float]]
) -> Array:
    """One weight for each feature, pair or high feature, as if the experts were one linear model.

    What FTRL divides interactions by depends on the row: here it is that of a mean row.
    """
    squares = given.squares.astype(float)
    units = 2.0 ** (EXPONENT_ZERO - given.exponents.astype(float))
    at, shrink = np.searchsorted(given.features, high), 1.0
    if block == "linear":
        slots, prior = given.slots, priors[0][1:]
    else:
        n = scalars["mean_features"] if scalars["rows"] > 0 else 1.0
        shrink = 1 / math.sqrt(max(1.0, n * (n - 1) / 2))
        squares, units = squares[at], units[at]
        slots, prior = given.shared, priors[2]
    if block == "pair":
        later, earlier = given.pairs >> 16, given.pairs & 0xFFFF
        squares, units = squares[later] * squares[earlier], units[later] * units[earlier]
        slots, prior = given.pair_slots, priors[1]
    total = np.zeros(len(slots))
    shares = scalars.coefficients()[-len(prior) :]
    for k, (share, of) in enumerate(zip(shares, prior, strict=True)):
        z, info = slots[:, k].astype(float), slots[:, len(prior) + k].astype(float)
        is_ftrl = (len(prior) - k) % PAIRED == 1
        if is_ftrl:
            total -= share * shrink / np.sqrt(squares) * z / (FTRL_RIDGE + info)
        else:
            total -= share * z / (of * squares + info)
    return (total * units).astype(np.float32)
