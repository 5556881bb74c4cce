"""What every Learner promises, as a library of checks.

`make()` builds a fresh learner, `make(rows)` one whose separation, if it needs one, is counted on
those rows. `batch` holds a few dozen rows with labels 0 and 1, which fit both losses.
"""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import pytest

import oracle
import pqrlearn
from pqrlearn import Batch
from pqrlearn.errors import DataError, RowError
from pqrlearn.learners.base import Learner
from storm import Readers, hurried
from strategies import as_dicts, cut

UNSEEN = 4_000_000_000  # a feature in no batch


class Text(str):
    """A str that is not quite one."""


class Make(Protocol):
    def __call__(self, rows: Any = None) -> Learner: ...


def learned(make: Make, batch: Batch) -> Learner:
    model = make()
    model.learn_many(batch)
    return model


def labelled(batch: Batch) -> list[tuple[oracle.Row, float, float]]:
    return list(zip(as_dicts(batch), batch.labels.tolist(), batch.weights.tolist(), strict=True))


# Learning.


def check_learn_many_equals_learn_one(make: Make, batch: Batch) -> None:
    together, alone = make(), make()
    many = together.learn_many(batch)
    one = [alone.learn_one(x, y, weight=w) for x, y, w in labelled(batch)]
    assert many.dtype == np.float64
    np.testing.assert_array_equal(many, one)
    assert together.to_bytes() == alone.to_bytes()


def check_a_batch_may_be_cut_anywhere(make: Make, batch: Batch) -> None:
    whole = make()
    predictions = whole.learn_many(batch)
    for seed in range(3):
        inner = np.random.default_rng(seed).choice(len(batch) + 1, 5)
        ends = [0, *sorted(inner.tolist()), len(batch)]
        model = make()
        parts = [model.learn_many(cut(batch, a, b)) for a, b in pairwise(ends)]
        np.testing.assert_array_equal(np.concatenate(parts), predictions)
        assert model.to_bytes() == whole.to_bytes()


def check_a_prepared_batch_is_learned_as_the_batch_itself(make: Make, batch: Batch) -> None:
    expected = learned(make, batch).to_bytes()
    own, others, in_parts = make(), make(), make()
    own.learn_many(own._prepared(batch))
    others.learn_many(make()._prepared(batch))
    prepared, middle = in_parts._prepared(batch), len(batch) // 2
    for part in (prepared.part(0, middle), prepared.part(middle, len(batch))):
        in_parts.learn_many(in_parts._prepared(part))
    for model in (own, others, in_parts):
        assert model.to_bytes() == expected


def check_a_batch_may_be_a_sparse_matrix_or_dicts(make: Make, batch: Batch) -> None:
    from scipy.sparse import csr_array

    matrix = csr_array((batch.values, batch.indices.astype(np.int64), batch.indptr))
    for rows in (matrix, as_dicts(batch), batch):
        model = make()
        model.learn_many(rows, batch.labels, weights=batch.weights)
        assert model.to_bytes() == learned(make, batch).to_bytes()
        margins = learned(make, batch).margin_many(batch)
        np.testing.assert_array_equal(model.margin_many(rows), margins)


def check_learn_one_returns_the_prediction_just_before(make: Make, batch: Batch) -> None:
    model = make()
    for x, y, w in labelled(batch):
        before = model.predict_one(x)
        assert model.learn_one(x, y, weight=w) == before


def check_no_rows_teach_nothing(make: Make, batch: Batch) -> None:
    model = learned(make, batch)
    before = model.to_bytes()
    assert model.learn_many(cut(batch, 0, 0)).shape == (0,)
    assert model.predict_many([]).shape == (0,)
    assert model.to_bytes() == before


def check_two_runs_agree(make: Make, batch: Batch) -> None:
    assert learned(make, batch).to_bytes() == learned(make, batch).to_bytes()


def check_learning_lowers_the_loss_of_a_repeated_row(make: Make, batch: Batch) -> None:
    model = make()
    label = 3.0 if model.loss == "poisson" else 1.0
    predictions = [model.learn_one({0: 1.0, 1: 1.0}, label) for _ in range(200)]
    assert abs(label - predictions[-1]) < abs(label - predictions[0])


# Rows.


def check_the_order_of_features_is_irrelevant(make: Make, batch: Batch) -> None:
    one, many = make(), make()
    for x, y, w in labelled(batch):
        one.learn_one(dict(reversed(x.items())), y, weight=w)
    turned = [(list(x)[::-1], list(x.values())[::-1]) for x in as_dicts(batch)]
    many.learn_many(Batch.from_rows(turned, labels=batch.labels, weights=batch.weights))
    assert one.to_bytes() == many.to_bytes() == learned(make, batch).to_bytes()


def check_repeated_features_are_summed_first(make: Make, batch: Batch) -> None:
    rows = [
        ([i for i in x for _ in range(2)], [half for v in x.values() for half in (2 * v, -v)])
        for x in as_dicts(batch)
    ]
    model = make()
    model.learn_many(Batch.from_rows(rows, labels=batch.labels, weights=batch.weights))
    assert model.to_bytes() == learned(make, batch).to_bytes()


def check_explicit_zeros_are_nothing(make: Make, batch: Batch) -> None:
    model = make()
    for x, y, w in labelled(batch):
        model.learn_one({UNSEEN: 0.0, **x, UNSEEN - 1: 0}, y, weight=w)
    assert model.to_bytes() == learned(make, batch).to_bytes()


def check_a_feature_never_seen_has_no_weight_of_its_own(make: Make, batch: Batch) -> None:
    model = learned(make, batch)
    rows = as_dicts(batch)
    plain, first, second = (
        model.margin_many([x | extra for x in rows]) for extra in ({}, {UNSEEN: 2}, {UNSEEN + 1: 2})
    )
    assert model.predict_one({UNSEEN: 2.0}) == model.predict_one({})
    if type(model).__name__ == "FM":
        return  # it has its seeded initial factors: see test_fm
    np.testing.assert_array_equal(first, second)
    if model.kind in ("pqr", "mixture"):
        return  # to PQR it counts as low, so shared weights apply to it: see test_models
    np.testing.assert_allclose(first, plain, rtol=1e-5, atol=1e-6)


def check_empty_rows_learn_only_the_bias(make: Make, batch: Batch) -> None:
    model = make()
    for _ in range(3):
        model.learn_one({}, 1.0)
    sizes = model.nonzeros()
    assert sizes.pop("bias", 0) == (1 if model.predict_one({}) > link(model, 0.0) else 0)
    assert not any(sizes.values())


def check_a_row_weight_multiplies_the_gradient(make: Make, batch: Batch) -> None:
    """With squared loss the slope is p - y, so a weight w does what the label p - w(p - y) does.

    For the other losses, for Auto, which takes curvature too, and for mixtures, whose predictions
    are clipped, the oracle is the judge."""
    weighted, moved = make(), make()
    if weighted.loss != "squared" or weighted.kind in ("auto", "mixture"):
        return
    for x, y, w in labelled(batch):
        p = moved.predict_one(x)
        moved.learn_one(x, p - w * (p - y))
        weighted.learn_one(x, y, weight=w)
    rows = as_dicts(batch)
    np.testing.assert_allclose(
        weighted.margin_many(rows), moved.margin_many(rows), rtol=1e-4, atol=1e-5
    )


def check_a_row_of_weight_zero_teaches_nothing(make: Make, batch: Batch) -> None:
    model = learned(make, batch)
    before = model.to_bytes()
    rows: list[Any] = [{}, {0: 1.0, 1: 1.0}, {0: 1.0, UNSEEN: 1.0}, {"new": "name"}]
    for x in rows:
        expected = model.predict_one(x)
        for nothing in (0.0, 1e-60):  # both are 0 as a float32, which is what a Batch holds
            assert model.learn_one(x, 1.0, weight=nothing) == expected
            assert model.learn_many([x], [1.0], weights=[nothing]).tolist() == [expected]
    assert model.to_bytes() == before


# Bad input: an error that leaves the model as it was.


def refused(model: Learner, x: Any, y: float = 1.0, weight: float = 1.0) -> None:
    before = model.to_bytes()
    with pytest.raises(RowError):
        model.learn_one(x, y, weight=weight)
    with pytest.raises(RowError):
        model.learn_many([x], [y], weights=[weight])
    assert model.to_bytes() == before


def check_a_weight_that_is_negative_or_not_finite_is_an_error(make: Make, batch: Batch) -> None:
    model = learned(make, batch)
    for weight in (-1.0, -1e-30, float("nan"), float("inf")):
        refused(model, {0: 1.0}, weight=weight)


def check_a_value_that_is_not_finite_is_an_error(make: Make, batch: Batch) -> None:
    model = learned(make, batch)
    for value in (float("nan"), float("inf"), -float("inf"), 1e39):
        refused(model, {0: 1.0, 1: value})
        with pytest.raises(RowError):
            model.predict_one({0: 1.0, 1: value})


def check_an_index_out_of_range_is_an_error(make: Make, batch: Batch) -> None:
    model = learned(make, batch)
    for index in (-1, 2**32, 2**70):
        refused(model, {index: 1.0})


def check_a_label_that_does_not_fit_is_an_error(make: Make, batch: Batch) -> None:
    model = learned(make, batch)
    for label in (float("nan"), float("inf"), -float("inf")):
        refused(model, {0: 1.0, "new": "name"}, label)
    unfit = {"logistic": (0.5, 2.0, 1e-9), "poisson": (-1.0, -1e-9), "squared": ()}
    for label in unfit[model.loss]:
        refused(model, {0: 1.0}, label)


def check_a_label_of_minus_one_is_a_zero_of_logistic_loss(make: Make, batch: Batch) -> None:
    if make().loss != "logistic":
        return
    signed, many = make(), make()
    labels = 2 * batch.labels - 1
    for (x, _, w), label in zip(labelled(batch), labels.tolist(), strict=True):
        signed.learn_one(x, label, weight=w)
    many.learn_many(batch, labels)
    assert signed.to_bytes() == many.to_bytes() == learned(make, batch).to_bytes()


def check_rows_without_labels_cannot_be_learned(make: Make, batch: Batch) -> None:
    from scipy.sparse import csr_array

    matrix = csr_array((batch.values, batch.indices.astype(np.int64), batch.indptr))
    model = make()
    before = model.to_bytes()
    for rows in (matrix, as_dicts(batch), Batch.from_csr(matrix)):
        with pytest.raises((TypeError, DataError)):
            model.learn_many(rows)
        assert model.predict_many(rows).shape == (len(batch),)
    assert model.to_bytes() == before


def check_a_wrong_type_is_an_error(make: Make, batch: Batch) -> None:
    model = learned(make, batch)
    before = model.to_bytes()
    wrong: list[Any] = [None, 7, "site=a", [1.0, 2.0]]
    wrong += [{0: object()}, {0: [1.0]}, {0: "a"}, {(0, 1): 1.0}, {1.5: 1.0}]
    for x in wrong:
        for call in (model.predict_one, lambda x: model.learn_one(x, 1.0)):
            with pytest.raises((TypeError, RowError)):
                call(x)
    for rows in (None, 7, "site=a", [None]):
        with pytest.raises((TypeError, DataError)):
            model.predict_many(rows)
    with pytest.raises((TypeError, DataError)):
        model.learn_many([{0: 1.0}, {1: 1.0}], [1.0])
    for label in (None, "1", [1.0]):
        with pytest.raises((TypeError, DataError)):
            model.learn_one({0: 1.0}, label)  # type: ignore[arg-type]
    assert model.to_bytes() == before


def check_all_labels_and_weights_are_checked_before_the_first_row(make: Make, batch: Batch) -> None:
    """For dicts as for a Batch; the error names the row."""
    rows, labels = as_dicts(batch), batch.labels.copy()
    labels[20] = float("nan")
    weights = np.ones(len(rows))
    weights[30] = -1.0
    for bad_labels, bad_weights, row in ((labels, None, 20), (batch.labels, weights, 30)):
        for given in (rows, batch):
            model = make()
            before = model.to_bytes()
            with pytest.raises(RowError, match=f"row {row}: "):
                model.learn_many(given, bad_labels, weights=bad_weights)
            assert model.to_bytes() == before


def check_a_bad_dict_is_named_by_its_row(make: Make, batch: Batch) -> None:
    rows: list[Any] = as_dicts(batch)[:3]
    model = make()
    for bad in ({0: float("inf")}, {0: object()}, 7):
        for call in (model.predict_many, model.margin_many):
            with pytest.raises((RowError, TypeError), match="row 3: "):
                call([*rows, bad])
        with pytest.raises((RowError, TypeError), match="row 3: "):
            model.learn_many([*rows, bad], [1.0, 0.0, 1.0, 0.0])


def check_mappings_and_other_keys_are_rows_too(make: Make, batch: Batch) -> None:
    rows = as_dicts(batch)
    expected, model = make(rows), make(rows)
    for x, y, w in labelled(batch):
        expected.learn_one(x, y, w)
        numbered = {np.uint32(index): np.float32(value) for index, value in x.items()}
        model.learn_one(MappingProxyType(numbered), y, w)
    assert model.to_bytes() == expected.to_bytes()
    named, other = make([{"a": 1.0, "b=c": 1.0}]), make([{"a": 1.0, "b=c": 1.0}])
    named.learn_one({"a": 1.0, "b": "c"}, 1.0)
    other.learn_one({Text("a"): 1.0, Text("b"): Text("c")}, 1.0)
    assert named.to_bytes() == other.to_bytes()


def check_what_a_value_raises_is_passed_on(make: Make, batch: Batch) -> None:
    class Interrupted:
        def __float__(self) -> float:
            raise KeyboardInterrupt

    model = learned(make, batch)
    before = model.to_bytes()
    with pytest.raises(KeyboardInterrupt):
        model.learn_one({0: 1.0, 1: Interrupted()}, 1.0)
    with pytest.raises(KeyboardInterrupt):
        model.predict_one({"a": Interrupted()})
    assert model.to_bytes() == before


# Keeping.


def check_save_then_load_is_the_identity(make: Make, batch: Batch) -> None:
    for model in (make(), learned(make, batch)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.pqr"
            model.save(path)
            twins = [type(model).load(path), pqrlearn.load(path)]
        twins.append(pqrlearn.from_bytes(model.to_bytes()))
        for twin in twins:
            assert type(twin) is type(model)
            assert twin.to_bytes() == model.to_bytes()
            np.testing.assert_array_equal(twin.margin_many(batch), model.margin_many(batch))


def check_a_state_makes_the_same_learner(make: Make, batch: Batch) -> None:
    model = learned(make, batch)
    twin = type(model).from_state(model.state())
    assert twin.to_bytes() == model.to_bytes()
    for half in (model, twin):
        half.learn_many(batch)
    assert twin.to_bytes() == model.to_bytes()


def check_a_run_can_be_resumed_anywhere(make: Make, batch: Batch) -> None:
    whole = learned(make, batch).to_bytes()
    for stop in (0, 1, len(batch) // 2, len(batch)):
        model = pqrlearn.from_bytes(learned(make, cut(batch, 0, stop)).to_bytes())
        model.learn_many(cut(batch, stop, len(batch)))
        assert model.to_bytes() == whole


def check_copies_and_pickles_are_equal_and_apart(make: Make, batch: Batch) -> None:
    model = learned(make, batch)
    before = model.to_bytes()
    for twin in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.to_bytes() == before
        twin.learn_one({0: 1.0}, 1.0)
        assert twin.to_bytes() != before
        assert model.to_bytes() == before


def check_predicting_changes_nothing(make: Make, batch: Batch) -> None:
    model = learned(make, batch)
    before = model.to_bytes()
    model.predict_many(batch)
    model.margin_many([{UNSEEN: 1.0, 0: 1.0}])
    model.predict_one({UNSEEN: 1.0, 1: 1.0})
    model.predict_one({"never": "seen", "a number": 2.0})
    assert model.to_bytes() == before


# Threads.


def check_other_threads_see_it_between_two_rows(make: Make, batch: Batch) -> None:
    """Predictions are those of the model after some row; what is saved is such a model."""
    model, twin = make(), make()
    rows = replace(batch, weights=np.ones_like(batch.weights))  # or `rows` would not count them all
    probes = batch.part(0, 3)

    def answer(of: Learner) -> tuple[float, ...]:
        return tuple(of.predict_many(probes).tolist())

    with (
        hurried(),
        Readers(1, lambda: answer(model)) as asking,
        Readers(1, lambda: copy.copy(model).to_bytes()) as saving,
    ):
        for first, last in pairwise([0, 1, 2, 9, len(rows) // 2, len(rows)]):
            model.learn_many(cut(rows, first, last))
            saving.wait()
    assert asking.errors == saving.errors == []
    answers, saved = {answer(twin)}, {twin.to_bytes()}
    for x, y, _ in labelled(rows):
        twin.learn_one(x, y)
        answers.add(answer(twin))
        saved.add(twin.to_bytes())
    assert asking.seen <= answers
    assert saving.seen <= saved
    assert len(saving.seen) > 3
    assert model.to_bytes() == twin.to_bytes()


# Names.


def check_names_are_numbers_up_to_renaming(make: Make, batch: Batch) -> None:
    rows = as_dicts(batch)
    named = [{f"feature {i}": v for i, v in row.items()} for row in rows]
    by_name = make(named)
    if hasattr(by_name, "seed"):  # initial factors go with numbers, and names have others
        probe = make(named)
        probe.learn_many(named, batch.labels)
        rows = [{probe.names.find(name): v for name, v in row.items()} for row in named]
    by_number = make(rows)
    for x, name, y in zip(rows, named, batch.labels.tolist(), strict=True):
        expected = by_number.learn_one(x, y)
        assert by_name.learn_one(name, y) == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert by_name.nonzeros() == by_number.nonzeros()
    np.testing.assert_allclose(
        by_name.margin_many(named), by_number.margin_many(rows), rtol=1e-4, atol=1e-5
    )


def check_names_survive_saving(make: Make, batch: Batch) -> None:
    named = [{f"feature {i}": v for i, v in row.items()} for row in as_dicts(batch)]
    model = make(named)
    model.learn_many(named[:20], batch.labels[:20])
    twin = pqrlearn.from_bytes(model.to_bytes())
    np.testing.assert_array_equal(twin.predict_many(named), model.predict_many(named))
    for half in (model, twin):
        half.learn_many(named[20:], batch.labels[20:])
    assert twin.to_bytes() == model.to_bytes()


def check_a_dict_means_what_it_says(make: Make, batch: Batch) -> None:
    """A string is the feature key=value, a number the feature key, None nothing."""
    spoken: dict[str, Any] = {"site": "a", "clicks": 2.5, "new": True, "old": False, "age": None}
    spelled: dict[str, Any] = {"site=a": 1.0, "clicks": 2.5, "new": 1.0}
    models = make([spelled]), make([spelled])
    for model, x in zip(models, (spoken, spelled), strict=True):
        for label in (1.0, 0.0, 1.0):
            model.learn_one(x, label)
    assert models[0].to_bytes() == models[1].to_bytes()
    assert models[0].predict_one(spelled) == models[0].predict_one(spoken)
    assert models[0].predict_one({"site": "b"}) == models[0].predict_one({"other": 3.0})


# Reports.


def link(model: Learner, margin: float) -> float:
    return oracle.link(model.loss, margin)


def check_predictions_are_the_link_of_margins(make: Make, batch: Batch) -> None:
    model = learned(make, batch)
    margins = model.margin_many(batch)
    assert margins.any()
    expected = [link(model, margin) for margin in margins]
    np.testing.assert_allclose(model.predict_many(batch), expected, rtol=1e-12)
    one = [model.predict_one(x) for x in as_dicts(batch)]
    np.testing.assert_array_equal(model.predict_many(batch), one)


def check_nonzeros_count_the_weights(make: Make, batch: Batch) -> None:
    model = learned(make, batch)
    for block, count in model.nonzeros().items():
        keys, weights = model.weights(block)
        assert np.count_nonzero(weights) == count
        if block != "bias":
            assert len(keys) == len(weights)
            assert len(np.unique(keys, axis=0)) == len(keys)


Check = Callable[[Make, Batch], None]
CHECKS: list[Check] = [check for name, check in globals().items() if name.startswith("check_")]
