"""The minimum of a convex loss over the rows of a matrix, with a certificate.

    F(theta) = Σ weight · loss(margin, label) + l2/2 · ‖theta‖²,    margins = matrix @ theta

is minimised over all space (then l2 > 0) or over the ball ‖theta‖ ≤ D. For the ball, L-BFGS
minimises F + μ/2 · (‖theta‖² - D²), and a secant finds the μ at which ‖theta‖ = D. Whatever μ ≥ 0
is, that minimum is no higher than the one in the ball; and at a theta where the gradient's length
is r it is missed by r² / 2(μ + l2) at most. So every step proves a bound from below, every theta in
the ball is one from above, and the search ends when they are within the tolerance.
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

Watch = Callable[[int, float], None]
"""Told after every iteration: how many there were, and how far F has been lowered lately."""

TOLERANCE = 1e-6
"""By how much the mean loss may be above the least possible one."""

_MEMORY, _MEMORY_NUMBERS = 100, 2_000_000  # how many steps L-BFGS remembers, and how much of them
_MOST_ITERATIONS = 20_000  # for one start
_MOST_STARTS = 5  # for one μ
_MOST_MULTIPLIERS = 60
_TINY = 1e-300  # in place of a zero that something is divided by


@dataclass(frozen=True, eq=False)
class Problem:
    """F over the rows of a matrix, and where its minimum is looked for."""

    loss: Loss
    matrix: Any
    labels: FloatArray
    weights: FloatArray
    l2: float = 0.0
    radius: float | None = None

    def head(self, rows: int) -> Problem:
        """The same for the first rows only."""
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
        """How a step from `start` changes F + μ/2 · ‖theta‖², and the gradient after it.

        A change that is computed as such keeps its digits next to the minimum, where those of F
        itself would all cancel and a line search would be lost.
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
        """The second derivative by each coordinate where theta = 0."""
        margin = self.loss.curvature(np.zeros(len(self.labels)), self.labels)
        squares: FloatArray = self.matrix.power(2).T @ (self.weights * margin)
        return squares + self.l2


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where F is least: `value` is above the true minimum by `gap` at most.

    There the gradient is -multiplier · theta; within the ball, or without one, the multiplier is
    (next to) nothing.
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
    watch: Watch | None = None,
) -> Minimum:
    """The minimum, to `tolerance` of the mean loss; from zero, or from one that is near."""
    import scipy.optimize  # noqa: F401  (brings the threads that are limited here)
    from threadpoolctl import threadpool_limits

    total = float(problem.weights.sum()) or 1.0
    # Threads would change the bits, and vectors this short only wait for them.
    with threadpool_limits(1, "blas"):
        search = _Search(problem, tolerance * total, watch, start)
        if problem.radius is None:
            search.descend(0.0)
        else:
            search.find_multiplier(start.multiplier if start is not None else 0.0)
    if search.best.gap > search.enough:
        raise PqrError(
            f"after {search.best.iterations:,} iterations the mean loss may still be "
            f"{search.best.gap / total:.1e} above its minimum: allow a tolerance above "
            f"{tolerance:g}, a larger l2 or a smaller radius"
        )
    return search.best


class _Search:
    """Descends for one multiplier after the other, each time from where it is."""

    def __init__(
        self, problem: Problem, enough: float, watch: Watch | None, start: Minimum | None
    ) -> None:
        self.problem, self.enough, self._watch = problem, enough, watch
        theta = np.zeros(problem.matrix.shape[1]) if start is None else start.theta
        self.best = Minimum(theta, math.inf, math.inf, 0.0, 0)
        self._theta, self._below = theta, -math.inf
        self._radius = math.inf if problem.radius is None else problem.radius
        self._curvature = problem.curvature()

    def find_multiplier(self, guess: float) -> None:
        """‖theta‖ falls as μ grows, on logarithmic scales almost in a straight line."""
        steepest = float(np.linalg.norm(self.problem.at(np.zeros_like(self._theta))[1]))
        multiplier = guess or max(0.1 * steepest / self._radius, _TINY)
        low, high = 0.0, math.inf
        points: list[tuple[float, float]] = []
        for _ in range(_MOST_MULTIPLIERS):
            length = self.descend(multiplier)
            if self.best.gap <= self.enough:
                return
            low, high = (multiplier, high) if length > self._radius else (low, multiplier)
            away = math.log(max(length, _TINY) / self._radius)
            points = [*points[-1:], (math.log(multiplier), away)]
            multiplier = _between(low, high, math.exp(_secant(points)))

    def descend(self, multiplier: float) -> float:
        """Minimises F + μ/2 · (‖theta‖² - D²) and takes note of what was found; returns ‖theta‖.

        Where rounding stops L-BFGS it starts anew: steps from there are exact again.
        """
        iterations = self.best.iterations
        for _ in range(_MOST_STARTS):
            done, taken = self._lbfgs(multiplier, iterations)
            iterations += taken
            if done:
                break
        self._note(multiplier, iterations)
        return float(np.linalg.norm(self._theta))

    def _lbfgs(self, multiplier: float, before: int) -> tuple[bool, int]:
        """One run; whether it came near enough, and its iterations.

        The coordinates are stretched so that their curvatures are alike: a bias that is in every
        row and a pair that is in one then take equally many steps.
        """
        from scipy.optimize import minimize

        stretch = 1 / np.sqrt(np.maximum(self._curvature + multiplier, _TINY))
        strength = multiplier + self.problem.l2
        after = self.problem.around(self._theta, multiplier)
        near, taken = False, 0

        def stretched(step: FloatArray) -> tuple[float, FloatArray]:
            nonlocal near
            change, gradient = after(step * stretch)
            near = self._near(self._theta + step * stretch, gradient, strength)
            return change, gradient * stretch

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
            stretched,
            np.zeros_like(self._theta),
            jac=True,
            method="L-BFGS-B",
            callback=count,
            options=most | exact,
        )
        self._theta = self._theta + done.x * stretch
        return near, taken

    def _near(self, theta: FloatArray, gradient: FloatArray, strength: float) -> bool:
        """A quarter of the gap allowed; or so near to this μ's minimum that another is due.

        That minimum is no farther than ‖gradient‖ / strength.
        """
        length = float(np.linalg.norm(gradient))
        away = abs(float(np.linalg.norm(theta)) - self._radius) if self._radius < math.inf else 0.0
        return length <= max(math.sqrt(strength * self.enough / 2), 0.1 * strength * away)

    def _note(self, multiplier: float, iterations: int) -> None:
        """What the present theta proves, from below, and what it reaches, from above."""
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
    """Where the line through two points reaches zero; through one, a usual slope is taken."""
    (x, y), (at_x, at_y) = points[0], points[-1]
    slope = (y - at_y) / (x - at_x) if x != at_x else -0.5
    return at_x - at_y / min(slope, -0.01)


def _between(low: float, high: float, guess: float) -> float:
    """The guess, if it is strictly between; else the middle, or a good step from the one known."""
    if low == 0.0:
        return min(max(guess, high / 100), high / 2)
    if high == math.inf:
        return max(min(guess, low * 100), low * 2)
    return guess if low < guess < high else math.sqrt(low * high)
