"""The losses: the only place in Python that names one, as csrc/loss.hpp is in C++.

For margins m and labels y, arrays of the same length:

    logistic   log(1 + e^-m) for y = 1, log(1 + e^m) for y = 0     clicks
    squared    (m - y)² / 2                                        ratings
    poisson    e^m - y·m - y + y·log y, half the deviance          counts

The minimum of each is 0. Beyond margins of ±REACH the poisson loss is linear, so that nothing
overflows and the loss stays convex.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from pqrlearn.errors import HyperError

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
OfMargins = Callable[[FloatArray, FloatArray], FloatArray]
"""A function of margins and labels."""

LossName = Literal["logistic", "squared", "poisson"]

REACH: Final = 30.0
"""Where poisson margins are clipped: predictions are from 1e-13 to 1e13."""


@dataclass(frozen=True)
class Measures:
    """How a loss is reported: `key` and `title` name its figure, e.g. "rmse" and "RMSE".

    `figure` turns a mean loss into that figure. `divergence` is the loss of each label when the
    mean label is predicted; its sum is the loss of the best constant. For clicks that loss follows
    from the mean label alone: `entropy`. `ranks` says whether AUC is reported too.
    """

    key: str
    title: str
    figure: Callable[[float], float]
    divergence: Callable[[FloatArray, float], FloatArray] | None = None
    entropy: Callable[[float], float] | None = None
    ranks: bool = False


@dataclass(frozen=True)
class Loss:
    """One loss: which labels it accepts, how margins become predictions, and what errors cost."""

    name: LossName
    task: str
    """What its labels are called, in the plural."""
    mean_label: str
    """What the mean of its labels is called."""
    check_label: Callable[[FloatArray], BoolArray]
    """Which labels are valid."""
    kept: Callable[[FloatArray], FloatArray]
    """Labels as rows store them: a click of -1 becomes 0."""
    wants: str
    """The end of the message about an invalid label."""
    link: Callable[[FloatArray], FloatArray]
    slope: OfMargins
    curvature: OfMargins
    loss: OfMargins
    change: Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
    """How much the loss grows with the margins, for (margins, growth, labels): accurate even for a
    tiny growth."""
    metrics: Measures


def check_loss(name: str) -> LossName:
    if name not in LOSSES:
        raise HyperError(f"loss={name!r} must be one of {', '.join(LOSSES)}")
    return cast(LossName, name)


def loss_named(name: str) -> Loss:
    return LOSSES[check_loss(name)]


def losses_of_constant(loss: Loss, labels: FloatArray, mean: float) -> FloatArray:
    """The loss of each label if the mean label is predicted.

    >>> losses_of_constant(loss_named("squared"), np.array([1.0, 3.0]), 2.0).tolist()
    [0.5, 0.5]
    """
    if loss.metrics.divergence is not None:
        return loss.metrics.divergence(labels, mean)
    if not 0.0 < mean < 1.0:  # then all labels are alike
        return np.zeros_like(labels)
    return np.where(labels > 0, -math.log(mean), -math.log1p(-mean))


# Logistic.


def _sigmoid(margins: FloatArray) -> FloatArray:
    e = np.exp(-np.abs(margins))
    return np.where(margins >= 0, 1.0, e) / (1.0 + e)


def _logistic_loss(margins: FloatArray, labels: FloatArray) -> FloatArray:
    return cast(FloatArray, np.logaddexp(0.0, np.where(labels > 0, -margins, margins)))


def _logistic_change(margins: FloatArray, by: FloatArray, labels: FloatArray) -> FloatArray:
    sign = np.where(labels > 0, 1.0, -1.0)
    wrong = np.exp(-np.logaddexp(0.0, sign * margins))  # the probability of the other label
    small = np.abs(by) < 1.0
    exact = np.log1p(wrong * np.expm1(np.where(small, -sign * by, 0.0)))
    plain = _logistic_loss(margins + by, labels) - _logistic_loss(margins, labels)
    return np.where(small, exact, plain)


def _entropy(mean: float) -> float:
    """The LogLoss of the best constant prediction, which is the mean label."""
    if not 0.0 < mean < 1.0:
        return 0.0 * mean
    return -mean * math.log(mean) - (1.0 - mean) * math.log1p(-mean)


_LOGISTIC = Loss(
    name="logistic",
    task="clicks",
    mean_label="click rate",
    check_label=lambda labels: (labels == 0) | (np.abs(labels) == 1),
    kept=lambda labels: np.maximum(labels, 0.0),
    wants="is not a click: logistic loss takes 0/1 or -1/1",
    link=_sigmoid,
    slope=lambda margins, labels: _sigmoid(margins) - (labels > 0),
    curvature=lambda margins, labels: _sigmoid(margins) * _sigmoid(-margins),
    loss=_logistic_loss,
    change=_logistic_change,
    metrics=Measures("logloss", "LogLoss", lambda mean: mean, entropy=_entropy, ranks=True),
)


# Squared.


_SQUARED = Loss(
    name="squared",
    task="ratings",
    mean_label="mean rating",
    check_label=np.isfinite,
    kept=lambda labels: labels,
    wants="is not a finite number, as squared loss needs",
    link=lambda margins: margins,
    slope=lambda margins, labels: margins - labels,
    curvature=lambda margins, labels: np.ones_like(margins),
    loss=lambda margins, labels: np.square(margins - labels) / 2,
    change=lambda margins, by, labels: by * (margins - labels + by / 2),
    metrics=Measures(
        "rmse",
        "RMSE",
        lambda mean: math.sqrt(2 * mean),
        lambda labels, mean: np.square(labels - mean) / 2,
    ),
)


# Poisson.


def _near(margins: FloatArray) -> FloatArray:
    return np.clip(margins, -REACH, REACH)


def _mean_count(margins: FloatArray) -> FloatArray:
    return np.exp(_near(margins))


def _poisson_loss(margins: FloatArray, labels: FloatArray) -> FloatArray:
    beyond = margins - _near(margins)
    return _mean_count(margins) * (1 + beyond) - labels * margins + _y_log_y(labels) - labels


def _poisson_change(margins: FloatArray, by: FloatArray, labels: FloatArray) -> FloatArray:
    after = margins + by
    inside = (np.abs(margins) < REACH) & (np.abs(after) < REACH) & (np.abs(by) < 1.0)
    exact = _mean_count(margins) * np.expm1(np.where(inside, by, 0.0)) - labels * by
    plain = _poisson_loss(after, labels) - _poisson_loss(margins, labels)
    return np.where(inside, exact, plain)


def _y_log_y(labels: FloatArray) -> FloatArray:
    return labels * np.log(np.where(labels > 0, labels, 1.0))


def _half_deviance(labels: FloatArray, mean: float) -> FloatArray:
    if mean <= 0:  # then all labels are 0
        return np.zeros_like(labels)
    return _y_log_y(labels) - labels * math.log(mean) + mean - labels


_POISSON = Loss(
    name="poisson",
    task="counts",
    mean_label="mean count",
    check_label=lambda labels: np.isfinite(labels) & (labels >= 0),
    kept=lambda labels: labels,
    wants="is not a count: poisson loss takes finite numbers from 0 on",
    link=_mean_count,
    slope=lambda margins, labels: _mean_count(margins) - labels,
    curvature=lambda margins, labels: _mean_count(margins),
    loss=_poisson_loss,
    change=_poisson_change,
    metrics=Measures("deviance", "deviance", lambda mean: 2 * mean, _half_deviance),
)

ANY_NUMBER: Final = _SQUARED.name
"""The loss that accepts any finite label, for rows that are not learned."""

LOSSES: Final[dict[str, Loss]] = {loss.name: loss for loss in (_LOGISTIC, _SQUARED, _POISSON)}
assert tuple(LOSSES) == get_args(LossName)
