"""The paper in plain NumPy, in double, one coordinate at a time: slow, short, and independent.

A model is linear in its weights, and every weight has a key:

    ("bias",)           b       value 1
    ("linear", i)       w_i     value x_i
    ("pair", i, j)      p_ij    value x_i x_j, for i < j both high
    ("shared", i)       q_i     value x_i * (sum of x_j over the low j), for i high
    ("square", i)       A_ii    value x_i^2, in quadratic regression only

PQR is written three times (quadratic form, projection, expansion) and must agree with itself.
The printed formula is y = x'Cx/2 with x extended by a 1. The half counts each pair and each
linear weight once, for they stand twice in a symmetric matrix; what stands on the diagonal (the
bias, and the squares of quadratic regression) is entered doubled, so that no half is left over.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Key = tuple[str] | tuple[str, int] | tuple[str, int, int]
Row = dict[int, float]
Weights = Mapping[Key, float]


def canonical(pairs: Iterable[tuple[int, float]]) -> Row:
    """A row as a dict: repeats summed, zeros dropped, indices rising."""
    sums: dict[int, float] = defaultdict(float)
    for index, value in pairs:
        sums[index] += value
    return {index: sums[index] for index in sorted(sums) if sums[index] != 0}


# Separation: which features are high, most frequent first, ties to the smaller index.


def count(rows: Iterable[Row]) -> Counter[int]:
    """In how many rows each feature occurs."""
    return Counter(index for row in rows for index in row)


def top_k(rows: Iterable[Row], order: int) -> list[int]:
    counts = count(rows)
    return sorted(counts, key=lambda index: (-counts[index], index))[:order]


def threshold(rows: Iterable[Row], min_count: int) -> list[int]:
    rows = list(rows)
    counts = count(rows)
    return [index for index in top_k(rows, len(counts)) if counts[index] >= min_count]


# The three forms of the margin.


def interaction_matrix(weights: Weights, high: Collection[int], dimension: int) -> Array:
    """A: p_ij within high, q_i between the high i and every low j, nothing within low."""
    low = [j for j in range(dimension) if j not in high]
    matrix = np.zeros((dimension, dimension))
    for i, j in combinations(sorted(high), 2):
        matrix[i, j] = matrix[j, i] = weights["pair", i, j]
    for i in high:
        matrix[i, low] = matrix[low, i] = weights.get(("shared", i), 0.0)
        matrix[i, i] = 2 * weights.get(("square", i), 0.0)
    return matrix


def is_pqr_matrix(matrix: Array, high: Collection[int]) -> bool:
    """Definition 2: symmetric, no self-interaction, none within low, one q_i per high i."""
    low = [j for j in range(len(matrix)) if j not in high]
    return (
        np.array_equal(matrix, matrix.T)
        and not matrix.diagonal().any()
        and not matrix[np.ix_(low, low)].any()
        and all(len(set(matrix[i, low])) <= 1 for i in high)
    )


def augmented_matrix(matrix: Array, linear: Array, bias: float) -> Array:
    """C = [[A, w], [w', 2b]]."""
    return np.block([[matrix, linear[:, None]], [linear[None, :], np.array([[2 * bias]])]])


def quadratic_form(augmented: Array, x: Array) -> float:
    """First form: x'Cx / 2 = b + w.x + x'Ax / 2."""
    extended = np.append(x, 1.0)
    return float(extended @ augmented @ extended) / 2


def projection(high: Collection[int], dimension: int) -> Array:
    """P, (k + 1) by d: Px is the high features of x, then the sum of the low ones."""
    ranks = sorted(high)
    matrix = np.zeros((len(ranks) + 1, dimension))
    for j in range(dimension):
        matrix[ranks.index(j) if j in high else len(ranks), j] = 1.0
    return matrix


def projected_matrix(weights: Weights, high: Collection[int]) -> Array:
    """M, (k + 1) by (k + 1), symmetric with a zero diagonal. Second form: A = P'MP."""
    ranks = sorted(high)
    matrix = np.zeros((len(ranks) + 1, len(ranks) + 1))
    for (a, i), (b, j) in combinations(enumerate(ranks), 2):
        matrix[a, b] = matrix[b, a] = weights["pair", i, j]
    for a, i in enumerate(ranks):
        matrix[a, -1] = matrix[-1, a] = weights["shared", i]
    return matrix


def expand_pqr(
    row: Row, high: Collection[int], scale: float | None = None, bias: bool = True
) -> dict[Key, float]:
    """Third form: the coordinates of a row. The margin is their product with the weights."""
    present = {i: value for i, value in row.items() if i in high}
    low_sum = sum(value for j, value in row.items() if j not in high)
    interactions = _pairs(present)
    if low_sum != 0:
        interactions |= {("shared", i): value * low_sum for i, value in present.items()}
    return _linear(row, bias) | _scaled(interactions, scale)


def expand_qr(row: Row, scale: float | None = None, bias: bool = True) -> dict[Key, float]:
    """Quadratic regression: every pair, and every square."""
    squares: dict[Key, float] = {("square", i): value**2 for i, value in row.items()}
    return _linear(row, bias) | _scaled(_pairs(row) | squares, scale)


def _linear(row: Row, bias: bool) -> dict[Key, float]:
    always: dict[Key, float] = {("bias",): 1.0} if bias else {}
    return always | {("linear", i): value for i, value in row.items()}


def _pairs(row: Row) -> dict[Key, float]:
    return {("pair", i, j): row[i] * row[j] for i, j in combinations(sorted(row), 2)}


def _scaled(interactions: dict[Key, float], scale: float | None) -> dict[Key, float]:
    """With a scale f, every one of a row's m interactions is multiplied by f / sqrt(m)."""
    if scale is None or not interactions:
        return interactions
    factor = scale / np.sqrt(len(interactions))
    return {key: value * factor for key, value in interactions.items()}


def margin(weights: Weights, coordinates: Mapping[Key, float]) -> float:
    return sum(weights.get(key, 0.0) * value for key, value in coordinates.items())


# The three tasks. Labels of the logistic loss are 0 and 1, those of the poisson loss counts.


def sigmoid(margin: float) -> float:
    return float(np.exp(-np.logaddexp(0.0, -margin)))


def link(loss: str, margin: float) -> float:
    if loss == "poisson":
        return math.exp(max(-30.0, min(30.0, margin)))
    return {"squared": lambda m: m, "logistic": sigmoid}[loss](margin)


def loss_of(loss: str, margin: float, label: float) -> float:
    """(m - y)^2 / 2; log(1 + exp(-sm)) with s = +1 or -1; exp(m) - ym, above its least value, and
    straight beyond margins of 30. All have slope link(m) - y."""
    if loss == "squared":
        return (margin - label) ** 2 / 2
    if loss == "logistic":
        return float(np.logaddexp(0.0, -(2 * label - 1) * margin))
    least = label - label * math.log(label) if label else 0.0
    near = max(-30.0, min(30.0, margin))
    return math.exp(near) * (1 + margin - near) - label * margin - least


# Three optimizers: each turns the gradients of one row after the other into weights.


class Optimizer(Protocol):
    def weight(self, key: Key) -> float: ...
    def weights(self) -> dict[Key, float]: ...
    def step(self, gradient: Mapping[Key, float]) -> None:
        """Takes the gradient of one row: its coordinates that are not zero."""


def ftrl_weight(z: float, n: float, *, alpha: float, beta: float, l1: float, l2: float) -> float:
    if abs(z) <= l1:
        return 0.0
    return -(z - float(np.sign(z)) * l1) / ((beta + float(np.sqrt(n))) / alpha + l2)


@dataclass
class Ftrl:
    """Algorithm 2: FTRL-Proximal."""

    alpha: float = 0.05
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0
    z: dict[Key, float] = field(default_factory=lambda: defaultdict(float))
    n: dict[Key, float] = field(default_factory=lambda: defaultdict(float))

    def weight(self, key: Key) -> float:
        """l1 never applies to the bias."""
        l1 = 0.0 if key == ("bias",) else self.l1
        z, n = self.z.get(key, 0.0), self.n.get(key, 0.0)
        return ftrl_weight(z, n, alpha=self.alpha, beta=self.beta, l1=l1, l2=self.l2)

    def weights(self) -> dict[Key, float]:
        return {key: self.weight(key) for key in self.z}

    def step(self, gradient: Mapping[Key, float]) -> None:
        for key, g in gradient.items():
            sigma = (np.sqrt(self.n[key] + g**2) - np.sqrt(self.n[key])) / self.alpha
            self.z[key] += g - sigma * self.weight(key)
            self.n[key] += g**2


def norm(vector: Weights) -> float:
    return float(np.sqrt(sum(w**2 for w in vector.values())))


def project(theta: Weights, radius: float | None) -> dict[Key, float]:
    """The point of the ball that is nearest to theta; None is the ball of all space."""
    if radius is None or norm(theta) <= radius:
        return dict(theta)
    factor = radius / norm(theta)
    return {key: factor * w for key, w in theta.items()}


@dataclass
class _Theta:
    """What the next two share: all weights, each of them visited in every step."""

    theta: dict[Key, float] = field(default_factory=dict, init=False)

    def weight(self, key: Key) -> float:
        return self.theta.get(key, 0.0)

    def weights(self) -> dict[Key, float]:
        return dict(self.theta)


@dataclass
class Ogd(_Theta):
    """Online gradient descent: a step against the gradient, then back into the ball."""

    eta: float
    schedule: str = "fixed"
    radius: float | None = None
    rows: int = field(default=0, init=False)

    def step(self, gradient: Mapping[Key, float]) -> None:
        self.rows += 1
        eta = self.eta / np.sqrt(self.rows) if self.schedule == "sqrt" else self.eta
        moved = {
            key: self.weight(key) - eta * gradient.get(key, 0.0)
            for key in self.theta.keys() | gradient.keys()
        }
        self.theta = project(moved, self.radius)


@dataclass
class FtrlGeneral(_Theta):
    """Algorithm 1 with R = |theta|^2 / 2, over all space or a ball.

    theta minimises eta G.theta + |theta|^2 / 2, with G the sum of all gradients. That is half the
    squared distance from theta to -eta G, and a constant.
    """

    eta: float
    radius: float | None = None
    sums: dict[Key, float] = field(default_factory=lambda: defaultdict(float), init=False)

    def step(self, gradient: Mapping[Key, float]) -> None:
        for key, g in gradient.items():
            self.sums[key] += g
        self.theta = project({key: -self.eta * g for key, g in self.sums.items()}, self.radius)


OPTIMIZERS = {"ftrl": Ftrl, "ogd": Ogd, "ftrl-general": FtrlGeneral}


# The models, row by row.


@dataclass
class PQR:
    """The model with its optimizer; LR is the one without high features."""

    high: Collection[int] = ()
    loss: str = "squared"
    optimizer: Optimizer = field(default_factory=Ftrl)
    scale: float | None = None
    bias: bool = True

    def expand(self, row: Row) -> dict[Key, float]:
        return expand_pqr(row, self.high, self.scale, self.bias)

    def weights(self) -> dict[Key, float]:
        return self.optimizer.weights()

    def margin(self, row: Row) -> float:
        return sum(self.optimizer.weight(key) * value for key, value in self.expand(row).items())

    def predict(self, row: Row) -> float:
        return link(self.loss, self.margin(row))

    def learn(self, row: Row, label: float, weight: float = 1.0) -> float:
        """The prediction, made before the row is learned."""
        prediction = self.predict(row)
        if weight > 0:
            self.step(row, weight * (prediction - label))
        return prediction

    def step(self, row: Row, slope: float) -> None:
        self.optimizer.step({key: slope * value for key, value in self.expand(row).items()})


@dataclass
class QR(PQR):
    """Every feature is high once it is learned; until then a row is read without it."""

    known: set[int] = field(default_factory=set)

    def expand(self, row: Row) -> dict[Key, float]:
        present = {i: value for i, value in row.items() if i in self.known}
        return expand_qr(present, self.scale, self.bias)

    def step(self, row: Row, slope: float) -> None:
        self.known |= row.keys()
        super().step(row, slope)
