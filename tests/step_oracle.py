"""The steps of the self-tuning learner in plain NumPy, in double.

Every coordinate keeps (z, I) and has the weight w = -z / (λ + I). Rows of an array are coordinates,
columns are experts. A row weight ω multiplies the loss: its slope and its curvature.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

ALPHA, BETA = 0.5, 1.0
"""Of FTRL-Proximal."""
FLATTEST = 1e-4
"""The least curvature of the log loss that counts."""


def sigmoid(margin: float) -> float:
    """Without overflow, and exact to rounding where it is close to 0."""
    small = math.exp(-abs(margin))
    return 1 / (1 + small) if margin >= 0 else small / (1 + small)


def link(loss: str, margin: float) -> float:
    return margin if loss == "squared" else sigmoid(margin)


def curvature(loss: str, margin: float, weight: float = 1.0) -> float:
    """h = ω max(p (1 - p), 1e-4) with p = σ(m); ω for the squared loss."""
    if loss == "squared":
        return weight
    p = sigmoid(margin)
    return weight * max(p * (1 - p), FLATTEST)


def implicit_slope(
    loss: str, margin: float, variance: float, label: float, weight: float = 1.0
) -> float:
    """The slope of the loss at the margin that the step leads to: s = ω (link(m - V s) - y).

    Squared: s = ω (m - y) / (1 + ω V). Log: the root lies between 0 and ω (σ(m) - y); it is found
    by bisection, until no number is left between the two ends.
    """
    if loss == "squared":
        return weight * (margin - label) / (1 + weight * variance)
    explicit = weight * (sigmoid(margin) - label)
    low, high = min(0.0, explicit), max(0.0, explicit)
    while low < (middle := (low + high) / 2) < high:
        if weight * (sigmoid(margin - variance * middle) - label) > middle:
            low = middle
        else:
            high = middle
    return middle


def kalman_step(
    x: Array, z: Array, info: Array, prior: Array, variance: Array, slope: Array, h: Array
) -> tuple[Array, Array]:
    """A diagonal Kalman step: the weight moves by -s x v, and I grows.

    v = 1 / (λ + I),  w = -z v,  V = Σ v x² over the coordinates of the row
    d = h x² / max(1, 1 + h (V - v x²));  z += s x (1 + d v) - d w;  I += d
    """
    v = 1 / (prior + info)
    w = -z * v
    d = h * x**2 / np.maximum(1, 1 + h * (variance - v * x**2))
    return z + slope * x * (1 + d * v) - d * w, info + d


def ftrl_step(x: Array, z: Array, info: Array, slope: Array) -> tuple[Array, Array]:
    """FTRL-Proximal with I = √n / α and λ = β / α; x is a feature divided by its M.

    g = s x with s = ω (link(m) - y);  d = √(I² + (g / α)²) - I;  z += g - d w;  I += d
    """
    g = slope * x
    w = -z / (BETA / ALPHA + info)
    d = np.sqrt(info**2 + (g / ALPHA) ** 2) - info
    return z + g - d * w, info + d


def capped(z: Array, info: Array, prior: Array, cap: Array) -> tuple[Array, Array]:
    """At most `cap` of information; z shrinks with it, so that the weight stays."""
    most = np.minimum(info, cap)
    return z * ((prior + most) / (prior + info)), most
