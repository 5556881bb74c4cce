"""--bad-rows: the file has every bad row, in input order, whatever happens to the run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from command import failure, fed_slowly, run
from pqrlearn import Column, Schema
from pqrlearn.readers import csv
from pqrlearn.readers.tables import TableOptions

SKIP = ["--model", "lr", "--loss", "squared", "--on-bad-row", "skip"]
LARGE = b"1 2:2e+38 3:2e+38"  # valid, and too large for any model


def text(rows: int = 300) -> bytes:
    """Every seventh row is too large, every tenth is no row; the last two are bad."""
    lines = [f"{n % 3} {1 + n % 5}:1 {10 + n % 7}:0.5".encode() for n in range(rows)]
    for n in range(0, rows, 7):
        lines[n] = LARGE.replace(b" 3:", b" %d:" % (3 + n))
    for n in range(5, rows, 10):
        lines[n] = b"rubbish %d" % n
    return b"\n".join([*lines, b"the last but one", b"the last"]) + b"\n"


def expected(data: bytes) -> list[bytes]:
    return [line for line in data.splitlines() if not line[:1].isdigit() or b"e+38" in line]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.svm"
    path.write_bytes(text())
    return path


def test_bad_rows_are_kept_in_input_order(rows: Path, tmp_path: Path) -> None:
    """Those that are no rows and those that the model refuses; once, however many passes."""
    for passes in (1, 2):
        given = ["--passes", passes, "--bad-rows", tmp_path / "bad", "-o", tmp_path / "model"]
        result = run("train", rows, *SKIP, *given, "--json")
        kept = (tmp_path / "bad").read_bytes().splitlines()
        assert kept == expected(text())
        assert json.loads(result.out)["bad_rows"] == len(kept)


def test_the_order_does_not_depend_on_how_a_stream_arrives(tmp_path: Path) -> None:
    data = text(1000)
    given = [*SKIP, "--bad-rows", tmp_path / "bad", "-o", tmp_path / "model"]
    with fed_slowly(data, "train", "-", *given) as process:
        process.communicate()
    assert process.returncode == 0
    assert (tmp_path / "bad").read_bytes().splitlines() == expected(data)


@pytest.mark.parametrize("stop", [1, 4, 150, 298])
def test_a_run_that_is_resumed_ends_with_the_same_file_and_count(
    rows: Path, tmp_path: Path, stop: int
) -> None:
    """A stream ends early, and is given again, whole: a stream has no digest to tell."""
    bad, kept = tmp_path / "bad", ["--checkpoint", tmp_path / "kept", "--every", 1]
    whole = rows.read_bytes()
    lines = whole.splitlines(keepends=True)
    first = tmp_path / "first.svm"
    first.write_bytes(b"".join(lines[:stop]))
    given = ["--bad-rows", bad, "-o", tmp_path / "model"]
    ends = []
    for inputs in (rows, first):
        result = run("train", "-", *SKIP, *kept, *given, "--json", stdin=inputs.read_bytes())
        assert result.code == 0, result.err
        ends.append((bad.read_bytes(), json.loads(result.out)["bad_rows"]))
    with bad.open("ab") as file:
        file.write(b"what was written behind the checkpoint\n")
    result = run(
        *("train", "-", "--resume", tmp_path / "kept", "--on-bad-row", "skip", *given, "--json"),
        stdin=whole,
    )
    assert result.code == 0, result.err
    assert (bad.read_bytes(), json.loads(result.out)["bad_rows"]) == ends[0]


def test_another_file_than_that_of_the_checkpoint_is_refused(rows: Path, tmp_path: Path) -> None:
    given = ["--bad-rows", tmp_path / "bad", "-o", tmp_path / "model"]
    kept = ["--checkpoint", tmp_path / "kept", "--every", 50]
    assert run("train", rows, *SKIP, *given, *kept).code == 0
    size = os.path.getsize(tmp_path / "bad")
    (tmp_path / "bad").write_bytes(b"short")
    again = ["--resume", tmp_path / "kept", "--on-bad-row", "skip"]
    said = failure(2, "train", rows, *again, *given)
    assert said.startswith(f"--bad-rows {tmp_path / 'bad'} has 5 bytes, but the run had written ")
    assert said.endswith(" before the checkpoint: give the file of that run, or leave it out")
    assert size > 5
    assert (tmp_path / "bad").read_bytes() == b"short"
    assert run("train", rows, *again, "-o", tmp_path / "model").code == 0


@pytest.mark.parametrize("passes", [1, 2])
def test_a_full_disk_is_named_by_the_file_that_does_not_fit(
    rows: Path, tmp_path: Path, passes: int
) -> None:
    given = ["--passes", passes, "--bad-rows", "/dev/full", "-o", tmp_path / "model"]
    said = failure(1, "train", rows, *SKIP, *given)
    assert said == "/dev/full: cannot be written: No space left on device"
    assert not (tmp_path / "model").exists()


def test_bad_rows_are_kept_when_there_is_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_bytes(b"rubbish\nmore of it\n")
    given = ["--bad-rows", tmp_path / "bad", "-o", tmp_path / "model"]
    assert failure(3, "train", path, *SKIP, *given) == f"{path}: no rows"
    assert (tmp_path / "bad").read_bytes() == path.read_bytes()


def test_a_sample_of_a_table_does_not_change_where_bad_rows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is resumed has a schema and takes no sample: it must find the same places."""
    monkeypatch.setattr(csv, "CHUNK_BYTES", 64)
    path = tmp_path / "rows.csv"
    rows = [f"{n % 2},site{n}" if n % 5 else f"bad,{n},row" for n in range(1, 101)]
    path.write_text("\n".join(["click,site", *rows]) + "\n")
    schema = Schema((Column("click", "label"), Column("site", "category")))

    def places(*, sampled: bool) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        reader = csv.CsvReader(path, on_bad_row="skip", table=TableOptions(schema=schema))
        if sampled:
            reader.sample()

        class Kept:
            def write(self, row: bytes) -> None:
                found.append((reader.position, row))

        reader.keep_bad = Kept()
        assert sum(len(batch) for batch in reader.batches()) == 80
        return found

    assert places(sampled=True) == places(sampled=False)
    assert len({place for place, _ in places(sampled=True)}) > 10
