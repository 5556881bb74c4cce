"""pqr inspect: effects on one scale, support, experts, what rose, importance."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import pqrlearn
from command import PQR, failure, figures, in_terminal, ok
from pqrlearn.explain import importance, typical_scale, worth_of_interactions

SITES = ["news", "shop", "mail"]
TABLE = "click,site,ad,user\n" + "".join(
    f"{n % 3 % 2 ^ n // 3 % 2},{SITES[n % 3]},{'ab'[n // 3 % 2]},{n}\n" for n in range(300)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models")
    (made / "clicks.csv").write_text(TABLE)
    for kind in ("auto", "pqr"):
        given = ["--label", "click", "--categories", "user", "--model", kind, "-q"]
        command = [PQR, "train", made / "clicks.csv", *given, "-o", made / f"{kind}.pqr"]
        subprocess.run(command, check=True, capture_output=True)
    return made


def test_weights_have_support_and_an_effect_on_one_scale(folder: Path) -> None:
    model = pqrlearn.load(folder / "pqr.pqr")
    found = figures("inspect", folder / "pqr.pqr", "--top", 1000)
    scale = typical_scale(model)
    assert scale is not None
    assert scale < 1
    for block, rows in found["strongest"].items():
        of = 1.0 if block == "linear" else scale
        assert all(row["effect"] == pytest.approx(row["weight"] * of) for row in rows)
    support = {row["features"][0]: row["support"] for row in found["strongest"]["linear"]}
    assert support["site=news"] == 100
    assert support["user=250"] is None  # low: PQR has counted high features only
    assert all(row["support"] is None for row in found["strongest"]["pair"])
    shown = ok("inspect", folder / "pqr.pqr")
    assert "bias weight" in shown
    columns = {tuple(line.split()) for line in shown.splitlines()}
    assert ("feature", "weight", "effect") in columns
    assert ("feature", "weight", "effect", "seen") in columns


def test_a_self_tuning_model_shows_experts_what_rose_and_what_is_low(folder: Path) -> None:
    model = pqrlearn.load(folder / "auto.pqr")
    assert isinstance(model, pqrlearn.Auto)
    found = figures("inspect", folder / "auto.pqr", "--top", 3)
    assert found["interactions"] == worth_of_interactions(model)
    assert found["interactions"].startswith("interactions are worth ")
    rose = [row["feature"] for row in found["risen"]]
    assert rose == [model.name_of(feature) for feature in model.high[:3]]
    assert {row["support"] for row in found["low"]} == {1}
    assert set(found["auto"]) >= {"posterior", "losses", "regret", "bound"}
    shown = ok("inspect", folder / "auto.pqr", "--top", 3)
    titles = ["experts", "strongest pair weights", "first to rise", "most frequent low features"]
    assert [title for title in titles if f"\n{title}\n" in shown] == titles
    assert f"\n{found['interactions']}\n" in shown
    assert "low features" in shown.split("\n\n")[0]


@pytest.mark.parametrize("kind", ["auto", "pqr"])
def test_importance_is_measured_on_rows(folder: Path, kind: str) -> None:
    given = ["inspect", folder / f"{kind}.pqr", "--data", folder / "clicks.csv"]
    found = figures(*given)["importance"]
    model = pqrlearn.load(folder / f"{kind}.pqr")
    expected = importance(model, pqrlearn.read(folder / "clicks.csv", schema=model.schema))
    assert found["rows"] == expected.rows == 300
    assert dict(found["fields"]) == pytest.approx(expected.fields)
    assert {(a, b): size for a, b, size in found["pairs"]} == pytest.approx(expected.pairs)
    assert found["pairs"][0][:2] == ["ad", "site"]
    shown = ok(*given)
    assert "importance: mean absolute contribution, over 300 rows" in shown
    assert "ad × site" in shown


def test_all_of_it_fits_a_terminal_of_80_columns(folder: Path) -> None:
    lines = in_terminal("inspect", folder / "auto.pqr", "--data", folder / "clicks.csv", "-q")
    assert not any("…" in line for line in lines)


def test_data_that_is_not_there_is_an_error(folder: Path) -> None:
    missing = folder / "missing.csv"
    assert str(missing) in failure(3, "inspect", folder / "pqr.pqr", "--data", missing)
