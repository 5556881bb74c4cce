"""The self-tuning learner against its oracle, and what it promises of any stream."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import auto_oracle
from pqrlearn import Auto, Batch
from pqrlearn.errors import HyperError, RowError
from strategies import as_dicts

both_losses = pytest.mark.parametrize("loss", ["logistic", "squared"])
Rows = list[dict[int, float]]


def stream(
    seed: int, rows: int, features: int = 12, *, real: bool = False, weights: bool = False
) -> Batch:
    """Frequent features meet often; labels depend on two of them and on a pair."""
    rng = np.random.default_rng(seed)
    chance = 1 / (1 + np.arange(features) / 3)
    present = rng.random((rows, features)) < chance
    values = np.where(present, rng.normal(size=present.shape) if real else 1.0, 0.0)
    score = values[:, 0] - values[:, 1] + 2 * values[:, 1] * values[:, 2]
    labels = (rng.random(rows) < 1 / (1 + np.exp(-score))).astype(float)
    pairs = [(np.flatnonzero(row).tolist(), row[row != 0].tolist()) for row in values]
    amounts = rng.choice([0.0, 0.5, 1.0, 3.0], rows) if weights else None
    return Batch.from_rows(pairs, labels, amounts)


def as_ratings(batch: Batch, seed: int) -> Batch:
    noise = np.random.default_rng(seed).normal(size=len(batch))
    labels = 3 + 2 * batch.labels + noise
    return Batch(batch.indptr, batch.indices, batch.values, labels, batch.weights)


def by_oracle(loss: str, batch: Batch, **options: Any) -> tuple[auto_oracle.Auto, list[float]]:
    oracle = auto_oracle.Auto(loss, counted_bias=True, **options)
    rows = zip(as_dicts(batch), batch.labels.tolist(), batch.weights.tolist(), strict=True)
    return oracle, [oracle.learn(x, y, w) for x, y, w in rows]


# The core against the oracle.


@both_losses
@pytest.mark.parametrize("real", [False, True], ids=["one-hot", "real"])
@pytest.mark.parametrize("weights", [False, True], ids=["unweighted", "weighted"])
def test_the_core_predicts_as_the_oracle(loss: str, real: bool, weights: bool) -> None:
    """Over rises at rows 64, 128, ...; new features come all the time."""
    batch = stream(3, 420, real=real, weights=weights)
    if loss == "squared":
        batch = as_ratings(batch, 4)
    model = Auto(loss)
    oracle, expected = by_oracle(loss, batch)
    predictions = model.learn_many(batch)
    np.testing.assert_allclose(predictions, expected, rtol=2e-4, atol=2e-4)
    assert list(oracle.rise.rank) == model.high.tolist()
    assert model._model.sizes()[1] == len(oracle.pairs.number)
    for found, known in (
        (list(model.posterior().values()), oracle.mixture.posterior()),
        (list(model.summary()["losses"].values()), oracle.mixture.experts.lost),
        ([model.regret(), model.bound()], [oracle.regret(), oracle.bound()]),
    ):
        np.testing.assert_allclose(found, known, rtol=2e-3, atol=2e-2)


rows = st.lists(
    st.tuples(
        st.dictionaries(
            st.integers(0, 6), st.integers(-12, 12).filter(bool).map(lambda n: n / 8), max_size=5
        ),
        st.sampled_from([0.0, 1.0]),
        st.sampled_from([1.0, 1.0, 0.0, 0.25, 2.0]),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=40)
@given(some=rows, loss=st.sampled_from(["logistic", "squared"]), repeat=st.integers(1, 40))
def test_any_rows_are_predicted_as_by_the_oracle(some: Any, loss: str, repeat: int) -> None:
    model, oracle = Auto(loss), auto_oracle.Auto(loss, counted_bias=True)
    for x, y, weight in some * repeat:
        expected = oracle.learn(x, y, weight)
        assert model.learn_one(x, y, weight) == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_a_row_of_many_high_features_is_predicted_as_by_the_oracle() -> None:
    rng = np.random.default_rng(7)
    rows = [(np.flatnonzero(rng.random(90) < 0.9).tolist()) for _ in range(150)]
    labels = (rng.random(150) < 0.3).astype(float)
    batch = Batch.from_rows([(row, [1.0] * len(row)) for row in rows], labels)
    _, expected = by_oracle("logistic", batch)
    np.testing.assert_allclose(Auto().learn_many(batch), expected, rtol=2e-4, atol=2e-4)


@both_losses
@pytest.mark.parametrize("pairs", [20, 1 << 20])
def test_rows_of_ones_are_learned_as_rows_of_any_value(loss: str, pairs: int) -> None:
    """In units of a power of two, twos are ones; but the core has a shorter way for ones."""
    ones = stream(8, 3000, 40)
    if loss == "squared":
        ones = as_ratings(ones, 9)
    twos = Batch(ones.indptr, ones.indices, 2 * ones.values, ones.labels, ones.weights)
    first, second = Auto(loss), Auto(loss)
    for model in (first, second):
        model._model = type(model._model)(loss, 1 << 32, pairs)
    assert np.array_equal(first.learn_margins(ones), second.learn_margins(twos))
    assert np.array_equal(first.predict_many(ones), second.predict_many(twos))


@pytest.mark.parametrize("pairs", [0, 3, 20])
def test_a_pair_without_a_slot_stands_for_its_shared_weight(pairs: int) -> None:
    batch = stream(5, 400)
    model = Auto()
    model._model = type(model._model)("logistic", 1 << 32, pairs)
    oracle, expected = by_oracle("logistic", batch, max_pairs=pairs)
    np.testing.assert_allclose(model.learn_many(batch), expected, rtol=2e-4, atol=2e-4)
    assert model._model.sizes()[1] == len(oracle.pairs.number) == pairs


@both_losses
def test_a_rise_changes_no_prediction_of_the_kalman_experts(loss: str) -> None:
    """At a row whose number is a multiple of 64, but no power of two: no mean is refreshed then."""
    batch = stream(7, 260, features=40)
    if loss == "squared":
        batch = as_ratings(batch, 8)
    model = Auto(loss)
    model.learn_many(batch)
    rare = {0: 1.0, 1: 1.0, 77: 1.0}
    while model.rows % 64 != 61:
        model.learn_one({0: 1.0}, 1.0)
    for _ in range(2):
        model.learn_one(rare, 1.0)
    probes = [rare, *as_dicts(stream(9, 50, features=40))]
    before, order = [experts_margins(model, x) for x in probes], len(model.high)
    model.learn_one(rare, 1.0, weight=1e-30)  # teaches next to nothing, and counts
    assert len(model.high) == order + 1
    after = [experts_margins(model, x) for x in probes]
    kalman = [0, 1, 2, 4, 5, 6]
    np.testing.assert_allclose(np.array(after)[:, kalman], np.array(before)[:, kalman], atol=2e-5)


def experts_margins(model: Auto, x: dict[int, float]) -> list[float]:
    return list(model._model.expert_margins(x))


# The guarantee.


@both_losses
@pytest.mark.parametrize("largest", [1.0, 100.0])
@pytest.mark.parametrize("kind", ["random", "against", "blocks", "creep"])
def test_the_regret_stays_below_the_bound(loss: str, largest: float, kind: str) -> None:
    """Against every expert, also where labels are chosen against the prediction."""
    rng = np.random.default_rng(11)
    model = Auto(loss)
    worst = -math.inf
    for row in range(700):
        x = {int(i): 1.0 for i in rng.choice(9, 3, replace=False)}
        label = float(rng.integers(0, 2))
        if kind == "against":
            middle = 0.5 if loss == "logistic" else 0.5 * row % 7
            label = float(model.predict_one(x) < middle)
        elif kind == "blocks":
            label = float(row // 90 % 2)
        elif kind == "creep" and loss == "squared":
            label = row * 0.01 * (1 if row % 2 else -1)
        weight = 1.0 if largest == 1.0 else float(rng.choice([0.1, 1.0, 10.0, largest]))
        model.learn_one(x, label, weight)
        worst = max(worst, model.regret() - model.bound())
    assert worst <= 1e-6


def test_the_bound_of_clicks_is_that_of_sixteen_equal_shares() -> None:
    model = Auto()
    model.learn_many(stream(1, 200))
    assert model.bound() == pytest.approx(math.log(16))


@pytest.mark.parametrize("rate", [0.5, 0.04, 0.001])
def test_it_is_never_much_worse_than_the_best_constant(rate: float) -> None:
    rng = np.random.default_rng(2)
    rows = 6000
    labels = (rng.random(rows) < rate).astype(float)
    batch = Batch.from_rows([([int(i)], [1.0]) for i in rng.integers(0, 3000, rows)], labels)
    margins = Auto().learn_margins(batch)
    loss = np.logaddexp(0, np.where(labels > 0, -margins, margins)).sum()
    clicks = labels.sum()
    chance = min(max(clicks / rows, 1e-12), 1 - 1e-12)
    best = -clicks * math.log(chance) - (rows - clicks) * math.log1p(-chance)
    assert loss <= best + 0.5 * math.log(rows) + math.log(2) + math.log(16)


def test_sums_in_32_bits_go_on_growing() -> None:
    """A rate of 4 % over so many rows that a sum without a bound on information stands still."""
    rng, model = np.random.default_rng(3), Auto()
    rows = 500_000
    indptr, ones = np.arange(0, rows + 1), np.ones(rows, np.float32)
    said = clicked = 0.0
    for part in range(4):
        labels = (rng.random(rows) < 0.04).astype(float)
        indices = rng.integers(0, 3, rows).astype(np.uint32)
        margins = model.learn_margins(Batch(indptr, indices, ones, labels, ones))
        if part > 0:
            said, clicked = said + (1 / (1 + np.exp(-margins))).sum(), clicked + labels.sum()
    assert said == pytest.approx(clicked, rel=0.01)  # three standard deviations of the clicks


# Numbers of any size.


def numbers(scales: Any, outlier: float | None = None) -> tuple[float, Auto]:
    rng = np.random.default_rng(6)
    rows, columns = 4000, len(scales)
    x = rng.normal(size=(rows, columns))
    labels = (rng.random(rows) < 1 / (1 + np.exp(-2 * x[:, 0] + x[:, 1]))).astype(float)
    x = x * scales
    if outlier is not None:
        x[0, 0] = outlier
    batch = Batch.from_rows([(range(columns), row.tolist()) for row in x], labels)
    model = Auto()
    margins = model.learn_margins(batch)[1000:]
    return float(np.logaddexp(0, np.where(labels[1000:] > 0, -margins, margins)).mean()), model


@pytest.mark.parametrize("scales", [(1e6, 1e-6, 1.0), (1e-6, 1e-6, 1e6), (1e30, 1e-30, 1.0)])
def test_the_scale_of_a_column_does_not_matter(scales: Any) -> None:
    assert numbers(scales)[0] == pytest.approx(numbers((1.0, 1.0, 1.0))[0], rel=1e-3)


@pytest.mark.parametrize("outlier", [1e6, -1e6, 1e30, 1e-30])
def test_one_outlier_does_not_silence_a_feature(outlier: float) -> None:
    assert numbers((1.0, 1.0, 1.0), outlier)[0] == pytest.approx(
        numbers((1.0, 1.0, 1.0))[0], rel=0.02
    )


# Its own edges.


def test_poisson_is_refused_in_a_sentence() -> None:
    with pytest.raises(HyperError, match="loss='poisson' is not for Auto: a mixture"):
        Auto("poisson")


def test_memory_bounds_features_and_pairs() -> None:
    with pytest.raises(HyperError, match="memory=5 must be a whole number of bytes from 1000000"):
        Auto(memory=5)
    model = Auto(memory=1 << 20)
    rng = np.random.default_rng(1)
    for _ in range(10):
        rows = [(rng.choice(100_000, 8, replace=False), np.ones(8)) for _ in range(500)]
        labels = rng.integers(0, 2, 500).astype(float)
        model.learn_many(Batch.from_rows(rows, labels))
    features, pairs = model._model.sizes()
    assert features == (2**20 - (2**20 // 2 // 128) * 128) // 80
    assert pairs <= 2**20 // 2 // 128
    assert Auto.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


def test_a_row_of_many_features_takes_bounded_memory() -> None:
    """Those that rose first are high, the others low: their pairs alone would take 2 GB."""
    model, row = Auto(), dict.fromkeys(range(10000), 1.0)
    for number in range(67):
        model.learn_one(row, number % 2)
    assert len(model.high) == 10_000
    assert model._model.sizes()[1] == 512 * 511 // 2
    assert math.isfinite(model.predict_one(row))
    assert Auto.from_bytes(model.to_bytes()).predict_one(row) == model.predict_one(row)


def test_a_label_or_a_weight_that_is_too_large_is_refused() -> None:
    model = Auto("squared")
    before = model.to_bytes()
    for label, weight in ((1e16, 1.0), (1.0, 1e16), (-1e300, 1.0)):
        with pytest.raises(RowError):
            model.learn_one({0: 1.0}, label, weight)
    assert model.to_bytes() == before
