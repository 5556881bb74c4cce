"""pqr explain and pqr export: what people and programs see."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pyarrow.parquet
import pytest

import pqrlearn
from command import PQR, clicks, failure, figures, in_terminal, ok, write_rows
from pqrlearn.explain import explained
from strategies import as_dicts

TABLE = "click,site,ad,price\n" + "".join(
    f"{n % 2 ^ n // 2 % 2},{'news' * (1 + n % 2)},{'ab'[n // 2 % 2]},{n % 7}\n" for n in range(300)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models")
    (made / "clicks.csv").write_text(TABLE)
    write_rows(made / "rows.svm", clicks(seed=3))
    for kind in ("auto", "pqr", "lr", "fm"):
        ok("train", made / "rows.svm", "--model", kind, "-o", made / f"{kind}.pqr", "-q")
    given = ["--label", "click", "--model", "pqr", "-o", made / "table.pqr", "-q"]
    subprocess.run([PQR, "train", made / "clicks.csv", *given], check=True, capture_output=True)
    return made


@pytest.mark.parametrize("kind", ["auto", "pqr", "lr", "fm"])
@pytest.mark.parametrize("row", [1, 399])
def test_json_has_all_terms_the_largest_first(folder: Path, kind: str, row: int) -> None:
    model = pqrlearn.load(folder / f"{kind}.pqr")
    expected = model.explain_one(as_dicts(clicks(seed=3))[row - 1])
    found = figures("explain", "-m", folder / f"{kind}.pqr", folder / "rows.svm", "--row", row)
    assert (found["model"], found["row"]) == (kind, row)
    assert found["margin"] == expected.margin
    assert found["prediction"] == expected.prediction
    names = [(term["block"], *term["names"]) for term in found["terms"]]
    assert names == [(term.block, *term.names) for term in expected.strongest()]
    sizes = [abs(term["contribution"]) for term in found["terms"]]
    assert sizes == sorted(sizes, reverse=True)
    assert [t["count"] for t in found["terms"]] == [t.count for t in expected.strongest()]


def test_people_see_a_table_of_the_largest_terms_and_the_sum_of_the_rest(folder: Path) -> None:
    model = folder / "table.pqr"
    shown = ok("explain", "-m", model, folder / "clicks.csv", "--row", 2, "--top", 3)
    found = pqrlearn.load(model).explain_one({"site": "newsnews", "ad": "a", "price": 1})
    lines = [line.split() for line in shown.splitlines()]
    assert lines[0] == ["row", "2"]
    assert float(lines[1][1]) == pytest.approx(found.prediction, rel=1e-4)
    head = lines.index(["contribution", "weight", "value", "seen", "of"])
    assert len(lines) == head + 1 + 3 + 1
    for line, term in zip(lines[head + 1 :], found.strongest()[:3], strict=False):
        assert float(line[0]) == pytest.approx(term.contribution, abs=1e-4)
    assert lines[-1][1:] == [str(len(found.terms) - 3), "more", "terms", "together"]
    numbers = [float(line[0]) for line in lines[head + 1 :]]
    assert sum(numbers) == pytest.approx(found.margin, abs=1e-3)
    assert len(ok("explain", "-m", model, folder / "clicks.csv").splitlines()) > head + 3


def test_the_table_fits_a_terminal_of_80_columns(folder: Path) -> None:
    lines = in_terminal("explain", "-m", folder / "table.pqr", folder / "clicks.csv", "--top", 99)
    assert any("site=news × " in line for line in lines)
    assert not any("…" in line for line in lines)


def test_a_row_that_is_not_there_is_an_error(folder: Path) -> None:
    rows = folder / "rows.svm"
    message = failure(3, "explain", "-m", folder / "lr.pqr", rows, "--row", 401)
    assert message == f"{rows}: there is no row 401: it has 400"


def test_rows_may_come_through_a_pipe(folder: Path) -> None:
    text = (folder / "rows.svm").read_bytes()
    piped = figures("explain", "-m", folder / "lr.pqr", "-", "--row", 5, stdin=text)
    assert piped == figures("explain", "-m", folder / "lr.pqr", folder / "rows.svm", "--row", 5)
    model = pqrlearn.load(folder / "lr.pqr")
    assert piped["margin"] == next(explained(model, [clicks(seed=3)], 4)).margin


# Exporting.


def test_every_format_has_the_same_weights(folder: Path, tmp_path: Path) -> None:
    for kind in ("auto", "pqr", "lr", "fm", "table"):
        model = pqrlearn.load(folder / f"{kind}.pqr")
        expected = model.to_frame().to_pylist()
        for end in ("parquet", "csv", "json"):
            out = tmp_path / f"{kind}.{end}"
            found = figures("export", "-m", folder / f"{kind}.pqr", "-o", out)
            assert found == {"output": str(out), "weights": len(expected), "measured": None}
        table = pyarrow.parquet.read_table(tmp_path / f"{kind}.parquet")
        assert table.to_pylist() == expected
        about = json.loads((tmp_path / f"{kind}.json").read_text())
        assert about.pop("weights") == expected
        assert about == json.loads(table.schema.metadata[b"pqrlearn"])
        assert about["model"] == model.kind
        with open(tmp_path / f"{kind}.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [float(row["weight"]) for row in rows] == [row["weight"] for row in expected]
        assert [row["name"] or None for row in rows] == [row["name"] for row in expected]


def test_a_table_may_be_of_the_weights_that_matter_most(folder: Path, tmp_path: Path) -> None:
    given = ["export", "-m", folder / "pqr.pqr", "-o", tmp_path / "few.json", "--keep", 4]
    assert "weights" in ok(*given)
    rows = json.loads((tmp_path / "few.json").read_text())["weights"]
    assert sum(row["weight"] != 0 for row in rows) == 5  # and the bias


def test_what_to_write_is_told_by_the_end_of_the_name(folder: Path, tmp_path: Path) -> None:
    message = failure(2, "export", "-m", folder / "lr.pqr", "-o", tmp_path / "weights.xls")
    assert "its end must say what to write: one of .parquet, .csv, .json, .pqr" in message
    message = failure(2, "export", "-m", folder / "fm.pqr", "-o", tmp_path / "frozen.pqr")
    assert message.startswith("a fm model cannot be frozen")
    assert not list(tmp_path.iterdir())


def test_the_table_has_names_blocks_and_support(folder: Path) -> None:
    model = pqrlearn.load(folder / "table.pqr")
    rows = model.to_frame().to_pylist()
    named = {(row["block"], row["name"], row["other"]): row for row in rows}
    assert named["bias", None, None]["support"] == 300
    assert named["shared", "site=news", None]["support"] == 150
    pair = next(row for row in rows if row["block"] == "pair")
    assert pair["support"] is None
    assert "=" in pair["name"]
    assert {row["name"] for row in rows if row["block"] == "shared"} == set(
        model.separation.high_names()  # type: ignore[attr-defined]
    )
