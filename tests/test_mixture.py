"""Mixtures: their guarantee on any stream, what they make of their learners, and what they refuse.

Stand-ins for learners say whatever a test wants; mixture_oracle.py and the native mixture of Auto
are the judges.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mixture_oracle
import pqrlearn
from pqrlearn import FM, LR, PQR, QR, Auto, Batch, Ftrl, Mixture, Ogd, Separation, _core, modelfile
from pqrlearn.errors import Corrupt, HyperError, RefusedRow, RowError
from pqrlearn.learners.bayes import BAYES, EDGE
from strategies import as_dicts, random_batch

both_losses = pytest.mark.parametrize("loss", ["logistic", "squared"])
seeds = st.integers(0, 2**32 - 1)
LEARNERS = 8


def oracle_answers(
    loss: str, margins: Any, labels: Any, weights: Any
) -> tuple[list[float], mixture_oracle.Mixture]:
    """The predictions of the oracle's Bayes mixture, the one without a stacker."""
    mixture = mixture_oracle.make_mixture(loss, len(margins))
    answers = []
    for row, label, weight in zip(margins.T, labels.tolist(), weights.tolist(), strict=True):
        answers.append(mixture.mix(row).bayes)
        mixture.learn(row, label, weight)
    return answers, mixture


def stream(loss: str, seed: int, rows: int = 200) -> tuple[Any, Any, Any]:
    """Margins of some learners, of which the third is best, and labels and weights."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, rows).astype(float)
    if loss == "squared":
        labels = rng.normal(0, 2, rows) * np.exp(np.arange(rows) / 100)
    margins = rng.normal(0, 3, (LEARNERS, rows))
    margins[2] = (labels if loss == "squared" else 4 * labels - 2) + rng.normal(size=rows)
    weights = rng.choice([0.0, 0.5, 1.0, 1.0, 3.0], rows).astype(np.float32)
    weights[rows // 2] = 100.0
    return margins, labels, weights


# The arithmetic, against the oracle.


@both_losses
@pytest.mark.parametrize("seed", range(3))
def test_margins_are_mixed_as_by_the_oracle(loss: str, seed: int) -> None:
    margins, labels, weights = stream(loss, seed)
    answers, oracle = oracle_answers(loss, margins, labels, weights)
    bayes = BAYES[loss](LEARNERS)
    mixed = bayes.learn(margins, labels, weights)
    _core.link(loss, mixed)
    np.testing.assert_allclose(mixed, answers, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(bayes.posterior(), oracle.posterior(), rtol=1e-8, atol=1e-300)
    np.testing.assert_allclose(bayes.lost, oracle.experts.lost, rtol=1e-12)
    np.testing.assert_allclose(bayes.counted, oracle.experts.counted, rtol=1e-12)
    assert (bayes.own, bayes.excess) == pytest.approx((oracle.experts.own, oracle.experts.excess))
    prior = math.log(LEARNERS) * oracle.price()
    assert bayes.bound() == pytest.approx(prior + oracle.widenings() + oracle.experts.excess)
    assert bayes.eta == pytest.approx(oracle.eta)


@both_losses
def test_the_native_mixture_has_the_posterior_of_this_one(loss: str) -> None:
    """The margins that Auto's experts have before each row, mixed here."""
    batch = random_batch(seed=3, rows=300)
    if loss == "squared":
        labels = 3 * batch.labels + np.random.default_rng(1).normal(size=len(batch))
        batch = Batch(batch.indptr, batch.indices, batch.values, labels, batch.weights)
    auto, bayes = Auto(loss), BAYES[loss](LEARNERS)
    for at, x in enumerate(as_dicts(batch)):
        row = batch.part(at, at + 1)
        margins = np.array(auto._model.expert_margins(x))[:, None]
        bayes.learn(margins, row.labels, row.weights)
        auto.learn_many(row)
    np.testing.assert_allclose(list(auto.posterior().values()), bayes.posterior(), rtol=1e-7)
    np.testing.assert_allclose(list(auto.summary()["losses"].values()), bayes.lost, rtol=1e-9)


@both_losses
@given(seeds, st.lists(st.integers(0, 200), max_size=6))
@settings(max_examples=30)
def test_cuts_do_not_show(loss: str, seed: int, cuts: list[int]) -> None:
    """Also where a learner has no prediction of some rows."""
    margins, labels, weights = stream(loss, seed)
    margins[np.random.default_rng(seed).random(margins.shape) < 0.01] = math.nan
    whole, parts = BAYES[loss](LEARNERS), BAYES[loss](LEARNERS)
    expected = whole.learn(margins, labels, weights)
    found = [
        parts.learn(margins[:, a:b], labels[a:b], weights[a:b])
        for a, b in pairwise([0, *sorted(cuts), 200])
    ]
    np.testing.assert_array_equal(np.concatenate(found), expected)
    for name, tensor in whole.tensors().items():
        np.testing.assert_array_equal(parts.tensors()[name], tensor)


# The guarantee.


def label_of(kind: str, loss: str, answer: float, row: int, rng: np.random.Generator) -> float:
    if kind == "against":
        return float(answer < 0.5) if loss == "logistic" else float(row - 4 * answer)
    if kind == "blocks":
        return float(row // 20 % 2)
    if kind == "creep":
        return float(row % 2) if loss == "logistic" else 0.1 * row
    return float(rng.integers(0, 2)) if loss == "logistic" else float(rng.normal())


@both_losses
@given(
    st.sampled_from(["random", "against", "blocks", "creep"]),
    seeds,
    st.integers(2, 9),
    st.lists(st.sampled_from([0.0, 0.1, 1.0, 1.0, 3.0, 100.0]), min_size=1, max_size=120),
    st.sampled_from([0.0, 0.1]),
)
@settings(max_examples=80)
def test_the_bound_holds_on_any_stream(
    loss: str, kind: str, seed: int, size: int, given_weights: list[float], asleep: float
) -> None:
    """Labels may be chosen against the prediction; learners may sleep through rows."""
    rng, bayes = np.random.default_rng(seed), BAYES[loss](size)
    bias = rng.normal(0, 3, size)
    for row, weight in enumerate(given_weights):
        margins = rng.normal(bias, 1)[:, None]
        margins[1:][rng.random((size - 1, 1)) < asleep] = math.nan
        answer = bayes.mixed(margins)
        _core.link(loss, answer)
        label = label_of(kind, loss, float(answer[0]), row, rng)
        bayes.learn(margins, np.array([label]), np.array([weight], np.float32))
    assert bayes.regret() <= bayes.bound() + 1e-9 * (1 + bayes.bound() + bayes.own)


def test_weights_up_to_one_cost_ln_n_in_total() -> None:
    margins, labels, _ = stream("logistic", 5)
    bayes = BAYES["logistic"](LEARNERS)
    bayes.learn(margins, labels, np.ones(200, np.float32))
    assert bayes.bound() == math.log(LEARNERS)
    assert bayes.regret() <= bayes.bound() + 1e-12


def test_probabilities_are_clipped() -> None:
    bayes = BAYES["logistic"](2)
    answer = bayes.learn(np.array([[800.0], [800.0]]), np.zeros(1), np.ones(1, np.float32))
    _core.link("logistic", answer)
    assert answer[0] == pytest.approx(1 - EDGE, abs=1e-12)
    assert bayes.own == pytest.approx(-math.log(EDGE))


# Of learners.


def made(loss: str, batch: Batch) -> Mixture:
    high = Separation.top_k(batch, 4)
    return Mixture([LR(loss), PQR(high, loss), LR(loss, Ogd(eta=0.05))])


@both_losses
def test_a_mixture_is_the_bayes_mixture_of_its_learners(loss: str) -> None:
    batch = random_batch(seed=12, rows=300)
    model = made(loss, batch)
    margins = np.stack([one.learn_margins(batch) for one in made(loss, batch).learners])
    answers, oracle = oracle_answers(loss, margins, batch.labels, batch.weights)
    np.testing.assert_allclose(model.learn_many(batch), answers, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.posterior(), oracle.posterior(), rtol=1e-8)
    assert model.regret() == pytest.approx(oracle.experts.own - min(oracle.experts.lost))
    assert model.regret() <= model.bound()
    for one, alone in zip(model.learners, made(loss, batch).learners, strict=True):
        alone.learn_many(batch)
        assert one.to_bytes() == alone.to_bytes()


@both_losses
def test_the_better_learner_gets_the_posterior(loss: str) -> None:
    rows = [{0: 1.0, 1: 1.0}, {0: 1.0, 2: 1.0}, {3: 1.0, 1: 1.0}, {3: 1.0, 2: 1.0}] * 200
    labels = [1.0, 0.0, 0.0, 1.0] * 200
    model = Mixture([LR(loss), PQR(Separation.top_k(rows, 4), loss)])
    assert model.posterior() == [0.5, 0.5]
    model.learn_many(rows, labels)
    assert model.posterior()[1] > 0.999
    assert model.predict_many(rows[:4]).round().tolist() == [1, 0, 0, 1]


def test_weights_are_those_of_the_learners_times_their_shares() -> None:
    batch = random_batch(seed=13)
    model = Mixture([PQR(Separation.top_k(batch, order)) for order in (0, 3, 6)])
    model.learn_many(batch)
    for block in ("bias", "linear", "pair", "shared"):
        expected: dict[Any, float] = {}
        for share, learner in zip(model.posterior(), model.learners, strict=True):
            keys, weights = learner.weights(block)
            named = [()] if block == "bias" else [tuple(np.sort(np.atleast_1d(k))) for k in keys]
            for key, weight in zip(named, weights.tolist(), strict=True):
                expected[key] = expected.get(key, 0.0) + share * weight
        keys, weights = model.weights(block)
        named = [()] if block == "bias" else [tuple(np.atleast_1d(k)) for k in keys]
        assert dict(zip(named, weights.tolist(), strict=True)) == pytest.approx(expected)
        assert model.nonzeros()[block] == sum(weight != 0 for weight in expected.values())


def test_a_block_that_not_all_have_is_a_key_error() -> None:
    batch = random_batch(seed=13)
    model = Mixture([LR(), PQR(Separation.top_k(batch, 3))])
    model.learn_many(batch)
    assert model.blocks == ("bias", "linear")
    with pytest.raises(KeyError, match="no block 'pair', only bias, linear: all of its learners"):
        model.weights("pair")
    assert Mixture([FM(), FM(seed=1)]).blocks == ("bias", "linear")  # factors have no mean


def test_names_are_shared_by_all_learners() -> None:
    rows = [{"site": "a", "ad": "x"}, {"site": "b", "ad": "x"}]
    model = Mixture([LR(), PQR(Separation.top_k(rows, 2)), Auto()])
    model.learn_many([*rows, {"site": "new"}], [1, 0, 1])
    model.predict_one({"never": "learned"})
    for twin in (model, pqrlearn.from_bytes(model.to_bytes())):
        assert isinstance(twin, Mixture)
        twin.learn_one({"site": "newer"}, 1)
        for learner in (twin, *twin.learners):
            named = [learner.name_of(f) for f in range(6)]
            assert named == ["ad=x", "site=a", "site=b", "site=new", "site=newer", "5"]
    alone = pqrlearn.from_bytes(model.learners[1].to_bytes())
    assert alone.predict_one(rows[0]) == model.learners[1].predict_one(rows[0])


def test_all_kinds_can_be_mixed() -> None:
    batch = random_batch(seed=17)
    high = Separation.top_k(batch, 3)
    model = Mixture([Auto(), LR(), QR(), PQR(high), FM(), pqrlearn.DiFacto(), pqrlearn.CFM()])
    model.learn_many(batch)
    assert model.regret() <= model.bound()
    assert pqrlearn.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


# Rows that are too large.


LARGE = 1e15  # a feature may have it; a product of two squared is beyond a float


def with_large_rows(*values: float) -> Batch:
    rows = [([0, 1], [1.0, 1.0]), ([0, 2], [1.0, 0.5])] * 10
    for at, value in enumerate(values):
        rows.insert(5 * at + 3, ([0, 1, 2], [value, value, value]))
    return Batch.from_rows(rows, labels=np.arange(len(rows)) % 2)


def test_a_row_that_some_refuse_is_learned_by_the_others() -> None:
    batch = with_large_rows(LARGE)
    separation = Separation.top_k(batch, 3)
    for makers in ((LR, PQR), (PQR, LR)):
        learners = [make(separation) if make is PQR else make() for make in makers]
        alone = [make(separation) if make is PQR else make() for make in makers]
        model, by_row = Mixture(learners), Mixture(alone)
        predictions = model.learn_many(batch)
        one = [by_row.learn_one(x, y) for x, y in zip(as_dicts(batch), batch.labels, strict=True)]
        np.testing.assert_array_equal(predictions, one)
        assert model.to_bytes() == by_row.to_bytes()
        assert sorted(learner.rows for learner in learners) == [20, 21]
        assert model.rows == 21
        assert model.regret() <= model.bound()


def test_a_row_that_all_refuse_is_refused_and_moves_nobody() -> None:
    batch = with_large_rows(LARGE, 1e35)
    separation = Separation.top_k(batch, 3)
    model, before = (Mixture([LR(), PQR(separation)]) for _ in range(2))
    with pytest.raises(RefusedRow) as caught:
        model.learn_many(batch)
    assert caught.value.row == 8
    before.learn_many(batch.part(0, 8))
    assert model.to_bytes() == before.to_bytes()
    with pytest.raises(RowError, match="too large for 32-bit floats"):
        model.learn_one(as_dicts(batch)[8], batch.labels[8])
    assert model.to_bytes() == before.to_bytes()
    model.learn_many(batch.part(9, len(batch)))
    assert model.rows == 21


# What is refused.


def test_learners_that_do_not_fit_are_refused() -> None:
    twice = LR()
    for learners, said in (
        ([], "needs at least one learner"),
        ([twice, twice], "learner 1 is a duplicate"),
        ([LR(), LR("squared")], "learner 1 has loss='squared', the first 'logistic'"),
        ([LR(), 7], "learner 1 is 7"),
        ([Mixture([LR()])], "a Mixture takes any other Learner"),
        ([LR("poisson")], "loss='poisson' is not for Mixture: a mixture of predicted means"),
    ):
        with pytest.raises(HyperError, match=said):
            Mixture(learners)  # type: ignore[arg-type]
    learners = [LR(), LR()]
    for learner, name in zip(learners, "ab", strict=True):
        learner.learn_one({name: 1.0}, 1)
    with pytest.raises(HyperError, match="different names of features"):
        Mixture(learners)


@pytest.mark.parametrize(
    ("place", "value"), [(0, -1.0), (1, math.nan), (2, 0.5), (3, 3.0), (4, math.inf)]
)
def test_a_state_that_learning_cannot_reach_is_corrupt(place: int, value: float) -> None:
    model = Mixture([LR(), LR(optimizer=Ftrl(alpha=0.5))])
    model.learn_many(random_batch(seed=1))
    kind, described, tensors = modelfile.from_bytes(model.to_bytes())
    scalars = tensors["scalars"].copy()
    scalars[place] = value
    with pytest.raises(Corrupt, match="a damaged mixture model"):
        pqrlearn.from_bytes(modelfile.to_bytes(kind, described, tensors | {"scalars": scalars}))


@pytest.mark.parametrize("learners", [None, 7, "lr", [], [1], ["lr"], [{}], [{"kind": "mixture"}]])
def test_settings_that_describe_no_learners_are_corrupt(learners: Any) -> None:
    kind, described, tensors = modelfile.from_bytes(Mixture([LR()]).to_bytes())
    with pytest.raises(Corrupt, match="a damaged mixture model"):
        pqrlearn.from_bytes(modelfile.to_bytes(kind, described | {"learners": learners}, tensors))
