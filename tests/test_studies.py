"""The studies without their data: who takes part, what is written, what is printed."""

from __future__ import annotations

import doctest
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.measure import ROOT
from benchmarks.studies import (
    auto,
    cost,
    cost_page,
    interaction_scale,
    number_sets,
    numbers,
    profile,
    rivals,
    service,
    sets,
)
from benchmarks.studies.rivals import Rival

import pqrlearn
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


def test_scales_and_rates_are_compared_at_two_orders(clicks, monkeypatch):
    monkeypatch.setattr(interaction_scale, "rows_of", lambda name: clicks)
    linear, *others = interaction_scale.lines("avazu")
    assert linear[:2] == ["LR", ""]
    assert len(others) == 2 * len(interaction_scale.SCALES)
    assert {line[1] for line in others} == {"none", "0.1", "0.3", "1.0", "3.0"}
    assert all(0 < float(cell) < 5 for line in (linear, *others) for cell in line[2:])


# What a row costs.


def test_examples_in_docstrings_run():
    assert doctest.testmod(cost_page).failed == 0


def test_the_cost_of_a_row_is_read_for_every_model():
    place = cost.Place("nonzeros", 5, cost.stream_of(5, 50), cost.everyone(50), learned=2**8)
    readings = {reading.model: reading for reading in cost.measure([place], rounds=2)}
    seven = {"LR", "FM", "DiFacto", "PQR", "QR", "CFM", "CCFM"}
    assert set(readings) == seven | {"CFM, B = 1", "CCFM, B = 1"}
    assert all(len(reading.microseconds) == 2 for reading in readings.values())
    assert readings["CFM"].pairs == readings["CCFM, B = 1"].pairs == readings["QR"].pairs > 0
    assert readings["LR"].features == readings["CFM"].features


def test_the_median_of_the_rounds_is_kept():
    reading = cost.Reading("rank", 8, "FM", 1, 1, 1, 0, [3.0, 9e9, 0.0])
    assert reading.record()["microseconds"] == 3.0


def test_the_page_about_cost_has_the_medians_and_the_growth():
    readings = [
        {"sweep": "rank", "x": rank, "model": "FM", "microseconds": 1.0 * rank}
        for rank in (2, 4, 8)
    ]
    machine = dict.fromkeys(("cpu", "cores", "memory_gb", "system", "python", "compiler"), "?")
    facts = {"command": "c", "date": "d", "commit": "e", "rounds": 3}
    result = {**facts, "machine": machine | {"load": 0.5}, "readings": readings}
    assert "| FM     | 2.00 | 4.00 | 8.00 |  ^1.00 |" in cost_page.page(result)
    [axes] = cost_page.figure(result).axes
    assert axes.get_xlabel() == "rank m"


def test_the_page_about_cost_follows_from_the_medians_in_the_repository():
    result = json.loads((ROOT / "benchmarks/studies/cost.json").read_text())
    page = (ROOT / "docs/cost.md").read_text()
    assert cost_page.page(result) == page, "python -m benchmarks.studies.cost_page writes it again"


# The profile.


def test_what_callgrind_counts_is_added_up_by_part():
    text = """Events shown:     Ir Dr
6,000 (100.0%) 300 (100.0%)  PROGRAM TOTALS
3,000 (50.00%) 200 (66.67%)  csrc/coordinates.hpp:void pqr::Model::collect<Make>() [x]
2,000 (33.33%)   0           csrc/separation.hpp:pqr::Separation::rank(unsigned int)
  900 (15.00%) 100 (33.33%)  csrc/split.hpp:pqr::Splitter::split(pqr::Row const&)
  100 ( 1.67%)   .           ./math/e_exp.c:exp [libm.so.6]
"""
    parts = profile._by_part(text)
    assert parts == {
        "coordinates: slot numbers and values; the loop": {"Ir": 3000, "Dr": 200},
        "look up and sort ranks": {"Ir": 2900, "Dr": 100},
        profile.OTHER: {"Ir": 100, "Dr": 0},
    }


def test_every_file_that_the_profile_knows_exists():
    missing = [file for file in profile.PARTS if not (ROOT / "csrc" / file).exists()]
    assert not missing, f"FILES of benchmarks/studies/profile.py names {missing}"


def people() -> Any:
    import pandas as pd

    random = np.random.default_rng(5)
    size = 2000
    frame = pd.DataFrame(
        {
            "id": np.arange(size) * 3,
            "user": random.integers(0, 450, size),
            "age": random.integers(18, 80, size),
            "rank": random.integers(0, 5, size),
            "price": random.gamma(2, 10, size),
            "town": random.choice([f"town {n}" for n in range(30)], size),
        }
    )
    frame["click"] = (random.random(size) < 0.2 + 0.4 * (frame.price < 15)).astype(int)
    frame.loc[::7, "price"] = np.nan
    return frame


def test_the_rule_in_use_is_that_of_the_package():
    guessed = pqrlearn.read(people(), label="click").schema
    assert numbers.Rule().schema(people(), "click") == guessed
    assert [c.kind for c in guessed.columns][:5] == [
        *("ignored", "category", "bins", "category", "bins")
    ]


def test_every_rule_gives_a_loss_and_a_line_of_the_page(monkeypatch):
    table = number_sets.Table("people", "click", people)
    missing = number_sets.Table("none", "y", lambda: (_ for _ in ()).throw(ImportError("no")))
    monkeypatch.setattr(numbers, "TABLES", {"people": table, "none": missing})
    found = numbers.all_measured()
    assert found["skipped"] == {"none": "no"}
    losses = found["tables"]["people"]["auto"]
    assert losses[numbers.Rule().name] < losses[numbers.Rule(real="category").name]
    found["tables"]["twin"] = found["tables"]["people"]
    page = numbers.page(found)
    assert all(f"| {rule.name} |" in page for rule in numbers.RULES[1:])
    best = min(losses, key=losses.__getitem__)
    assert f"| people | {best} | {losses[best]:.2f} | " in page


def test_texts_become_numbers_that_keep_them_apart():
    coded = number_sets.with_codes(people())
    assert coded.town.dtype.kind == "i"
    assert (coded.groupby("town").size().sort_values().tolist()) == (
        people().groupby("town").size().sort_values().tolist()
    )


def test_the_cost_of_a_row_is_read_for_the_service(tmp_path):
    found = service.measured(tmp_path / "log", rows=1000)
    assert found.keys() == {"predict", "learn", "replay"}
    assert all(microseconds > 0 for microseconds in found.values())
