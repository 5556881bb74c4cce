"""The contraction rule: what becomes of a coordinate that several workers have moved.

A worker starts from the weight w0 and the sum of squared gradients n0, and ends at w and n0 + d.
FTRL-Proximal moves by alpha/(beta + √n) times the gradient, so towards an optimum v the distance
shrinks by dw = -(w - v)·m·alpha/(beta + √n) dn, where m is curvature over squared gradient. Hence

    f(d) = 1 - exp(-2·alpha·m·[√(n0+d) - √n0 - beta·ln((beta + √(n0+d)) / (beta + √n0))])

is the share of the way from w0 to v that it has gone. The merged weight goes the share f(D) of the
way to the mean of the workers' optima, weighted by d, where D is the sum of all d:

    w = w0 + Σ F(D)/F(d) · (w_p - w0),   F(d) = f(d)/d

F falls, so each factor is between d/D and 1: for small steps what the workers moved is added, for
large steps or m = ∞ it is averaged. docs/merging.md has the derivation and its limits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
KeyArray = npt.NDArray[np.uint64]
_LEAST = 1e-200  # growth of n; so that quotients are finite where rounding has left none


@dataclass(frozen=True)
class Slots:
    """The slots of one block: keys that rise, and z and √n of each."""

    keys: KeyArray
    slots: npt.NDArray[Any]

    @property
    def squares(self) -> FloatArray:
        """n, the sum of squared gradients of each slot."""
        squares: FloatArray = np.square(self.slots[:, 1].astype(np.float64))
        return squares

    def part(self, start: int, stop: int) -> Slots:
        """Those with keys from `start` to before `stop`."""
        begin, end = np.searchsorted(self.keys, np.array([start, stop], np.uint64)).tolist()
        return Slots(self.keys[begin:end], self.slots[begin:end])

    def at(self, keys: KeyArray) -> FloatArray:
        """Those at `keys`, in double; (0, 0) where there is none."""
        found = np.zeros((len(keys), 2))
        if len(self.keys):
            place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            there = self.keys[place] == keys
            found[there] = self.slots[place[there]]
        return found

    def since(self, base: Slots) -> Slots:
        """Those that differ from the base's."""
        before = base.at(self.keys)
        moved = (self.slots[:, 0] != before[:, 0]) | (self.slots[:, 1] != before[:, 1])
        return Slots(self.keys[moved], self.slots[moved])

    def with_those(self, others: Slots) -> Slots:
        """These, with some replaced or added."""
        keys = _union([self.keys, others.keys])
        found = np.empty((len(keys), 2), self.slots.dtype)
        found[np.searchsorted(keys, self.keys)] = self.slots
        found[np.searchsorted(keys, others.keys)] = others.slots
        return Slots(keys, found)


@dataclass(frozen=True)
class Rates:
    """Those of FTRL-Proximal; l2 damps steps as beta does."""

    alpha: float
    beta: float

    @staticmethod
    def of(optimizer: dict[str, Any]) -> Rates:
        """From the settings of a model.

        >>> Rates.of({"alpha": 0.1, "beta": 1.0, "l1": 0.0, "l2": 5.0})
        Rates(alpha=0.1, beta=1.5)
        """
        alpha = optimizer["alpha"]
        return Rates(alpha, optimizer["beta"] + alpha * optimizer["l2"])

    def ridge(self, root_n: FloatArray) -> FloatArray:
        """What z is divided by to give the weight, with the opposite sign."""
        return (self.beta + root_n) / self.alpha

    def share(self, root_n: FloatArray, grown: FloatArray, m: float) -> FloatArray:
        """F: the share of the way to the optimum that is gone while n grows, over that growth.

        >>> half = Rates(alpha=0.5, beta=0.0)  # f(d) = 1 - exp(-m·√d)
        >>> half.share(np.zeros(1), np.array([4.0]), m=1.0) == (1 - math.exp(-2)) / 4
        array([ True])
        """
        if m == math.inf:
            return 1.0 / np.maximum(grown, _LEAST)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = grown / (np.sqrt(np.square(root_n) + grown) + root_n)
            way = step
            if self.beta > 0:
                way = step - self.beta * np.log1p(step / (self.beta + root_n))
            found = -np.expm1(-2.0 * self.alpha * m * way) / grown
            return np.where(grown > 0, found, m / self.ridge(root_n))


class Moves:
    """What several workers have moved in one block since they started from `base`.

    Sums run in double, in the given order. Where l1 keeps weights at zero, what they would be
    without it is merged, so that evidence below the threshold adds up.
    """

    def __init__(self, base: Slots, workers: Sequence[Slots], rates: Rates) -> None:
        self._base, self._rates = base, rates
        ends = [each.since(base) for each in workers]
        self._keys = _union([each.keys for each in ends])
        self._start = base.at(self._keys)
        self._places = [np.searchsorted(self._keys, each.keys) for each in ends]
        self._ends = [each.slots.astype(np.float64) for each in ends]
        self._grown, self._movers = np.zeros(len(self._keys)), np.zeros(len(self._keys), np.int64)
        for at, end in zip(self._places, self._ends, strict=True):
            self._grown[at] += np.square(end[:, 1]) - np.square(self._start[at, 1])
            self._movers[at] += 1

    def merged(self, m: float) -> Slots:
        """All slots of the block; one that only one worker has moved keeps its bits."""
        start, rates, dtype = self._start, self._rates, self._base.slots.dtype
        whole = rates.share(start[:, 1], self._grown, m)
        weights, found = _weights(start, rates), start.copy()
        for at, end in zip(self._places, self._ends, strict=True):
            weights[at] += self._moved(at, end, m) * whole[at]
            alone = self._movers[at] == 1
            found[at[alone]] = end[alone]
        root_n = np.sqrt(np.square(start[:, 1]) + self._grown).astype(dtype)
        several = self._movers > 1
        found[several, 0] = (-weights * rates.ridge(root_n.astype(np.float64)))[several]
        found[several, 1] = root_n[several]
        return self._base.with_those(Slots(self._keys, found.astype(dtype)))

    def _moved(self, at: npt.NDArray[np.int64], end: FloatArray, m: float) -> FloatArray:
        """How far a worker has moved weights, over F of its own growth."""
        start = self._start[at]
        by = _weights(end, self._rates) - _weights(start, self._rates)
        own = self._rates.share(start[:, 1], np.square(end[:, 1]) - np.square(start[:, 1]), m)
        return np.where(by != 0, by / np.where(by != 0, own, 1.0), 0.0)


def _union(keys: Sequence[KeyArray]) -> KeyArray:
    joined: KeyArray = np.sort(np.concatenate(keys), kind="stable")  # merges runs that rise
    first = np.concatenate([np.ones(1, bool), joined[1:] != joined[:-1]])[: len(joined)]
    found: KeyArray = joined[first]
    return found


def _weights(slots: FloatArray, rates: Rates) -> FloatArray:
    """Weights as they would be without l1."""
    z, ridge = slots[:, 0], rates.ridge(slots[:, 1])
    return np.where(z != 0, -z / np.where(ridge > 0, ridge, 1.0), 0.0)
