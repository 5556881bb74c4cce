"""The bound on the pairs of a row: no row can take memory without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pqrlearn
from command import failure, run
from pqrlearn import CCFM, CFM, FM, LR, PQR, QR, Auto, Batch, Mixture, Separation
from pqrlearn.errors import HyperError, ModelFileError, RefusedRow, RowError
from pqrlearn.hyper import MAX_PAIRS_PER_ROW
from pqrlearn.learners.base import Learner

ROWS = Batch.from_rows([(range(6), [1.0] * 6)] * 3, labels=[1, 0, 1])
SHORT, LONG = {0: 1.0, 1: 1.0, 2: 1.0}, {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0}  # 3 and 6 pairs
MANY = "its high features make 6 pairs, more than max_pairs_per_row=5; raise it"


def batch_of(*rows: dict[int, float], weights: list[float] | None = None) -> Batch:
    features = [([*row], [*row.values()]) for row in rows]
    return Batch.from_rows(features, labels=[1.0] * len(rows), weights=weights)


def pqr(pairs: int = 5) -> PQR:
    model = PQR(Separation.top_k(ROWS, 4), max_pairs_per_row=pairs)
    model.learn_many(batch_of(SHORT))
    return model


def qr(pairs: int = 5) -> QR:
    """All features of the rows are known, so that predicting one pairs them all."""
    model = QR(max_pairs_per_row=pairs)
    model.learn_many([{0: 1.0, 1: 1.0}, {2: 1.0, 3: 1.0}], [1, 0])
    return model


def frozen(pairs: int = 5) -> Any:
    return pqr(pairs).frozen()


@pytest.mark.parametrize("make", [pqr, qr, frozen])
def test_a_row_with_too_many_pairs_is_not_predicted(make: Callable[..., Learner]) -> None:
    model = make()
    for predict in (model.predict_one, model.margin_one):
        with pytest.raises(RowError, match=f"^{MANY}"):
            predict(LONG)
    for predict_many in (model.predict_many, model.margin_many):
        with pytest.raises(RowError, match=f"row 1: {MANY}"):
            predict_many([SHORT, LONG])
        with pytest.raises(RefusedRow, match=f"row 1: {MANY}") as refused:
            predict_many(batch_of(SHORT, LONG, SHORT))
        assert refused.value.margins.tolist() == model.margin_many([SHORT]).tolist()
    assert make(6).predict_one(LONG) > 0


@pytest.mark.parametrize("make", [pqr, qr])
def test_a_row_with_too_many_pairs_is_not_learned(make: Callable[..., Any]) -> None:
    model, twin = make(), make()
    before = model.to_bytes()
    with pytest.raises(RowError, match=f"^{MANY}"):
        model.learn_one(LONG, 1)
    with pytest.raises(RowError, match=f"row 0: {MANY}"):
        model.learn_many([LONG], [1])
    assert model.to_bytes() == before
    for prepared in (lambda batch: batch, model._prepared):
        with pytest.raises(RefusedRow, match=f"row 1: {MANY}"):
            model.learn_many(prepared(batch_of(SHORT, LONG, SHORT)))
        twin.learn_many(batch_of(SHORT))
        assert model.to_bytes() == twin.to_bytes()
    model.max_pairs_per_row = 6
    assert len(model.learn_many(batch_of(SHORT, LONG, SHORT))) == 3


def test_new_features_of_qr_count_in_the_row_that_brings_them() -> None:
    model = QR(max_pairs_per_row=5)
    before = model.to_bytes()
    assert model.predict_one(LONG) == 0.5  # nothing is known yet, so nothing is paired
    for learn in (lambda: model.learn_one(LONG, 1), lambda: model.learn_many(batch_of(LONG))):
        with pytest.raises(RowError, match=MANY):
            learn()
    assert model.to_bytes() == before
    model.learn_many(batch_of(LONG, weights=[0.0]))  # which teaches nothing
    model.learn_many(batch_of(SHORT, {7: 1.0, 8: 1.0}))
    with pytest.raises(RowError, match=MANY):
        model.learn_many(batch_of({0: 1.0, 1: 1.0, 7: 1.0, 8: 1.0}, weights=[0.0]))


def test_a_copy_of_the_weights_has_the_same_bound() -> None:
    """Many rows are predicted from one: decision 9."""
    model = pqr()
    rows = [SHORT] * 20_000
    rows[15_000] = LONG
    for _ in range(2):  # the second time there is a copy
        with pytest.raises(RefusedRow, match=f"row 15000: {MANY}"):
            model.predict_many(batch_of(*rows))


def test_by_default_no_row_takes_much_memory() -> None:
    features = 8000
    row = Batch.from_rows([(range(features), [1.0] * features)], labels=[1])
    said = f"{features * (features - 1) // 2} pairs, more than max_pairs_per_row={2**22}"
    model = PQR(Separation.top_k(row, features))
    for refuse in (model.learn_many, model.predict_many, model.frozen().predict_many):
        with pytest.raises(RefusedRow, match=said):
            refuse(row)
    with pytest.raises(RefusedRow, match=said):
        QR().learn_many(row)
    with pytest.raises(RowError, match=said):
        model.predict_one(dict.fromkeys(range(features), 1.0))


@pytest.mark.parametrize("learner", [CFM, CCFM])
def test_convex_models_refuse_to_learn_such_a_row(learner: Any) -> None:
    size = 2897
    rows = Batch.from_rows([([0], [1.0]), (range(size), [1.0] * size)], labels=[1, 0])
    model = learner()
    with pytest.raises(RefusedRow, match="row 1: its 2897 features make 4194856 pairs, more than"):
        model.learn_many(rows)
    assert (model.rows, model.next_feature) == (1, 1)
    assert len(model.predict_many(rows)) == 2


def test_rows_that_cannot_be_explained_are_refused() -> None:
    size = 2897
    row = dict.fromkeys(range(size), 1.0)
    with pytest.raises(RowError, match="more than max_pairs_per_row=5"):
        pqr().explain_one(LONG)
    with pytest.raises(RowError, match="has 4194856 pairs; up to 4194304 can be explained"):
        FM().explain_one(row)


def test_auto_has_a_bound_of_its_own() -> None:
    """Of a row with more than 512 high features, those that rose later count as low."""
    size = 3000
    rows = Batch.from_rows([(range(size), [1.0] * size)] * 130, labels=[1, 0] * 65)
    model = Auto()
    model.learn_many(rows)
    assert len(model.high) == size
    assert np.isfinite(model.predict_many(rows)).all()
    assert model.summary()["pairs"] <= 512 * 511 // 2


def test_a_mixture_goes_on_with_the_learners_that_take_the_row() -> None:
    linear = LR()
    model = Mixture([linear, PQR(Separation.top_k(ROWS, 4), max_pairs_per_row=5)])
    model.learn_many(batch_of(SHORT, LONG))
    assert (model.rows, [one.rows for one in model.learners]) == (2, [2, 1])
    alone = Mixture([pqr()])
    with pytest.raises(RefusedRow, match=f"row 0: {MANY}"):
        alone.learn_many(batch_of(LONG))
    with pytest.raises(RefusedRow, match=f"row 0: {MANY}"):
        alone.predict_many(batch_of(LONG))


@pytest.mark.parametrize("make", [pqr, qr, frozen])
def test_the_bound_is_saved_where_it_is_not_the_default(make: Callable[..., Any]) -> None:
    default, lower = make(MAX_PAIRS_PER_ROW), make(5)
    assert "max_pairs_per_row" not in default.settings()
    assert lower.settings()["max_pairs_per_row"] == 5
    again = pqrlearn.from_bytes(lower.to_bytes())
    assert again.to_bytes() == lower.to_bytes() != default.to_bytes()
    with pytest.raises(RowError, match=MANY):
        again.predict_one(LONG)
    lower.max_pairs_per_row = MAX_PAIRS_PER_ROW
    assert lower.to_bytes() == default.to_bytes()


@pytest.mark.parametrize("pairs", [0, -1, 2**63, 1.5, True, None, "5"])
def test_the_bound_is_a_whole_number(pairs: Any) -> None:
    for make in (lambda: QR(max_pairs_per_row=pairs), lambda: pqr(pairs)):
        with pytest.raises(HyperError, match=r"max_pairs_per_row=.* must be a whole number"):
            make()
    state = qr().state()
    state.settings["max_pairs_per_row"] = pairs
    with pytest.raises((HyperError, ModelFileError)):
        QR.from_state(state)


def test_the_command_names_the_row_and_can_leave_it_out(tmp_path: Path) -> None:
    rows, kept, model = tmp_path / "rows.svm", tmp_path / "kept", tmp_path / "model"
    rows.write_text("1 0:1 1:1\n0 0:1 1:1 2:1 3:1\n1 0:1 2:1 3:1\n")
    train = ["train", rows, "--model", "pqr", "--order", 4, "--max-pairs-per-row", 5, "-o", model]
    assert failure(3, *train).startswith(f"{rows}:2:1: {MANY}")
    skip = ["--on-bad-row", "skip", "--bad-rows", kept]
    result = run(*train, *skip)
    assert (result.code, kept.read_text()) == (0, "0 0:1 1:1 2:1 3:1\n")
    assert "1 bad row" in result.err
    assert pqrlearn.load(model).rows == 2
    assert failure(3, "predict", "-m", model, rows).startswith(f"{rows}:2:1: {MANY}")
    assert len(run("predict", "-m", model, rows, "--on-bad-row", "skip").out.splitlines()) == 2
    conflict = failure(2, "train", rows, "--max-pairs-per-row", 5, "-o", tmp_path / "auto")
    assert conflict.startswith("--max-pairs-per-row needs --model pqr or qr")
