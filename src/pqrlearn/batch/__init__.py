"""Batch learning: the optimum over all rows, and many shuffled passes.

LR, QR and PQR are linear in their weights, so their loss over the expanded rows (expansion.py) is
convex. L-BFGS finds its minimum (solver.py), without a constraint or in the ball ‖theta‖ ≤ radius;
theta includes the bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pqrlearn.batch.expansion import Expanded, Linear, expanded
from pqrlearn.batch.solver import TOLERANCE, Minimum, OnIteration, Problem, minimise
from pqrlearn.errors import DataError, HyperError
from pqrlearn.hyper import Ogd, check_rate, check_whole
from pqrlearn.learners import LR, QR, Learner, State
from pqrlearn.learners.given import as_batch
from pqrlearn.loss import loss_named
from pqrlearn.metrics import Metrics
from pqrlearn.rows import Batch, FloatArray, RowsLike

__all__ = [
    "Expanded",
    "Minimum",
    "Optimal",
    "Problem",
    "expanded",
    "fit_optimal",
    "minimise",
    "passes",
    "problem_of",
]

_PASS_ROWS = 16_384  # learned between two calls of `watch`


def passes(
    learner: Learner,
    X: RowsLike,
    y: Any = None,
    *,
    count: int,
    seed: int = 0,
    watch: Callable[[Metrics], None] | None = None,
) -> list[dict[str, float]]:
    """Learns all rows `count` times, each time in a new random order.

    Returns the progressive figures of every pass. The same seed gives the same bits.
    """
    batch = as_batch(X, y)
    check_whole("count", count, least=1)
    rng = np.random.default_rng(check_whole("seed", seed, least=0))
    figures = []
    for _ in range(count):
        metrics = Metrics(learner.loss)
        order = rng.permutation(len(batch))
        for start in range(0, len(order), _PASS_ROWS):
            part = batch.take(order[start : start + _PASS_ROWS])
            metrics.update(learner.learn_margins(part), part.labels, part.weights)
            if watch is not None:
                watch(metrics)
        figures.append(metrics.result())
    return figures


@dataclass(frozen=True, eq=False)
class Optimal:
    """The best fixed weights for some rows, with a bound on the error."""

    model: Linear
    """A model with these weights in 32 bits, which continues to learn by OGD."""
    loss: float
    """The weighted sum of the losses, without the l2 penalty."""
    minimum: Minimum
    """The minimum of F, in the columns of `expanded`; its `gap` bounds the error."""


def fit_optimal(
    model: Linear,
    X: RowsLike,
    y: Any = None,
    *,
    l2: float = 0.0,
    radius: float | None = None,
    tolerance: float = TOLERANCE,
    watch: OnIteration | None = None,
) -> Optimal:
    """The weights with the least loss over all rows, for a model with the settings of `model`.

    Needs a radius or an l2: without either, separable clicks have no optimum. The result is a new
    model; `model` is not changed, and its optimizer is not used.

    >>> from pqrlearn import LR
    >>> rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 50, labels=[4.0, 1.0] * 50)
    >>> best = fit_optimal(LR("squared"), rows, radius=10.0)
    >>> best.model.predict_many(rows)[:2].round(2).tolist()
    [4.0, 1.0]
    """
    if not isinstance(model, Linear):
        raise HyperError(f"{type(model).__name__} has no batch optimum: use an LR, a PQR or a QR")
    if radius is None and not l2:
        raise HyperError("radius or l2 is required: without either, an optimum may not exist")
    check_rate("l2", l2)
    check_rate("tolerance", tolerance, above=0)
    if radius is not None:
        check_rate("radius", radius, above=0)
    batch = as_batch(X, y)
    if not len(batch) or not np.isfinite(batch.labels).all():
        raise DataError("an optimum needs rows with labels")
    rows = expanded(model, batch)
    problem = problem_of(model, rows, batch, l2, radius)
    minimum = minimise(problem, tolerance, watch=watch)
    loss = minimum.value - l2 / 2 * float(minimum.theta @ minimum.theta)
    return Optimal(_model_with(model, rows, minimum.theta, batch, radius), loss, minimum)


def problem_of(
    model: Linear, rows: Expanded, batch: Batch, l2: float = 0.0, radius: float | None = None
) -> Problem:
    """The loss of a model over expanded rows, as a minimisation problem."""
    weights = batch.weights.astype(np.float64)
    return Problem(loss_named(model.loss), rows.matrix, batch.labels, weights, l2, radius)


def _model_with(
    model: Linear, rows: Expanded, theta: FloatArray, batch: Batch, radius: float | None
) -> Linear:
    """A model with these weights, which continues by OGD."""
    ogd, empty = Ogd(radius=radius), model.state()
    last = int(batch.indices.max(initial=0))
    settings = empty.settings | {
        "optimizer": ogd.settings(),
        "rows": len(batch),
        "next_feature": max(empty.settings["next_feature"], last + 1),
    }
    slots_of = LR(model.loss, ogd)  # slots of OGD are the same in all models
    arrays, norm2 = dict(empty.arrays), 0.0
    for block in model.blocks:
        here = theta[rows.columns(block)] if block in rows.keys else np.zeros(1)
        if block == "bias":
            slots = arrays["bias"] = slots_of.bias_slot_of(float(here[0]), 0.0)
        else:
            kept = slots_of.slots_of("linear", here, 0.0)
            arrays |= rows.key_tensors(block) | {f"{block}.slots": kept}
            slots = kept.astype(np.float64)
        norm2 += float(np.square(slots).sum())
    arrays["optimizer"] = np.array([len(batch), 1.0, norm2])
    if isinstance(model, QR):
        arrays["high"] = rows.high
    return type(model).from_state(State(empty.kind, settings, arrays, empty.names))
