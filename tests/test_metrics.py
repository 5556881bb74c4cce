"""Streaming metrics against scikit-learn, which sees all rows at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss, mean_squared_error, roc_auc_score

from pqrlearn.errors import DataError, HyperError
from pqrlearn.metrics import CHUNK_ROWS, Metrics

moderate = st.floats(-12, 12)
margins = st.one_of(
    moderate,
    st.integers(-3, 3).map(float),
    st.sampled_from([-1000.0, -20.0, 20.0, 20.0000001, 1000.0, 1e-9, -1e-9, 5e-324]),
)
weights = st.sampled_from([0.0, 0.5, 1.0, 1.0, 3.0])
clicks = st.lists(st.tuples(margins, st.sampled_from([0.0, 1.0]), weights), max_size=60)
ratings = st.lists(
    st.tuples(moderate, st.sampled_from([1.0, 2.5, 5.0]), weights), min_size=1, max_size=60
)

ROUNDING = 1e-12


def columns(rows):
    return np.array(rows, dtype=float).reshape(-1, 3).T


def random_rows(size, seed=0):
    random = np.random.default_rng(seed)
    scores = random.normal(-1.5, 1.2, size)
    labels = (random.random(size) < 1 / (1 + np.exp(-scores))).astype(float)
    return scores, labels, random.choice([0.5, 1.0, 2.0], size).astype(np.float32)


def measured(metrics: Metrics, *arrays, cuts=()):
    for part in zip(*(np.split(array, cuts) for array in arrays), strict=True):
        metrics.update(*part)
    return metrics.result()


@given(clicks)
def test_auc_is_within_its_own_bound_of_the_exact_one(rows):
    scores, labels, row_weights = columns(rows)
    result = measured(Metrics("logistic"), scores, labels, row_weights)
    live = row_weights > 0
    if len(set(labels[live])) < 2:
        assert math.isnan(result["auc"])
        assert math.isnan(result["auc_error"])
    else:
        exact = roc_auc_score(labels[live], scores[live], sample_weight=row_weights[live])
        assert abs(result["auc"] - exact) <= result["auc_error"] + ROUNDING


def test_the_auc_of_a_click_model_is_known_to_five_digits():
    scores, labels, row_weights = random_rows(300_000)
    result = measured(Metrics("logistic"), scores, labels, row_weights)
    exact = roc_auc_score(labels, scores, sample_weight=row_weights)
    assert result["auc_error"] < 1e-5
    assert abs(result["auc"] - exact) <= result["auc_error"]


def test_ties_count_one_half_and_show_in_the_bound():
    result = measured(Metrics("logistic"), np.zeros(4), np.array([0.0, 1.0, 1.0, 0.0]))
    assert (result["auc"], result["auc_error"]) == (0.5, 0.5)


@given(st.lists(st.tuples(moderate, st.sampled_from([0.0, 1.0]), weights), min_size=1, max_size=60))
def test_click_figures_match_scikit_learn(rows):
    scores, labels, row_weights = columns(rows)
    result = measured(Metrics("logistic"), scores, labels, row_weights)
    if row_weights.sum() == 0:
        assert math.isnan(result["logloss"])
        return
    chances = 1 / (1 + np.exp(-scores))
    mean = np.average(labels, weights=row_weights)
    exact = log_loss(labels, chances, sample_weight=row_weights, labels=[0, 1])
    constant = log_loss(
        labels, np.full(len(labels), mean), sample_weight=row_weights, labels=[0, 1]
    )
    assert result["logloss"] == pytest.approx(exact, rel=1e-9, abs=1e-9)
    assert result["constant_logloss"] == pytest.approx(constant, rel=1e-9, abs=1e-9)
    assert result["mean_label"] == pytest.approx(mean)
    assert result["mean_prediction"] == pytest.approx(np.average(chances, weights=row_weights))
    assert (result["rows"], result["weight"]) == (len(rows), row_weights.sum())


@pytest.mark.parametrize(
    ("margin", "label", "loss"),
    [
        (1000.0, 0.0, 1000.0),
        (-1000.0, 1.0, 1000.0),
        (1000.0, 1.0, 0.0),
        (-1000.0, 0.0, 0.0),
        (40.0, 1.0, math.exp(-40.0)),
        (math.inf, 1.0, 0.0),
        (math.inf, 0.0, math.inf),
    ],
)
def test_the_logistic_loss_of_an_extreme_margin_is_exact(margin, label, loss):
    result = measured(Metrics("logistic"), np.array([margin]), np.array([label]))
    assert result["logloss"] == pytest.approx(loss, rel=1e-15, abs=0.0)


@given(ratings)
def test_rating_figures_match_scikit_learn(rows):
    predictions, labels, row_weights = columns(rows)
    result = measured(Metrics("squared"), predictions, labels, row_weights)
    if row_weights.sum() == 0:
        assert math.isnan(result["rmse"])
        return
    mean = np.average(labels, weights=row_weights)
    exact = mean_squared_error(labels, predictions, sample_weight=row_weights)
    constant = mean_squared_error(labels, np.full(len(labels), mean), sample_weight=row_weights)
    assert result["rmse"] == pytest.approx(math.sqrt(exact), rel=1e-9, abs=1e-9)
    assert result["constant_rmse"] == pytest.approx(math.sqrt(constant), rel=1e-9, abs=1e-9)
    assert result["mean_label"] == pytest.approx(mean)
    assert result["mean_prediction"] == pytest.approx(np.average(predictions, weights=row_weights))


def test_figures_over_many_blocks_match_scikit_learn():
    scores, labels, row_weights = random_rows(3 * CHUNK_ROWS + 100)
    clicked = measured(Metrics("logistic"), scores, labels, row_weights)
    rated = measured(Metrics("squared"), scores, labels, row_weights)
    exact = log_loss(labels, 1 / (1 + np.exp(-scores)), sample_weight=row_weights)
    squared = mean_squared_error(labels, scores, sample_weight=row_weights)
    spread = np.average((labels - clicked["mean_label"]) ** 2, weights=row_weights)
    assert clicked["rows"] == rated["rows"] == len(labels)
    assert clicked["logloss"] == pytest.approx(exact, rel=1e-9)
    assert rated["rmse"] == pytest.approx(math.sqrt(squared), rel=1e-9)
    assert rated["constant_rmse"] == pytest.approx(math.sqrt(spread), rel=1e-9)


def test_the_spread_of_labels_survives_a_mean_far_from_zero():
    labels = 1e9 + np.random.default_rng(3).normal(size=2 * CHUNK_ROWS + 17)
    result = measured(Metrics("squared"), labels, labels, np.ones(len(labels)))
    assert result["constant_rmse"] == pytest.approx(np.std(labels - 1e9), rel=1e-6)


@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
def test_results_do_not_depend_on_how_the_stream_is_cut(loss):
    rows = random_rows(3 * CHUNK_ROWS + 100)
    whole = measured(Metrics(loss), *rows)
    size = CHUNK_ROWS
    for cuts in ([1, 2, 3], [size - 1, size + 1], [size, 2 * size], range(0, 3 * size, 1000)):
        assert measured(Metrics(loss), *rows, cuts=cuts) == whole


@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
def test_asking_on_the_way_changes_no_later_result(loss):
    rows = random_rows(CHUNK_ROWS + 5000)
    asked = Metrics(loss)
    for part in zip(*(np.split(array, [100, 7000, CHUNK_ROWS]) for array in rows), strict=True):
        asked.update(*part)
        asked.result()
        asked.progress()
    assert asked.result() == measured(Metrics(loss), *rows)


@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
def test_rows_without_weight_change_only_the_row_count(loss):
    scores, labels, row_weights = random_rows(1000)
    silent = np.concatenate([row_weights, np.zeros(500)])
    more = measured(
        Metrics(loss), np.append(scores, scores[:500]), np.append(labels, labels[:500]), silent
    )
    fewer = measured(Metrics(loss), scores, labels, row_weights)
    assert more.pop("rows") == fewer.pop("rows") + 500
    assert more == pytest.approx(fewer, rel=1e-12)


@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
def test_without_rows_every_figure_is_nan(loss):
    result = Metrics(loss).result()
    assert (result.pop("rows"), result.pop("weight")) == (0, 0.0)
    assert all(math.isnan(figure) for figure in result.values())


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_a_single_class_has_a_loss_but_no_auc(label):
    result = measured(Metrics("logistic"), np.array([0.0, 1.0]), np.full(2, label))
    assert math.isnan(result["auc"])
    assert math.isnan(result["auc_error"])
    assert result["logloss"] > 0
    assert result["constant_logloss"] == 0.0


def test_a_nan_margin_is_not_hidden():
    clicks = measured(Metrics("logistic"), np.array([0.5, math.nan]), np.array([1.0, 0.0]))
    assert math.isnan(clicks["logloss"])
    assert math.isnan(clicks["auc"])
    rating = measured(Metrics("squared"), np.array([0.5, math.nan]), np.array([1.0, 0.0]))
    assert math.isnan(rating["rmse"])


def test_progress_gives_the_loss_so_far_and_since_the_last_call():
    metrics = Metrics("squared")
    metrics.update([1.0, 1.0], [0.0, 0.0])
    assert metrics.progress() == {"rows": 2, "loss": 1.0, "recent": 1.0}
    metrics.update([7.0, 7.0], [0.0, 0.0])
    assert metrics.progress() == {"rows": 4, "loss": 5.0, "recent": 7.0}
    assert math.isnan(metrics.progress()["recent"])


def test_weights_are_one_unless_given():
    scores, labels, _ = random_rows(100)
    ones = measured(Metrics("logistic"), scores, labels, np.ones(100))
    assert measured(Metrics("logistic"), scores, labels) == ones


def test_bad_input_is_an_error_that_says_what_is_wrong():
    metrics = Metrics("logistic")
    with pytest.raises(DataError, match="2 margins, 1 labels and 1 weights"):
        metrics.update([0.0, 1.0], [1.0])
    metrics.update([0.0], [0.5])
    with pytest.raises(
        DataError, match=r"label 0\.5 is not a click: logistic loss takes 0/1 or -1/1"
    ):
        metrics.result()
    with pytest.raises(HyperError, match="loss='hinge' must be one of logistic, squared, poisson"):
        Metrics("hinge")
