"""Tables through the real command: from a file to a model, checkpoints, limits, damage."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import pqrlearn
from command import figures, ok, run

ROWS = 1000


def clicks(rows: int = ROWS) -> pa.Table:
    chance = np.random.default_rng(3)
    return pa.table(
        {
            "id": [f"r{n}" for n in range(rows)],
            "click": np.where(chance.random(rows) < 0.3, "yes", "no"),
            "site": [f"s{n}" for n in chance.zipf(1.5, rows) % 300],
            "ad": chance.integers(1000, 1500, rows),
            "price": np.round(chance.gamma(2, 3, rows), 3),
        }
    )


def as_vw(row: dict[str, Any]) -> str:
    label = 1 if row["click"] == "yes" else -1
    return f"{label} 2 '{row['id']}|site {row['site']} |ad {row['ad']} |price :{row['price']}\n"


def write(folder: Path, name: str, rows: pa.Table | None = None) -> Path:
    """The rows in the format that the end of the name says; `quoted` is CSV with line ends."""
    table, path = clicks() if rows is None else rows, folder / name
    match path.suffix:
        case ".csv":
            pyarrow.csv.write_csv(table, path)
            quote = '"s1\n"' if path.stem == "quoted" else "s1"
            path.write_text(path.read_text().replace('"', "").replace(",s1,", f",{quote},"))
        case ".parquet":
            pyarrow.parquet.write_table(table, path, row_group_size=300)
        case ".feather":
            pyarrow.feather.write_feather(table, path, chunksize=300)
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        case ".vw":
            path.write_text("".join(map(as_vw, table.to_pylist())))
    return path


FORMATS = ["rows.csv", "quoted.csv", "rows.parquet", "rows.feather", "rows.jsonl", "rows.vw"]
CLICKS = ("--label", "click", "--positive", "yes")


def options(path: Path) -> tuple[str, ...]:
    return () if path.suffix == ".vw" else CLICKS


def shown_table(err: str) -> list[str]:
    return [line for line in err.splitlines() if "warning" not in line]


def test_the_first_lines_that_a_user_types_work(tmp_path: Path) -> None:
    rows, model = write(tmp_path, "clicks.csv"), tmp_path / "clicks.pqr"
    trained = run("train", rows, *CLICKS, "-o", model)
    assert trained.code == 0
    assert "id      ignored   all values are different" in trained.err
    assert max(map(len, shown_table(trained.err))) <= 80
    later = write(tmp_path, "tomorrow.parquet", clicks(10).drop_columns(["click"]))
    assert len(ok("predict", "-m", model, later).split()) == 10
    assert "site=s1" in ok("inspect", model)
    assert figures("evaluate", "-m", model, write(tmp_path, "t.jsonl"))["rows"] == ROWS


def test_long_names_of_columns_are_cut_where_they_are_shown(tmp_path: Path) -> None:
    table = clicks(120).append_column("w" * 200, pa.array(["x" * 90, "y"] * 60))
    shown = run("train", write(tmp_path, "t.csv", table), *CLICKS, "-o", tmp_path / "m.pqr").err
    assert f"{'w' * 23}…" in shown
    assert max(map(len, shown_table(shown))) <= 80


@pytest.mark.parametrize("name", FORMATS)
def test_a_run_resumed_within_a_file_ends_in_the_same_bytes(name: str, tmp_path: Path) -> None:
    path, whole, resumed = write(tmp_path, name), tmp_path / "whole.pqr", tmp_path / "resumed.pqr"
    checkpoint = tmp_path / "checkpoint.pqr"
    common = (*options(path), "--model", "lr", "--quiet", "--json")
    run("train", path, *common, "-o", whole, "--checkpoint", checkpoint, "--every", 370)
    again = run("train", path, "--resume", checkpoint, "-o", resumed, "--quiet", "--json")
    assert json.loads(again.out)["resumed_after_rows"] == 740
    assert resumed.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("limit", [("--hash-bits", 6), ("--max-features", 40)])
@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.vw"])
def test_limited_names_resume_and_are_said(name: str, limit: Any, tmp_path: Path) -> None:
    path, whole, resumed = write(tmp_path, name), tmp_path / "whole.pqr", tmp_path / "resumed.pqr"
    checkpoint = tmp_path / "checkpoint.pqr"
    numbers = ("--numbers", "price") if options(path) else ()
    common = (*options(path), *numbers, *limit, "--quiet", "--json")
    first = run("train", path, *common, "-o", whole, "--checkpoint", checkpoint, "--every", 370)
    run("train", path, *limit, "--resume", checkpoint, "-o", resumed, "--quiet", "--json")
    assert resumed.read_bytes() == whole.read_bytes()
    scored = run("evaluate", "-m", whole, path, "--json")
    replaced = json.loads(first.out)["replaced_values"]
    assert json.loads(scored.out)["replaced_values"] == replaced
    shown, model = ok("inspect", whole), pqrlearn.load(whole)
    if limit[0] == "--hash-bits":
        assert "hashed to 6 bits, and may collide" in shown
        assert (replaced, len(model.names), model.next_feature) == (0, 0, 64)
    else:
        assert "at most 40 (full: new values count as column=*)" in shown
        names = {model.names.name(n) for n in range(len(model.names))}
        assert {"site=*", "ad=*"} <= names
        assert len(names) <= 40 + 3
        assert replaced == _not_among(names)
    other = run("train", path, limit[0], limit[1] + 1, "--resume", whole, "-o", resumed)
    assert (other.code, f"{limit[0]} contradicts --resume" in other.err) == (2, True)


def _not_among(names: set[str | None]) -> int:
    """Counted anew: the cells whose names are not kept."""
    table = clicks()
    cells = [f"{name}={value}" for name in ("site", "ad") for value in table[name].to_pylist()]
    return sum(cell not in names for cell in cells)


def test_a_schema_is_written_edited_and_used(tmp_path: Path) -> None:
    rows, file, model = write(tmp_path, "t.csv"), tmp_path / "s.toml", tmp_path / "m.pqr"
    assert ok("schema", rows, "-o", file) == ""
    text = file.read_text()
    assert 'id = "ignored"  # all values are different' in text
    unlabelled = run("train", rows, "--schema", file, "-o", model)
    assert unlabelled.code == 2
    assert unlabelled.err.endswith("t.csv: the schema has no label; give --label NAME\n")
    file.write_text(text.replace('ad = "category"', 'ad = "ignored"'))
    run("train", rows, "--schema", file, *CLICKS, "-o", model)
    schema = pqrlearn.load(model).schema
    assert schema is not None
    assert [c.kind for c in schema.columns] == ["ignored", "label", "category", "ignored", "bins"]
    again = run("train", rows, "--resume", model, *CLICKS, "-o", tmp_path / "n.pqr", "--quiet")
    assert again.code == 0
    for option, said in (
        (("--positive", "no"), "--positive contradicts --resume: the model has 'yes'"),
        (("--ignore", "site"), "column 'site' of the model to --resume is category"),
    ):
        wrong = run("train", rows, "--resume", model, "--label", "click", *option, "-o", model)
        assert (wrong.code, said in wrong.err) == (2, True)


def test_a_table_on_stdin_gives_the_model_of_its_file(tmp_path: Path) -> None:
    rows, named, piped = write(tmp_path, "t.csv"), tmp_path / "a.pqr", tmp_path / "b.pqr"
    run("train", rows, *CLICKS, "-o", named)
    assert run("train", "-", *CLICKS, "-o", piped, stdin=rows.read_bytes()).code == 0
    assert piped.read_bytes() == named.read_bytes()
    for name in ("t.feather", "t.jsonl"):  # told by their first bytes
        file, told = write(tmp_path, name).read_bytes(), tmp_path / name
        for stdin in (file, gzip.compress(file)):
            piped.unlink()
            assert run("train", "-", *CLICKS, "-o", piped, stdin=stdin).code == 0
            run("train", told, *CLICKS, "-o", named)
            assert piped.read_bytes() == named.read_bytes()
    stdin = write(tmp_path, "t.parquet").read_bytes()
    parquet = run("train", "-", *CLICKS, "-o", piped, stdin=stdin)
    assert (parquet.code, "Parquet needs a plain file" in parquet.err) == (3, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("site,b\nx,1\n", "there are no columns 'ad', 'price'; the table has columns 'site', 'b'"),
        (
            "x,1,2\ny,1,2\n",
            "t.csv:1: the schema has none of the columns 'x', '1', '2' in the first ",
        ),
        ("x,1,2\ny,1,2\n", "first line; if that line is data, name the columns with --columns"),
        ("site,ad,price,new\nx,1,2,3\n", "column 'new' not in the schema; --other-columns accept"),
        ("site,site,price\nx,1,2\n", "t.csv:1: column 'site' occurs twice in the first line"),
        ("site,ad,price\nx,1\n", "t.csv:2: expected 3 cells, found 2; --on-bad-row skip"),
        ("site,ad,price\nx,1,dear\n", "t.csv:2: column 'price': 'dear' is not a finite number"),
    ],
)
def test_a_table_that_changed_is_said(text: str, said: str, tmp_path: Path) -> None:
    schema = tmp_path / "s.toml"
    schema.write_text(
        '[columns]\nclick = {kind = "label", positive = "yes"}\nsite = "category"\n'
        'ad = "category"\nprice = "number"\nid = "ignored"\n'
    )
    run("train", write(tmp_path, "rows.csv"), "--schema", schema, "-o", tmp_path / "m.pqr")
    (tmp_path / "t.csv").write_text(text)
    found = run("predict", "-m", tmp_path / "m.pqr", tmp_path / "t.csv")
    assert found.code == 3
    assert said in found.err


@pytest.mark.parametrize("options", [(), ("--other-columns", "accept")])
def test_without_labels_there_is_nothing_to_evaluate(options: Any, tmp_path: Path) -> None:
    path, model = write(tmp_path, "rows.csv"), tmp_path / "m.pqr"
    run("train", path, *CLICKS, "-o", model)
    bare = write(tmp_path, "bare.parquet", clicks().drop_columns(["click"]))
    found = run("evaluate", "-m", model, bare, *options)
    assert found.code == 3
    assert "there is no column 'click' with labels, only columns " in found.err
    assert found.err.endswith("; they are needed to learn and to evaluate\n")


@pytest.mark.parametrize("name", ["rows.parquet", "rows.feather"])
def test_damaged_files_end_in_one_line_and_exit_code_3(name: str, tmp_path: Path) -> None:
    """Cut anywhere, or with a byte changed where it counts."""
    data = write(tmp_path, name).read_bytes()
    bad = tmp_path / f"bad{Path(name).suffix}"
    changed = bytearray(data)
    changed[-6 if name.endswith("parquet") else 14] ^= 0xFF  # in a length
    for damaged in (data[: len(data) // 3], data[:9], bytes(changed)):
        bad.write_bytes(damaged)
        found = run("train", bad, *CLICKS, "-o", tmp_path / "m.pqr")
        assert found.code == 3
        assert found.err.startswith(f"pqr: {bad}: cannot be read as ")
        assert found.err.count("\n") == 1
        assert not (tmp_path / "m.pqr").exists()


def test_arrow_is_imported_only_where_a_table_is_read(tmp_path: Path) -> None:
    code = (
        "import sys, pqrlearn, pqrlearn.cli.train\n"
        "pqrlearn.LR().learn_one({'site': 'a'}, 1)\n"
        "assert not {'pyarrow', 'pandas', 'scipy'} & {*sys.modules}\n"
        "pqrlearn.read(sys.argv[1], label='click', positive='yes')\n"
        "assert 'pyarrow' in sys.modules\n"
    )
    command = [sys.executable, "-c", code, str(write(tmp_path, "t.csv"))]
    subprocess.run(command, check=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [("%Q", "'Q' is a bad directive"), ("noon", "it has no directive"), ("%y%", "stray %")],
)
def test_a_format_that_no_time_has_is_wrong_usage(tmp_path: Path, given: str, said: str) -> None:
    rows, model = write(tmp_path, "rows.csv"), tmp_path / "m.pqr"
    wrong = run("train", rows, *CLICKS, "--times", f"ad={given}", "-o", model)
    assert (wrong.code, model.exists()) == (2, False)
    assert f"column 'ad': format={given!r} is no format of times: {said}" in wrong.err


def test_rows_that_all_weigh_nothing_are_warned_of(tmp_path: Path) -> None:
    rows = clicks().append_column("w", pa.array(np.zeros(ROWS)))
    path, model = write(tmp_path, "rows.csv", rows), tmp_path / "m.pqr"
    said = "warning: the weight of all rows is 0: none counts, and figures are undefined"
    trained = run("train", path, *CLICKS, "--weight", "w", "-o", model)
    assert (trained.code, said in trained.err) == (0, True)
    judged = run("evaluate", "-m", model, path)
    assert (judged.code, said in judged.err) == (0, True)
    with pytest.warns(UserWarning, match="the weight of all rows is 0"):
        pqrlearn.train(rows, label="click", positive="yes", weight="w")
