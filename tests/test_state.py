"""What a learner has learned as plain arrays, and weights turned back into slots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import pqrlearn
from pqrlearn import FM, LR, PQR, QR, Ftrl, FtrlGeneral, Ogd, Separation, State
from pqrlearn.errors import HyperError
from pqrlearn.schema import Column, Schema
from strategies import random_batch

ROWS = random_batch(seed=9)


def test_a_state_is_a_copy() -> None:
    model = LR()
    model.learn_one({"a": 1.0}, 1)
    state, before = model.state(), model.to_bytes()
    model.learn_one({"a": 1.0, "b": 1.0}, 0)
    assert LR.from_state(state).to_bytes() == before
    twin = LR.from_state(state)
    twin.learn_one({"c": 1.0}, 1)
    assert LR.from_state(state).to_bytes() == before
    assert len(state.names) == 1


def test_a_state_of_another_kind_or_with_parts_missing_is_an_error() -> None:
    state = LR().state()
    with pytest.raises(HyperError, match="a state of lr, not of qr"):
        QR.from_state(state)
    fewer = {name: array for name, array in state.arrays.items() if name != "linear.keys"}
    with pytest.raises(HyperError, match=r"an inconsistent state of lr: linear\.keys is missing"):
        LR.from_state(replace(state, arrays=fewer))
    wrong = np.array([[1.0, -1.0]], np.float32)
    arrays = {**state.arrays, "linear.keys": np.array([3], np.uint32), "linear.slots": wrong}
    with pytest.raises(HyperError, match="invalid optimizer state"):
        LR.from_state(replace(state, arrays=arrays))


@pytest.mark.parametrize("optimizer", [Ogd(), FtrlGeneral()], ids=lambda o: o.name)
def test_a_sum_of_squares_is_no_state_of_an_optimizer_that_keeps_none(optimizer: Any) -> None:
    state = LR(optimizer=optimizer).state()
    slots = np.array([[1.0, 1.0]], np.float32)
    arrays = {**state.arrays, "linear.keys": np.array([3], np.uint32), "linear.slots": slots}
    with pytest.raises(HyperError, match="invalid optimizer state"):
        LR.from_state(replace(state, arrays=arrays))


def test_features_can_be_renumbered() -> None:
    """By the state alone: other numbers, the same weights."""
    model = LR("squared")
    model.learn_many(ROWS)
    state = model.state()
    moved = state.arrays["linear.keys"] + np.uint32(100)
    settings = state.settings | {"next_feature": int(moved[-1]) + 1}
    arrays = state.arrays | {"linear.keys": moved}
    other = LR.from_state(State(state.kind, settings, arrays, state.names))
    assert other.predict_one({100: 1.0}) == model.predict_one({0: 1.0})


weights = st.floats(-100, 100, width=32)
sums = st.floats(0, 1e8, width=32)


@given(
    weight=weights,
    n=sums,
    alpha=st.sampled_from([0.01, 0.5]),
    l1=st.sampled_from([0.0, 0.7]),
    l2=st.sampled_from([0.0, 2.0]),
)
def test_a_slot_of_ftrl_has_the_weight_and_the_confidence_asked_for(
    weight: float, n: float, alpha: float, l1: float, l2: float
) -> None:
    rates = {"alpha": alpha, "beta": 1.0, "l1": l1, "l2": l2}
    model = LR(optimizer=Ftrl(**rates))
    for z, root in (model.slots_of("linear", [weight], n)[0], model.bias_slot_of(weight, n)):
        rates["l1"] = l1 if isinstance(z, np.float32) else 0.0
        found = oracle.ftrl_weight(float(z), float(root) ** 2, **rates)
        tiny = 1e-6 * (1 + l1 / ((1 + float(root)) / alpha + l2))  # z is a float: l1 hides digits
        assert found == pytest.approx(weight, rel=1e-5, abs=tiny)
        assert float(root) ** 2 == pytest.approx(n, rel=1e-5)


@pytest.mark.parametrize(
    "optimizer", [Ogd(radius=0.5), FtrlGeneral(eta=0.3)], ids=["ogd", "general"]
)
def test_a_slot_of_the_others_has_the_weight_that_the_scalars_give_it(optimizer: Any) -> None:
    model = PQR(Separation.top_k(ROWS, 4), "squared", optimizer)
    model.learn_many(ROWS)
    wanted = np.array([0.25, -3.0, 0.0], np.float32)
    for block in ("linear", "pair", "shared"):
        slots = model.slots_of(block, wanted, n=7.0)
        np.testing.assert_allclose(model.weights_of(block, slots), wanted, rtol=1e-6)
        assert not slots[:, 1].any()


@pytest.mark.parametrize("family", [LR, QR, "pqr"])
def test_weights_turned_into_slots_predict_the_same(family: Any) -> None:
    """A warm start: all slots are made anew from weights and sums."""
    separation = Separation.top_k(ROWS, 4)
    model = PQR(separation, "squared") if family == "pqr" else family("squared")
    model.learn_many(ROWS)
    state = model.state()
    arrays = dict(state.arrays)
    for block in model.blocks[1:]:
        slots = arrays[f"{block}.slots"]
        arrays[f"{block}.slots"] = model.slots_of(
            block, model.weights_of(block, slots), np.square(slots[:, 1])
        )
    twin = type(model).from_state(State(state.kind, state.settings, arrays, state.names))
    np.testing.assert_allclose(
        twin.margin_many(ROWS), model.margin_many(ROWS), rtol=1e-4, atol=1e-5
    )


def test_a_schema_is_kept_with_the_model() -> None:
    model = FM()
    model.schema = Schema((Column("click", "label"), Column("age", "bins", edges=(18.0,))))
    for twin in (pqrlearn.from_bytes(model.to_bytes()), FM.from_state(model.state())):
        assert twin.schema == model.schema
        assert twin.to_bytes() == model.to_bytes()
