"""DiFacto against its definition: ranks by frequency, factors masked by zero weights."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import embedded
import oracle
import pqrlearn
from embedded import vectors_of
from pqrlearn import LR, DiFacto, Ftrl, Ogd
from pqrlearn.errors import Corrupt, HyperError, RowError
from strategies import Labelled, as_batch, as_dicts, ftrls, labelled_rows, losses, random_batch

CLOSE: dict[str, Any] = {"rtol": 5e-4, "atol": 2e-5}  # weights are float32
LAST = 2**32 - 1


def twin(model: DiFacto) -> embedded.DiFacto:
    """The oracle with the same settings."""
    return embedded.DiFacto(
        lr=oracle.PQR(
            loss=model.loss, bias=model.bias, optimizer=oracle.Ftrl(**asdict(model.optimizer))
        ),
        tiers=model.tiers,
        seed=model.seed,
        init=model.init,
        factor_eta=model.factor_eta,
        factor_beta=model.factor_beta,
        factor_l2=model.factor_l2,
    )


def labelled(batch: Any) -> Any:
    return zip(as_dicts(batch), batch.labels.tolist(), batch.weights.tolist(), strict=True)


def ranks(model: DiFacto) -> dict[int, int]:
    return {feature: len(vector) for feature, vector in vectors_of(model).items()}


# The oracle.


@settings(max_examples=80)
@given(
    labelled_rows(8),
    losses,
    ftrls,
    st.sampled_from([((1, 2), (3, 5), (6, 17)), ((2, 8), (4, 9)), ((1, 3),), ()]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([0.125, 1.0]),
    st.booleans(),
)
def test_native_difacto_matches_the_definition(
    rows: list[Labelled],
    loss: str,
    optimizer: Ftrl,
    tiers: tuple[tuple[int, int], ...],
    factor_l2: float,
    factor_beta: float,
    bias: bool,
) -> None:
    model = DiFacto(
        loss,
        optimizer,
        tiers=tiers,
        factor_eta=0.1,
        factor_beta=factor_beta,
        factor_l2=factor_l2,
        init=0.2,
        bias=bias,
    )
    reference = twin(model)
    predictions = model.learn_many(as_batch(rows))
    expected = [reference.learn(r.row, r.label, r.weight) for r in rows]
    if any(
        abs(abs(z) - optimizer.l1) < 1e-5
        for key, z in reference.lr.optimizer.z.items()
        if len(key) > 1
    ):
        return  # within rounding of l1 a weight may go either way, and its factors with it
    np.testing.assert_allclose(predictions, expected, **CLOSE)
    unseen = [r.row | {77: 0.5, LAST: -1.0} for r in rows]
    margins = [reference.margin(row) for row in unseen]
    np.testing.assert_allclose(model.margin_many(unseen), margins, **CLOSE)
    found = vectors_of(model)
    assert found.keys() == {i for i, vector in reference.factors.items() if len(vector)}
    for feature, vector in found.items():
        np.testing.assert_allclose(vector, reference.factors[feature], **CLOSE)


@pytest.mark.parametrize("rank", [2, 3, 8, 100, 512])
def test_every_rank_matches_the_definition(rank: int) -> None:
    batch = random_batch(seed=3, rows=60)
    model = DiFacto("squared", tiers=((2, 1), (10, rank)), factor_eta=0.1, init=0.05)
    reference = twin(model)
    expected = [reference.learn(*row) for row in labelled(batch)]
    np.testing.assert_allclose(model.learn_many(batch), expected, **CLOSE)
    assert set(ranks(model).values()) == {1, rank}


# Ranks.


def test_the_rank_grows_with_the_rows_learned() -> None:
    model = DiFacto("squared", tiers=((2, 3), (4, 8), (5, 20)))
    for expected in (0, 3, 3, 8, 20, 20):
        model.learn_one({7: 1.0}, 1.0)
        model.learn_one({7: 1.0}, 1.0, weight=0.0)  # teaches nothing, so it does not count
        assert ranks(model).get(7, 0) == expected


def test_growing_keeps_the_factors_and_starts_new_ones_from_the_hash() -> None:
    row = {3: 1.0, 4: 2.0}
    model = DiFacto("squared", Ftrl(), tiers=((1, 2), (30, 4)), factor_eta=0.5, init=0.5, seed=5)
    for _ in range(29):
        model.learn_one(row, 3.0)
    before = vectors_of(model)
    margin = model.margin_many([row])[0]
    twins = [embedded.initial_factor(5, 0.5, i, c) for i in row for c in (0, 1)]
    assert not np.allclose(np.ravel(list(before.values())), twins, atol=1e-3)
    model.learn_one(row, margin)  # right already: nothing moves but the rank
    after = vectors_of(model)
    for i in row:
        assert after[i][:2] == pytest.approx(before[i], rel=1e-6)
        started = [embedded.initial_factor(5, 0.5, i, c) for c in (2, 3)]
        assert after[i][2:] == pytest.approx(started, rel=1e-6)


def test_a_product_of_two_ranks_ends_with_the_smaller_one() -> None:
    model = DiFacto("squared", Ftrl(), tiers=((1, 2), (3, 9)), init=0.5)
    model.learn_many([{0: 1.0}] * 3 + [{1: 1.0}], [1.0] * 4)
    assert ranks(model) == {0: 9, 1: 2}
    vectors = vectors_of(model)
    alone = model.margin_many([{0: 1.0}, {1: 1.0}, {}])
    product = np.dot(vectors[0][:2], vectors[1])
    both = model.margin_many([{0: 1.0, 1: 1.0}])[0]
    assert both - (alone[0] + alone[1] - alone[2]) == pytest.approx(product, rel=1e-4)


def test_factors_are_masked_not_dropped_while_the_linear_weight_is_zero() -> None:
    model = DiFacto("squared", Ftrl(l1=1.0, alpha=0.5), tiers=((1, 4),), init=0.5, bias=False)
    model.learn_many([{0: 1.0}, {1: 1.0}], [5.0, 5.0])
    together = {0: 1.0, 1: 1.0}
    assert model.nonzeros()["linear"] == 2
    weights = dict(zip(*(a.tolist() for a in model.weights("linear")), strict=True))
    assert model.predict_one(together) != pytest.approx(weights[0] + weights[1], abs=1e-3)
    kept = vectors_of(model)
    while dict(zip(*(a.tolist() for a in model.weights("linear")), strict=True))[0] != 0:
        model.learn_one({0: 1.0}, -0.5)
    assert vectors_of(model) == kept
    assert model.predict_one(together) == pytest.approx(weights[1], rel=1e-6)
    model.learn_one(together, 0.0)  # the factors of 0 sleep, so nothing meets those of 1
    assert vectors_of(model) == kept


def test_memory_follows_the_factors_allocated() -> None:
    rows = [{i: 1.0} for i in range(20_000)]
    model = DiFacto("squared", tiers=((2, 512),))
    model.learn_many(rows, [1.0] * len(rows))
    assert model.nonzeros()["factor"] == 0
    assert len(model.to_bytes()) < 20 * len(rows)


# What it is for.


def test_planted_interactions_of_low_rank_are_found() -> None:
    rows = embedded.planted(seed=1, rows=30_000)
    labels = embedded.planted_labels(rows, features=48, noise=0.1)
    held = slice(25_000, None)
    models = (
        DiFacto("squared", Ftrl(alpha=0.3), tiers=((10, 2), (100, 4)), factor_eta=0.3, init=0.1),
        LR("squared", Ftrl(alpha=0.3)),
    )
    error = {}
    for model in models:
        model.learn_many(rows[: held.start], labels[: held.start])
        error[model.kind] = np.sqrt(np.mean((model.predict_many(rows[held]) - labels[held]) ** 2))
    assert error["difacto"] < 0.3 < 2 < error["lr"]


def test_without_tiers_it_is_lr() -> None:
    batch = random_batch(seed=2)
    difacto, lr = DiFacto("squared", Ftrl(l1=0.1), tiers=()), LR("squared", Ftrl(l1=0.1))
    np.testing.assert_array_equal(difacto.learn_many(batch), lr.learn_many(batch))
    np.testing.assert_array_equal(difacto.weights("linear")[1], lr.weights("linear")[1])


def test_seeds_differ_and_agree() -> None:
    batch = random_batch(seed=4)
    models = [DiFacto(seed=seed, tiers=((1, 4),)) for seed in (1, 1, 2)]
    for model in models:
        model.learn_many(batch)
    assert models[0].to_bytes() == models[1].to_bytes()
    assert not np.array_equal(models[0].margin_many(batch), models[2].margin_many(batch))


# Edges.


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("row", [{0: 1e30, 1: 1e30}, {0: 1.0, 77: 1e30}, {88: 1e30, 99: -1e30}])
def test_rows_too_large_to_learn_are_refused(row: dict[int, float], loss: str) -> None:
    model = DiFacto(loss)
    before = model.to_bytes()
    label = 2.0 if loss == "poisson" else 1.0  # at a margin of 0 a count of 1 teaches nothing
    with pytest.raises(RowError):
        model.learn_one(row, label)
    with pytest.raises(RowError):
        model.learn_many([row], [label])
    assert model.to_bytes() == before


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_no_row_makes_a_model_that_is_not_finite(loss: str) -> None:
    model = DiFacto(loss, tiers=((1, 4), (3, 9)))
    batch = random_batch(seed=7)
    model.learn_many(batch)
    for value in (1e3, 1e6, 1e10, 1e15, 1e20, 1e38, -1e10, -1e38):
        for label in (0.0, 1.0):
            with contextlib.suppress(RowError):
                model.learn_one({0: value, 1: 1.0, 77: value}, label)
            assert np.isfinite(model.predict_many(batch)).all()
            assert all(np.isfinite(model.weights(b)[1]).all() for b in model.blocks)


def test_settings_out_of_range_are_errors() -> None:
    wrong: list[Any] = [((0, 4),), ((1, 0),), ((1, 513),), ((2, 4), (2, 5)), ((1, 4), (2, 4))]
    wrong += [((1, 2, 3),), 7, ((1.5, 2),), ((2**32, 4),), "10:4"]
    for tiers in wrong:
        with pytest.raises(HyperError):
            DiFacto(tiers=tiers)
    wrong_settings: list[dict[str, float]] = [
        *({"factor_eta": rate} for rate in (0.0, 1e39)),
        *({"factor_beta": rate} for rate in (0.0, 1e39)),
        *({"factor_l2": rate} for rate in (-1.0, 1e39)),
        *({"init": rate} for rate in (0.0, 1e39)),  # the largest float is 3e38
        {"seed": -1},
    ]
    for setting in wrong_settings:
        with pytest.raises(HyperError):
            DiFacto(**setting)  # type: ignore[arg-type]
    with pytest.raises(HyperError, match="must be a Ftrl"):
        DiFacto(optimizer=Ogd())


def test_a_damaged_model_is_refused() -> None:
    model = DiFacto(tiers=((2, 3), (9, 5)))
    model.learn_many(random_batch(seed=8))
    parts, good = model._tensors(), model.settings()
    for name, tensor in parts.items():
        for bad in (tensor[:-1], np.full_like(tensor, 0 if tensor.dtype == np.uint32 else np.nan)):
            with pytest.raises(Corrupt):
                DiFacto._from_parts("x", "difacto", dict(good), parts | {name: bad})
        rest = {k: v for k, v in parts.items() if k != name}
        with pytest.raises(Corrupt):
            DiFacto._from_parts("x", "difacto", dict(good), rest)
    for name in good.keys() - {"factor_beta"}:
        fewer = {k: v for k, v in good.items() if k != name}
        with pytest.raises(Corrupt):
            DiFacto._from_parts("x", "difacto", fewer, dict(parts))
    assert DiFacto._restored(good, parts, model.names).to_bytes() == model.to_bytes()


def test_a_model_without_a_factor_beta_has_that_of_its_time() -> None:
    model = DiFacto(factor_beta=1.0)
    model.learn_many(random_batch(seed=8))
    assert "factor_beta" not in model.settings()
    again = pqrlearn.from_bytes(model.to_bytes())
    assert isinstance(again, DiFacto)
    assert again.factor_beta == 1.0
    assert DiFacto(factor_beta=0.5).settings()["factor_beta"] == 0.5


def test_the_largest_index_works() -> None:
    model = DiFacto("squared", tiers=((2, 3),))
    model.learn_many([{0: 1.0, LAST: 1.0}] * 5, [1.0] * 5)
    assert ranks(model) == {0: 3, LAST: 3}
    assert vectors_of(pqrlearn.from_bytes(model.to_bytes())) == vectors_of(model)
