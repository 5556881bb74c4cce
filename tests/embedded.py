"""Models with factors in plain NumPy, in double: definitions in O(s²), updates one at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

import oracle
from oracle import Array, Row
from pqrlearn.learners import Learner

MASK = 2**64 - 1


def mixed(x: int) -> int:
    """The finalizer of SplitMix64."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def initial_factor(seed: int, init: float, feature: int, component: int) -> float:
    """Uniform in [-init, init), the same for ever for one seed, feature and component."""
    key = feature << 32 | component
    bits = mixed(mixed(seed + 0x9E3779B97F4A7C15 & MASK) ^ key) >> 40
    return init * (bits / 2**23 - 1)


def pair_sum(row: Row, factors: dict[int, Array]) -> float:
    """Over all pairs, <v_i, v_j> x_i x_j; a product ends where the shorter vector ends."""
    total = 0.0
    for i, j in combinations(sorted(row), 2):
        rank = min(len(factors[i]), len(factors[j]))
        total += float(factors[i][:rank] @ factors[j][:rank]) * row[i] * row[j]
    return total


def factor_gradients(row: Row, factors: dict[int, Array]) -> dict[int, Array]:
    """Of `pair_sum` by each vector: x_i times the sum of x_j v_j, over the common components."""
    gradients = {i: np.zeros(len(factors[i])) for i in row}
    for i in row:
        for j in row:
            rank = min(len(factors[i]), len(factors[j]))
            if i != j:
                gradients[i][:rank] += row[i] * row[j] * factors[j][:rank]
    return gradients


def descend(
    w: Array, n: Array, g: Array, *, eta: float, beta: float | None, l1: float, l2: float
) -> tuple[Array, Array]:
    """A proximal step. With a beta it is AdaGrad's; n is the sum of squared gradients."""
    n = n + g**2
    rate = np.full_like(w, eta) if beta is None else eta / (beta + np.sqrt(n))
    u = w - rate * g
    return np.sign(u) * np.maximum(np.abs(u) - rate * l1, 0) / (1 + rate * l2), n


@dataclass
class FM:
    rank: int
    seed: int
    init: float
    loss: str
    eta: float
    factor_eta: float
    beta: float | None
    l1: float = 0.0
    l2: float = 0.0
    factor_l2: float = 0.0
    decays: bool = False
    bias: Array = field(default_factory=lambda: np.zeros(1))
    linear: dict[int, Array] = field(default_factory=lambda: defaultdict(lambda: np.zeros(1)))
    factors: dict[int, Array] = field(default_factory=dict)
    sums: dict[object, Array] = field(default_factory=lambda: defaultdict(lambda: np.zeros(1)))
    rows: int = 0

    def initial(self, feature: int) -> Array:
        return np.array(
            [initial_factor(self.seed, self.init, feature, c) for c in range(self.rank)]
        )

    def vectors(self, row: Row) -> dict[int, Array]:
        return {i: self.factors[i] if i in self.factors else self.initial(i) for i in row}

    def margin(self, row: Row) -> float:
        linear = sum(float(self.linear[i][0]) * x for i, x in row.items() if i in self.linear)
        return float(self.bias[0]) + linear + pair_sum(row, self.vectors(row))

    def learn(self, row: Row, label: float, weight: float = 1.0) -> float:
        prediction = oracle.link(self.loss, self.margin(row))
        if weight > 0:
            self.step(row, weight * (prediction - label))
        return prediction

    def step(self, row: Row, slope: float) -> None:
        vectors = self.vectors(row)
        gradients = factor_gradients(row, vectors)
        self.rows += 1
        by = 1 / np.sqrt(self.rows) if self.decays else 1.0
        rates = {"eta": self.eta * by, "beta": self.beta, "l1": self.l1, "l2": self.l2}
        of_factors = rates | {"eta": self.factor_eta * by, "l2": self.factor_l2}
        for i, x in row.items():
            self.linear[i], self.sums[i] = descend(
                self.linear[i], self.sums[i], np.array([slope * x]), **rates
            )
            self.factors[i], self.sums["factor", i] = descend(
                vectors[i], self.sums["factor", i], slope * gradients[i], **of_factors
            )
        self.bias, self.sums["bias"] = descend(
            self.bias, self.sums["bias"], np.array([slope]), **(rates | {"l1": 0.0})
        )


@dataclass
class DiFacto:
    """Linear weights as in oracle.PQR without high features; factors by count and by weight."""

    lr: oracle.PQR
    tiers: tuple[tuple[int, int], ...]
    seed: int
    init: float
    factor_eta: float
    factor_beta: float
    factor_l2: float
    counts: Counter[int] = field(default_factory=Counter)
    factors: dict[int, Array] = field(default_factory=dict)
    sums: dict[int, Array] = field(default_factory=dict)

    def vectors(self, row: Row) -> dict[int, Array]:
        """Those that take part; where the linear weight is zero, none."""
        none = np.zeros(0)
        return {
            i: self.factors.get(i, none) if self.lr.optimizer.weight(("linear", i)) != 0 else none
            for i in row
        }

    def margin(self, row: Row) -> float:
        return self.lr.margin(row) + pair_sum(row, self.vectors(row))

    def learn(self, row: Row, label: float, weight: float = 1.0) -> float:
        prediction = oracle.link(self.lr.loss, self.margin(row))
        if weight > 0:
            self.step(row, weight * (prediction - label))
        return prediction

    def step(self, row: Row, slope: float) -> None:
        vectors = self.vectors(row)
        for i, gradient in factor_gradients(row, vectors).items():
            if len(gradient):
                self.factors[i], self.sums[i] = descend(
                    vectors[i],
                    self.sums[i],
                    slope * gradient,
                    eta=self.factor_eta,
                    beta=self.factor_beta,
                    l1=0.0,
                    l2=self.factor_l2,
                )
        self.lr.step(row, slope)
        for i in row:
            self.counts[i] += 1
            self.grow(i)

    def grow(self, feature: int) -> None:
        rank = max((rank for count, rank in self.tiers if self.counts[feature] >= count), default=0)
        have = self.factors.get(feature, np.zeros(0))
        more = [initial_factor(self.seed, self.init, feature, c) for c in range(len(have), rank)]
        self.factors[feature] = np.append(have, more)
        self.sums[feature] = np.append(self.sums.get(feature, np.zeros(0)), np.zeros(len(more)))


def vectors_of(model: Learner) -> dict[int, list[float]]:
    """The factors of each feature of a native model."""
    keys, values = model.weights("factor")
    found: dict[int, list[float]] = {}
    for (feature, component), value in zip(keys.tolist(), values.tolist(), strict=True):
        vector = found.setdefault(feature, [])
        assert component == len(vector)
        vector.append(value)
    return found


def planted(seed: int, rows: int, fields: int = 4, values: int = 12) -> list[Row]:
    """Rows of one value in each field, as numbered features."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, values, (rows, fields)) + values * np.arange(fields)
    return [dict.fromkeys(row, 1.0) for row in chosen.tolist()]


def planted_labels(rows: list[Row], features: int, noise: float, rank: int = 2) -> Array:
    """Ratings that are nothing but interactions of low rank, and some noise."""
    rng = np.random.default_rng(99)
    vectors = dict(enumerate(rng.normal(size=(features, rank))))
    labels = np.array([pair_sum(row, vectors) for row in rows])
    return labels + noise * rng.normal(size=len(rows))
