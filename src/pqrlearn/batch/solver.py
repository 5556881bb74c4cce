"""The minimum of a convex loss over the rows of a matrix, with a certificate.

    F(theta) = Σ weight · loss(margin, label) + l2/2 · ‖theta‖²,    margins = matrix @ theta

is minimised without a constraint (then l2 > 0) or in the ball ‖theta‖ ≤ D. For the ball, L-BFGS
minimises F + μ/2 · (‖theta‖² - D²), and the secant method finds the μ at which ‖theta‖ = D. For any
μ ≥ 0 that minimum is a lower bound of the minimum in the ball, and a theta with a gradient of
length r is within r² / 2(μ + l2) of it. Every theta in the ball gives an upper bound. The search
ends when the bounds are within the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pqrlearn.errors import PqrError
from pqrlearn.loss import Loss
from pqrlearn.rows import FloatArray

OnIteration = Callable[[int, float], None]
"""Called after every iteration with their number and the change of F since the last start."""

TOLERANCE = 1e-6
"""How much the mean loss may exceed its minimum."""

_MEMORY, _MEMORY_NUMBERS = 100, 2_000_000  # steps in the L-BFGS history, and numbers in all of them
_MOST_ITERATIONS = 20_000  # per start
_MOST_STARTS = 5  # per μ
_MOST_MULTIPLIERS = 60
_TINY = 1e-300  # replaces zero in divisors


@dataclass(frozen=True, eq=False)
class Problem:
    """F over the rows of a matrix, and the constraint."""

    loss: Loss
    matrix: Any
    labels: FloatArray
    weights: FloatArray
    l2: float = 0.0
    radius: float | None = None

    def head(self, rows: int) -> Problem:
        """The same problem for the first rows."""
        parts = self.matrix[:rows], self.labels[:rows], self.weights[:rows]
        return Problem(self.loss, *parts, self.l2, self.radius)

    def at(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """F and its gradient."""
        margins = self.matrix @ theta
        value = float(self.weights @ self.loss.loss(margins, self.labels))
        slope = self.weights * self.loss.slope(margins, self.labels)
        gradient = self.matrix.T @ slope + self.l2 * theta
        return value + self.l2 / 2 * float(theta @ theta), gradient

    def around(
        self, start: FloatArray, multiplier: float
    ) -> Callable[[FloatArray], tuple[float, FloatArray]]:
        """A function from a step to the change of F + μ/2 · ‖theta‖² and the gradient after it.

        Near the minimum the difference of two values of F has no correct digits left, so the change
        is computed directly; a line search needs it.
        """
        strength = self.l2 + multiplier
        before = self.matrix @ start

        def after(step: FloatArray) -> tuple[float, FloatArray]:
            by = self.matrix @ step
            change = float(self.weights @ self.loss.change(before, by, self.labels))
            change += strength * float(step @ (start + step / 2))
            slope = self.weights * self.loss.slope(before + by, self.labels)
            return change, self.matrix.T @ slope + strength * (start + step)

        return after

    def curvature(self) -> FloatArray:
        """The second derivative by each coordinate at theta = 0."""
        margin = self.loss.curvature(np.zeros(len(self.labels)), self.labels)
        squares: FloatArray = self.matrix.power(2).T @ (self.weights * margin)
        return squares + self.l2


@dataclass(frozen=True, eq=False)
class Minimum:
    """An approximate minimum of F: `value` exceeds the true minimum by at most `gap`.

    The gradient there is -multiplier · theta; inside the ball, or without one, the multiplier is
    (nearly) zero.
    """

    theta: FloatArray
    value: float
    gap: float
    multiplier: float
    iterations: int


def minimise(
    problem: Problem,
    tolerance: float = TOLERANCE,
    start: Minimum | None = None,
    watch: OnIteration | None = None,
) -> Minimum:
    """The minimum, up to `tolerance` of the mean loss, from zero or from a minimum nearby."""
    import scipy.optimize  # noqa: F401  (loads the BLAS that is limited below)
    from threadpoolctl import threadpool_limits

    total = float(problem.weights.sum()) or 1.0
    # Threads would change the bits, and would not help with vectors this short.
    with threadpool_limits(1, "blas"):
        search = _Search(problem, tolerance * total, watch, start)
        if problem.radius is None:
            search.descend(0.0)
        else:
            search.find_multiplier(start.multiplier if start is not None else 0.0)
    if search.best.gap > search.allowed:
        raise PqrError(
            f"after {search.best.iterations:,} iterations the mean loss may still be "
            f"{search.best.gap / total:.1e} above its minimum: allow a tolerance above "
            f"{tolerance:g}, a larger l2 or a smaller radius"
        )
    return search.best


class _Search:
    """Minimises for one multiplier after the other, each time from the current theta."""

    def __init__(
        self, problem: Problem, allowed: float, watch: OnIteration | None, start: Minimum | None
    ) -> None:
        self.problem, self.allowed, self._watch = problem, allowed, watch
        theta = np.zeros(problem.matrix.shape[1]) if start is None else start.theta
        self.best = Minimum(theta, math.inf, math.inf, 0.0, 0)
        self._theta, self._below = theta, -math.inf
        self._radius = math.inf if problem.radius is None else problem.radius
        self._curvature = problem.curvature()

    def find_multiplier(self, guess: float) -> None:
        """log ‖theta‖ is nearly linear in log μ, which the secant method relies on."""
        steepest = float(np.linalg.norm(self.problem.at(np.zeros_like(self._theta))[1]))
        multiplier = guess or max(0.1 * steepest / self._radius, _TINY)
        low, high = 0.0, math.inf
        points: list[tuple[float, float]] = []
        for _ in range(_MOST_MULTIPLIERS):
            length = self.descend(multiplier)
            if self.best.gap <= self.allowed:
                return
            low, high = (multiplier, high) if length > self._radius else (low, multiplier)
            away = math.log(max(length, _TINY) / self._radius)
            points = [*points[-1:], (math.log(multiplier), away)]
            multiplier = _between(low, high, math.exp(_secant(points)))

    def descend(self, multiplier: float) -> float:
        """Minimises F + μ/2 · (‖theta‖² - D²) and updates the bounds; returns ‖theta‖.

        When rounding stops L-BFGS it is restarted: steps from the new start are accurate again.
        """
        iterations = self.best.iterations
        for _ in range(_MOST_STARTS):
            done, taken = self._lbfgs(multiplier, iterations)
            iterations += taken
            if done:
                break
        self._update(multiplier, iterations)
        return float(np.linalg.norm(self._theta))

    def _lbfgs(self, multiplier: float, before: int) -> tuple[bool, int]:
        """One run; returns whether it came near enough, and its iterations.

        Coordinates are scaled to similar curvatures, so that a bias, which is in every row, and a
        pair that is in one row need about equally many steps.
        """
        from scipy.optimize import minimize

        scale = 1 / np.sqrt(np.maximum(self._curvature + multiplier, _TINY))
        strength = multiplier + self.problem.l2
        after = self.problem.around(self._theta, multiplier)
        near, taken = False, 0

        def scaled(step: FloatArray) -> tuple[float, FloatArray]:
            nonlocal near
            change, gradient = after(step * scale)
            near = self._near(self._theta + step * scale, gradient, strength)
            return change, gradient * scale

        def count(intermediate_result: Any) -> None:
            nonlocal taken
            taken += 1
            if self._watch is not None:
                self._watch(before + taken, float(intermediate_result.fun))
            if near:
                raise StopIteration

        memory = max(10, min(_MEMORY, _MEMORY_NUMBERS // len(self._theta)))
        most = {"maxiter": _MOST_ITERATIONS, "maxfun": 2 * _MOST_ITERATIONS, "maxcor": memory}
        exact = {"ftol": 0.0, "gtol": 0.0}
        done = minimize(
            scaled,
            np.zeros_like(self._theta),
            jac=True,
            method="L-BFGS-B",
            callback=count,
            options=most | exact,
        )
        self._theta = self._theta + done.x * scale
        return near, taken

    def _near(self, theta: FloatArray, gradient: FloatArray, strength: float) -> bool:
        """Within a quarter of the allowed gap, or near enough to the minimum of this μ.

        The distance to that minimum is at most ‖gradient‖ / strength.
        """
        length = float(np.linalg.norm(gradient))
        away = abs(float(np.linalg.norm(theta)) - self._radius) if self._radius < math.inf else 0.0
        return length <= max(math.sqrt(strength * self.allowed / 2), 0.1 * strength * away)

    def _update(self, multiplier: float, iterations: int) -> None:
        """Updates the lower bound and the best theta."""
        theta = self._theta
        value, gradient = self.problem.at(theta)
        size, radius = float(np.linalg.norm(theta)), self._radius
        missed = float(np.linalg.norm(gradient + multiplier * theta)) ** 2
        below = value - missed / (2 * max(multiplier + self.problem.l2, _TINY))
        if multiplier:
            below += multiplier / 2 * (size**2 - radius**2)
        self._below = max(self._below, below)
        if size > radius:
            theta = theta * (radius / size)
            value = self.problem.at(theta)[0]
        found = Minimum(theta, value, math.inf, multiplier, iterations)
        best = found if value <= self.best.value else self.best
        gap = max(0.0, best.value - self._below)
        self.best = replace(best, gap=gap, iterations=iterations)


def _secant(points: list[tuple[float, float]]) -> float:
    """The zero of the line through two points; with one point, a typical slope is used."""
    (x, y), (at_x, at_y) = points[0], points[-1]
    slope = (y - at_y) / (x - at_x) if x != at_x else -0.5
    return at_x - at_y / min(slope, -0.01)


def _between(low: float, high: float, guess: float) -> float:
    """The guess if it is between the bounds; otherwise the middle, or a step from one bound."""
    if low == 0.0:
        return min(max(guess, high / 100), high / 2)
    if high == math.inf:
        return max(min(guess, low * 100), low * 2)
    return guess if low < guess < high else math.sqrt(low * high)
