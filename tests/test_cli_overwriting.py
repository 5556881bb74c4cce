"""No command writes its result over one of its inputs; ids may be columns that a model ignores."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from command import failure, ok

TABLE = "site,click,id\n" + "".join(f"s{n % 3},{n % 2},r{n}\n" for n in range(200))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(TABLE)
    ok("schema", "t.csv", "--label", "click", "-o", "t.toml")
    ok("train", "t.csv", "--schema", "t.toml", "-o", "m.pqr")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "schema t.csv -o t.csv",
        "separate t.csv --label click -o t.csv",
        "train t.csv --label click -o t.csv",
        "train t.csv --schema t.toml -o t.toml",
        "predict -m m.pqr t.csv -o t.csv",
        "predict -m m.pqr t.csv -o m.pqr",
        "predict -m m.pqr t.csv --on-bad-row skip --bad-rows t.csv",
        "evaluate -m m.pqr t.csv --on-bad-row skip --bad-rows t.csv",
        "export -m m.pqr -o m.pqr",
    ],
)
def test_an_input_is_not_overwritten(command: str, folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert "is an input: it would be overwritten" in failure(2, *command.split())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_an_ignored_column_of_a_parquet_file_may_be_the_id(folder: Path) -> None:
    rows = pa.table({"site": ["s1", "s2"], "click": [0, 1], "id": ["a", "b"]})
    pyarrow.parquet.write_table(rows, "t.parquet")
    printed = ok("predict", "-m", "m.pqr", "t.parquet", "--id", "id", "--to", "csv")
    assert [line.split(",")[0] for line in printed.splitlines()] == ["id", "a", "b"]
