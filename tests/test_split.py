"""Rows that are split before their turn."""

from __future__ import annotations

import pytest

from pqrlearn import PQR, QR, Batch, Separation
from pqrlearn.errors import RefusedRow
from strategies import random_batch

SOME_ROWS = random_batch(seed=6)


def test_splits_of_other_rows_or_separations_are_refused() -> None:
    columns, size = SOME_ROWS._columns()[:5], len(SOME_ROWS)
    mine, other = (Separation.top_k(SOME_ROWS, order=5) for _ in range(2))
    splits = mine.snapshot.split(*columns[:3])
    for model, first in ((PQR(other), 0), (PQR(mine), 1), (PQR(mine), size + 1), (QR(), 0)):
        with pytest.raises(ValueError, match="belong to other rows, or to another separation"):
            model._model.learn_split(*columns, splits, first)
        assert model.rows == 0


def test_models_that_share_a_separation_share_its_splits_and_parts_keep_them() -> None:
    separation = Separation.top_k(SOME_ROWS, order=5)
    plain, first, second = (PQR(separation, "squared") for _ in range(3))
    plain.learn_many(SOME_ROWS)
    prepared = first._prepared(SOME_ROWS)
    assert second._prepared(prepared) is prepared
    assert first._prepared(prepared.part(7, 20)).first == 7  # type: ignore[attr-defined]
    first.learn_many(prepared)
    for start, stop in ((0, 7), (7, 20), (20, len(SOME_ROWS))):
        second.learn_many(prepared.part(0, stop).part(start, stop))
    assert first.to_bytes() == second.to_bytes() == plain.to_bytes()


def test_a_row_too_large_is_refused_in_a_prepared_batch_too() -> None:
    rows = [([0, 1], [1.0, 1.0]), ([0, 1], [1e30, 1e30]), ([0, 2], [1.0, 1.0])]
    batch = Batch.from_rows(rows, labels=[1.0, 0.0, 1.0])
    model = PQR(Separation.top_k(batch, 2), loss="squared")
    with pytest.raises(RefusedRow) as refused:
        model.learn_many(model._prepared(batch))
    assert (refused.value.row, model.rows) == (1, 1)
