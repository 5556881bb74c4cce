"""The machines with factors on real clicks; skipped where the Criteo sample is not at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pqrlearn import FM, LR, Batch, DiFacto, datasets
from pqrlearn.progressive import learn

REAL = Path(os.environ.get("PQRLEARN_DATA") or Path(__file__).parents[2] / "shared/data")
ROWS = 40_000
MARGIN = 0.002
"""What factors may cost against a linear model in one pass over so few rows of 39 features."""


@pytest.fixture(scope="module")
def clicks() -> Batch:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PQRLEARN_DATA", str(REAL))
        if not datasets.get("criteo").present():
            pytest.skip("the Criteo sample is not in $PQRLEARN_DATA")
        return datasets.get("criteo").load().batch.part(0, ROWS)


@pytest.mark.parametrize("kind", [FM, DiFacto])
def test_factors_do_no_harm_on_long_rows_of_real_clicks(
    clicks: Batch, kind: type[FM] | type[DiFacto]
) -> None:
    linear = learn(LR(), [clicks]).metrics["logloss"]
    found = learn(kind(), [clicks]).metrics
    assert found["logloss"] < linear + MARGIN
    assert found["logloss"] < found["constant_logloss"] - 0.05
