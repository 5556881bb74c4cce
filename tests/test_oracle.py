"""The oracle against itself: its three forms, the paper's propositions, its three optimizers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from oracle import Key

Array = npt.NDArray[np.float64]
quick = settings(max_examples=60)
seeds = st.integers(0, 2**32 - 1)
losses = st.sampled_from(["squared", "logistic", "poisson"])


@st.composite
def separations(draw: st.DrawFn) -> tuple[int, list[int]]:
    """A dimension, and high features anywhere in it."""
    dimension = draw(st.integers(1, 8))
    return dimension, draw(st.lists(st.integers(0, dimension - 1), unique=True))


def random_weights(rng: np.random.Generator, dimension: int, high: list[int]) -> dict[Key, float]:
    keys: list[Key] = [("bias",)]
    keys += [("linear", i) for i in range(dimension)]
    keys += [("pair", i, j) for i, j in combinations(sorted(high), 2)]
    keys += [("shared", i) for i in high]
    return {key: float(rng.normal()) for key in keys}


def random_row(rng: np.random.Generator, dimension: int) -> Array:
    return rng.normal(size=dimension) * rng.integers(0, 2, size=dimension)


def augmented(weights: dict[Key, float], matrix: Array) -> Array:
    linear = np.array([weights["linear", i] for i in range(len(matrix))])
    return oracle.augmented_matrix(matrix, linear, weights["bias",])


@quick
@given(separations(), seeds)
def test_the_three_forms_of_pqr_agree(separation: tuple[int, list[int]], seed: int) -> None:
    dimension, high = separation
    rng = np.random.default_rng(seed)
    weights, x = random_weights(rng, dimension, high), random_row(rng, dimension)

    matrix = oracle.interaction_matrix(weights, high, dimension)
    projected = oracle.projected_matrix(weights, high)
    project = oracle.projection(high, dimension)
    np.testing.assert_array_equal(project.T @ projected @ project, matrix)

    by_matrix = oracle.quadratic_form(augmented(weights, matrix), x)
    by_expansion = oracle.margin(weights, oracle.expand_pqr(oracle.canonical(enumerate(x)), high))
    assert by_expansion == pytest.approx(by_matrix, rel=1e-9, abs=1e-9)


@quick
@given(st.integers(1, 8), seeds)
def test_quadratic_regression_is_its_matrix_with_squares(dimension: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    every = list(range(dimension))
    weights, x = random_weights(rng, dimension, every), random_row(rng, dimension)
    weights |= {("square", i): float(rng.normal()) for i in every}
    matrix = oracle.interaction_matrix(weights, every, dimension)
    by_sum = weights["bias",] + sum(
        weights["linear", i] * x[i] + weights["square", i] * x[i] ** 2 for i in every
    )
    by_sum += sum(weights["pair", i, j] * x[i] * x[j] for i, j in combinations(every, 2))
    by_expansion = oracle.margin(weights, oracle.expand_qr(oracle.canonical(enumerate(x))))
    assert oracle.quadratic_form(augmented(weights, matrix), x) == pytest.approx(by_sum)
    assert by_expansion == pytest.approx(by_sum)


@quick
@given(separations(), seeds, losses, st.floats(0, 1))
def test_proposition_1_the_loss_is_convex_in_the_matrix(
    separation: tuple[int, list[int]], seed: int, loss: str, mix: float
) -> None:
    dimension, high = separation
    rng = np.random.default_rng(seed)
    x, label = random_row(rng, dimension), float(rng.integers(0, 2))
    one, other = (
        augmented(weights, oracle.interaction_matrix(weights, high, dimension))
        for weights in (random_weights(rng, dimension, high) for _ in range(2))
    )

    def f(matrix: Array) -> float:
        return oracle.loss_of(loss, oracle.quadratic_form(matrix, x), label)

    chord = mix * f(one) + (1 - mix) * f(other)
    assert f(mix * one + (1 - mix) * other) <= chord + 1e-9 * (1 + chord)


@quick
@given(separations(), seeds, st.floats(0, 1))
def test_proposition_2_a_mixture_of_pqr_matrices_is_one(
    separation: tuple[int, list[int]], seed: int, mix: float
) -> None:
    dimension, high = separation
    rng = np.random.default_rng(seed)
    one, other = (
        oracle.interaction_matrix(random_weights(rng, dimension, high), high, dimension)
        for _ in range(2)
    )
    assert oracle.is_pqr_matrix(one, high)
    assert oracle.is_pqr_matrix(mix * one + (1 - mix) * other, high)


def test_a_matrix_outside_the_definition_is_not_a_pqr_matrix() -> None:
    good = oracle.interaction_matrix(random_weights(np.random.default_rng(0), 4, [1, 3]), [1, 3], 4)
    for i, j in [(0, 0), (1, 1), (0, 2), (0, 1)]:
        bad = good.copy()
        bad[i, j] = bad[j, i] = 7.0
        assert not oracle.is_pqr_matrix(bad, [1, 3])


def test_an_order_of_k_has_k_times_k_plus_1_over_2_interaction_weights() -> None:
    high, row = [1, 3, 4], dict.fromkeys(range(6), 1.0)
    keys = oracle.expand_pqr(row, high).keys()
    assert sum(key[0] in ("pair", "shared") for key in keys) == 3 * 4 // 2


def test_low_features_that_cancel_share_nothing() -> None:
    assert ("shared", 0) not in oracle.expand_pqr({0: 1.0, 1: 2.0, 2: -2.0}, [0])


@quick
@given(st.floats(0.1, 2), st.integers(1, 5), st.integers(0, 3))
def test_a_scale_fixes_the_length_of_the_interactions(scale: float, high: int, low: int) -> None:
    row = dict.fromkeys(range(high + low), 1.0)
    values = oracle.expand_pqr(row, range(high), scale)
    length = sum(v**2 for key, v in values.items() if key[0] == "pair") + sum(
        (v / low) ** 2 for key, v in values.items() if key[0] == "shared"
    )
    assert length == pytest.approx(scale**2 if high > 1 or low else 0.0)


@quick
@given(st.floats(-3, 3, allow_subnormal=False), st.floats(0, 9), st.floats(0, 2), st.floats(0, 1))
def test_a_weight_is_zero_exactly_when_its_sum_is_inside_l1(
    z: float, n: float, l1: float, l2: float
) -> None:
    weight = oracle.ftrl_weight(z, n, alpha=0.5, beta=1.0, l1=l1, l2=l2)
    assert (weight == 0) == (abs(z) <= l1)
    assert np.sign(weight) in (0, -np.sign(z))


@pytest.mark.parametrize("z", [-0.7, 0.7])
def test_both_branches_of_the_weight_agree_at_equality(z: float) -> None:
    at = oracle.ftrl_weight(z, 4.0, alpha=0.5, beta=1.0, l1=0.7, l2=0.1)
    outside = oracle.ftrl_weight(z * (1 + 1e-12), 4.0, alpha=0.5, beta=1.0, l1=0.7, l2=0.1)
    assert at == 0
    assert abs(outside) < 1e-11


def test_the_weight_minimises_the_regularised_sum_it_stands_for() -> None:
    """w = argmin of zw + l1|w| + ((beta + sqrt(n)) / alpha + l2) w^2 / 2."""
    z, n, alpha, beta, l1, l2 = -1.3, 2.0, 0.4, 1.0, 0.2, 0.3
    grid = np.linspace(-2, 2, 400_001)
    curve = z * grid + l1 * np.abs(grid)
    curve += ((beta + np.sqrt(n)) / alpha + l2) * grid**2 / 2
    weight = oracle.ftrl_weight(z, n, alpha=alpha, beta=beta, l1=l1, l2=l2)
    assert weight == pytest.approx(grid[curve.argmin()], abs=1e-5)


def random_gradients(rng: np.random.Generator, rows: int) -> list[dict[Key, float]]:
    """Sparse ones: most coordinates of most rows are zero."""
    return [
        {("linear", int(i)): float(rng.normal()) for i in rng.integers(0, 6, 3)}
        for _ in range(rows)
    ]


def inside_ball(rng: np.random.Generator, keys: list[Key], radius: float) -> dict[Key, float]:
    point = {key: float(rng.normal()) for key in keys}
    return oracle.project({key: 3 * w for key, w in point.items()}, radius * float(rng.random()))


@quick
@given(seeds, st.floats(0.1, 3))
def test_a_projection_is_the_nearest_point_of_the_ball(seed: int, radius: float) -> None:
    rng = np.random.default_rng(seed)
    theta: dict[Key, float] = {("linear", i): float(rng.normal()) for i in range(4)}
    nearest = oracle.project(theta, radius)

    def distance(point: dict[Key, float]) -> float:
        return oracle.norm({key: point[key] - theta[key] for key in theta})

    assert oracle.norm(nearest) <= radius * (1 + 1e-12)
    assert (nearest == theta) == (oracle.norm(theta) <= radius)
    for _ in range(20):
        assert distance(nearest) <= distance(inside_ball(rng, list(theta), radius)) + 1e-12


@quick
@given(seeds, st.sampled_from([0.2, 1.0, None]))
def test_algorithm_1_minimises_the_regularised_sum_of_gradients(
    seed: int, radius: float | None
) -> None:
    """theta = argmin over the ball of eta (g_1 + ... + g_t).theta + |theta|^2 / 2."""
    rng = np.random.default_rng(seed)
    gradients = random_gradients(rng, 12)
    optimizer = oracle.FtrlGeneral(eta=0.3, radius=radius)
    for gradient in gradients:
        optimizer.step(gradient)

    def objective(theta: dict[Key, float]) -> float:
        linear = sum(
            g * theta.get(key, 0.0) for gradient in gradients for key, g in gradient.items()
        )
        return 0.3 * linear + oracle.norm(theta) ** 2 / 2

    least = objective(optimizer.weights())
    for _ in range(20):
        other = inside_ball(rng, list(optimizer.weights()), radius or 10.0)
        assert least <= objective(other) + 1e-12


@quick
@given(seeds)
def test_without_a_ball_algorithm_1_is_gradient_descent_with_a_fixed_step(seed: int) -> None:
    descent, leader = oracle.Ogd(eta=0.3, schedule="fixed"), oracle.FtrlGeneral(eta=0.3)
    for gradient in random_gradients(np.random.default_rng(seed), 12):
        descent.step(gradient)
        leader.step(gradient)
    assert descent.weights() == pytest.approx(leader.weights())


def test_gradient_descent_by_hand() -> None:
    """Steps of 1, 1/sqrt(2) and 1/sqrt(3) times the gradient; the ball cuts the first two."""
    optimizer = oracle.Ogd(eta=1.0, schedule="sqrt", radius=1.0)
    optimizer.step({("bias",): -2.0})
    assert optimizer.weights() == {("bias",): 1.0}
    optimizer.step({("linear", 3): -np.sqrt(2.0)})
    half = np.sqrt(0.5)
    assert optimizer.weights() == pytest.approx({("bias",): half, ("linear", 3): half})
    optimizer.step({("bias",): half * np.sqrt(3.0)})
    assert optimizer.weights() == pytest.approx({("bias",): 0.0, ("linear", 3): half})


def test_algorithm_1_remembers_what_the_ball_has_cut_off() -> None:
    """Unlike gradient descent, which forgets it: the sum of gradients is still 10 - 3."""
    leader, descent = oracle.FtrlGeneral(eta=1.0, radius=1.0), oracle.Ogd(eta=1.0, radius=1.0)
    for gradient in (-10.0, 3.0):
        leader.step({("bias",): gradient})
        descent.step({("bias",): gradient})
    assert leader.weight(("bias",)) == 1.0
    assert descent.weight(("bias",)) == -1.0


def test_the_logistic_loss_is_stable_far_out() -> None:
    assert oracle.sigmoid(1000.0) == 1.0
    assert oracle.sigmoid(-1000.0) == 0.0
    assert oracle.sigmoid(0.0) == 0.5
    assert oracle.loss_of("logistic", -1000.0, 1.0) == 1000.0
    assert oracle.loss_of("logistic", 1000.0, 1.0) == 0.0


@quick
@given(losses, st.floats(-20, 20), st.integers(0, 1))
def test_the_slope_of_the_loss_is_prediction_minus_label(
    loss: str, margin: float, label: int
) -> None:
    step = 1e-5
    up, down = (oracle.loss_of(loss, margin + s, label) for s in (step, -step))
    slope = oracle.link(loss, margin) - label
    assert slope == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-7)


@quick
@given(separations(), seeds, losses)
def test_the_gradient_is_the_slope_times_the_expansion(
    separation: tuple[int, list[int]], seed: int, loss: str
) -> None:
    dimension, high = separation
    rng = np.random.default_rng(seed)
    weights, label = random_weights(rng, dimension, high), float(rng.integers(0, 2))
    values = oracle.expand_pqr(oracle.canonical(enumerate(random_row(rng, dimension))), high, 0.3)
    slope = oracle.link(loss, oracle.margin(weights, values)) - label
    step = 1e-5
    for key in weights:
        up, down = (
            oracle.loss_of(loss, oracle.margin(weights | {key: weights[key] + s}, values), label)
            for s in (step, -step)
        )
        gradient = slope * values.get(key, 0.0)
        assert gradient == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-6)


def test_the_first_row_moves_every_coordinate_by_hand() -> None:
    """From zero with squared loss: g = -y x, w = alpha y x / (beta + |y x|)."""
    model = oracle.PQR(high=[0, 1], optimizer=oracle.Ftrl(alpha=0.5, beta=1.0))
    assert model.learn({0: 1.0, 1: 2.0, 5: 3.0}, 1.0) == 0.0
    values = {
        ("bias",): 1.0,
        ("linear", 0): 1.0,
        ("linear", 1): 2.0,
        ("linear", 5): 3.0,
        ("pair", 0, 1): 2.0,
        ("shared", 0): 3.0,
        ("shared", 1): 6.0,
    }
    assert model.weights() == pytest.approx({k: 0.5 * v / (1 + v) for k, v in values.items()})


def test_l1_keeps_small_weights_at_zero_but_never_the_bias() -> None:
    model = oracle.PQR(high=[0], optimizer=oracle.Ftrl(l1=1e6))
    for _ in range(5):
        model.learn({0: 1.0, 3: 1.0}, 1.0)
    assert {key for key, weight in model.weights().items() if weight != 0} == {("bias",)}


def test_top_k_breaks_ties_to_the_smaller_index_and_a_threshold_is_reached_at_equality() -> None:
    rows = [oracle.canonical([(i, 1.0) for i in row]) for row in ([9, 4], [9, 2], [4, 7], [7])]
    assert oracle.top_k(rows, 3) == [4, 7, 9]
    assert oracle.top_k(rows, 99) == [4, 7, 9, 2]
    assert oracle.threshold(rows, 2) == [4, 7, 9]
    assert oracle.threshold(rows, 3) == []


def test_a_canonical_row_sums_repeats_and_drops_zeros() -> None:
    pairs = [(3, 1.0), (1, 2.0), (3, 1.5), (2, 0.0), (5, 1.0), (5, -1.0)]
    assert oracle.canonical(pairs) == {1: 2.0, 3: 2.5}
