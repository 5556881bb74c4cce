"""OGD and general FTRL: the ball, the steps, the regret, the rescaling, their settings.

That every model learns with every optimizer what the oracle learns is in test_models; that each
keeps the contract, exact resume among it, is in test_contract.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import pqrlearn
from pqrlearn import LR, PQR, QR, Batch, Ftrl, FtrlGeneral, Ogd, Separation, modelfile
from pqrlearn.errors import Corrupt, HyperError, RowError
from pqrlearn.hyper import Optimizer
from pqrlearn.learners.base import Learner
from strategies import (
    Labelled,
    as_batch,
    as_dicts,
    cut,
    eager,
    labelled_rows,
    losses,
    nonzero_weights,
    random_batch,
)

ROWS = random_batch(seed=31, rows=300)
FAMILIES = [PQR, LR, QR]
NEW = [
    Ogd(eta=0.05, schedule="fixed"),
    Ogd(eta=0.5, schedule="sqrt", radius=0.5),
    FtrlGeneral(eta=0.05),
    FtrlGeneral(eta=0.1, radius=0.5),
]
names = ["ogd", "ogd in a ball", "general", "general in a ball"]


def new(family: Any, optimizer: Optimizer, loss: str = "squared", rows: Batch = ROWS) -> Learner:
    """A fresh PQR of order 4, LR or QR."""
    high = [Separation.top_k(rows, 4)] * (family is PQR)
    model: Learner = family(*high, loss=loss, optimizer=optimizer)
    return model


def length(model: Learner) -> float:
    return oracle.norm(nonzero_weights(model))


def scalars(model: Learner) -> list[float]:
    """What the optimizer keeps beside the slots: of OGD the rows, the scale and a norm."""
    kept: list[float] = modelfile.from_bytes(model.to_bytes())[2]["optimizer"].tolist()
    return kept


def learned_by_oracle(model: Any, batch: Batch) -> npt.NDArray[np.float64]:
    rows = zip(as_dicts(batch), batch.labels, batch.weights, strict=True)
    return np.array([model.learn(*row) for row in rows])


# The ball.

balls = st.one_of(
    st.builds(
        Ogd,
        eta=st.sampled_from([0.01, 1.0, 30.0]),
        schedule=st.sampled_from(["fixed", "sqrt"]),
        radius=st.sampled_from([1e-3, 0.3, 5.0]),
    ),
    st.builds(
        FtrlGeneral,
        eta=st.sampled_from([0.01, 1.0, 30.0]),
        radius=st.sampled_from([1e-3, 0.3, 5.0]),
    ),
)


@settings(max_examples=60)
@given(labelled_rows(max_rows=20), balls, st.sampled_from(FAMILIES), losses)
def test_no_row_takes_the_weights_out_of_the_ball(
    rows: list[Labelled], optimizer: Any, family: Any, loss: Any
) -> None:
    model = new(family, optimizer, loss, as_batch(rows))
    for r in rows:
        model.learn_one(r.row, r.label, weight=r.weight)
        assert length(model) <= optimizer.radius * (1 + 1e-5)


@pytest.mark.parametrize("optimizer", [NEW[1], NEW[3]], ids=["ogd", "general"])
@pytest.mark.parametrize("family", FAMILIES)
def test_weights_that_the_ball_holds_back_lie_on_its_rim(family: Any, optimizer: Any) -> None:
    """The bias is one of them."""
    model = new(family, optimizer)
    for _ in range(50):
        model.learn_one({0: 1.0, 1: 1.0, 13: 1.0}, 10.0)
    assert length(model) == pytest.approx(0.5, rel=1e-5)
    assert 0.1 < nonzero_weights(model)["bias",] < 0.4


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("free", "wide"),
    [
        (Ogd(eta=0.02), Ogd(eta=0.02, radius=1e6)),
        (FtrlGeneral(eta=0.005), FtrlGeneral(eta=0.005, radius=1e6)),
    ],
    ids=["ogd", "general"],
)
def test_a_ball_that_holds_nothing_back_changes_nothing(
    free: Optimizer, wide: Optimizer, family: Any, loss: str
) -> None:
    one, other = new(family, free, loss), new(family, wide, loss)
    np.testing.assert_array_equal(one.learn_many(ROWS), other.learn_many(ROWS))
    assert nonzero_weights(one) == nonzero_weights(other)


# Steps.


def test_the_first_steps_by_hand() -> None:
    """One feature, no bias, squared loss, label 1: w += step (1 - w)."""
    taken: dict[str, list[float]] = {}
    for schedule in ("fixed", "sqrt"):
        model = LR("squared", Ogd(eta=0.5, schedule=schedule), bias=False)
        taken[schedule] = [model.learn_one({7: 1.0}, 1.0) for _ in range(4)]
    assert taken["fixed"] == pytest.approx([0.0, 0.5, 0.75, 0.875])
    second = 0.5 + 0.5 / np.sqrt(2) * 0.5
    third = second + 0.5 / np.sqrt(3) * (1 - second)
    assert taken["sqrt"] == pytest.approx([0.0, 0.5, second, third])


def test_a_row_that_teaches_nothing_does_not_make_the_next_steps_smaller() -> None:
    model, other = (LR("squared", Ogd(eta=0.5, schedule="sqrt")) for _ in range(2))
    for _ in range(50):
        other.learn_one({0: 1.0}, 1.0, weight=0.0)
        with pytest.raises(RowError):
            other.learn_one({0: 1e30}, 1.0)
    for each in (model, other):
        each.learn_many(ROWS)
    assert model.to_bytes() == other.to_bytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_ball_a_fixed_step_and_algorithm_1_are_the_same(family: Any) -> None:
    descent, leader = (
        new(family, optimizer) for optimizer in (Ogd(eta=0.01, schedule="fixed"), FtrlGeneral(0.01))
    )
    np.testing.assert_allclose(
        descent.learn_many(ROWS), leader.learn_many(ROWS), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("optimizer", NEW, ids=names)
def test_a_long_run_stays_beside_the_oracle(optimizer: Optimizer, loss: Any) -> None:
    batch = random_batch(seed=32, rows=3000, features=12)
    separation = Separation.top_k(batch, 5)
    native = PQR(separation, loss, optimizer, interaction_scale=0.3)
    model = oracle.PQR(separation.features.tolist(), loss, eager(optimizer), scale=0.3)
    np.testing.assert_allclose(
        native.learn_many(batch), learned_by_oracle(model, batch), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("optimizer", NEW, ids=names)
def test_huge_rows_are_refused_and_leave_the_model_finite(
    optimizer: Optimizer, family: Any, loss: Any
) -> None:
    model = new(family, optimizer, loss)
    model.learn_many(ROWS)
    for value in (1e6, 1e10, 1e15, 1e20, 1e38, -1e10, -1e38):
        for label in (0.0, 1.0):
            before = model.to_bytes()
            try:
                model.learn_one({0: value, 1: 1.0, 77: value}, label)
            except RowError:
                assert model.to_bytes() == before
            assert np.isfinite(model.predict_many(ROWS)).all()


# The regret of Algorithm 1, against Theorem 1.


def best_in_ball(X: Any, y: Any, radius: float) -> Any:
    """Least squares within the ball: the ridge that gives the length."""
    low, high = 0.0, 1e9
    for _ in range(200):
        ridge = (low + high) / 2
        theta = np.linalg.solve(X.T @ X + ridge * np.eye(X.shape[1]), X.T @ y)
        low, high = (ridge, high) if np.linalg.norm(theta) > radius else (low, ridge)
    return theta


def test_the_regret_of_algorithm_1_is_within_theorem_1_and_falls_on_average() -> None:
    """regret <= 2 eta (sum of |g|^2) + |theta|^2 / (2 eta), for the best theta of the ball."""
    rng = np.random.default_rng(5)
    radius, averages = 1.0, []
    for rows in (100, 1000, 10_000):
        features = rng.integers(-4, 5, (rows, 5)) / 4
        X = np.hstack([np.ones((rows, 1)), features])
        y = X @ np.array([0.5, 1.0, -1.0, 0.5, 0.0, 0.25]) + rng.normal(0, 0.5, rows)
        eta = 0.1 / np.sqrt(rows)
        model = LR("squared", FtrlGeneral(eta=float(eta), radius=radius))
        batch = Batch.from_rows([(range(5), row) for row in features], labels=y)
        p = model.learn_many(batch)
        best = best_in_ball(X, y, radius)
        regret = ((p - y) ** 2).sum() / 2 - ((X @ best - y) ** 2).sum() / 2
        gradients = (((p - y)[:, None] * X) ** 2).sum()
        assert regret <= 2 * eta * gradients + best @ best / (2 * eta)
        averages.append(regret / rows)
    assert averages[0] > 2 * averages[1] > 4 * averages[2] > 0


# Rescaling: slots are multiplied when the common factor has become small.

TIGHT = Ogd(eta=2.0, schedule="fixed", radius=0.01)
MANY = random_batch(seed=33, rows=2000)


def rescaled_rows(family: Any) -> list[int]:
    """After how many rows the scale is 1 again."""
    model, scale, found = new(family, TIGHT), 1.0, []
    for number, row in enumerate(zip(as_dicts(MANY), MANY.labels, MANY.weights, strict=True), 1):
        model.learn_one(*row)
        before, scale = scale, scalars(model)[1]
        if scale > before:
            found.append(number)
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_with_many_rescalings_stays_beside_the_oracle_and_resumes_exactly(
    family: Any,
) -> None:
    rescaled = rescaled_rows(family)
    assert len(rescaled) > 100
    whole = new(family, TIGHT)
    predictions = whole.learn_many(MANY)
    assert length(whole) <= TIGHT.radius * (1 + 1e-5)  # type: ignore[operator]

    high = Separation.top_k(ROWS, 4).features.tolist()
    scale = None if family is LR else 1.0
    kind = oracle.QR if family is QR else oracle.PQR
    model = kind(high if family is PQR else (), "squared", eager(TIGHT), scale)
    np.testing.assert_allclose(predictions, learned_by_oracle(model, MANY), rtol=1e-3, atol=1e-6)

    for stop in (rescaled[0] - 1, rescaled[0], rescaled[50] - 1, rescaled[50], rescaled[50] + 1):
        first = new(family, TIGHT)
        first.learn_many(cut(MANY, 0, stop))
        second = pqrlearn.from_bytes(first.to_bytes())
        second.learn_many(cut(MANY, stop, len(MANY)))
        assert second.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize(
    "optimizer",
    [Ogd(eta=0.01, radius=1.0), FtrlGeneral(eta=0.01, radius=1.0)],
    ids=["ogd", "general"],
)
def test_a_row_costs_its_features_and_not_those_of_the_model(optimizer: Optimizer) -> None:
    """Visiting 300,000 weights in each of 20,000 rows would take many seconds of CPU time."""
    model = LR("logistic", optimizer)
    every = range(300_000)
    model.learn_many(Batch.from_rows([(every, [0.01] * len(every))], labels=[1.0]))
    rows = Batch.from_rows([([i], [1.0]) for i in range(20_000)], labels=[1.0, 0.0] * 10_000)
    start = time.thread_time()
    model.learn_many(rows)
    assert time.thread_time() - start < 2


# Settings.


@pytest.mark.parametrize("kind", [Ogd, FtrlGeneral])
@pytest.mark.parametrize("value", [0, -0.1, float("nan"), float("inf"), "0.1", None, True])
def test_a_step_that_is_no_number_above_zero_is_refused(kind: Any, value: Any) -> None:
    with pytest.raises(HyperError, match=r"eta=.* must be a number > 0"):
        kind(eta=value)


@pytest.mark.parametrize("kind", [Ogd, FtrlGeneral])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "1", False])
def test_a_radius_that_is_no_number_above_zero_is_refused(kind: Any, value: Any) -> None:
    with pytest.raises(HyperError, match=r"radius=.* must be a number > 0"):
        kind(radius=value)


@pytest.mark.parametrize("value", ["root", "", None, 1])
def test_a_schedule_of_another_name_is_refused(value: Any) -> None:
    with pytest.raises(HyperError, match=r"schedule=.* must be one of fixed, sqrt"):
        Ogd(schedule=value)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_optimizer_that_is_none_is_refused(family: Any) -> None:
    wrong: Any = "ogd"
    with pytest.raises(HyperError, match="must be an Ftrl, Ogd or FtrlGeneral"):
        new(family, wrong)


@pytest.mark.parametrize("optimizer", [Ftrl(), *NEW], ids=["ftrl", *names])
def test_a_model_file_holds_all_settings_of_its_optimizer(optimizer: Optimizer) -> None:
    model = pqrlearn.from_bytes(new(PQR, optimizer).to_bytes())
    assert model.settings()["optimizer"] == optimizer.settings()
    assert getattr(model, "optimizer", None) == optimizer


@pytest.mark.parametrize("optimizer", [Ftrl(), *NEW], ids=["ftrl", *names])
@pytest.mark.parametrize("wrong", ["missing", "longer", "negative", "not finite", "32 bits"])
def test_a_damaged_state_of_an_optimizer_is_refused(optimizer: Optimizer, wrong: str) -> None:
    kind, kept, tensors = modelfile.from_bytes(new(LR, optimizer).to_bytes())
    state = tensors.pop("optimizer")
    if wrong in ("negative", "not finite") and not len(state):
        return  # FTRL-Proximal has no state beside its slots
    if wrong == "longer":
        tensors["optimizer"] = np.append(state, 1.0)
    elif wrong == "32 bits":
        tensors["optimizer"] = state.astype(np.float32)
    elif wrong != "missing":
        tensors["optimizer"] = np.full_like(state, -1.0 if wrong == "negative" else np.inf)
    with pytest.raises(Corrupt):
        pqrlearn.from_bytes(modelfile.to_bytes(kind, kept, tensors))
