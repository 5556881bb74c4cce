"""Eigenvectors: the leading one of a symmetric operator, and all of a small symmetric matrix.

No sum uses a threaded BLAS and the start vector is fixed, so that runs repeat bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pqrlearn.rows import FloatArray

MAX_STEPS = 48
"""Limit of the Lanczos iteration."""

_TOLERANCE = 1e-6  # of the residual, relative to the eigenvalue
_EXHAUSTED = 1e-13  # the Krylov space is invariant
_TIE = 1e-6
_DEPENDENT = 1e-12
_SWEEPS = 30


def leading(apply: Callable[[FloatArray], FloatArray], size: int) -> tuple[float, FloatArray]:
    """The eigenvalue of largest magnitude of a symmetric operator, and its unit eigenvector.

    Lanczos with full reorthogonalisation. Of two eigenvalues ±a it returns the negative one.
    """
    steps = min(size, MAX_STEPS)
    basis = np.empty((steps, size))
    diagonal, off_diagonal = np.zeros(steps), np.zeros(steps)
    vector = start(size)
    for step in range(steps):
        basis[step] = vector
        image = apply(vector)
        diagonal[step] = dot(vector, image)
        known = basis[: step + 1]
        for _ in range(2):  # twice, because of rounding
            image = image - np.einsum("ij,i->j", known, np.einsum("ij,j->i", known, image))
        off_diagonal[step] = np.sqrt(dot(image, image))
        scale = np.abs(diagonal[: step + 1]).max() + off_diagonal[: step + 1].max()
        last = step + 1 == steps or off_diagonal[step] <= _EXHAUSTED * scale
        if last or step % 8 == 7:
            value, mix = _extreme(diagonal[: step + 1], off_diagonal[:step])
            if last or off_diagonal[step] * abs(mix[-1]) <= _TOLERANCE * abs(value):
                break
        vector = image / off_diagonal[step]
    found = np.einsum("ij,i->j", known, mix)
    return value, found / np.sqrt(dot(found, found))


def orthonormal(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Q with orthonormal columns and R with QR = `columns`, by Gram-Schmidt; R need not be square.

    A unit column that is, up to rounding, in the span of those before adds no column to Q.
    """
    basis = np.zeros_like(columns)
    mix = np.zeros((columns.shape[1],) * 2)
    rank = 0
    for at, column in enumerate(np.ascontiguousarray(columns.T)):
        rest, known = column, basis[:, :rank]
        for _ in range(2):
            part = np.einsum("ik,i->k", known, rest)
            mix[:rank, at] += part
            rest = rest - np.einsum("ik,k->i", known, part)
        length = np.sqrt(dot(rest, rest))
        if length > _DEPENDENT:
            basis[:, rank] = rest / length
            mix[rank, at] = length
            rank += 1
    return basis[:, :rank], mix[:rank]


def decompose(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Every eigenvalue of a small symmetric matrix, and the vectors as columns, by Jacobi.

    LAPACK would be faster, but its bits depend on the number of threads for larger matrices.
    """
    size = len(matrix)
    both = np.concatenate([matrix, np.eye(size)])  # the matrix above its eigenvectors
    players = np.arange(size + size % 2)  # a round-robin tournament: every pair of indices once
    for _ in range(_SWEEPS):
        rest = np.abs(both[:size] - np.diag(np.diag(both[:size])))
        if size < 2 or rest.max() <= 1e-15 * np.abs(both[:size]).max():
            break
        for _ in range(len(players) - 1):
            half = len(players) // 2
            p, q = players[:half], players[half:][::-1]
            real = np.maximum(p, q) < size
            _rotate(both, p[real], q[real])
            players[1:] = np.roll(players[1:], 1)
    return np.diag(both[:size]).copy(), both[size:]


def _rotate(both: FloatArray, p: npt.NDArray[np.intp], q: npt.NDArray[np.intp]) -> None:
    """Rotates the planes (p, q) so that the entries [p, q] become zero."""
    between = both[p, q]
    flat = between == 0
    angle = (both[q, q] - both[p, p]) / np.where(flat, 1.0, 2 * between)
    with np.errstate(over="ignore"):  # an infinite angle means no rotation
        t = np.copysign(1.0, angle) / (np.abs(angle) + np.sqrt(angle * angle + 1))
    t = np.where(flat, 0.0, t)
    c = 1 / np.sqrt(t * t + 1)
    s = t * c
    size = both.shape[1]
    old, other = both[:size][p], both[:size][q]
    both[p], both[q] = c[:, None] * old - s[:, None] * other, s[:, None] * old + c[:, None] * other
    left, right = both[:, p], both[:, q]
    both[:, p], both[:, q] = c * left - s * right, s * left + c * right


def start(size: int) -> FloatArray:
    """Nearly constant, so that equal features stay equal, but not orthogonal to any eigenvector."""
    vector = 1 + 1e-4 * np.modf(np.arange(1, size + 1) * 0.6180339887498949)[0]
    unit: FloatArray = vector / np.sqrt(dot(vector, vector))
    return unit


def dot(a: FloatArray, b: FloatArray) -> float:
    """a'b in an order that does not depend on threads."""
    return float(np.add.reduce(a * b))


def _extreme(diagonal: FloatArray, off_diagonal: FloatArray) -> tuple[float, FloatArray]:
    """The extreme eigenpair of a tridiagonal matrix, without BLAS: bisection, inverse iteration."""
    from scipy.linalg import eigh_tridiagonal

    if len(diagonal) == 1:
        return float(diagonal[0]), np.ones(1)
    (low, lowest), (high, highest) = (
        eigh_tridiagonal(diagonal, off_diagonal, select="i", select_range=(at, at))
        for at in (0, len(diagonal) - 1)
    )
    if -low[0] * (1 + _TIE) >= high[0]:
        return float(low[0]), lowest[:, 0]
    return float(high[0]), highest[:, 0]
