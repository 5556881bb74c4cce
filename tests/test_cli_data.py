"""pqr data: list, get, convert and stats, as a person at a shell would call them."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pytest

from command import failure, figures, message, ok, run
from data_files import GOOD, write_good
from pqrlearn import datasets
from pqrlearn.cli import pqr
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.readers import LibsvmReader, read_names

CONTEXT = click.Context(pqr)
GROUP = pqr.get_command(CONTEXT, "data")
assert isinstance(GROUP, click.Group)


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PQRLEARN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data"


@pytest.mark.parametrize("command", GROUP.commands.values(), ids=list(GROUP.commands))
def test_every_command_and_option_is_described(command: click.Command) -> None:
    assert command.help
    assert command.short_help
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help
            assert option.help[0].isupper()


# list


def test_the_list_has_every_data_set_and_whether_it_is_there(root: Path) -> None:
    write_good(root, "ml-1m")
    found = {one["name"]: one for one in figures("data", "list")["data"]}
    assert list(found) == list(datasets.NAMES)
    assert (found["ml-1m"]["present"], found["ml-1m"]["whole"]) == (True, True)
    assert found["ml-1m"]["files"][0] == str(root / "ml-1m/ratings.dat")
    assert (found["ml-1m"]["rows"], found["ml-1m"]["features"]) == (1_000_209, 3_487)
    assert (found["criteo"]["present"], found["criteo"]["files"]) == (False, [])
    assert found["criteo"]["home"] == str(root / "criteo")
    assert found["kdd2012-libsvm"]["downloads"][0]["checksum"] is None


def test_a_sample_is_not_taken_for_the_whole(root: Path) -> None:
    home = write_good(root, "avazu")
    (home / "train").rename(home / "train_sample_23299.csv")
    out = ok("data", "list")
    assert [line.split()[1] for line in out.splitlines() if line.startswith("avazu ")] == [
        "sample",
        str(home / "train_sample_23299.csv"),
    ]
    assert "needs an account and accepted terms" in failure(1, "data", "get", "avazu")


# get


def test_get_of_what_is_there_prints_where(root: Path) -> None:
    home = write_good(root, "criteo")
    assert ok("data", "get", "criteo") == f"{home / 'train.txt'}\n"


@pytest.mark.parametrize("verb", [("get",), ("stats",), ("convert", "-o", "out")])
def test_a_name_that_is_not_known_is_one_line(verb: tuple[str, ...], tmp_path: Path) -> None:
    said = failure(3, "data", *verb, "ml-3m", cwd=tmp_path)
    assert said.startswith("no data set is called 'ml-3m': there are ml-100k")


@pytest.mark.parametrize("verb", [("stats",), ("convert", "-o", "out")])
def test_a_data_set_that_is_not_there_is_one_line(verb: tuple[str, ...], tmp_path: Path) -> None:
    assert "pqr data get ml-1m" in failure(3, "data", *verb, "ml-1m", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


# convert


@pytest.mark.parametrize("name", [name for name in GOOD if not name.endswith("-libsvm")])
def test_convert_writes_rows_and_names_that_are_those_of_the_data_set(
    root: Path, tmp_path: Path, name: str
) -> None:
    write_good(root, name)
    out = tmp_path / "out.svm"
    told = figures("data", "convert", name, "--to", "libsvm", "-o", out)
    loaded = datasets.get(name).load()
    (batch,) = LibsvmReader(out).batches()
    for part in ("indptr", "indices", "values", "labels"):
        assert np.array_equal(getattr(batch, part), getattr(loaded.batch, part))
    names = read_names(f"{out}.names")
    every = range(len(loaded.names))
    assert [names.name(at) for at in every] == [loaded.names.name(at) for at in every]
    assert (told["rows"], told["features"], told["names"]) == (2, len(names), f"{out}.names")
    assert told["files"] == [str(root / name / file) for file in GOOD[name]]


def test_what_was_converted_can_be_learned_and_read_by_name(root: Path, tmp_path: Path) -> None:
    write_good(root, "ml-1m")
    out = tmp_path / "out.svm"
    assert "ratings.dat" in ok("data", "convert", "ml-1m", "-o", out)
    model = tmp_path / "model.pqr"
    learned = run("train", out, "--loss", "squared", "--names", f"{out}.names", "-o", model)
    assert learned.code == 0
    assert "occupation=K-12 student" in ok("inspect", model, "--top", 20)


def test_a_libsvm_file_is_converted_without_names(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("2 7:1 3:0.5 # not sorted\n")
    out = tmp_path / "out.svm"
    ok("data", "convert", tmp_path / "rows", "-o", out)
    assert out.read_text() == "2 3:0.5 7:1\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.svm", "rows"]


def test_a_bad_row_leaves_neither_rows_nor_names(root: Path, tmp_path: Path) -> None:
    path = write_good(root, "criteo") / "train.txt"
    path.write_text(path.read_text() + "1\tx\n")
    (tmp_path / "out").mkdir()
    said = failure(3, "data", "convert", "criteo", "-o", tmp_path / "out/rows.svm")
    assert said == f"{path}:3: expected 40 cells separated by tabs, found 2"
    assert list((tmp_path / "out").iterdir()) == []


def test_a_place_that_cannot_be_written_is_told_before_any_work(tmp_path: Path) -> None:
    said = failure(1, "data", "convert", "ml-1m", "-o", tmp_path / "missing/out")
    assert "cannot be written" in said
    (tmp_path / "out.names").mkdir()
    said = failure(1, "data", "convert", "ml-1m", "-o", tmp_path / "out")
    assert said == f"{tmp_path / 'out.names'}: not a regular file: it is not replaced"


# stats


def test_stats_stand_next_to_those_of_the_paper(root: Path) -> None:
    write_good(root, "ml-1m")
    found = figures("data", "stats", "ml-1m", "--top", 1)
    assert (found["rows"], found["features"], found["sample"]) == (2, 11, True)
    assert (found["nonzeros_per_row"], found["mean_label"]) == (5.5, 4.0)
    assert found["published"] == {"rows": 1_000_209, "features": 3_487}
    assert found["paper"] == {"rows": 1_000_209, "features": 100_000}
    assert found["most_frequent"] == [["age=1", 1]]
    out = ok("data", "stats", "ml-1m")
    assert out.startswith("MovieLens 1M (a sample): ")
    assert "rows                     2  1,000,209  1,000,209\n" in out
    assert "features                11      3,487    100,000\n" in out


def test_stats_of_numbered_features_have_no_names(root: Path) -> None:
    write_good(root, "kdd2012-libsvm")
    assert figures("data", "stats", "kdd2012-libsvm")["most_frequent"][0] == ["1", 1]


def test_figure_1_is_drawn_as_png_and_svg(root: Path, tmp_path: Path) -> None:
    write_good(root, "criteo")
    found = figures("data", "stats", "criteo", "--figure", tmp_path / "figure")
    assert found["figures"] == [str(tmp_path / f"figure.{kind}") for kind in ("png", "svg")]
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "figure.svg").read_bytes()


def test_a_figure_that_cannot_be_written_is_told_before_counting(tmp_path: Path) -> None:
    result = run("data", "stats", "ml-1m", "--figure", tmp_path / "missing/figure")
    assert "missing/figure.png: cannot be written" in message(result.err)


# simulate


@pytest.mark.parametrize(("what", "label"), [("clicks", "click"), ("ratings", "stars")])
def test_simulated_tables_repeat_and_can_be_cut(what: str, label: str, tmp_path: Path) -> None:
    whole, head, tail = (tmp_path / name for name in ("whole.csv", "head.csv", "tail.csv"))
    assert ok("data", "simulate", what, "-o", whole, "--rows", 30).startswith("rows  30 to ")
    ok("data", "simulate", what, "-o", head, "--rows", 20)
    ok("data", "simulate", what, "-o", tail, "--rows", 10, "--start", 20)
    lines = whole.read_text().splitlines()
    assert lines[0].split(",")[0] == label
    assert lines[:21] == head.read_text().splitlines()
    assert lines[21:] == tail.read_text().splitlines()[1:]
    ok("data", "simulate", what, "-o", head, "--rows", 20, "--seed", 2)
    assert lines[:21] != head.read_text().splitlines()


def test_simulated_clicks_are_those_of_the_demo(tmp_path: Path) -> None:
    ok("data", "simulate", "clicks", "-o", tmp_path / "clicks.csv", "--rows", 50)
    stream = ClickStream.demo()
    batch = stream.batch(0, 50)
    names = (tmp_path / "clicks.csv").read_text().splitlines()[0].split(",")[1:]
    for number, line in enumerate((tmp_path / "clicks.csv").read_text().splitlines()[1:]):
        label, *cells = line.split(",")
        assert float(label) == batch.labels[number]
        features = batch.indices[batch.indptr[number] : batch.indptr[number + 1]]
        assert [stream.name(int(one)) for one in features] == [
            f"{name}={cell}" for name, cell in zip(names, cells, strict=True)
        ]


def test_what_cannot_be_simulated_is_named(tmp_path: Path) -> None:
    assert "'sales' is not one of" in failure(2, "data", "simulate", "sales", "-o", tmp_path / "a")
