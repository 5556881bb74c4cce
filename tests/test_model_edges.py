"""The native PQR, LR and QR at their edges: extreme values, many rows, names, memory, saving."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import pqrlearn
from pqrlearn import LR, PQR, QR, Batch, Counts, Ftrl, Ogd, Separation
from pqrlearn.errors import HyperError, RefusedRow, RowError
from pqrlearn.learners.base import Learner
from strategies import nonzero_weights, random_batch

SOME_ROWS = random_batch(seed=6)


def new(family: Any, rows: Batch, loss: Any) -> Learner:
    """A fresh PQR of order 3, QR or LR."""
    model: Learner = family(*[Separation.top_k(rows, 3)] * (family is PQR), loss=loss)
    return model


def test_pqr_without_a_separation_shows_the_fix() -> None:
    with pytest.raises((TypeError, HyperError), match=r"Separation\.top_k"):
        PQR()


@pytest.mark.parametrize("margin", [-1000.0, 1000.0])
def test_logistic_margins_far_out_stay_finite(margin: float) -> None:
    model = LR(loss="logistic", optimizer=Ftrl(alpha=10.0), bias=False)
    label = float(margin > 0)
    for _ in range(50):
        model.learn_one({0: 1.0}, label)
    (weight,) = model.weights("linear")[1]
    far = {0: 1000 / abs(weight)}
    assert model.margin_many([far])[0] == pytest.approx(margin, rel=1e-5)
    assert model.predict_one(far) == label
    model.learn_one(far, label)
    model.learn_one(far, 1 - label)
    assert np.isfinite(model.margin_many([far, {0: 1.0}])).all()


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("family", [PQR, QR, LR])
@pytest.mark.parametrize("row", [{0: 1e30, 1: 1e30}, {0: 1.0, 77: 1e30}, {88: 1e30, 99: -1e30}])
def test_rows_too_large_to_learn_are_refused(row: dict[int, float], family: Any, loss: Any) -> None:
    model = new(family, SOME_ROWS, loss)
    before = model.to_bytes()
    label = 2.0 if loss == "poisson" else 1.0  # at a margin of 0 a count of 1 teaches nothing
    with pytest.raises(RowError):
        model.learn_one(row, label)
    with pytest.raises(RowError):
        model.learn_many([row], [label])
    with pytest.raises(RowError):
        model.learn_many(Batch.from_rows([(list(row), list(row.values()))], labels=[label]))
    assert model.to_bytes() == before


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("family", [PQR, QR, LR])
def test_no_row_makes_a_model_that_is_not_finite(family: Any, loss: Any) -> None:
    """A huge row is refused, or, where the loss is flat, learned to no effect."""
    model = new(family, SOME_ROWS, loss)
    model.learn_many(SOME_ROWS)
    for value in (1e6, 1e10, 1e15, 1e20, 1e38, -1e10, -1e38):
        for label in (0.0, 1.0):
            with contextlib.suppress(RowError):
                model.learn_one({0: value, 1: 1.0, 77: value}, label)
            assert np.isfinite(model.predict_many(SOME_ROWS)).all()
    for block in model.nonzeros():
        assert np.isfinite(model.weights(block)[1]).all()


def test_a_label_too_large_to_learn_is_refused() -> None:
    model = LR(loss="squared")
    for label in (1e30, 1e300, -1e30):
        for row in ({0: 1.0}, {}):
            with pytest.raises(RowError):
                model.learn_one(row, label)
    assert model.to_bytes() == LR(loss="squared").to_bytes()


def test_a_row_is_refused_for_its_coordinates_not_for_products_it_does_not_have() -> None:
    """A time stamp is a fair value for a linear model."""
    model = LR(loss="squared", optimizer=Ftrl(alpha=0.1))
    model.learn_one({0: 1.7e9}, 1.0)
    assert 0 < model.predict_one({0: 1.7e9}) < 1e9


@pytest.mark.parametrize("family", [PQR, QR, LR])
def test_the_largest_index_works(family: Any) -> None:
    last = 2**32 - 1
    rows = Batch.from_rows([([0, last], [1.0, 1.0])] * 5, labels=[1.0] * 5)
    model = new(family, rows, "squared")
    model.learn_many(rows)
    found = nonzero_weights(model)
    assert found["linear", last] == found["linear", 0] > 0
    assert (("pair", 0, last) in found) == (family is not LR)
    assert nonzero_weights(pqrlearn.from_bytes(model.to_bytes())) == found


@pytest.mark.parametrize("optimizer", [Ftrl(alpha=0.3, l1=0.01), Ogd(eta=0.1, radius=0.5)])
@pytest.mark.parametrize("order", [0, 1, 7, 40])
def test_many_rows_are_predicted_as_few_are(order: int, optimizer: Any) -> None:
    """Many are predicted from a copy of the weights, a few from the slots."""
    random = np.random.default_rng(order)
    rows = 3000
    dense = random.random((rows, 60)) < random.random(60) ** 2
    values = np.where(dense, random.normal(size=(rows, 60)), 0)
    labels = random.integers(0, 2, rows)
    seen = Batch.from_csr(scipy.sparse.csr_matrix(values[:, :40]), labels)
    every = Batch.from_csr(scipy.sparse.csr_matrix(values), labels)
    assert len(every.indices) > 4 * (60 + 60 * 59 / 2 + 60)
    separation = Counts.of(seen).separate(order=order)
    model = PQR(separation, optimizer=optimizer) if order else LR(optimizer=optimizer)
    model.learn_many(seen)
    few = [model.margin_many(every.part(r, r + 1)) for r in range(rows)]
    np.testing.assert_array_equal(model.margin_many(every), np.concatenate(few))


def test_a_copy_of_the_weights_lasts_until_the_model_changes() -> None:
    rows = random_batch(seed=8, rows=2000, features=12)
    model = PQR(Separation.top_k(rows, 5), optimizer=Ftrl(alpha=0.3))
    for learned in (rows, rows.part(0, 1), rows.part(0, 2)):
        model.learn_many(learned)
        few = np.concatenate([model.margin_many(rows.part(r, r + 1)) for r in range(len(rows))])
        for _ in range(3):
            np.testing.assert_array_equal(model.margin_many(rows), few)


@pytest.mark.parametrize("family", [PQR, QR])
@pytest.mark.parametrize("frequent", [(0, 7, 12), (0, 12, 19)])
def test_it_does_not_matter_how_far_apart_features_lie(family: Any, frequent: Any) -> None:
    """Ranks lie in one array or do not, and low features are beyond all high ones or are not."""
    random = np.random.default_rng(9)
    often = np.full(20, 0.2)
    often[list(frequent)] = 0.9
    dense = np.where(random.random((300, 20)) < often, random.normal(size=(300, 20)), 0)
    rows = Batch.from_csr(scipy.sparse.csr_matrix(dense), random.integers(0, 2, 300))
    near, last = np.arange(20), 2**32 - 1
    first, *others = (
        _margins(family, replace(rows, indices=place.astype(np.uint32)[rows.indices]))
        for place in [near, near * 300, near * 10**7, np.r_[near[:-1], last], last - near[::-1]]
    )
    for other in others:
        np.testing.assert_array_equal(other, first)


def _margins(family: Any, rows: Batch) -> Any:
    model = new(family, rows, "logistic")
    return model.learn_many(rows), model.margin_many(rows)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("rows", [30, 30_000])
def test_predictions_are_linked_margins_however_many(rows: int, loss: Any) -> None:
    """Of many rows, each thread links what it has predicted; one that is refused ends them."""
    random = np.random.default_rng(rows)
    dense = 0.01 * random.normal(size=(rows, 3))
    batch = Batch.from_csr(scipy.sparse.csr_matrix(dense), dense[:, 0] > 0)
    model = LR(loss, Ftrl(alpha=100.0))  # values are small, so weights are large
    model.learn_many(batch)
    margins = model.margin_many(batch)
    expected = {
        "squared": margins,
        "logistic": 1 / (1 + np.exp(-margins)),
        "poisson": np.exp(np.clip(margins, -30, 30)),
    }[loss]
    np.testing.assert_allclose(model.predict_many(batch), expected, rtol=1e-12)
    dense[-1] = 3e38
    batch = Batch.from_csr(scipy.sparse.csr_matrix(dense))
    with pytest.raises(RefusedRow, match=f"row {rows - 1}: its values are too large") as refused:
        model.predict_many(batch)
    np.testing.assert_array_equal(refused.value.margins, margins[:-1])


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_a_batch_takes_no_weight_that_is_negative_or_not_finite(weight: float) -> None:
    with pytest.raises(RowError, match=r"row 1: weight .* must be finite and not negative"):
        Batch.from_rows([([0], [1.0]), ([5], [1.0])], labels=[0, 1], weights=[1.0, weight])


def test_new_names_do_not_meet_the_numbers_beside_them() -> None:
    rows: list[dict[Any, Any]] = [{0: 1.0}, {3: 1.0, "a": 1.0}, {2: 1.0, "b": 1.0, "a": 1.0}]
    model = LR(loss="squared")
    model.learn_many(rows, [1.0, 1.0, 1.0])
    assert model.nonzeros()["linear"] == 5
    assert Separation.top_k(rows, 10).counts.tolist() == [2, 1, 1, 1, 1]


def test_names_that_share_a_hash_are_told_apart() -> None:
    """Of these, six pairs share all 32 bits of it."""
    names = [f"feature {number}" for number in range(300_000)]
    model = LR()
    for _ in range(2):  # as new names, and as known ones
        for first in range(0, len(names), 1000):
            model.learn_one(dict.fromkeys(names[first : first + 1000], 1.0), 1)
    assert len({model.names.find(name) for name in names}) == len(model.names) == len(names)
    assert model.names.find("feature 300000") is None
    assert model.nonzeros()["linear"] == len(names)


def test_a_number_that_a_name_has_taken_is_refused() -> None:
    model = LR(loss="squared")
    model.learn_many([{1: 1.0}, {"a": 1.0}], [1.0, 1.0])
    with pytest.raises(RowError, match="feature 2 has the name 'a'; use the name"):
        model.learn_one({2: 1.0}, 1.0)


@pytest.mark.parametrize("family", [PQR, QR, LR])
def test_a_beta_of_zero_divides_nothing_by_zero(family: Any) -> None:
    settings: dict[str, Any] = {"optimizer": Ftrl(beta=0.0, l2=0.0), "loss": "squared"}
    model = family(*[Separation.top_k(SOME_ROWS, 3)] * (family is PQR), **settings)
    assert model.predict_one({0: 1.0, 1: 1.0}) == 0.0
    assert np.isfinite(model.learn_many(SOME_ROWS)).all()


def test_a_large_order_costs_what_is_used() -> None:
    """An order of 100,000 has five thousand million pairs; only those that occur are kept."""
    order = 100_000
    rows = Batch.from_rows([([i], [1.0]) for i in range(order)], labels=[1.0] * order)
    model = PQR(Separation.top_k(rows, order), loss="squared")
    model.learn_many([{0: 1.0, order - 1: 1.0}], [1.0])
    assert model.nonzeros()["pair"] == 1
    assert len(model.to_bytes()) < 2_000_000


def test_a_model_of_many_pairs_in_large_pages_is_saved_whole(tmp_path: Path) -> None:
    """Enough for pages that a thread makes, a state that two threads copy, a file in parts."""
    order, rng = 8192, np.random.default_rng(3)
    rows = [(rng.choice(order, 30, replace=False), np.ones(30)) for _ in range(1000)]
    rows += [([0, i], [1.0, 1.0]) for i in range(1, order)]
    batch = Batch.from_rows(rows, labels=rng.integers(0, 2, len(rows)))
    model = PQR(Separation.top_k(Batch.from_rows([(range(order), [1.0] * order)]), order))
    model.learn_many(batch)
    met = {(min(a, b), max(a, b)) for row, _ in rows for a in row for b in row if a != b}
    features, weights = model.weights("pair")
    assert set(map(tuple, features.tolist())) == met
    assert model.nonzeros()["pair"] == np.count_nonzero(weights)
    again = pqrlearn.from_bytes(model.to_bytes())
    assert np.array_equal(again.margin_many(batch), model.margin_many(batch))
    assert again.to_bytes() == model.to_bytes()
    model.save(tmp_path / "model.pqr")
    assert (tmp_path / "model.pqr").read_bytes() == model.to_bytes()


def test_pairs_are_handed_out_for_no_other_ranks_than_there_are() -> None:
    model = PQR(Separation.top_k(SOME_ROWS, 3))
    model.learn_many(SOME_ROWS)
    counts = model._model.pair_counts()
    whole = model._model.pairs(0, counts)
    parts = [model._model.pairs(first, counts[first : first + 1]) for first in range(3)]
    for all_of_it, some in zip(whole, zip(*parts, strict=True), strict=True):
        assert np.array_equal(all_of_it, np.concatenate(some))
    for first, wrong in ((1, counts), (4, counts[:0]), (0, counts + 1)):
        with pytest.raises(
            ValueError, match=r"more counts than ranks|exceeds the number of smaller ranks"
        ):
            model._model.pairs(first, wrong)
    later = counts.copy()
    later[1] -= 1  # as if one had been learned since
    ranks, slots = model._model.pairs(0, later)
    assert (len(ranks), len(slots)) == (later.sum(), later.sum())


def test_a_long_row_behind_one_that_is_refused_leaves_room_for_all() -> None:
    """It is prepared, never learned, and what was made for it is used by the rows that follow."""

    def rows_of(*rows: Any) -> Batch:
        parts = np.concatenate(rows), np.concatenate([np.arange(len(row)) for row in rows])
        matrix = scipy.sparse.csr_array((*parts, np.cumsum([0, *map(len, rows)])))
        return Batch.from_csr(matrix, np.ones(len(rows)))

    few, many = np.ones(20), np.ones(200_000)
    refused = rows_of(1e30 * few, few, few, many)
    model, twin = LR("squared"), LR("squared")
    for learner in (model, twin):
        learner.learn_many(rows_of(*[few] * 39))
    with pytest.raises(RowError):
        model.learn_many(refused)
    for batch in (rows_of(*[few] * 39), rows_of(many)):
        assert np.array_equal(model.learn_many(batch), twin.learn_many(batch))
