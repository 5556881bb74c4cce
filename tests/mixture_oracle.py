"""The mixture of the self-tuning learner in plain NumPy, in double. It knows no model.

Margins of the experts come in, a prediction goes out, then comes the label. Three predictions are
made of a row: B is the Bayes mixture of the experts, S stacks their margins, and F, the Bayes
mixture of B and S, is the answer. With u_k the prediction of expert k and L_k its loss so far,

    π_k ∝ exp(-η L_k)    B = Σ π_k u_k        ρ ∝ exp(-η L) over {B, S}    F = ρ_B B + ρ_S S

The guarantee. Let Φ(η) = -1/η ln (Σ_k exp(-η L_k) / 8). Where exp(-η ω l(u, y)) is concave in u,
Jensen's inequality gives ω l(B, y) ≤ -1/η ln Σ π_k exp(-η ω l(u_k, y)), which is what the row adds
to Φ(η). Φ falls in η, so as long as η only becomes smaller, Σ ω l(B, y) ≤ Φ ≤ min_k L_k + ln 8 / η.
The same over {B, S} adds ln 2 / η.

Log loss: exp(-η ω l) = p^(η ω) is concave for η ω ≤ 1, so η = 1 / ω_max, where ω_max is the largest
weight so far and at least 1. Predictions lie in [1e-7, 1 - 1e-7].

Squared loss, (u - y)²: with u and y in a range of width R, exp(-η ω (u - y)²) is concave for
η ω ≤ 1 / (2 R²), so η = 1 / (2 R² ω_max). Predictions are clipped to the range of labels so far. A
label outside of it, at a distance d, counts for both posteriors as ỹ, the nearest label inside;
then the range widens. So the bound holds for the labels ỹ. For the real ones let u be what an
expert said without clipping. If it lies beyond the range on the side of y, it lost 0 or more on y
and counts as 0 on ỹ; F lost (F - y)² - (F - ỹ)² = 2 d |ỹ - F| + d² more on y. If not, both lose
more on y than on ỹ, and F the more by 2 d |u - F| at most. Either way the difference is at most
2 d R + d² = (R + d)² - R², which telescopes: all widenings together cost at most ω_max R², with R
the last width. Before the first label, which makes the range, all predictions are 0.

A row that raises ω_max was predicted with an η too large for it. What it lost beyond the growth of
Φ, from the old η to the new one, is the `excess`, and is added to the bound.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from step_oracle import Array, curvature, implicit_slope, sigmoid

EDGE = 1e-7
"""Probabilities stay this far from 0 and 1."""
REACH = 8.0
"""Margins are clipped to ± this where the stacker of the log loss takes them."""


def posterior(losses: Array, eta: float) -> Array:
    """π ∝ exp(-η L)."""
    heights = np.exp(-eta * (losses - losses.min()))
    return heights / heights.sum()


def potential(losses: Array, eta: float) -> float:
    """Φ(η) = -1/η ln mean exp(-η L); its limit at η = 0 is the mean of L."""
    least = float(losses.min())
    if eta == 0:
        return float(losses.mean())
    return least - math.log(float(np.exp(-eta * (losses - least)).mean())) / eta


class Bayes:
    """A Bayes mixture under a uniform prior: what each has lost, and what mixing may cost.

    `lost` and `own` are the losses on the real labels, of those that are mixed and of the mixture;
    `counted` is what the posterior has seen of the former.
    """

    def __init__(self, size: int) -> None:
        self.counted, self.lost = np.zeros(size), np.zeros(size)
        self.own = self.excess = 0.0

    def count(self, losses: Array, own: float, eta: float, new_eta: float) -> None:
        """A row's losses, times its weight, on the label that the posterior may see."""
        before = potential(self.counted, eta)
        self.counted = self.counted + losses
        if new_eta < eta:
            self.excess += max(0.0, own - (potential(self.counted, new_eta) - before))


class Stacker:
    """A linear model of few inputs by a full-covariance Kalman step; a = 0 and P = 0.1 I at first.

    V = f'Pf;  a -= P f s;  P -= h P f f' P / (1 + h V);  then P grows by 1e-4 of itself, while its
    trace is below 0.9: old rows are forgotten slowly.
    """

    def __init__(self, size: int) -> None:
        self.a, self.P = np.zeros(size), 0.1 * np.eye(size)

    def variance(self, inputs: Array) -> float:
        return float(inputs @ self.P @ inputs)

    def step(self, inputs: Array, slope: float, h: float) -> None:
        gain = self.P @ inputs
        self.a = self.a - slope * gain
        self.P = self.P - h / (1 + h * float(inputs @ gain)) * np.outer(gain, gain)
        if np.trace(self.P) < 0.9:
            self.P *= 1 + 1e-4


@dataclass(frozen=True)
class Mixed:
    """The predictions for one row, and what the stacker's was made of."""

    experts: Array
    bayes: float
    stacked: float
    final: float
    inputs: Array
    margin: float
    """Of the stacker."""


class Mixture(ABC):
    """What both losses share. `weight` is the sum of row weights, `largest` is ω_max."""

    inputs: int
    """Of the stacker, besides the experts' margins."""

    def __init__(self, experts: int = 8) -> None:
        self.experts, self.two = Bayes(experts), Bayes(2)
        self.stacker = Stacker(experts + self.inputs)
        self.largest, self.weight = 1.0, 0.0

    def mix(self, margins: Array) -> Mixed:
        values = self.values(margins)
        bayes = float(self.posterior() @ values)
        inputs, centre = self.stacked(margins, values, bayes)
        margin = centre + float(self.stacker.a @ inputs)
        stacked = float(self.values(np.array([margin]))[0])
        final = float(posterior(self.two.counted, self.eta) @ np.array([bayes, stacked]))
        return Mixed(values, bayes, stacked, final, inputs, margin)

    def predict(self, margins: Array) -> float:
        return self.mix(margins).final

    def learn(self, margins: Array, label: float, weight: float = 1.0) -> float:
        """The prediction, made before the label was looked at."""
        mixed = self.mix(margins)
        if weight > 0:
            pair = np.array([mixed.bayes, mixed.stacked])
            new = self.eta * self.largest / max(self.largest, weight)
            for bayes, values, own in (
                (self.experts, mixed.experts, mixed.bayes),
                (self.two, pair, mixed.final),
            ):
                ours = np.append(values, own)
                seen = weight * self.loss(ours, self.nearest(label))
                real = weight * self.loss(ours, label)
                bayes.count(seen[:-1], float(seen[-1]), self.eta, new)
                bayes.lost, bayes.own = bayes.lost + real[:-1], bayes.own + float(real[-1])
            self.teach_stacker(mixed, label, weight)
            self.largest = max(self.largest, weight)
            self.weight += weight
            self.widen(label)
        return mixed.final

    def posterior(self) -> Array:
        """The share of each expert in B."""
        return posterior(self.experts.counted, self.eta)

    def regret(self) -> float:
        """What F has lost beyond the best expert."""
        return self.two.own - float(self.experts.lost.min())

    def bound(self) -> float:
        """What `regret` cannot exceed."""
        prior = math.log(len(self.experts.lost)) + math.log(2)
        excess = self.experts.excess + self.two.excess
        return prior * self.price() + self.widenings() + excess

    @property
    def eta(self) -> float:
        """0 where nothing can be lost by mixing."""
        return 1 / self.price() if self.price() > 0 else 0.0

    @abstractmethod
    def price(self) -> float:
        """1 / η."""

    def widenings(self) -> float:
        return 0.0

    def nearest(self, label: float) -> float:
        """The label that posteriors see."""
        return label

    def widen(self, label: float) -> None:  # noqa: B027
        """After a row, for losses whose predictions have a range."""

    @abstractmethod
    def values(self, margins: Array) -> Array:
        """Predictions from margins, clipped."""

    @abstractmethod
    def loss(self, values: Array, label: float) -> Array: ...

    @abstractmethod
    def stacked(self, margins: Array, values: Array, bayes: float) -> tuple[Array, float]:
        """The inputs of the stacker and the margin at which a = 0 stands."""

    @abstractmethod
    def teach_stacker(self, mixed: Mixed, label: float, weight: float) -> None: ...


class LogMixture(Mixture):
    """Predictions are probabilities, labels 0 and 1.

    m_S = m_B + Σ a_k (clip(m_k, ±8) - m_B) + a_0 clip(m_B, ±8) with m_B = logit B
    """

    inputs = 1

    def price(self) -> float:
        return self.largest

    def values(self, margins: Array) -> Array:
        return np.clip([sigmoid(margin) for margin in margins.tolist()], EDGE, 1 - EDGE)

    def loss(self, values: Array, label: float) -> Array:
        return -np.log(values if label == 1 else 1 - values)

    def stacked(self, margins: Array, values: Array, bayes: float) -> tuple[Array, float]:
        centre = math.log(bayes) - math.log1p(-bayes)
        clipped = np.clip(np.append(margins, centre), -REACH, REACH)
        return clipped - np.append(np.full(len(margins), centre), 0.0), centre

    def teach_stacker(self, mixed: Mixed, label: float, weight: float) -> None:
        variance = self.stacker.variance(mixed.inputs)
        slope = implicit_slope("logistic", mixed.margin, variance, label, weight)
        self.stacker.step(mixed.inputs, slope, curvature("logistic", mixed.margin, weight))


class SquaredMixture(Mixture):
    """Predictions are margins clipped to [low, high], the range of labels so far; 0 before any.

    S has s² = (min_k L_k + 1) / t, with t the sum of weights, in the place of R²: its centre is
    Σ π_k u_k with π_k ∝ exp(-L_k / 2 s²), its inputs are u_k minus that, and its step has the slope
    ω (m_S - y) / s², made implicit, and the curvature ω / s². L_k is what the posterior counts.
    """

    inputs = 0

    def __init__(self, experts: int = 8) -> None:
        super().__init__(experts)
        self.low, self.high = math.inf, -math.inf

    @property
    def width(self) -> float:
        return max(0.0, self.high - self.low)

    def price(self) -> float:
        return 2 * self.width**2 * self.largest

    def widenings(self) -> float:
        return self.largest * self.width**2

    def nearest(self, label: float) -> float:
        return min(max(label, self.low), self.high) if self.weight > 0 else label

    def widen(self, label: float) -> None:
        self.low, self.high = min(self.low, label), max(self.high, label)

    def values(self, margins: Array) -> Array:
        return np.clip(margins, self.low, self.high) if self.weight > 0 else np.zeros(len(margins))

    def loss(self, values: Array, label: float) -> Array:
        return (values - label) ** 2

    def noise(self) -> float:
        """s²."""
        return (float(self.experts.counted.min()) + 1) / max(self.weight, 1.0)

    def stacked(self, margins: Array, values: Array, bayes: float) -> tuple[Array, float]:
        centre = float(posterior(self.experts.counted, 1 / (2 * self.noise())) @ values)
        return values - centre, centre

    def teach_stacker(self, mixed: Mixed, label: float, weight: float) -> None:
        weight = weight / self.noise()
        variance = self.stacker.variance(mixed.inputs)
        slope = implicit_slope("squared", mixed.margin, variance, label, weight)
        self.stacker.step(mixed.inputs, slope, weight)


def make_mixture(loss: str, experts: int = 8) -> Mixture:
    return SquaredMixture(experts) if loss == "squared" else LogMixture(experts)
