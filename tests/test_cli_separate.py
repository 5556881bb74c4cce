"""pqr separate and what pqr inspect shows of its file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from command import clicks, failure, figures, ok, run, write_rows
from pqrlearn import Separation

ROWS = clicks(seed=31)
TIES = b"0 5:1 3:1\n0 5:1 9:1\n1 4:0 3:1\n"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("separate") / "rows.svm", ROWS)


def line(path: Path) -> list[tuple[int, int]]:
    separation = Separation.load(path)
    return list(zip(separation.features.tolist(), separation.counts.tolist(), strict=True))


def expected(order: int) -> list[tuple[int, int]]:
    separation = Separation.top_k(ROWS, order)
    return list(zip(separation.features.tolist(), separation.counts.tolist(), strict=True))


def test_the_most_frequent_features_are_high(rows: Path, tmp_path: Path) -> None:
    found = figures("separate", rows, "--order", 3, "-o", tmp_path / "sep")
    distinct = Separation.top_k(ROWS, 0).distinct
    assert found == {"order": 3, "rows": len(ROWS), "distinct": distinct}
    assert line(tmp_path / "sep") == expected(3)


def test_a_file_equals_the_rows_it_holds_byte_for_byte(rows: Path, tmp_path: Path) -> None:
    ok("separate", rows, "--order", 3, "-o", tmp_path / "command")
    Separation.top_k(ROWS, 3).save(tmp_path / "library")
    assert (tmp_path / "command").read_bytes() == (tmp_path / "library").read_bytes()


def test_zeros_do_not_count_and_ties_go_to_the_smaller_index(tmp_path: Path) -> None:
    ok("separate", "-", "--order", 100, "-o", tmp_path / "sep", stdin=TIES)
    assert line(tmp_path / "sep") == [(3, 2), (5, 2), (9, 1)]


def test_the_line_may_be_drawn_by_count(tmp_path: Path) -> None:
    ok("separate", "-", "--min-count", 2, "-o", tmp_path / "sep", stdin=TIES)
    assert line(tmp_path / "sep") == [(3, 2), (5, 2)]


def test_the_order_is_the_root_of_the_features_by_default(tmp_path: Path) -> None:
    out = ok("separate", "-", "-o", tmp_path / "sep", stdin=TIES)
    assert line(tmp_path / "sep") == [(3, 2), (5, 2)]
    shown = [line.split() for line in out.splitlines()]
    assert ["order", "(high", "features)", "2"] in shown
    assert ["distinct", "features", "3"] in shown
    assert ["0", "3", "2", "66.7%"] in shown


def test_of_stdin_and_compressed_files_the_first_rows_are_counted(
    rows: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "rows.gz"
    packed.write_bytes(gzip.compress(rows.read_bytes()))
    given = ["--sample-rows", 90, "-o"]
    found = figures("separate", packed, *given, tmp_path / "packed")
    assert found["rows"] == 90
    ok("separate", "-", *given, tmp_path / "piped", stdin=rows.read_bytes())
    assert (tmp_path / "packed").read_bytes() == (tmp_path / "piped").read_bytes()
    head = b"".join(rows.read_bytes().splitlines(keepends=True)[:90])
    ok("separate", "-", "-o", tmp_path / "head", stdin=head)
    assert (tmp_path / "head").read_bytes() == (tmp_path / "piped").read_bytes()


def test_of_a_long_plain_file_rows_all_over_it_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "long.svm"
    path.write_text("0 1:1\n" * 20_000 + "0 2:1\n" * 20_000 + "0 3:1\n" * 20_000)
    found = figures("separate", path, "--sample-rows", 900, "--order", 5, "-o", tmp_path / "sep")
    assert found["distinct"] == 3
    assert found["rows"] == pytest.approx(900, rel=0.2)
    assert min(count for _, count in line(tmp_path / "sep")) > 200
    found = figures("separate", path, "--sample-rows", "all", "-o", tmp_path / "sep")
    assert found["rows"] == 60_000


def test_inspect_shows_a_separation_by_name(rows: Path, tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("0 banner=top\n1 [site] ✓\n")
    ok("separate", rows, "--order", 3, "--names", names, "-o", tmp_path / "sep")
    found = figures("inspect", tmp_path / "sep", "--top", 2)
    counts = [count for _, count in expected(3)]
    assert found["order"] == 3
    assert found["most_frequent"] == [["banner=top", counts[0]], ["[site] ✓", counts[1]]]
    assert "[site] ✓" in ok("inspect", tmp_path / "sep")


def test_names_of_the_separation_are_names_of_the_model(rows: Path, tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("0 banner=top\n")
    ok("separate", rows, "--order", 3, "--names", names, "-o", tmp_path / "sep")
    ok(
        "train",
        "--model",
        "pqr",
        rows,
        "--separation",
        tmp_path / "sep",
        "-o",
        tmp_path / "model.pqr",
    )
    found = figures("inspect", tmp_path / "model.pqr")
    assert ["banner=top"] in [weight["features"] for weight in found["strongest"]["shared"]]


def test_bad_rows_stop_it_or_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "bad.svm"
    path.write_text("0 1:1\n0 x:1\n0 2:1\n")
    said = failure(3, "separate", path, "-o", tmp_path / "sep")
    assert said.startswith(f"{path}:2:3: ")
    assert not (tmp_path / "sep").exists()
    result = run("separate", path, "--on-bad-row", "skip", "-o", tmp_path / "sep")
    assert result.code == 0
    assert result.err.startswith("pqr: 1 bad row")
    assert Separation.load(tmp_path / "sep").rows == 2
    failure(2, "separate", path, "--bad-rows", tmp_path / "kept", "-o", tmp_path / "sep")


def test_nothing_to_count_is_an_error(tmp_path: Path) -> None:
    said = failure(3, "separate", "-", "-o", tmp_path / "sep", stdin=b"\n\n")
    assert said == "-: no rows"
