"""The machines with factors on real clicks; skipped where the Criteo sample is not at hand."""

from __future__ import annotations

import os
import sys
from itertools import islice
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.interaction_scale import as_batch, criteo
from benchmarks.measure import ROOT

from pqrlearn import FM, LR, Batch, DiFacto
from pqrlearn.progressive import learn

FOLDER = Path(os.environ.get("PQRLEARN_DATA", ROOT.parent / "shared" / "data")) / "criteo"
MARGIN = 0.002
"""What factors may cost against a linear model in one pass over so few rows of 39 features."""


@pytest.fixture(scope="module")
def clicks() -> Batch:
    if not (FOLDER / "train_sample.txt").exists():
        pytest.skip("the Criteo sample is not in $PQRLEARN_DATA")
    return as_batch(islice(criteo(FOLDER), 40_000), shuffled=False)


@pytest.mark.parametrize("kind", [FM, DiFacto])
def test_factors_do_no_harm_on_long_rows_of_real_clicks(
    clicks: Batch, kind: type[FM] | type[DiFacto]
) -> None:
    linear = learn(LR(), [clicks]).figures["logloss"]
    found = learn(kind(), [clicks]).figures
    assert found["logloss"] < linear + MARGIN
    assert found["logloss"] < found["constant_logloss"] - 0.05
