"""The accuracy study without its data: who takes part, what is written, what is printed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.studies import auto, rivals, sets
from benchmarks.studies.rivals import Rival

from pqrlearn import Batch


@pytest.fixture
def clicks(monkeypatch: pytest.MonkeyPatch) -> Batch:
    """A set of ten rows that stands for avazu."""
    rng = np.random.default_rng(1)
    rows = [([i, 7 + i % 3], [1.0, 0.5]) for i in rng.integers(0, 5, 10).tolist()]
    batch = Batch.from_rows(rows, labels=[0, 1] * 5)
    for module in (rivals, auto):
        monkeypatch.setattr(module, "rows_of", lambda name: batch)
    return batch


def test_the_grid_has_102_different_settings_18_of_them_linear():
    names = [rival.name for rival in rivals.grid()]
    assert len(set(names)) == len(names) == 102
    assert sum(rival.family == "lr" for rival in rivals.grid()) == 18


def test_every_set_of_the_study_has_a_loss():
    assert {study.loss for study in sets.STUDIES.values()} == {"logistic", "squared"}


@pytest.mark.parametrize("rival", [Rival("mean"), *rivals.grid()[::25]])
def test_a_rival_is_scored_before_it_learns_and_frozen(clicks, rival, tmp_path):
    found = rival.run("avazu", tmp_path)
    assert 0 < found["progressive"]["logloss"] < 5
    assert ("frozen" in found) == (rival.family != "mean")


def test_the_running_mean_knows_only_the_past(clicks):
    margins = rivals.running_mean("avazu")
    assert margins[0] == 0
    assert margins[1] == pytest.approx(np.log(0.5 / 1.5))


def test_vowpal_wabbit_reads_the_same_rows(clicks, tmp_path):
    lines = rivals.write_vw("avazu", tmp_path).read_text().splitlines()
    assert [line.split(" |f ")[0] for line in lines] == ["-1", "1"] * 5
    first = clicks.part(0, 1)
    assert lines[0] == f"-1 |f {first.indices[0]} {first.indices[1]}:0.5"


def test_the_tables_leave_out_what_the_package_does_not_have(clicks):
    figures = {"logloss": 0.5, "auc": 0.7}
    runs = {
        rival.name: {"progressive": figures, "frozen": figures}
        for rival in rivals.rivals()
        if rival.family != "auto"
    }
    found = {"avazu": auto.summary("avazu", runs)}
    assert found["avazu"]["progressive"]["auto"] is None
    assert auto.table(found).splitlines()[2].startswith("| avazu | 10 | 0.50000 | – |")
    assert auto.table(found).endswith("| – |")
    assert auto.frozen_table(found).count("\n") == 2


def test_auto_is_compared_with_the_best_of_all_others():
    assert auto._against({"auto": 0.51, "VW": 0.5, "best of 102": 0.6}) == "+2.00 %"
    assert auto._against({"auto": None, "VW": 0.5}) == "–"
