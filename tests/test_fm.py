"""FM against its definition, its gradient in numbers, and interactions that were planted."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import embedded
import oracle
import pqrlearn
from embedded import vectors_of
from pqrlearn import FM, LR, AdaGrad, Batch, Ftrl, Sgd
from pqrlearn.errors import Corrupt, HyperError, RowError
from pqrlearn.hyper import Descent
from strategies import Labelled, as_batch, as_dicts, labelled_rows, losses, random_batch

CLOSE: dict[str, Any] = {"rtol": 5e-4, "atol": 2e-5}  # weights are float32
LAST = 2**32 - 1
descents = st.one_of(
    st.builds(
        AdaGrad,
        eta=st.sampled_from([0.05, 0.2]),
        beta=st.sampled_from([0.5, 1.0]),
        l1=st.sampled_from([0.0, 0.01]),
        l2=st.sampled_from([0.0, 0.5]),
        factor_eta=st.sampled_from([None, 0.1]),
        factor_l2=st.sampled_from([None, 0.1]),
    ),
    st.builds(
        Sgd,
        eta=st.sampled_from([0.01, 0.05]),
        schedule=st.sampled_from(["fixed", "sqrt"]),
        l1=st.sampled_from([0.0, 0.01]),
        l2=st.sampled_from([0.0, 0.5]),
    ),
)


def twin(model: FM) -> embedded.FM:
    """The oracle with the same settings."""
    eta, _, l1, l2, factor_eta, _, _, factor_l2 = model.optimizer.rates()
    return embedded.FM(
        rank=model.rank,
        seed=model.seed,
        init=model.init,
        loss=model.loss,
        eta=eta,
        factor_eta=factor_eta,
        beta=getattr(model.optimizer, "beta", None),
        l1=l1,
        l2=l2,
        factor_l2=factor_l2,
        decays=model.optimizer.decays,
    )


def labelled(batch: Batch) -> Any:
    return zip(as_dicts(batch), batch.labels.tolist(), batch.weights.tolist(), strict=True)


# The oracle.


@settings(max_examples=80)
@given(labelled_rows(8), losses, descents, st.sampled_from([1, 2, 3, 9]), st.integers(0, 5))
def test_native_fm_matches_the_definition(
    rows: list[Labelled], loss: str, descent: Descent, rank: int, seed: int
) -> None:
    model = FM(loss, descent, rank=rank, seed=seed, init=0.2)
    reference = twin(model)
    predictions = model.learn_many(as_batch(rows))
    expected = [reference.learn(r.row, r.label, r.weight) for r in rows]
    np.testing.assert_allclose(predictions, expected, **CLOSE)
    unseen = [r.row | {77: 0.5, LAST: -1.0} for r in rows]
    margins = [reference.margin(row) for row in unseen]
    np.testing.assert_allclose(model.margin_many(unseen), margins, **CLOSE)
    found = vectors_of(model)
    assert found.keys() == reference.factors.keys()
    for feature, vector in reference.factors.items():
        np.testing.assert_allclose(found[feature], vector, **CLOSE)


@pytest.mark.parametrize("rank", [2, 3, 8, 100, 512])
@pytest.mark.parametrize("descent", [AdaGrad(l1=1e-4, l2=0.01), Sgd(l1=1e-4, l2=0.01)])
def test_every_rank_matches_the_definition(rank: int, descent: Descent) -> None:
    batch = random_batch(seed=3, rows=40)
    model = FM("squared", descent, rank=rank, init=0.05)
    reference = twin(model)
    expected = [reference.learn(*row) for row in labelled(batch)]
    np.testing.assert_allclose(model.learn_many(batch), expected, **CLOSE)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_a_step_goes_down_the_numerical_gradient(loss: str) -> None:
    """With plain steps of size 1e-3, what a row changes is -1e-3 times the slope of its loss."""
    eta, h, label = 1e-3, 1e-5, 1.0
    row = {0: 0.5, 3: -1.25, 9: 2.0}
    model = FM(loss, Sgd(eta=eta), rank=4, init=0.5)
    start = {i: twin(model).initial(i) for i in row}
    model.learn_one(row, label)
    moved = vectors_of(model)
    for i in row:
        for c in range(4):
            near = [{j: v.copy() for j, v in start.items()} for _ in range(2)]
            near[0][i][c] += h
            near[1][i][c] -= h
            up, down = (oracle.loss_of(loss, embedded.pair_sum(row, v), label) for v in near)
            gradient = (up - down) / (2 * h)
            assert moved[i][c] == pytest.approx(start[i][c] - eta * gradient, abs=2e-7)


# Where factors start.


def test_initial_factors_are_a_hash_of_seed_feature_and_component() -> None:
    row = {0: 1.0, 17: -2.0, LAST: 0.5}
    for seed in (0, 1, 2**63 - 1):
        model = FM("squared", rank=5, seed=seed, init=0.3)
        vectors = twin(model).vectors(row)
        assert model.predict_one(row) == pytest.approx(embedded.pair_sum(row, vectors), rel=1e-5)


def test_initial_factors_are_spread_evenly() -> None:
    drawn = [embedded.initial_factor(3, 1.0, i, c) for i in range(500) for c in range(20)]
    assert np.mean(drawn) == pytest.approx(0, abs=0.02)
    assert np.var(drawn) == pytest.approx(1 / 3, abs=0.01)
    assert len(set(drawn)) > 9980


def test_seeds_differ_and_agree() -> None:
    batch = random_batch(seed=4)
    one, same, other = FM(seed=1), FM(seed=1), FM(seed=2)
    for model in (one, same, other):
        model.learn_many(batch)
    assert one.to_bytes() == same.to_bytes()
    assert not np.array_equal(one.margin_many(batch), other.margin_many(batch))


def test_a_feature_never_seen_has_its_initial_factors_and_no_linear_weight() -> None:
    model = FM("squared", rank=4, init=0.2)
    batch = random_batch(seed=5)
    model.learn_many(batch)
    reference = twin(model)
    reference.factors = {i: np.array(v) for i, v in vectors_of(model).items()}
    row = as_dicts(batch)[0]
    before, after = model.margin_many([row, row | {LAST: 1.5}])
    vectors = reference.vectors(row | {LAST: 1.5})
    added = embedded.pair_sum(row | {LAST: 1.5}, vectors) - embedded.pair_sum(row, vectors)
    assert after - before == pytest.approx(added, rel=1e-3, abs=1e-6)


# What it is for.


def test_planted_interactions_of_low_rank_are_found() -> None:
    """The noise is 0.1, what a linear model can explain next to nothing."""
    rows = embedded.planted(seed=1, rows=30_000)
    labels = embedded.planted_labels(rows, features=48, noise=0.1)
    held = slice(25_000, None)
    fm = FM("squared", AdaGrad(eta=0.3, factor_eta=0.3), rank=4, init=0.1)
    lr = LR("squared", Ftrl(alpha=0.3))
    for model in (fm, lr):
        model.learn_many(rows[: held.start], labels[: held.start])
    error = {
        m.kind: np.sqrt(np.mean((m.predict_many(rows[held]) - labels[held]) ** 2)) for m in (fm, lr)
    }
    assert error["fm"] < 0.3 < 2 < error["lr"]


def test_an_l1_above_the_initial_factors_makes_it_a_linear_model_for_ever() -> None:
    """Zero is absorbing: with all factors at zero their gradients are zero as well."""
    batch = random_batch(seed=6, rows=300)
    model = FM("squared", Sgd(eta=0.05, l1=1.0), rank=4, init=0.01)
    model.learn_many(batch)
    assert model.nonzeros()["factor"] == 0
    model.learn_many(batch)
    assert model.nonzeros()["factor"] == 0


@pytest.mark.parametrize("descent", [AdaGrad(), Sgd()])
def test_the_defaults_leave_factors_alive(descent: Descent) -> None:
    batch = random_batch(seed=6, rows=300)
    model = FM(optimizer=descent)
    model.learn_many(batch)
    assert model.nonzeros()["factor"] == model.rank * len(np.unique(batch.indices))


# Edges.


@pytest.mark.parametrize("descent", [AdaGrad(), AdaGrad(eta=1e12), Sgd(eta=1.0)])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("row", [{0: 1e30, 1: 1e30}, {0: 1.0, 77: 1e30}, {88: 1e30, 99: -1e30}])
def test_rows_too_large_to_learn_are_refused(
    row: dict[int, float], loss: str, descent: Descent
) -> None:
    model = FM(loss, descent)
    before = model.to_bytes()
    with pytest.raises(RowError):
        model.learn_one(row, 1.0)
    with pytest.raises(RowError):
        model.learn_many([row], [1.0])
    assert model.to_bytes() == before


@pytest.mark.parametrize("descent", [AdaGrad(), Sgd(eta=1.0)])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_no_row_makes_a_model_that_is_not_finite(loss: str, descent: Descent) -> None:
    model = FM(loss, descent)
    batch = random_batch(seed=7)
    for value in (1e3, 1e6, 1e10, 1e15, 1e20, 1e38, -1e10, -1e38):
        for label in (0.0, 1.0):
            with contextlib.suppress(RowError):
                model.learn_one({0: value, 1: 1.0, 77: value}, label)
            assert np.isfinite(model.predict_many(batch)).all()
            assert all(np.isfinite(model.weights(b)[1]).all() for b in model.blocks)


def test_settings_out_of_range_are_errors() -> None:
    for wrong in ({"rank": 0}, {"rank": 513}, {"rank": 2.5}, {"seed": -1}, {"init": 1e39}):
        with pytest.raises(HyperError):
            FM(**wrong)  # type: ignore[arg-type]
    with pytest.raises(HyperError, match="must be an AdaGrad or Sgd"):
        FM(optimizer=Ftrl())
    for make in (AdaGrad, Sgd):
        for rates in ({"eta": 0.0}, {"l1": -1.0}, {"factor_eta": 0.0}, {"factor_l2": -1.0}):
            with pytest.raises(HyperError):
                make(**rates)
    with pytest.raises(HyperError):
        AdaGrad(beta=0.0)
    with pytest.raises(HyperError):
        Sgd(schedule="cubic")


def test_a_damaged_model_is_refused() -> None:
    model = FM(rank=3)
    model.learn_many(random_batch(seed=8))
    parts = model._tensors()
    good = model.settings()
    names = model.names
    for name, tensor in parts.items():
        for bad in (tensor[:-1], np.full_like(tensor, 7 if tensor.dtype == np.uint32 else np.nan)):
            with pytest.raises(Corrupt):
                FM._from_parts("x", "fm", dict(good), parts | {name: bad})
        with pytest.raises(Corrupt):
            FM._from_parts("x", "fm", dict(good), {k: v for k, v in parts.items() if k != name})
    for name in good:
        with pytest.raises(Corrupt):
            FM._from_parts("x", "fm", {k: v for k, v in good.items() if k != name}, dict(parts))
    assert FM._restored(good, parts, names).to_bytes() == model.to_bytes()


def test_the_largest_index_works() -> None:
    model = FM("squared")
    model.learn_many([{0: 1.0, LAST: 1.0}] * 5, [1.0] * 5)
    assert set(vectors_of(model)) == {0, LAST}
    assert vectors_of(pqrlearn.from_bytes(model.to_bytes())) == vectors_of(model)


def test_memory_follows_the_features_learned() -> None:
    model = FM("squared", rank=512)
    model.learn_many([{i * 40_000_000: 1.0 for i in range(100)}], [1.0])
    assert len(model.to_bytes()) < 500_000
