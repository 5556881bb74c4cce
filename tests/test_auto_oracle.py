"""The NumPy reference of the self-tuning learner: its equations, its rise and its guarantee."""

from __future__ import annotations

import copy
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from auto_oracle import EXPERTS, FTRL, Auto
from mixture_oracle import LogMixture, Mixture, SquaredMixture, make_mixture
from pqrlearn import Batch, datasets
from step_oracle import ALPHA, BETA, capped, implicit_slope, kalman_step, sigmoid

REAL = Path(os.environ.get("PQRLEARN_DATA") or Path(__file__).parents[2] / "shared/data")
KALMAN = ~FTRL

margins = st.floats(-30, 30)
values = st.sampled_from([1.0, 1.0, 0.5, -2.0, 3.0])
rows = st.dictionaries(st.integers(0, 7), values, max_size=5)
losses = st.sampled_from(["squared", "logistic"])
weights = st.sampled_from([1.0, 1.0, 0.25, 2.0])
streams = st.lists(st.tuples(rows, st.sampled_from([0.0, 1.0]), weights), min_size=1, max_size=40)


# The step.


@given(margins, st.floats(0, 1e3), st.sampled_from([0.0, 1.0]), st.floats(0.01, 100))
def test_the_implicit_slope_solves_its_equation(margin, variance, label, weight):
    slope = implicit_slope("logistic", margin, variance, label, weight)
    explicit = weight * (sigmoid(margin) - label)
    assert min(0, explicit) <= slope <= max(0, explicit)
    error = slope - weight * (sigmoid(margin - variance * slope) - label)
    assert abs(error) <= 1e-15 * (1 + weight) * (1 + weight * variance)


@given(margins, st.floats(0, 1e3), margins, st.floats(0.01, 100))
def test_the_implicit_slope_of_the_squared_loss_solves_its_equation(margin, variance, label, w):
    slope = implicit_slope("squared", margin, variance, label, w)
    assert slope == pytest.approx(w * (margin - variance * slope - label), rel=1e-9, abs=1e-9)


numbers = st.floats(-4, 4)
amounts = st.floats(0.01, 100)


@given(numbers, numbers, amounts, amounts, amounts, numbers, st.floats(1e-4, 1))
def test_a_kalman_step_moves_a_weight_by_its_variance(x, z, info, prior, others, slope, h):
    v = 1 / (prior + info)
    new_z, new_info = kalman_step(x, z, info, prior, others + v * x**2, slope, h)
    assert new_info >= info
    moved = -new_z / (prior + new_info)
    assert moved == pytest.approx(-z * v - slope * x * v, rel=1e-9, abs=1e-9)


@given(numbers, amounts, amounts, amounts)
def test_a_cap_on_information_leaves_the_weight(z, info, prior, cap):
    new_z, new_info = capped(z, info, prior, cap)
    assert new_info <= cap
    assert new_z / (prior + new_info) == pytest.approx(z / (prior + info))


# The experts.


@given(losses, streams)
@settings(max_examples=30)
def test_the_ftrl_experts_are_lr_and_pqr_of_the_paper(loss, stream):
    """With values of ±1, so that M = 1, and all features high from the start, so that pairs start
    at 0."""
    auto = Auto(loss, every=10**9)
    auto.rise.rank = {i: 7 - i for i in range(8)}
    rates = oracle.Ftrl(alpha=ALPHA, beta=BETA), oracle.Ftrl(alpha=ALPHA, beta=BETA)
    linear = oracle.PQR((), loss, rates[0])
    pairs = oracle.PQR(range(8), loss, rates[1], scale=1.0)
    for values, label, weight in stream:
        row = {i: math.copysign(1, x) for i, x in values.items()}
        expected = [linear.margin(row), pairs.margin(row)]
        np.testing.assert_allclose(auto.margins(row)[FTRL], expected, rtol=1e-9, atol=1e-9)
        for model in (auto, linear, pairs):
            model.learn(row, label, weight)


def losses_to_constant(labels, **options) -> tuple[float, float]:
    """Of the expert without features, and of the best constant in hindsight."""
    auto = Auto(**options)
    for label in labels:
        auto.learn({}, float(label))
    share = np.mean(labels)
    entropy = -sum(p * math.log(p) for p in (share, 1 - share) if p > 0)
    return float(auto.mixture.experts.lost[0]), len(labels) * entropy


@given(st.lists(st.booleans(), min_size=1, max_size=200))
@settings(max_examples=30)
def test_a_counted_bias_is_never_far_from_the_best_constant(labels):
    """Krichevsky and Trofimov: ½ ln T + ln 2 at most, whatever the labels."""
    ours, best = losses_to_constant(labels, counted_bias=True)
    assert ours <= best + 0.5 * math.log(len(labels)) + math.log(2) + 1e-6


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_the_bias_expert_is_close_to_the_best_constant_of_a_usual_stream(share):
    labels = np.random.default_rng(1).random(2000) < share
    ours, best = losses_to_constant(labels)
    assert ours <= best + 0.5 * math.log(len(labels)) + 2


def test_where_one_label_is_rare_a_kalman_bias_falls_behind_by_the_root_of_the_rows():
    """The curvature of the first rows, ¼, stays in I: p falls like 1/√t instead of 1/t."""
    behind = [losses_to_constant([False] * rows)[0] for rows in (500, 2000)]
    assert behind[0] > 8
    assert behind[1] == pytest.approx(2 * behind[0], rel=0.15)
    assert losses_to_constant([False] * 2000, counted_bias=True)[0] < 0.5 * math.log(2000) + 1


# The rise.


@given(losses, streams, streams, st.sampled_from([0, 2, 1000]))
@settings(max_examples=60)
def test_a_rise_changes_no_margin_of_a_kalman_expert(loss, stream, others, max_pairs):
    auto = Auto(loss, every=7, rise_at=2, max_pairs=max_pairs)
    for row, label, weight in stream:
        auto.learn(row, label, weight)
    risen = copy.deepcopy(auto)
    risen.rise.waiting = {i for i in auto.rise.count if i not in auto.rise.rank}
    risen.rise.rise(pairs=0)
    for row, _, _ in others:
        size = sum(np.abs(b.z * b.x / (b.prior + b.info)).sum() for b in risen.blocks(row)[0])
        moved = np.abs(risen.margins(row) - auto.margins(row))
        assert (moved[KALMAN] <= 1e-12 * (1 + size)).all()


@given(streams)
@settings(max_examples=30)
def test_features_rise_only_at_multiples_and_never_fall(stream):
    auto = Auto(every=4, rise_at=2)
    before: dict[int, int] = {}
    for row, label, weight in stream:
        auto.learn(row, label, weight)
        if auto.rise.rows % 4:
            assert auto.rise.rank == before
        assert before.items() <= auto.rise.rank.items()
        before = dict(auto.rise.rank)


@pytest.mark.parametrize("max_pairs", [0, 5, 1000])
def test_pairs_keep_to_their_number(max_pairs):
    rng = np.random.default_rng(3)
    auto = Auto(every=1, max_pairs=max_pairs)
    for _ in range(100):
        row = dict.fromkeys(rng.choice(12, 4, replace=False).tolist(), 1.0)
        auto.learn(row, float(rng.random() < 0.5))
    assert len(auto.pairs.number) == min(max_pairs, 66)


def test_nothing_rises_once_the_budget_is_used_up():
    auto = Auto(every=1, budget=1)
    for first in (0, 10, 20):
        for _ in range(8):
            auto.learn({first: 1.0, first + 1: 1.0}, 1.0)
    assert sorted(auto.rise.rank) == [0, 1]


@given(losses, streams, rows)
@settings(max_examples=30)
def test_learning_returns_the_prediction_and_weight_zero_teaches_nothing(loss, stream, row):
    auto = Auto(loss, every=3, rise_at=2, max_pairs=3)
    for known, label, weight in stream:
        assert auto.predict(known) == auto.learn(known, label, weight)
    before = auto.margins(row)
    auto.learn(row, 1.0, weight=0.0)
    assert (auto.margins(row) == before).all()
    assert auto.regret() <= auto.bound() + 1e-9


@given(losses, streams, st.integers(-6, 6), st.integers(-6, 6))
@settings(max_examples=30)
def test_the_scale_of_a_feature_does_not_matter(loss, stream, one, other):
    """Powers of two only, so that nothing is rounded on the way."""
    factors = {0: 2.0 ** (3 * one), 3: 2.0 ** (3 * other)}
    plain, scaled = Auto(loss, every=3, max_pairs=4), Auto(loss, every=3, max_pairs=4)
    for row, label, weight in stream:
        larger = {i: x * factors.get(i, 1.0) for i, x in row.items()}
        expected = plain.learn(row, label, weight)
        assert scaled.learn(larger, label, weight) == pytest.approx(expected, rel=1e-9, abs=1e-9)


# The mixture.


def play(mixture: Mixture, kind: str, row_weights, seed: int) -> None:
    """Margins of eight experts, some of them good, and labels of some kind."""
    rng = np.random.default_rng(seed)
    bias = rng.normal(0, 3, 8)
    for t, weight in enumerate(row_weights):
        m = bias * rng.choice([1, -1]) if kind == "flips" else rng.normal(bias, 1)
        p = mixture.predict(m)
        if kind == "against":
            label = float(p < 0.5)
        elif kind == "blocks":
            label = float(t // 20 % 2)
        else:
            label = float(rng.random() < sigmoid(m[t // 50 % 8]))
        mixture.learn(m, label, weight)


KINDS = st.sampled_from(["random", "against", "blocks", "flips"])
seeds = st.integers(0, 2**32 - 1)


@given(KINDS, seeds, st.integers(1, 150), st.sampled_from([1.0, 0.3]))
@settings(max_examples=60)
def test_mixing_costs_at_most_ln_16_in_total(kind, seed, length, weight):
    mixture = LogMixture()
    play(mixture, kind, [weight] * length, seed)
    best = float(mixture.experts.lost.min())
    assert mixture.two.own <= best + math.log(8) + math.log(2) + 1e-9
    assert mixture.two.own <= mixture.two.lost[1] + math.log(2) + 1e-9
    assert mixture.bound() == pytest.approx(math.log(16))


@given(KINDS, seeds, st.lists(st.sampled_from([0.1, 1.0, 3.0, 100.0]), min_size=1, max_size=150))
@settings(max_examples=60)
def test_with_weights_mixing_costs_the_largest_weight_times_ln_16_and_the_excess(kind, seed, given):
    mixture = LogMixture()
    play(mixture, kind, given, seed)
    assert mixture.regret() <= mixture.bound() + 1e-7
    excess = mixture.experts.excess + mixture.two.excess
    assert mixture.bound() == pytest.approx(max(1, *given, 1) * math.log(16) + excess)


def test_a_large_first_weight_has_no_excess():
    mixture = LogMixture()
    play(mixture, "against", [10.0] * 200, seed=1)
    assert mixture.regret() <= 10 * math.log(16) + 1e-9


@given(
    st.sampled_from(["random", "creep", "against", "jumps"]),
    seeds,
    st.lists(st.sampled_from([0.5, 1.0, 1.0, 4.0]), min_size=1, max_size=150),
)
@settings(max_examples=80)
def test_the_bound_of_the_squared_loss_holds_while_the_range_widens(kind, seed, given):
    """Also against experts that are not clipped: they may see a wider range come."""
    rng = np.random.default_rng(seed)
    mixture = SquaredMixture()
    unclipped = np.zeros(8)
    for t, weight in enumerate(given):
        m = rng.normal(rng.normal(0, 2, 8), 1)
        if kind == "creep":
            label = 0.1 * t
            m[0] = label
        elif kind == "against":
            label = mixture.low if mixture.predict(m) > np.median(m) else mixture.high + 0.2
        elif kind == "jumps":
            label = float(rng.normal() * 2 ** (t // 10))
        else:
            label = float(rng.normal())
        label = label if math.isfinite(label) else 0.0
        if t == 0:
            m = np.zeros(8)
        mixture.learn(m, label, weight)
        unclipped = unclipped + weight * (m - label) ** 2
    tolerance = 1e-9 * (1 + mixture.bound())
    assert mixture.regret() <= mixture.bound() + tolerance
    assert mixture.two.own <= unclipped.min() + mixture.bound() + tolerance


def test_the_known_range_of_the_squared_loss_costs_what_the_theory_says():
    mixture = SquaredMixture()
    rng = np.random.default_rng(0)
    for label in (0.0, 1.0):
        mixture.learn(np.zeros(8), label)
    start = mixture.regret()
    for _ in range(300):
        m = rng.random(8)
        mixture.learn(m, float(mixture.predict(m) < 0.5))
    assert mixture.regret() <= start + 2 * math.log(16)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_one_good_expert_among_bad_ones_gets_the_posterior(loss):
    rng, mixture = np.random.default_rng(5), make_mixture(loss)
    for _ in range(400):
        label = float(rng.random() < 0.5)
        m = rng.normal(0, 2, 8)
        m[3] = 3 * (label - 0.5) + rng.normal()
        mixture.learn(m, label)
    assert mixture.posterior()[3] > 0.99
    assert mixture.posterior().sum() == pytest.approx(1)


def test_the_posterior_has_a_share_for_every_expert_by_name():
    auto = Auto()
    auto.learn({1: 1.0}, 1.0)
    assert list(auto.posterior()) == [expert.name for expert in EXPERTS]


# The numbers that the prototype reached, features rising at once and without a cap.


def progressive(batch: Batch, loss: str) -> float:
    auto = Auto(loss, every=1, cap_information=math.inf)
    rows = zip(*(a.tolist() for a in (batch.indptr, batch.indptr[1:], batch.labels)), strict=False)
    for start, end, label in rows:
        indices, given = batch.indices[start:end].tolist(), batch.values[start:end].tolist()
        auto.learn(dict(zip(indices, given, strict=True)), label)
    return auto.mixture.two.own / len(batch)


@pytest.mark.skipif(not (REAL / "avazu").exists(), reason="the Avazu sample is not there")
def test_the_avazu_sample_has_the_loss_of_the_prototype(monkeypatch):
    monkeypatch.setenv("PQRLEARN_DATA", str(REAL))
    assert round(progressive(datasets.get("avazu").load().batch, "logistic"), 5) == 0.41852
