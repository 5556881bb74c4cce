"""The spectral machine against dense linear algebra: eigenvectors, gradients, steps, merging."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from pqrlearn import Batch, NuclearBall
from pqrlearn.learners.eigen import decompose, leading, orthonormal
from pqrlearn.learners.spectral import KEPT_TERMS, MAX_TERMS, Entries, Spectrum

Matrix = npt.NDArray[np.float64]
RNG = np.random.default_rng


def symmetric(size: int, seed: int) -> Matrix:
    half = RNG(seed).normal(size=(size, size))
    return half + half.T


def entries(seed: int, rows: int = 50, size: int = 8) -> tuple[Entries, Matrix]:
    """Rows as the machine takes them, and as a dense matrix."""
    rng = RNG(seed)
    dense = rng.normal(size=(rows, size)) * (rng.random((rows, size)) < 0.5)
    lengths = np.count_nonzero(dense, axis=1)
    return Entries(np.append(0, np.cumsum(lengths)), np.nonzero(dense)[1], dense[dense != 0]), dense


def matrix_of(spectrum: Spectrum) -> Matrix:
    return (spectrum.factors * spectrum.weights) @ spectrum.factors.T


def gradient_of(spectrum: Spectrum, size: int) -> Matrix:
    low, high = spectrum.pairs()
    full = np.zeros((size, size))
    full[low, high] = full[high, low] = spectrum.tensors()["gradient.sums"]
    return full


def stepped(spectrum: Spectrum, seed: int, blocks: int = 20, size: int = 8) -> None:
    """Blocks of random rows with random slopes, and a step after each."""
    for block in range(blocks):
        rows, _ = entries(seed + block, rows=5, size=size)
        slopes = RNG(seed + block).normal(size=5)
        spectrum.energy += float(slopes @ slopes)
        spectrum.inner += float(slopes @ spectrum.margins(rows))
        spectrum.add(rows, slopes)
        spectrum.step(size)


# Eigenvectors.


@pytest.mark.parametrize("size", [1, 2, 3, 10, 40, 300])
@pytest.mark.parametrize("seed", range(3))
def test_the_leading_eigenvector_is_that_of_a_dense_solver(size: int, seed: int) -> None:
    dense = symmetric(size, seed)
    dense[0, 0] += 40 * (-1) ** seed  # a gap, so that the vector is well determined
    values, vectors = np.linalg.eigh(dense)
    at = np.abs(values).argmax()
    value, vector = leading(lambda v: dense @ v, size)
    assert value == pytest.approx(values[at], rel=1e-9)
    assert abs(vector @ vectors[:, at]) == pytest.approx(1, rel=1e-9)


def test_entries_that_hardly_differ_from_zero_turn_nothing_and_do_not_overflow() -> None:
    matrix = np.diag([1.0, 2.0, 3.0])
    matrix[0, 1] = matrix[1, 0] = 1e-200
    matrix[1, 2] = matrix[2, 1] = 0.5
    values, vectors = decompose(matrix)
    np.testing.assert_allclose(np.sort(values), np.linalg.eigvalsh(matrix), rtol=1e-12)
    np.testing.assert_allclose(vectors @ np.diag(values) @ vectors.T, matrix, atol=1e-12)


def test_an_eigenvector_orthogonal_to_ones_is_found() -> None:
    x = np.array([1.0, -1.0, 0.0, 2.0, -2.0])
    value, vector = leading(lambda v: x * (x @ v), 5)
    assert value == pytest.approx(x @ x)
    assert abs(vector @ x) == pytest.approx(np.sqrt(x @ x))


def test_of_two_opposite_eigenvalues_the_negative_one_is_taken() -> None:
    dense = np.array([[0.0, 1.0], [1.0, 0.0]])
    value, vector = leading(lambda v: dense @ v, 2)
    assert value == pytest.approx(-1)
    assert vector[0] == pytest.approx(-vector[1])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_a_small_matrix_is_decomposed_as_by_lapack(size: int) -> None:
    dense = symmetric(size, seed=size)
    values, vectors = decompose(dense)
    np.testing.assert_allclose(np.sort(values), np.linalg.eigvalsh(dense), atol=1e-12 * size)
    np.testing.assert_allclose((vectors * values) @ vectors.T, dense, atol=1e-12 * size)


def test_columns_that_others_span_add_nothing_to_a_basis() -> None:
    columns = RNG(3).normal(size=(10, 4)) @ RNG(4).normal(size=(4, 9))
    columns /= np.linalg.norm(columns, axis=0)
    basis, mix = orthonormal(columns)
    assert basis.shape == (10, 4)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(basis @ mix, columns, atol=1e-12)


# Scores and gradients.


@pytest.mark.parametrize("squares", [True, False])
def test_margins_are_those_of_the_dense_matrix(squares: bool) -> None:
    spectrum = Spectrum(NuclearBall(), squares=squares)
    stepped(spectrum, seed=10)
    dense = matrix_of(spectrum)
    rows, x = entries(seed=99)
    if not squares:
        np.fill_diagonal(dense, 0.0)
    np.testing.assert_allclose(spectrum.margins(rows), ((x @ dense) * x).sum(axis=1) / 2)


@pytest.mark.parametrize("squares", [True, False])
def test_the_gradient_is_the_sum_over_rows(squares: bool) -> None:
    spectrum = Spectrum(NuclearBall(), squares=squares)
    rows, x = entries(seed=1)
    slopes = RNG(2).normal(size=len(rows))
    spectrum.add(rows, slopes)
    each = [slope * np.outer(row, row) / 2 for slope, row in zip(slopes, x, strict=True)]
    for gradient in each:
        if not squares:
            np.fill_diagonal(gradient, 0.0)
    np.testing.assert_allclose(gradient_of(spectrum, 8), sum(each), atol=1e-12)


@pytest.mark.parametrize("squares", [True, False])
def test_rates_fall_with_the_gradients_that_a_feature_has_seen(squares: bool) -> None:
    spectrum = Spectrum(NuclearBall(), squares=squares)
    rows, x = entries(seed=1)
    slopes = RNG(2).normal(size=len(rows))
    spectrum.energy = float(slopes @ slopes)
    spectrum.add(rows, slopes)
    crowds = np.repeat((x**2).sum(axis=1)[:, None], 8, axis=1)
    if squares:
        crowds[:, 0] = 1
    expected = 1 + slopes**2 @ (x**2 * crowds) / (2 * np.sqrt(1 + slopes @ slopes))
    np.testing.assert_allclose(spectrum.tensors()["gradient.scales"], expected)


# Steps.


@pytest.mark.parametrize("squares", [True, False])
def test_a_step_is_the_best_one_towards_an_extreme_point(squares: bool) -> None:
    """The step in dense algebra: eigenvector of the slope, then a line search on F."""
    ball = NuclearBall(radius=3.0, eta=0.2)
    spectrum = Spectrum(ball, squares=squares)
    stepped(spectrum, seed=30, blocks=4)
    before, gradient = matrix_of(spectrum), gradient_of(spectrum, 8)
    m = np.sqrt(spectrum.tensors()["gradient.scales"] / ball.eta)
    rates = np.outer(m, m)

    def objective(matrix: Matrix) -> float:
        return float((gradient * matrix).sum() + (rates * matrix**2).sum() / 2)

    values, vectors = np.linalg.eigh(gradient + rates * before)
    at = np.abs(values).argmax()
    towards = -np.sign(values[at]) * ball.radius * np.outer(vectors[:, at], vectors[:, at])
    shares = np.linspace(0, 1, 10_001)
    best = min(shares, key=lambda share: objective(before + share * (towards - before)))
    spectrum.step(8)
    expected = before + best * (towards - before)
    np.testing.assert_allclose(matrix_of(spectrum), expected, atol=1e-3)
    assert objective(matrix_of(spectrum)) <= objective(expected) + 1e-9


def test_the_running_sums_are_those_of_the_matrix() -> None:
    spectrum = Spectrum(NuclearBall(radius=3.0), squares=False)
    stepped(spectrum, seed=40, blocks=150)
    dense = matrix_of(spectrum)
    m = RNG(1).random(8)
    drag = (np.outer(m, m) * dense**2).sum()
    assert spectrum._quadratic_form(m) == pytest.approx(drag, rel=1e-9)
    assert spectrum.inner == pytest.approx((dense * gradient_of(spectrum, 8)).sum(), rel=1e-9)


@pytest.mark.parametrize("squares", [True, False])
def test_the_nuclear_norm_never_exceeds_the_radius(squares: bool) -> None:
    spectrum = Spectrum(NuclearBall(radius=2.0, eta=10.0), squares=squares)
    for block in range(100):
        stepped(spectrum, seed=block, blocks=1)
        norm = np.abs(np.linalg.eigvalsh(matrix_of(spectrum))).sum()
        assert norm <= 2.0 * (1 + 1e-9)
    assert norm > 1.5


def test_merging_terms_keeps_the_matrix_when_its_rank_allows() -> None:
    """Eight features: rank 8 at most, so that the terms beyond it are only a way of writing."""
    spectrum = Spectrum(NuclearBall(), squares=True)
    stepped(spectrum, seed=7, blocks=MAX_TERMS - 1)
    assert len(spectrum.weights) == MAX_TERMS - 1
    before = matrix_of(spectrum)
    spectrum._merge(lambda v: gradient_of(spectrum, 8) @ v)
    assert len(spectrum.weights) == 8
    np.testing.assert_allclose(matrix_of(spectrum), before, atol=1e-11)


def test_of_more_terms_than_fit_the_strongest_are_kept() -> None:
    spectrum = Spectrum(NuclearBall(), squares=True)
    stepped(spectrum, seed=7, blocks=MAX_TERMS - 1, size=200)
    before = matrix_of(spectrum)
    values = np.linalg.eigvalsh(before)
    spectrum._merge(lambda v: gradient_of(spectrum, 200) @ v)
    strongest = values[np.argsort(-np.abs(values))[:KEPT_TERMS]]
    np.testing.assert_allclose(np.sort(spectrum.weights), np.sort(strongest), atol=1e-10)


# Repeating.

SCRIPT = """
import sys
from pqrlearn import CFM, NuclearBall
from strategies import random_batch
model = CFM("squared", ball=NuclearBall(block_rows=2))
model.learn_many(random_batch(seed=1, rows=400, features=90))
sys.stdout.buffer.write(model.to_bytes())
"""


def test_the_number_of_threads_changes_no_bit() -> None:
    seen = set()
    for threads in ("1", "2", "4"):
        variables = ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"]
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=dict.fromkeys(variables, threads) | {"PYTHONPATH": str(Path(__file__).parent)},
            capture_output=True,
            check=True,
        )
        seen.add(hashlib.sha256(done.stdout).hexdigest())
    assert len(seen) == 1


def test_a_row_of_many_features_is_added_in_parts() -> None:
    """1,500 features make more pairs than are held at once."""
    batch = Batch.from_rows([(list(range(1500)), [1.0] * 1500)] * 2, labels=[1.0, 0.0])
    spectrum = Spectrum(NuclearBall(), squares=False)
    rows = Entries(batch.indptr, batch.indices.astype(np.int64), batch.values.astype(np.float64))
    spectrum.add(rows, np.array([1.0, 2.0]))
    assert len(spectrum.keys) == 1500 * 1499 // 2
    assert (spectrum.tensors()["gradient.sums"] == 1.5).all()
