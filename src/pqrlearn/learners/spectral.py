"""A symmetric matrix in a nuclear-norm ball, learned by conditional gradient steps.

The matrix C scores a row by x'Cx / 2. After rows with gradients g_1, g_2, … it moves towards

    min  F(C) = <G, C> + <C, M∘C> / 2   over   ‖C‖_nuclear ≤ radius,      G = g_1 + g_2 + …,

where M_ij = m_i m_j / eta grows with the gradients of i and j, so that each entry has its own
learning rate. A step moves C towards the ∓radius·vv' with the smallest inner product with the
gradient G + M∘C of F, where v is the leading eigenvector of that gradient, as far as lowers F most.
C is stored as Σ σ_k u_k u_k', G as one sum per pair of features that occur in a row, M as m. No
d × d matrix is ever formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pqrlearn import modelfile
from pqrlearn.hyper import NuclearBall
from pqrlearn.learners.eigen import decompose, dot, leading, orthonormal
from pqrlearn.rows import FloatArray

IntArray = npt.NDArray[np.int64]
Operator = Callable[[FloatArray], FloatArray]

MAX_TERMS = 64
"""At this many rank-one terms, the best `KEPT_TERMS` are kept."""
KEPT_TERMS = 32

_PAIRS_AT_ONCE = 1 << 20
_NO_STEP = 1e-12
_ROUNDED = 1 + 1e-6
"""What a bound may have become by rounding: vectors are of length 1, their weights in the ball."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Rows by position, the order in which features were first learned; -1 for no position."""

    indptr: IntArray
    positions: IntArray
    values: FloatArray

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def sums(self, of: FloatArray) -> FloatArray:
        """Sums over the entries of each row; the same however rows are cut."""
        starts = self.indptr[:-1]
        full = self.indptr[1:] > starts
        out = np.zeros((len(self), *of.shape[1:]))
        if full.any():
            out[full] = np.add.reduceat(of, starts[full], axis=0)
        return out

    def rows(self, chosen: npt.NDArray[np.bool_]) -> Entries:
        lengths = np.diff(self.indptr)
        kept = np.repeat(chosen, lengths)
        indptr = np.concatenate([[0], np.cumsum(lengths[chosen])])
        return Entries(indptr, self.positions[kept], self.values[kept])

    @staticmethod
    def joined(parts: list[Entries]) -> Entries:
        lengths = [np.diff(part.indptr) for part in parts]
        return Entries(
            np.concatenate([[0], np.cumsum(np.concatenate([*lengths, np.zeros(0, np.int64)]))]),
            np.concatenate([np.zeros(0, np.int64), *(part.positions for part in parts)]),
            np.concatenate([np.zeros(0), *(part.values for part in parts)]),
        )


class Spectrum:
    """The matrix, its accumulated gradient, and the step.

    With `squares`, x_i² has a weight too, and position 0 is the constant coordinate of CCFM.
    """

    def __init__(self, ball: NuclearBall, *, squares: bool) -> None:
        self.ball = ball
        self.squares = squares
        self.steps = 0
        self.rows = 0  # added to G
        self.weights = np.zeros(0)  # σ
        self._factors = np.zeros((0, MAX_TERMS))  # u: a row per position, with spare capacity
        self._size = 0
        self.keys = np.zeros(0, np.int64)  # pairs of positions i <= j, as i · 2³² + j, sorted
        self._sums = np.zeros(0)  # G_ij at the same positions
        self._scales = np.zeros(0)  # m², by position
        self.inner = 0.0  # <G, C>, including rows not yet added to G
        self.energy = 0.0  # Σ slope², including rows not yet added to G

    @property
    def block_rows(self) -> int:
        """Rows until the next step: a quarter of those so far, up to the ball's `block_rows`."""
        return min(self.ball.block_rows, max(1, self.rows // 4))

    @property
    def factors(self) -> FloatArray:
        return self._factors[: self._size, : len(self.weights)]

    # -- scoring -----------------------------------------------------------------

    def margins(self, rows: Entries) -> FloatArray:
        """x'Cx / 2 of each row, without the squares unless `squares`."""
        if not len(self.weights):
            return np.zeros(len(rows))
        known = (rows.positions >= 0) & (rows.positions < self._size)
        products = self.factors[np.where(known, rows.positions, 0)]
        products *= np.where(known, rows.values, 0.0)[:, None]
        total: FloatArray = np.add.reduce(rows.sums(products) ** 2 * self.weights, axis=1)
        if not self.squares:
            total -= rows.sums(np.add.reduce(products**2 * self.weights, axis=1))
        return total / 2

    def entries(self, low: IntArray, high: IntArray) -> FloatArray:
        """C_ij for pairs of positions; 0 for those not in a step yet."""
        found = np.zeros(len(low))
        for begin in range(0, len(low), 1 << 16):
            part = slice(begin, begin + (1 << 16))
            i, j = low[part], high[part]
            known = np.maximum(i, j) < self._size
            terms = self.factors[i[known]] * self.factors[j[known]] * self.weights
            found[part][known] = np.add.reduce(terms, axis=1)
        return found

    def pairs(self) -> tuple[IntArray, IntArray]:
        """The positions i <= j of all pairs in G."""
        return self.keys >> 32, self.keys & 0xFFFFFFFF

    # -- learning ----------------------------------------------------------------

    def add(self, rows: Entries, slopes: FloatArray) -> None:
        """Adds slope · xx' / 2 of each row to G, and updates m²."""
        self.rows += len(rows)
        self._update_scales(rows, slopes)
        for keys, amounts in self._pair_gradients(rows, slopes):
            fresh, at = np.unique(keys, return_inverse=True)
            sums = np.bincount(at, weights=amounts, minlength=len(fresh))
            place = np.searchsorted(self.keys, fresh)
            known = np.zeros(len(fresh), bool)
            inside = place < len(self.keys)
            known[inside] = self.keys[place[inside]] == fresh[inside]
            self._sums[place[known]] += sums[known]
            if not known.all():
                new = ~known
                self.keys = np.insert(self.keys, place[new], fresh[new])
                self._sums = np.insert(self._sums, place[new], sums[new])

    def _pair_gradients(
        self, rows: Entries, slopes: FloatArray
    ) -> Iterator[tuple[IntArray, FloatArray]]:
        lengths = np.diff(rows.indptr)
        for length in np.unique(lengths).tolist():
            left, right = np.triu_indices(length, 0 if self.squares else 1)
            alike = np.flatnonzero(lengths == length)
            many = max(1, _PAIRS_AT_ONCE // max(1, len(left)))
            for begin in range(0, len(alike) if len(left) else 0, many):
                chosen = alike[begin : begin + many]
                at = rows.indptr[chosen][:, None] + np.arange(length)
                positions, values = rows.positions[at], rows.values[at]
                i, j = positions[:, left], positions[:, right]
                keys = (np.minimum(i, j) << 32) | np.maximum(i, j)
                amounts = values[:, left] * values[:, right] * slopes[chosen][:, None] / 2
                yield keys.ravel(), amounts.ravel()

    def _update_scales(self, rows: Entries, slopes: FloatArray) -> None:
        """m_i² grows by slope² x_i² ‖x‖² / 2√(Σ slope²), without ‖x‖² for the constant coordinate.

        So the rate of a linear weight falls with 1/√(Σ slope² x_i²), as in AdaGrad, and so does
        that of a pair if its features are independent. ‖x‖ is there because the steps of a row add
        up: s features have s linear weights and s² pairs.
        """
        squares, lengths = rows.values**2, np.diff(rows.indptr)
        norms = np.repeat(rows.sums(squares), lengths)
        if self.squares:
            norms[rows.positions == 0] = 1.0
        amounts = squares * norms * np.repeat(slopes**2, lengths)
        growth = np.bincount(rows.positions, amounts) / (2 * math.sqrt(1 + self.energy))
        fresh = np.ones(max(0, len(growth) - len(self._scales)))
        self._scales = np.concatenate([self._scales, fresh])
        self._scales[: len(growth)] += growth

    def step(self, size: int) -> None:
        """One conditional gradient step over `size` positions."""
        self.steps += 1
        self._grow(size)
        if not len(self.keys):
            return
        radius, gradient = self.ball.radius, self._gradient()
        m = np.sqrt(self._scales / self.ball.eta)
        value, vector = leading(lambda v: gradient(v) + self._scaled_product(m, v), size)
        weight = -radius if value > 0 else radius
        cross = dot(vector, self._scaled_product(m, vector))  # <vv', M∘C>
        form = self._quadratic_form(m)
        gap = radius * abs(value) + self.inner + form
        target = radius * dot(vector, m * vector)
        curvature = target * target - 2 * weight * cross + form
        share = min(1.0, gap / curvature) if curvature > 0 else 0.0
        if share < _NO_STEP:
            return
        rest = 1 - share
        self.inner = rest * self.inner + share * weight * (value - cross)
        self._append(rest, share * weight, vector)
        if len(self.weights) == MAX_TERMS:
            self._merge(gradient)

    def _scaled_product(self, m: FloatArray, v: FloatArray) -> FloatArray:
        """(M∘C)v."""
        return m * self._times(m * v)

    def _quadratic_form(self, m: FloatArray) -> float:
        """<C, M∘C>."""
        scaled = self.factors * np.sqrt(m)[:, None]
        products = np.einsum("ik,il->kl", scaled, scaled)
        return float(np.einsum("kl,k,l->", products**2, self.weights, self.weights))

    def _grow(self, size: int) -> None:
        if size > len(self._factors):
            more = np.zeros((max(size, 2 * len(self._factors)), MAX_TERMS))
            more[: self._size] = self._factors[: self._size]
            self._factors = more
        self._size = size

    def _gradient(self) -> Operator:
        """v ↦ Gv, from the upper triangle with its diagonal halved."""
        from scipy.sparse import csr_array

        low, high = self.pairs()
        halves = np.where(low == high, self._sums / 2, self._sums)
        indptr = np.searchsorted(low, np.arange(self._size + 1))
        upper = csr_array((halves, high, indptr), shape=(self._size, self._size))
        lower = upper.T
        return lambda v: upper @ v + lower @ v

    def _times(self, v: FloatArray) -> FloatArray:
        """Cv."""
        inside = np.einsum("ik,i->k", self.factors, v) * self.weights
        image: FloatArray = np.einsum("ik,k->i", self.factors, inside)
        return image

    def _append(self, rest: float, weight: float, vector: FloatArray) -> None:
        old = self.weights * rest if rest > 0 else np.zeros(0)
        self._factors[: self._size, len(old)] = vector
        self.weights = np.append(old, weight)

    def _merge(self, gradient: Operator) -> None:
        """Replaces the terms by the leading eigenvectors of the matrix.

        The eigenvectors are combinations of the terms, so only a small matrix is decomposed.
        """
        basis, mix = orthonormal(self.factors)
        values, vectors = decompose(np.einsum("ak,k,bk->ab", mix, self.weights, mix))
        kept = np.sort(np.argsort(-np.abs(values), kind="stable")[:KEPT_TERMS])
        factors = np.einsum("ia,ab->ib", basis, vectors[:, kept])
        self.weights = values[kept]
        self._factors[: self._size, : len(kept)] = factors
        slopes = [dot(u, gradient(u)) for u in np.ascontiguousarray(factors.T)]
        self.inner = dot(self.weights, np.array(slopes))

    # -- saving ------------------------------------------------------------------

    def tensors(self) -> modelfile.Tensors:
        """Copies: some of these arrays change in place."""
        low, high = self.pairs()
        return {
            "terms.weights": self.weights,
            "terms.factors": self.factors.copy(),
            "gradient.keys": np.stack([low, high], axis=1).astype(np.uint32),
            "gradient.sums": self._sums.copy(),
            "gradient.scales": self._scales.copy(),
            "gradient.scalars": np.array([self.inner, self.energy]),
        }

    def restore(self, tensors: modelfile.Tensors, size: int) -> None:
        """The inverse; ValueError if the parts are invalid for `size` positions."""
        weights = modelfile.tensor(tensors, "terms.weights", np.float64, 1)
        factors = modelfile.tensor(tensors, "terms.factors", np.float64, 2)
        keys = modelfile.tensor(tensors, "gradient.keys", np.uint32, 2)
        sums = modelfile.tensor(tensors, "gradient.sums", np.float64, 1)
        scales = modelfile.tensor(tensors, "gradient.scales", np.float64, 1)
        scalars = modelfile.tensor(tensors, "gradient.scalars", np.float64, 1)
        if factors.shape[1] != len(weights) or len(factors) > size or len(weights) >= MAX_TERMS:
            raise ValueError("the terms are inconsistent")
        if keys.shape != (len(sums), 2) or (len(keys) and keys.max() >= len(factors)):
            raise ValueError("the gradient has unknown features")
        if not all(np.isfinite(part).all() for part in (weights, factors, sums, scales, scalars)):
            raise ValueError("a number is not finite")
        in_ball = np.abs(weights).max(initial=0) <= self.ball.radius * _ROUNDED
        if not in_ball or np.abs(factors).max(initial=0) > _ROUNDED:
            raise ValueError("the terms are not in the ball")
        if len(scales) != len(factors) or (scales < 1).any():
            raise ValueError("invalid optimizer state: scales")
        if len(scalars) != 2 or scalars[1] < 0:
            raise ValueError("invalid optimizer state: scalars")
        self.keys = (keys[:, 0].astype(np.int64) << 32) | keys[:, 1]
        if (keys[:, 0] > keys[:, 1]).any() or (np.diff(self.keys) <= 0).any():
            raise ValueError("the keys of the gradient are out of order")
        self._sums = sums.copy()
        self._scales = scales.copy()
        self.inner, self.energy = scalars.tolist()
        self._grow(len(factors))
        self._factors[: len(factors), : len(weights)] = factors
        self.weights = weights.copy()
