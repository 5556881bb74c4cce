"""Data sets: their features, their names, and every way in which a line can be wrong."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from pqrlearn import datasets
from pqrlearn.errors import DataError

REAL = Path(os.environ.get("PQRLEARN_DATA") or Path(__file__).parents[2] / "shared/data")


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PQRLEARN_DATA", str(REAL))


def needs(path: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not (REAL / path).exists(), reason=f"{path} is not in $PQRLEARN_DATA")


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize(
    ("name", "rows", "features", "per_row", "sample"),
    [
        pytest.param("ml-100k", 100_000, 898, None, False, marks=needs("ml-100k/u.data")),
        pytest.param("ml-1m", 1_000_209, 3_487, None, False, marks=needs("ml-1m/ratings.dat")),
        pytest.param("avazu", 23_299, 29_217, 22, True, marks=needs("avazu")),
        pytest.param("criteo", 137_139, 317_022, None, True, marks=needs("criteo")),
        pytest.param("kdd2012", 39_948, 160_606, 10, True, marks=needs("kdd2012")),
    ],
)
def test_real_files_have_the_rows_and_features_that_were_counted(
    name: str, rows: int, features: int, per_row: int | None, sample: bool
) -> None:
    loaded = datasets.get(name).load()
    assert (len(loaded.batch), len(loaded.names), loaded.sample) == (rows, features, sample)
    assert len(np.unique(loaded.batch.indices)) == features
    if per_row is not None:
        assert set(np.diff(loaded.batch.indptr)) == {per_row}


def test_a_name_that_is_not_known_is_told_with_all_that_are() -> None:
    with pytest.raises(DataError, match=r"no data set is called 'ml-2k': there are ml-100k, ml-1m"):
        datasets.get("ml-2k")
