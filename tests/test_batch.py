"""The expanded rows against the oracle, the optimum against scikit-learn, passes against both."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import pqrlearn
from pqrlearn import FM, LR, PQR, QR, Batch, Ftrl, FtrlGeneral, Ogd, Separation
from pqrlearn.batch import Expanded, expanded, fit_optimal, minimise, passes, problem_of, solver
from pqrlearn.errors import DataError, HyperError, PqrError
from pqrlearn.loss import LOSSES
from strategies import (
    Labelled,
    as_batch,
    as_dicts,
    cut,
    labelled_rows,
    losses,
    random_batch,
    scales,
)

FAMILIES: list[Any] = [LR, PQR, QR]
ROWS = random_batch(seed=41, rows=200, features=8)
both_losses = pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
every_family = pytest.mark.parametrize("family", FAMILIES)


def new(family: Any, loss: str, rows: Batch = ROWS, scale: float | None = 1.0, **more: Any) -> Any:
    """A fresh LR, PQR of order 4, or QR."""
    if family is LR:
        return LR(loss, **more)
    high = [Separation.top_k(rows, 4)] * (family is PQR)
    return family(*high, loss=loss, interaction_scale=scale, **more)


def problem(loss: str, rows: int = 300) -> Batch:
    """Rows with a bias, linear effects, an interaction and noise; clicks overlap."""
    rng = np.random.default_rng(7)
    x = rng.integers(-8, 9, size=(rows, 5)) / 8 * (rng.random((rows, 5)) < 0.8)
    score = 0.5 + x @ np.array([1.0, -1.0, 0.5, 0.0, 0.25]) + 2 * x[:, 0] * x[:, 1]
    labels = score + rng.normal(0, 0.5, rows)
    if loss == "logistic":
        labels = (rng.random(rows) < 1 / (1 + np.exp(-score))).astype(float)
    if loss == "poisson":
        labels = rng.poisson(np.exp(score)).astype(float)
    pairs = [(np.flatnonzero(row).tolist(), row[row != 0].tolist()) for row in x]
    return Batch.from_rows(pairs, labels)


# The expanded rows.


def coordinates(rows: Expanded) -> list[dict[oracle.Key, float]]:
    """Each row under the oracle's keys."""
    keys: list[Any] = [
        (block, *sorted(np.atleast_1d(key).tolist()))
        for block in rows.keys
        for key in rows.features(block)
    ]
    dense = rows.matrix.toarray()
    return [{keys[at]: row[at] for at in np.flatnonzero(row)} for row in dense]


@settings(max_examples=150)
@given(labelled_rows(), st.sampled_from(FAMILIES), losses, scales, st.booleans())
def test_expanded_rows_are_those_of_the_oracle(
    rows: list[Labelled], family: Any, loss: str, scale: float | None, bias: bool
) -> None:
    batch = as_batch(rows)
    model = new(family, loss, batch, scale, bias=bias)
    high = model.separation.features.tolist() if family is PQR else ()
    for row, found in zip(as_dicts(batch), coordinates(expanded(model, batch)), strict=True):
        expand = oracle.expand_qr if family is QR else None
        said = expand(row, scale, bias) if expand else oracle.expand_pqr(row, high, scale, bias)
        assert found == pytest.approx({k: v for k, v in said.items() if v}, rel=1e-6)


@every_family
def test_only_what_occurs_has_a_column(family: Any) -> None:
    rows = Batch.from_rows([([3, 9], [1.0, 2.0]), ([4_000_000_000], [1.0])], labels=[0, 1])
    sizes = {
        block: len(keys)
        for block, keys in expanded(new(family, "logistic", rows), rows).keys.items()
    }
    assert sizes["bias"] == 1
    assert sizes["linear"] == 3
    assert sizes.get("pair", 1) == 1


# The optimum, against others.


def by_scikit_learn(loss: str, rows: Expanded, batch: Batch, l2: float) -> Any:
    from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

    if loss == "squared":
        ridge = Ridge(alpha=l2, fit_intercept=False, solver="cholesky")
        return ridge.fit(rows.matrix.toarray(), batch.labels, batch.weights).coef_
    if loss == "poisson":
        alpha = l2 / batch.weights.sum()
        counts = PoissonRegressor(alpha=alpha, fit_intercept=False, tol=1e-10, max_iter=10_000)
        return counts.fit(rows.matrix, batch.labels, batch.weights).coef_
    logistic = LogisticRegression(C=1 / l2, fit_intercept=False, tol=1e-10, max_iter=10_000)
    return logistic.fit(rows.matrix, batch.labels, batch.weights).coef_[0]


@both_losses
@every_family
def test_with_l2_it_is_the_optimum_of_scikit_learn(family: Any, loss: str) -> None:
    model = new(family, loss)
    best = fit_optimal(model, ROWS, l2=0.5, tolerance=1e-12).minimum
    known = by_scikit_learn(loss, expanded(model, ROWS), ROWS, 0.5)
    np.testing.assert_allclose(best.theta, known, atol=2e-5)


def least_squares_in_ball(x: Any, batch: Batch, radius: float) -> Any:
    """The ridge that gives the length, by bisection over dense solves."""
    low, high = 0.0, 1e9
    for _ in range(200):
        ridge = (low + high) / 2
        weighted = x.T * batch.weights
        theta = np.linalg.solve(weighted @ x + ridge * np.eye(x.shape[1]), weighted @ batch.labels)
        low, high = (ridge, high) if np.linalg.norm(theta) > radius else (low, ridge)
    return theta


@pytest.mark.parametrize("radius", [0.05, 0.4, 1.0])
@every_family
def test_in_a_ball_it_is_the_optimum_of_a_dense_solver(family: Any, radius: float) -> None:
    model = new(family, "squared")
    best = fit_optimal(model, ROWS, radius=radius, tolerance=1e-12).minimum
    known = least_squares_in_ball(expanded(model, ROWS).matrix.toarray(), ROWS, radius)
    np.testing.assert_allclose(best.theta, known, atol=1e-5)


@pytest.mark.parametrize("radius", [0.05, 0.4, 3.0])
@both_losses
@every_family
def test_on_the_rim_the_gradient_points_inwards(family: Any, loss: str, radius: float) -> None:
    """The conditions of Karush, Kuhn and Tucker, which for a convex F are sufficient."""
    model = new(family, loss)
    best = fit_optimal(model, ROWS, radius=radius, tolerance=1e-12).minimum
    gradient = problem_of(model, expanded(model, ROWS), ROWS).at(best.theta)[1]
    length = np.linalg.norm(best.theta)
    assert length <= radius * (1 + 1e-12)
    if length > 0.999 * radius:
        assert best.multiplier > 0
        np.testing.assert_allclose(gradient, -best.multiplier * best.theta, atol=1e-3)
    else:
        np.testing.assert_allclose(gradient, 0, atol=1e-3)


@both_losses
@every_family
def test_a_ball_that_holds_nothing_back_gives_the_free_optimum(family: Any, loss: str) -> None:
    rows = problem(loss)
    model = new(family, loss, rows)
    best = fit_optimal(model, rows, radius=1e4, tolerance=1e-10)
    free = fit_optimal(model, rows, l2=1e-7, tolerance=1e-10)
    assert best.loss == pytest.approx(free.loss, rel=1e-7)


# The certificate.


@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 1e-3, 1e-5])
@both_losses
@every_family
def test_a_loose_optimum_is_no_farther_than_it_says(
    family: Any, loss: str, tolerance: float
) -> None:
    model = new(family, loss)
    for where in ({"radius": 0.5}, {"l2": 0.1}, {"radius": 0.5, "l2": 0.1}):
        exact = fit_optimal(model, ROWS, tolerance=1e-12, **where).minimum  # type: ignore[arg-type]
        loose = fit_optimal(model, ROWS, tolerance=tolerance, **where).minimum  # type: ignore[arg-type]
        assert -1e-9 <= loose.value - exact.value <= loose.gap + 1e-9
        assert loose.gap <= tolerance * ROWS.weights.sum()


@both_losses
def test_no_other_weights_in_the_ball_are_better(loss: str) -> None:
    model = new(PQR, loss)
    best = fit_optimal(model, ROWS, radius=0.7).minimum
    goal = problem_of(model, expanded(model, ROWS), ROWS)
    rng = np.random.default_rng(3)
    for size in (1e-3, 0.1, 1.0):
        other = best.theta + rng.normal(size=len(best.theta)) * size
        other *= min(1.0, 0.7 / np.linalg.norm(other))
        assert goal.at(other)[0] >= best.value - best.gap


@both_losses
@every_family
def test_the_larger_the_ball_the_lower_the_optimum(family: Any, loss: str) -> None:
    found = [
        fit_optimal(new(family, loss), ROWS, radius=radius, tolerance=1e-9).loss
        for radius in (0.05, 0.1, 0.2, 0.4)
    ]
    assert all(a > b for a, b in pairwise(found))


def test_a_start_changes_the_way_and_not_the_end() -> None:
    model = new(PQR, "logistic")
    goal = problem_of(model, expanded(model, ROWS), ROWS, radius=0.5)
    half = minimise(goal.head(100))
    cold, warm = minimise(goal), minimise(goal, start=replace(half, multiplier=2 * half.multiplier))
    assert warm.value == pytest.approx(cold.value, abs=cold.gap + warm.gap)
    assert warm.iterations < cold.iterations


@pytest.mark.parametrize("where", [{"radius": 0.5}, {"l2": 0.1}])
def test_an_optimum_that_is_not_reached_is_an_error(
    where: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solver, "_MOST_ITERATIONS", 1)
    monkeypatch.setattr(solver, "_MOST_MULTIPLIERS", 1)
    with pytest.raises(PqrError, match=r"above its minimum: allow a tolerance above 1e-06"):
        fit_optimal(new(PQR, "logistic"), ROWS, **where)  # type: ignore[arg-type]


def test_clicks_that_can_be_told_apart_have_an_optimum_in_a_ball() -> None:
    rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 5, labels=[0, 1] * 5)
    best = fit_optimal(LR(), rows, radius=10.0)
    assert np.linalg.norm(best.minimum.theta) == pytest.approx(10.0, rel=1e-3)
    assert best.loss < 0.02
    with pytest.raises(HyperError, match="an optimum may not exist"):
        fit_optimal(LR(), rows)


# The model that it is.


@both_losses
@every_family
def test_the_model_predicts_with_the_optimal_weights(family: Any, loss: str) -> None:
    model = new(family, loss)
    best = fit_optimal(model, ROWS, radius=1.0)
    margins = expanded(model, ROWS).matrix @ best.minimum.theta
    np.testing.assert_allclose(best.model.margin_many(ROWS), margins, atol=1e-6)
    assert (ROWS.weights @ LOSSES[loss].loss(margins, ROWS.labels)) == pytest.approx(best.loss)
    again = pqrlearn.from_bytes(best.model.to_bytes())
    assert again.to_bytes() == best.model.to_bytes()
    assert best.model.rows == len(ROWS)


@every_family
def test_the_model_goes_on_learning_within_the_ball(family: Any) -> None:
    best = fit_optimal(new(family, "squared"), ROWS, radius=0.3)
    best.model.learn_many(cut(ROWS, 0, 50))
    sizes = [np.square(best.model.weights(block)[1]).sum() for block in best.model.blocks]
    assert np.sqrt(sum(sizes)) == pytest.approx(0.3, rel=1e-2)


def test_a_model_without_bias_has_none() -> None:
    best = fit_optimal(new(PQR, "squared", bias=False), ROWS, radius=1.0)
    assert best.model.weights("bias")[1].tolist() == [0.0]


def test_names_survive() -> None:
    rows = [{"site": "a", "ad": "x"}, {"site": "b", "ad": "y"}, {"site": "a", "ad": "y"}] * 5
    separation = Separation.top_k(rows, 2)
    find: Any = separation.names.find
    numbered = Batch.from_rows(
        [([find(f"{k}={v}") for k, v in row.items()], [1.0, 1.0]) for row in rows], [1, 0, 1] * 5
    )
    best = fit_optimal(PQR(separation), numbered, radius=3.0)
    assert best.model.predict_one({"site": "a"}) > 0.5 > best.model.predict_one({"site": "b"})


@pytest.mark.parametrize(
    ("model", "rows", "where", "said"),
    [
        (FM(), ROWS, {"radius": 1.0}, "FM has no batch optimum: use an LR, a PQR or a QR"),
        (LR(), ROWS, {"radius": 0.0}, "radius=0.0 must be a number > 0"),
        (LR(), ROWS, {"l2": -1.0}, "l2=-1.0 must be a number >= 0"),
        (LR(), ROWS, {"radius": 1.0, "tolerance": 0.0}, "tolerance=0.0 must be a number > 0"),
        (LR(), Batch.from_rows([]), {"radius": 1.0}, "an optimum needs rows"),
        (LR(), Batch.from_rows([([0], [1.0])]), {"radius": 1.0}, "rows with labels"),
    ],
)
def test_what_has_no_optimum_is_refused(
    model: Any, rows: Batch, where: dict[str, float], said: str
) -> None:
    with pytest.raises((HyperError, DataError), match=said):
        fit_optimal(model, rows, **where)  # type: ignore[arg-type]


# Many passes.


def mean_loss(model: Any, rows: Batch) -> float:
    return float(LOSSES[model.loss].loss(model.margin_many(rows), rows.labels).mean())


@pytest.mark.parametrize(
    ("optimizer", "radius"),
    [
        (Ftrl(alpha=1.0), 100.0),
        (Ogd(eta=0.5, radius=1.2), 1.2),
        (FtrlGeneral(eta=0.01, radius=1.2), 1.2),
    ],
    ids=["ftrl", "ogd in a ball", "general in a ball"],
)
@both_losses
@every_family
def test_many_passes_approach_the_optimum(
    family: Any, loss: str, optimizer: Any, radius: float
) -> None:
    """99 % of what the optimum gains over a model that knows nothing."""
    rows = problem(loss)
    model = new(family, loss, rows, optimizer=optimizer)
    start = mean_loss(model, rows)
    passes(model, rows, count=40)
    best = fit_optimal(model, rows, radius=radius).loss / len(rows)
    assert best - 1e-6 <= mean_loss(model, rows) <= start - 0.99 * (start - best)


def test_passes_repeat_with_their_seed_and_differ_between_seeds() -> None:
    found = []
    for seed in (1, 1, 2):
        model = new(PQR, "logistic")
        figures = passes(model, ROWS, count=3, seed=seed)
        assert [each["rows"] for each in figures] == [200, 200, 200]
        assert figures[2]["logloss"] < figures[0]["logloss"]
        found.append(model.to_bytes())
    assert found[0] == found[1] != found[2]


def test_a_pass_learns_every_row_once_and_in_another_order() -> None:
    class Remembers(LR):
        def learn_margins(self, batch: Batch) -> Any:
            seen.extend(batch.indices.tolist())
            return super().learn_margins(batch)

    seen: list[int] = []
    rows = Batch.from_rows([([i], [1.0]) for i in range(50)], labels=[0, 1] * 25)
    passes(Remembers(), rows, count=2)
    first, second = seen[:50], seen[50:]
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second != list(range(50))


def test_passes_tell_how_far_they_are() -> None:
    told: list[float] = []
    passes(LR(), ROWS, count=2, watch=lambda metrics: told.append(metrics.result()["rows"]))
    assert told == [200, 200]


def test_the_solver_tells_how_far_it_is() -> None:
    told: list[int] = []
    best = fit_optimal(LR(), ROWS, radius=1.0, watch=lambda iterations, _: told.append(iterations))
    assert told == list(range(1, best.minimum.iterations + 1))


def test_no_pass_at_all_is_refused() -> None:
    with pytest.raises(HyperError, match="count=0 must be a whole number >= 1"):
        passes(LR(), ROWS, count=0)
