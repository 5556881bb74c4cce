"""The native PQR, LR and QR against the oracle, and against each other."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import pqrlearn
from pqrlearn import LR, PQR, QR, Batch, Ftrl, Separation
from pqrlearn.hyper import Optimizer
from pqrlearn.learners.base import Learner
from strategies import (
    Labelled,
    as_batch,
    as_dicts,
    eager,
    labelled_rows,
    losses,
    nonzero_weights,
    optimizers,
    random_batch,
    scales,
)

FEATURES = 8
CLOSE: dict[str, Any] = {"rtol": 2e-4, "atol": 2e-5}  # slots are float32
some = settings(max_examples=80)


def assert_same_model(native: Learner, model: oracle.PQR, rows: list[Labelled]) -> None:
    """Learns the rows in both and compares every prediction, then every weight."""
    predictions = native.learn_many(as_batch(rows))
    expected = [model.learn(r.row, r.label, r.weight) for r in rows]
    np.testing.assert_allclose(predictions, expected, **CLOSE)
    assert_same_weights(native, model)
    unseen = [r.row | {FEATURES + 1: 0.5} for r in rows]
    np.testing.assert_allclose(
        native.margin_many(unseen), [model.margin(row) for row in unseen], **CLOSE
    )


def assert_same_weights(native: Learner, model: oracle.PQR) -> None:
    """Equal weights, and equally many zeros; only a sum within rounding of l1 may go either way."""
    found = nonzero_weights(native)
    expected = {key: weight for key, weight in model.weights().items() if weight != 0}
    for key in found.keys() | expected.keys():
        assert found.get(key, 0.0) == pytest.approx(
            expected.get(key, 0.0), rel=CLOSE["rtol"], abs=CLOSE["atol"]
        ), key
    if isinstance(model.optimizer, oracle.Ftrl):
        for key in found.keys() ^ expected.keys():
            edge = 0.0 if key == ("bias",) else model.optimizer.l1
            assert abs(abs(model.optimizer.z[key]) - edge) < 1e-5, key


@some
@given(labelled_rows(FEATURES), st.integers(0, FEATURES), losses, optimizers, scales, st.booleans())
def test_native_pqr_matches_the_oracle(
    rows: list[Labelled],
    order: int,
    loss: Any,
    optimizer: Optimizer,
    scale: float | None,
    bias: bool,
) -> None:
    separation = Separation.top_k(as_batch(rows), order)
    high = oracle.top_k([r.row for r in rows], order)
    assert separation.features.tolist() == high
    native = PQR(separation, loss=loss, optimizer=optimizer, interaction_scale=scale, bias=bias)
    model = oracle.PQR(high=high, loss=loss, scale=scale, bias=bias, optimizer=eager(optimizer))
    assert_same_model(native, model, rows)


@some
@given(labelled_rows(FEATURES), labelled_rows(FEATURES), st.integers(1, 4))
def test_features_may_be_high_by_other_rows_and_by_a_threshold(
    counted: list[Labelled], rows: list[Labelled], min_count: int
) -> None:
    high = oracle.threshold([r.row for r in counted], min_count)
    separation = Separation.threshold(as_batch(counted), min_count)
    assert separation.features.tolist() == high
    native = PQR(separation, loss="squared", interaction_scale=None)
    assert_same_model(native, oracle.PQR(high=high, optimizer=eager(native.optimizer)), rows)


@some
@given(labelled_rows(FEATURES), losses, optimizers, st.booleans())
def test_native_lr_matches_the_oracle(
    rows: list[Labelled], loss: Any, optimizer: Optimizer, bias: bool
) -> None:
    native = LR(loss=loss, optimizer=optimizer, bias=bias)
    model = oracle.PQR(loss=loss, bias=bias, optimizer=eager(optimizer))
    assert_same_model(native, model, rows)


@some
@given(labelled_rows(FEATURES), losses, optimizers, scales, st.booleans())
def test_native_qr_matches_the_oracle(
    rows: list[Labelled], loss: Any, optimizer: Optimizer, scale: float | None, bias: bool
) -> None:
    native = QR(loss=loss, optimizer=optimizer, interaction_scale=scale, bias=bias)
    model = oracle.QR(loss=loss, scale=scale, bias=bias, optimizer=eager(optimizer))
    assert_same_model(native, model, rows)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_a_long_run_stays_beside_the_oracle(loss: Any) -> None:
    batch = random_batch(seed=1, rows=3000, features=12)
    optimizer = Ftrl(alpha=0.1, beta=1.0, l1=0.5, l2=0.1)
    separation = Separation.top_k(batch, 5)
    native = PQR(separation, loss=loss, optimizer=optimizer, interaction_scale=0.3)
    model = oracle.PQR(
        high=separation.features.tolist(), loss=loss, scale=0.3, optimizer=eager(optimizer)
    )
    expected = [
        model.learn(*row) for row in zip(as_dicts(batch), batch.labels, batch.weights, strict=True)
    ]
    np.testing.assert_allclose(native.learn_many(batch), expected, rtol=1e-3, atol=1e-4)


def test_long_rows_and_pairs_of_rare_features_match_the_oracle() -> None:
    """Rows around 64 high features, and tables of pairs that grow until they are arrays."""
    rng, order = np.random.default_rng(7), 20_000
    separation = Separation.top_k(Batch.from_rows([(range(order), [1.0] * order)]), order)
    last = order - 1  # in every row, so that its table meets more than a thousand features
    rows = []
    for size in [3, 20, 63, 64, 65, 100] * 5:
        others = rng.choice(last, size - 1, replace=False).tolist()
        rows.append(([last, *others], rng.choice([-1.0, 0.5, 2.0], size).tolist()))
    batch = Batch.from_rows(rows * 2, labels=rng.integers(0, 2, 2 * len(rows)))
    native = PQR(separation, loss="squared")
    native.learn_many(batch)
    assert_same_weights(native, _learned_oracle(batch, list(range(order)), native))
    prepared = PQR(separation, loss="squared")
    prepared.learn_many(prepared._prepared(batch))
    assert prepared.to_bytes() == native.to_bytes()
    again = pqrlearn.from_bytes(native.to_bytes())
    np.testing.assert_array_equal(again.margin_many(batch), native.margin_many(batch))


# Models that are each other's special cases.


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_pqr_of_order_zero_is_lr(loss: Any) -> None:
    batch = random_batch(seed=2)
    pqr, lr = PQR(Separation.top_k(batch, 0), loss=loss), LR(loss=loss)
    np.testing.assert_array_equal(pqr.learn_many(batch), lr.learn_many(batch))
    assert nonzero_weights(pqr) == nonzero_weights(lr)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_pqr_with_every_feature_high_is_qr_without_squares(loss: Any) -> None:
    """The oracle's squares are put back to zero after every row."""
    batch = random_batch(seed=3)
    pqr = PQR(Separation.top_k(batch, 100), loss=loss, interaction_scale=None)
    optimizer = oracle.Ftrl(**asdict(pqr.optimizer))
    model = oracle.QR(loss=loss, optimizer=optimizer)
    expected = []
    for row, label, weight in zip(as_dicts(batch), batch.labels, batch.weights, strict=True):
        expected.append(model.learn(row, label, weight))
        for key in [key for key in optimizer.z if key[0] == "square"]:
            optimizer.z[key] = optimizer.n[key] = 0.0
    np.testing.assert_allclose(pqr.learn_many(batch), expected, **CLOSE)
    assert pqr.nonzeros()["shared"] == 0


def test_an_order_above_the_number_of_features_makes_all_of_them_high() -> None:
    batch = random_batch(seed=4)
    separation = Separation.top_k(batch, 10**6)
    assert separation.order == separation.distinct == len(np.unique(batch.indices))
    model = PQR(separation, loss="squared")
    model.learn_many(batch)
    assert_same_weights(model, _learned_oracle(batch, np.unique(batch.indices).tolist(), model))


def _learned_oracle(batch: Batch, high: list[int], like: PQR) -> oracle.PQR:
    model = oracle.PQR(
        high=high, loss=like.loss, scale=like.interaction_scale, optimizer=eager(like.optimizer)
    )
    for row, label, weight in zip(as_dicts(batch), batch.labels, batch.weights, strict=True):
        model.learn(row, label, weight)
    return model


def test_a_feature_never_seen_is_low_in_pqr() -> None:
    batch = random_batch(seed=5)
    separation = Separation.top_k(batch, 3)
    model = PQR(separation, loss="squared", interaction_scale=None)
    model.learn_many(batch)
    shared = dict(zip(*(array.tolist() for array in model.weights("shared")), strict=True))
    assert len(shared) == 3
    row = dict.fromkeys(separation.features.tolist(), 0.5)
    before, after = model.margin_many([row, row | {4_000_000_000: 2.0}])
    assert after - before == pytest.approx(sum(0.5 * 2.0 * q for q in shared.values()), rel=1e-4)
