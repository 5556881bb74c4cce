"""Statistics of a data set: in seconds, from the first rows or from what was counted before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pqrlearn import datasets
from pqrlearn.cli.data import stats
from pqrlearn.datasets import statistics
from pqrlearn.datasets.base import DataSet
from pqrlearn.datasets.statistics import measure, summarised


@pytest.fixture
def clicks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> DataSet:
    """KDD2012 in LIBSVM's version: 40,000 rows of two features, one of which is always there."""
    monkeypatch.setenv("PQRLEARN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data/libsvm").mkdir(parents=True)
    write(tmp_path, range(40_000))
    return datasets.get("kdd2012-libsvm")


def write(folder: Path, rows: range) -> None:
    lines = (f"{n % 4 // 3} 1:1 {10 + n % 1000}:1\n" for n in rows)
    (folder / "data/libsvm/kdd12").write_text("".join(lines))


def shown(*arguments: str) -> str:
    """What the command prints, in this process, where a few rows may pass for many."""
    done = CliRunner().invoke(stats, [*arguments, "--quiet"], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def stored(folder: Path) -> list[Path]:
    return [*folder.glob("cache/pqrlearn/statistics/*.json")]


def test_a_summary_has_the_figures_of_the_statistics(clicks: DataSet) -> None:
    found, counted = summarised(clicks), measure(clicks)
    assert found.all_rows
    assert (found.rows, found.features, found.nonzeros) == (40_000, 1_001, 80_000)
    assert found.mean_label == counted.mean_label == 0.25
    assert found.most_frequent[0] == ["1", 40_000]
    assert found.most_frequent == [[*pair] for pair in counted.most_frequent(statistics.TOP)]
    assert found.occurrence == [part.tolist() for part in counted.occurrence()]


def test_of_large_files_only_the_first_rows_are_counted(
    clicks: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, range(400_000))  # more than one block
    monkeypatch.setattr(statistics, "FEW_NONZEROS", 10)
    found = summarised(clicks)
    assert not found.all_rows
    assert 0 < found.rows < 400_000
    assert stored(tmp_path) == []
    said = shown("kdd2012-libsvm")
    assert f"Only the first {found.rows:,} rows were counted; --all counts all of them." in said
    assert json.loads(shown("kdd2012-libsvm", "--json"))["all_rows"] is False


def test_counts_of_all_rows_are_stored_and_shown_from_then_on(
    clicks: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, range(400_000))
    monkeypatch.setattr(statistics, "FEW_NONZEROS", 10)
    every = summarised(clicks, all_rows=True)
    assert (every.rows, every.all_rows) == (400_000, True)
    monkeypatch.setattr(statistics, "_counted", None)  # not needed any more
    assert summarised(clicks) == every
    assert "Only the first" not in shown("kdd2012-libsvm")


def test_other_files_are_counted_again(clicks: DataSet, tmp_path: Path) -> None:
    summarised(clicks)
    write(tmp_path, range(1_000))
    assert summarised(clicks).rows == 1_000
    assert len(stored(tmp_path)) == 2


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"rows": 3}'])
def test_a_damaged_cache_is_replaced(clicks: DataSet, tmp_path: Path, damage: str) -> None:
    good = summarised(clicks)
    [path] = stored(tmp_path)
    path.write_text(damage)
    assert summarised(clicks) == good
    assert json.loads(path.read_text())["rows"] == 40_000


def test_without_a_cache_statistics_are_counted_all_the_same(
    clicks: DataSet, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file in the way")
    assert summarised(clicks).rows == 40_000
