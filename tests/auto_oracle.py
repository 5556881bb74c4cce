"""The self-tuning learner in plain NumPy, in double: its experts, its rise, and all of it together.

Eight experts learn side by side. A coordinate is the bias, a feature (linear), a pair of risen
features, or what a risen feature shares with all low ones. step_oracle.py has the step over one
coordinate, mixture_oracle.py turns the eight margins of a row into one prediction.

    M_i     root mean square of feature i over the rows that have it, the row at hand included
    Σlow    Σ x_j / M_j over the low features j of a row; q_i multiplies x_i Σlow
    FTRL    sees x_i / M_i in the place of x_i, and interactions divided by √(how many the row has)
    order   predict from the past; learn; count; then, if the number of rows is a multiple of
            `every`, features rise and λ is refreshed
    weight  a row of weight 0 changes nothing; counts, M, n̄ and s̄ do not look at weights
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mixture_oracle import make_mixture
from step_oracle import (
    ALPHA,
    BETA,
    Array,
    capped,
    curvature,
    ftrl_step,
    implicit_slope,
    kalman_step,
    link,
)

Row = dict[int, float]
Ints = npt.NDArray[np.int64]


# The experts.


@dataclass(frozen=True)
class Expert:
    """τ is the prior variance of a row's margin: by linear weights, by interactions."""

    name: str
    linear: float | None = None
    pairs: float | None = None
    ftrl: bool = False


EXPERTS = (
    Expert("bias"),
    Expert("K 1.5", 1.5),
    Expert("K 10", 10),
    Expert("FTRL", ftrl=True),
    Expert("K (1.5, 2)", 1.5, 2),
    Expert("K (10, 1)", 10, 1),
    Expert("K (100, 5)", 100, 5),
    Expert("FTRL with pairs", ftrl=True),
)
FTRL = np.array([expert.ftrl for expert in EXPERTS])
FEATURED = np.array([expert.name != "bias" for expert in EXPERTS])
PAIRED = slice(4, 8)
"""Those with interactions."""
LINEAR = np.array([expert.linear or 1.0 for expert in EXPERTS])
PAIRS = np.array([expert.pairs or 1.0 for expert in EXPERTS[PAIRED]])


@dataclass(frozen=True)
class Shape:
    """What rows look like: n̄ features each, and s̄, the mean |Σlow| where high meets low.

    λ is n̄ / τ_lin · M_i² of a linear weight, C(n̄, 2) / τ_int · M_i² M_j² of a pair,
    C(n̄, 2) / τ_int · M_i² s̄² of a shared weight, with n̄, C(n̄, 2) and s̄ at least 1; of the bias
    ¼, or 1e-6 for the squared loss. That of FTRL is β / α, of the bias too.
    """

    features: float = 1.0
    low: float = 1.0

    def bias(self, loss: str) -> Array:
        return np.where(FTRL, BETA / ALPHA, 1e-6 if loss == "squared" else 0.25)

    def linear(self, M: Array) -> Array:
        return np.where(FTRL, BETA / ALPHA, self.features / LINEAR * M[:, None] ** 2)

    def interactions(self, M: Array) -> Array:
        """M is M_i M_j of a pair, and M_i s̄ of a shared weight."""
        pairs = max(1.0, self.features * (self.features - 1) / 2)
        return np.where(FTRL[PAIRED], BETA / ALPHA, pairs / PAIRS * M[:, None] ** 2)


# The rise.


@dataclass
class Rise:
    """Which features are high, in the order of rise, and what is counted for that.

    A low feature that has been in `rise_at` rows rises when the number of rows next is a multiple
    of `every`, if fewer than `budget` pairs have a slot at that moment; shared weights do not
    count. Features that rise together do so by index. Once the budget is used up nothing rises any
    more. λ is refreshed at the first multiple of `every` at or after each power of two. Until the
    first refresh n̄ is the number of features of the first row, and s̄ is 1.
    """

    rise_at: int = 3
    budget: int = 65536
    every: int = 64
    rank: dict[int, int] = field(default_factory=dict)
    count: dict[int, int] = field(default_factory=dict)
    squares: dict[int, float] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    rows: int = 0
    features: int = 0
    meetings: int = 0
    low_sum: float = 0.0
    shape: Shape = Shape()
    refresh_at: int = 1

    def scale(self, feature: int, x: float) -> float:
        """M_i, with the row at hand."""
        squares = self.squares.get(feature, 0.0) + x * x
        return float(np.sqrt(squares / (self.count.get(feature, 0) + 1)))

    def shape_for(self, row: Row) -> Shape:
        return self.shape if self.rows else Shape(max(1.0, len(row)))

    def see(self, row: Row, low_sum: float, pairs: int) -> None:
        """Counts a row that was learned; `low_sum` is its Σlow, 0 where no high feature was."""
        self.shape = self.shape_for(row)
        for feature, x in row.items():
            self.count[feature] = self.count.get(feature, 0) + 1
            self.squares[feature] = self.squares.get(feature, 0.0) + x * x
            if self.count[feature] >= self.rise_at and feature not in self.rank:
                self.waiting.add(feature)
        self.rows += 1
        self.features += len(row)
        self.meetings += low_sum != 0
        self.low_sum += abs(low_sum)
        if self.rows % self.every == 0:
            self.rise(pairs)
            self.refresh()

    def rise(self, pairs: int) -> None:
        if pairs < self.budget:
            for feature in sorted(self.waiting):
                self.rank[feature] = len(self.rank)
        self.waiting.clear()

    def refresh(self) -> None:
        if self.rows >= self.refresh_at:
            low = self.low_sum / self.meetings if self.meetings else 1.0
            self.shape = Shape(max(1.0, self.features / self.rows), max(1.0, low))
            self.refresh_at = 1 << self.rows.bit_length()


# All of it together.


class Table:
    """Slots by key: z and I of some experts."""

    def __init__(self, experts: int) -> None:
        self.number: dict[int, int] = {}
        self.z, self.info = np.zeros((2, 1024, experts))

    def find(self, keys: list[int]) -> Ints:
        """Their slots; -1 where there is none."""
        return np.array([self.number.get(key, -1) for key in keys], np.int64)

    def read(self, slots: Ints) -> tuple[Array, Array]:
        """z and I, which are 0 where there is no slot."""
        there = (slots >= 0)[:, None]
        return np.where(there, self.z[slots], 0.0), np.where(there, self.info[slots], 0.0)

    def write(self, keys: list[int], slots: Ints, z: Array, info: Array) -> None:
        """Makes the slots that are missing."""
        for at in np.flatnonzero(slots < 0).tolist():
            slots[at] = self.number[keys[at]] = len(self.number)
        while len(self.number) > len(self.z):
            self.z, self.info = (np.concatenate([a, np.zeros_like(a)]) for a in (self.z, self.info))
        self.z[slots], self.info[slots] = z, info


@dataclass
class Block:
    """Coordinates of a row: a line each, a column for each expert that has them.

    `unit` is the M of a coordinate: information is capped at `cap_information` · M².
    """

    table: Table
    keys: list[int]
    slots: Ints
    x: Array
    prior: Array
    z: Array
    info: Array
    unit: Array

    def only(self, lines: Ints) -> Block:
        keys = [self.keys[at] for at in lines]
        arrays = (self.slots, self.x, self.prior, self.z, self.info, self.unit)
        return Block(self.table, keys, *(array[lines] for array in arrays))

    def sums(self) -> tuple[Array, Array]:
        """Their part of m = Σ w x and of V = Σ v x²."""
        v = 1 / (self.prior + self.info)
        return -(self.z * v * self.x).sum(0), (v * self.x**2).sum(0)

    def step(self, ftrl: Array, variance: Array, slope: Array, h: Array, cap: float) -> None:
        z, info = kalman_step(self.x, self.z, self.info, self.prior, variance, slope, h)
        z, info = capped(z, info, self.prior, cap * self.unit[:, None] ** 2)
        by_ftrl = ftrl_step(self.x, self.z, self.info, slope)
        z, info = np.where(ftrl, by_ftrl[0], z), np.where(ftrl, by_ftrl[1], info)
        self.table.write(self.keys, self.slots, z, info)


BIAS = -1


class Auto:
    """Predicts each row from those before it, then learns it.

    `max_pairs` bounds the slots of pairs. A pair that finds no slot stands for its shared weight:
    x_j / M_j goes into the sum that q_i multiplies, i being the one of the two that rose first. So
    does every pair before it has a slot, and a new pair starts at that weight: p_ij = q_i / M_j
    with I = 0. Pairs of a row find their slots in the order of the later of the two, then of the
    earlier.

    With `counted_bias` the expert without features counts clicks instead of stepping: its
    prediction is (Σ ω y + ½) / (Σ ω + 1). It is not in the prototype; for the log loss only.
    """

    def __init__(
        self,
        loss: str = "logistic",
        *,
        max_pairs: int = 1 << 20,
        budget: int = 65536,
        rise_at: int = 3,
        every: int = 64,
        cap_information: float = 2.0**14,
        counted_bias: bool = False,
    ) -> None:
        self.clicks = self.weight = 0.0
        self.counted_bias = counted_bias and loss == "logistic"
        self.loss, self.max_pairs, self.cap_information = loss, max_pairs, cap_information
        self.rise = Rise(rise_at, budget, every)
        self.mixture = make_mixture(loss)
        self.linear, self.shared, self.pairs = Table(8), Table(4), Table(4)

    def margins(self, row: Row) -> Array:
        """Of the eight experts."""
        return self.summed(self.blocks(row)[0])[0]

    def predict(self, row: Row) -> float:
        return self.mixture.predict(self.margins(row))

    def learn(self, row: Row, label: float, weight: float = 1.0) -> float:
        """The prediction, made before the row was learned."""
        blocks, low_sum = self.blocks(row)
        margins, variance = self.summed(blocks)
        prediction = self.mixture.learn(margins, label, weight)
        if weight > 0:
            self.step(blocks, margins, variance, label, weight)
            self.rise.see(row, low_sum, len(self.pairs.number))
            self.clicks, self.weight = self.clicks + weight * label, self.weight + weight
        return prediction

    def summed(self, blocks: list[Block]) -> tuple[Array, Array]:
        """Margins and variances of all experts."""
        margins, variance = blocks[0].sums()
        for block in blocks[1:]:
            more, wider = block.sums()
            margins[PAIRED] += more
            variance[PAIRED] += wider
        if self.counted_bias:
            margins[0] = np.log(self.clicks + 0.5) - np.log(self.weight - self.clicks + 0.5)
        return margins, variance

    def step(
        self, blocks: list[Block], margins: Array, variance: Array, label: float, weight: float
    ) -> None:
        slope, h = np.empty((2, len(EXPERTS)))
        for k, (m, V, ftrl) in enumerate(zip(margins, variance, FTRL, strict=True)):
            h[k] = curvature(self.loss, m, weight)
            explicit = weight * (link(self.loss, m) - label)
            slope[k] = explicit if ftrl else implicit_slope(self.loss, m, V, label, weight)
        for block in blocks:
            of = slice(None) if block.x.shape[1] == len(EXPERTS) else PAIRED
            block.step(FTRL[of], variance[of], slope[of], h[of], self.cap_information)

    def posterior(self) -> dict[str, float]:
        """The share of each expert in B."""
        shares = self.mixture.posterior().tolist()
        return {expert.name: share for expert, share in zip(EXPERTS, shares, strict=True)}

    def regret(self) -> float:
        return self.mixture.regret()

    def bound(self) -> float:
        return self.mixture.bound()

    # -- the coordinates of a row -------------------------------------------------

    def blocks(self, row: Row) -> tuple[list[Block], float]:
        """All coordinates, and Σlow where a high feature meets low ones, else 0."""
        features = sorted(row)
        x = np.array([row[i] for i in features])
        M = np.array([self.rise.scale(i, row[i]) for i in features])
        ranks = np.array([self.rise.rank.get(i, -1) for i in features], np.int64)
        shape = self.rise.shape_for(row)
        blocks = [self._linear(shape, features, x, M)]
        high = np.flatnonzero(ranks >= 0)
        if len(high) == 0:
            return blocks, 0.0
        high = high[np.argsort(ranks[high])]
        low_sum = float((x / M)[ranks < 0].sum())
        blocks += self._interactions(shape, ranks[high], x[high], M[high], low_sum)
        return blocks, low_sum

    def _linear(self, shape: Shape, features: list[int], x: Array, M: Array) -> Block:
        """With the bias, which has no cap: it is kept in double everywhere."""
        keys = [BIAS, *features]
        slots = self.linear.find(keys)
        values = np.where(FTRL, (x / M)[:, None], x[:, None]) * FEATURED
        prior = np.vstack([shape.bias(self.loss), shape.linear(M)])
        values = np.vstack([np.ones(len(EXPERTS)), values])
        unit = np.concatenate([[np.inf], M])
        return Block(self.linear, keys, slots, values, prior, *self.linear.read(slots), unit)

    def _interactions(
        self, shape: Shape, rank: Ints, x: Array, M: Array, low_sum: float
    ) -> list[Block]:
        """Of high features in the order of rise: shared weights, then pairs."""
        later, earlier = np.tril_indices(len(rank), -1)
        keys = (rank[later] << 32 | rank[earlier]).tolist()
        slots = self.pairs.find(keys)
        room = np.cumsum(slots < 0) <= self.max_pairs - len(self.pairs.number)
        kept = np.flatnonzero((slots >= 0) | room)
        left = np.flatnonzero((slots < 0) & ~room)
        sums = np.full(len(rank), low_sum)
        np.add.at(sums, earlier[left], (x / M)[later[left]])
        shared = self._shared(shape, rank, x, M, sums)
        q = -shared.z / (shared.prior + shared.info)

        later, earlier, slots = later[kept], earlier[kept], slots[kept]
        unit = M[earlier] * M[later]
        prior = shape.interactions(unit)
        z, info = self.pairs.read(slots)
        start = q[earlier] / np.where(FTRL[PAIRED], 1.0, M[later][:, None])
        z = np.where((slots < 0)[:, None], -prior * start, z)
        values = _values(x[earlier] * x[later], unit)
        pairs = Block(self.pairs, [keys[at] for at in kept], slots, values, prior, z, info, unit)

        shared = shared.only(np.flatnonzero(sums))
        for block in (shared, pairs):
            block.x[:, FTRL[PAIRED]] /= np.sqrt(len(shared.keys) + len(pairs.keys))
        return [shared, pairs]

    def _shared(self, shape: Shape, rank: Ints, x: Array, M: Array, sums: Array) -> Block:
        keys = rank.tolist()
        slots = self.shared.find(keys)
        unit = M * shape.low
        prior = shape.interactions(unit)
        values = _values(x * sums, M)
        return Block(self.shared, keys, slots, values, prior, *self.shared.read(slots), unit)


def _values(x: Array, M: Array) -> Array:
    """Of interactions: as they are, and for FTRL divided by M."""
    return np.where(FTRL[PAIRED], (x / M)[:, None], x[:, None])
