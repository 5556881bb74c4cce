"""Checkpoints: what they say of a run, when they are refused, and what may go wrong meanwhile.

That they survive kill -9 is in test_kill.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pqrlearn
from command import PQR as COMMAND
from command import SECONDS, clicks, failure, feed, figures, message, ok, run, write_rows
from pqrlearn import Batch, modelfile
from pqrlearn.checkpoint import Progress, cut, skip
from pqrlearn.errors import Corrupt, DataError
from pqrlearn.files import file_digest, temporary_folder
from strategies import cut as part

ROWS = clicks(seed=91)
EVERY = 150  # the last checkpoint of the 400 rows is after 300
Train = Callable[..., bytes]

# How far a run has come.


def test_progress_is_what_was_written() -> None:
    progress = Progress(("a", "b"), passes=3, done_passes=1, rows=7).after(5)
    written = json.loads(json.dumps(progress.settings()))
    assert Progress.restored(written, "name") == progress
    assert progress.rows == 12


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": "stream"},
        {"inputs": [1]},
        {"inputs": None},
        {"passes": 0},
        {"passes": 1.0},
        {"done_passes": -1},
        {"done_passes": 2},
        {"rows": -5},
        {"rows": True},
        {"rows": "5"},
    ],
    ids=str,
)
def test_progress_that_no_run_has_made_is_refused(change: dict[str, Any]) -> None:
    good = {"inputs": ["stream"], "passes": 2, "done_passes": 1, "rows": 5}
    assert Progress.restored(good, "name").rows == 5
    for damaged in (good | change, {k: v for k, v in good.items() if k not in change}):
        with pytest.raises(Corrupt, match="name: a damaged checkpoint"):
            Progress.restored(damaged, "name")


@pytest.mark.parametrize("settings", [[], "x", 3, {}])
def test_something_else_than_progress_is_refused(settings: Any) -> None:
    with pytest.raises(Corrupt):
        Progress.restored(settings, "name")


def test_a_file_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    texts = {"one": "1 1:1\n", "same": "1 1:1\n", "other": "1 1:2\n", "long": "1\n" * 9}
    marks = {}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        marks[name] = file_digest(str(tmp_path / name))
    assert marks["one"] == marks["same"]
    assert len(set(marks.values())) == 3
    os.mkfifo(tmp_path / "pipe")
    assert file_digest("-") == file_digest(str(tmp_path / "pipe")) == "stream"


def numbered(sizes: list[int]) -> list[Batch]:
    """Batches of these sizes whose labels are the numbers of their rows."""
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    return [
        Batch.from_rows([([r], [1.0]) for r in range(size)], labels=range(start, start + size))
        for start, size in zip(starts, sizes, strict=True)
    ]


batch_sizes = st.lists(st.integers(0, 9), max_size=6)


@settings(max_examples=60)
@given(batch_sizes, st.integers(0, 60))
def test_skipping_leaves_out_the_first_rows_and_no_others(sizes: list[int], rows: int) -> None:
    if rows > sum(sizes):
        with pytest.raises(DataError, match="fewer rows than the checkpoint has learned"):
            list(skip(numbered(sizes), rows))
        return
    left = [label for batch in skip(numbered(sizes), rows) for label in batch.labels]
    assert left == list(range(rows, sum(sizes)))


@settings(max_examples=60)
@given(batch_sizes, st.integers(1, 12), st.integers(0, 30))
def test_cutting_keeps_all_rows_and_ends_batches_where_a_checkpoint_is_due(
    sizes: list[int], every: int, done: int
) -> None:
    batches = list(cut(numbered(sizes), every, done))
    assert [label for batch in batches for label in batch.labels] == list(range(sum(sizes)))
    ends = {done + int(batch.labels[-1]) + 1 for batch in batches}
    due = {n for n in range(done + 1, done + sum(sizes) + 1) if n % every == 0}
    assert due <= ends
    assert all(0 < len(batch) <= every for batch in batches)


# The command.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """rows.svm, its two parts, it compressed; a model of it and a checkpoint on the way there."""
    folder = tmp_path_factory.mktemp("checkpoint")
    rows = write_rows(folder / "rows.svm", ROWS)
    write_rows(folder / "a.svm", part(ROWS, 0, 170))
    write_rows(folder / "b.svm", part(ROWS, 170, len(ROWS)))
    (folder / "rows.svm.gz").write_bytes(gzip.compress(rows.read_bytes()))
    ok("train", "--model", "pqr", rows, "--order", 4, "-o", folder / "model.pqr")
    kept = ["--checkpoint", folder / "checkpoint", "--every", EVERY]
    ok("train", "--model", "pqr", rows, "--order", 4, *kept, "-o", folder / "kept.pqr")
    return folder


def resumed(folder: Path, *arguments: object, **settings: Any) -> str:
    """Goes on to the model of the uninterrupted run; what was said on the way."""
    output = folder / "resumed.pqr"
    output.unlink(missing_ok=True)
    result = run("train", "--model", "pqr", *arguments, "-o", output, **settings)
    assert result.code == 0, result.err
    assert output.read_bytes() == (folder / "model.pqr").read_bytes()
    return message(result.err)


def test_keeping_checkpoints_changes_nothing(folder: Path) -> None:
    assert (folder / "kept.pqr").read_bytes() == (folder / "model.pqr").read_bytes()


def test_a_checkpoint_says_how_many_rows_of_which_inputs_it_has_learned(folder: Path) -> None:
    model = pqrlearn.load(folder / "checkpoint")
    assert model.rows == 300
    rows = str(folder / "rows.svm")
    assert model.progress == json.loads(
        json.dumps(Progress.of(pqrlearn.read(rows), 1).after(300).settings())
    )
    assert "progress" not in pqrlearn.load(folder / "model.pqr").settings()


def test_a_run_goes_on_after_the_last_checkpoint(folder: Path) -> None:
    said = resumed(folder, folder / "rows.svm", "--resume", folder / "checkpoint")
    assert said == "resumed after 300 rows; figures are of the rows since"
    output = folder / "json.pqr"
    found = figures("train", folder / "rows.svm", "--resume", folder / "checkpoint", "-o", output)
    assert (found["rows"], found["resumed_after_rows"]) == (100, 300)


def test_the_name_of_a_file_does_not_matter_nor_how_often_checkpoints_are_kept(
    folder: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    moved.write_bytes((folder / "rows.svm").read_bytes())
    kept = ["--checkpoint", tmp_path / "next", "--every", 70]
    resumed(folder, moved, "--resume", folder / "checkpoint", *kept)
    assert pqrlearn.load(tmp_path / "next").rows == 350
    resumed(folder, moved, "--resume", tmp_path / "next")


def test_a_checkpoint_is_a_model(folder: Path, tmp_path: Path) -> None:
    twin = pqrlearn.load(folder / "model.pqr")  # for its separation
    first = pqrlearn.PQR(twin.separation)  # type: ignore[attr-defined]
    first.learn_many(part(ROWS, 0, 300))
    first.save(tmp_path / "first.pqr")
    assert pqrlearn.load(folder / "checkpoint").to_bytes() == first.to_bytes()
    for command in (["predict"], ["evaluate", "--json"]):
        told = [
            ok(*command, "-m", path, folder / "rows.svm").partition('"seconds"')[0]
            for path in (folder / "checkpoint", tmp_path / "first.pqr")
        ]
        assert told[0] == told[1] != ""
    assert figures("inspect", folder / "checkpoint")["settings"]["rows"] == 300


def test_a_checkpoint_of_the_last_row_leaves_nothing_to_learn(folder: Path, tmp_path: Path) -> None:
    kept = ["--checkpoint", tmp_path / "last", "--every", 200]
    ok(
        "train",
        "--model",
        "pqr",
        folder / "rows.svm",
        "--order",
        4,
        *kept,
        "-o",
        tmp_path / "model.pqr",
    )
    said = resumed(folder, folder / "rows.svm", "--resume", tmp_path / "last")
    assert said == "the checkpoint is of the last row: nothing left to learn"
    output = tmp_path / "again.pqr"
    arguments = ["--resume", tmp_path / "last", "--json", "-o", output]
    result = run("train", "--model", "pqr", folder / "rows.svm", *arguments)
    assert json.loads(result.out)["rows"] == 0


def test_a_run_of_several_passes_knows_in_which_one_it_is(folder: Path, tmp_path: Path) -> None:
    whole, rest, kept = tmp_path / "whole.pqr", tmp_path / "rest.pqr", tmp_path / "kept"
    given = [folder / "a.svm", folder / "b.svm", "--model", "lr"]
    ok(
        "train",
        "--model",
        "pqr",
        *given,
        "--passes",
        3,
        "--checkpoint",
        kept,
        "--every",
        350,
        "-o",
        whole,
    )
    assert pqrlearn.load(kept).progress["done_passes"] == 2
    resume = ["train", *given, "--resume", kept, "-o", rest]
    assert message(run(*resume).err).startswith("resumed after 350 rows of pass 3; ")
    assert rest.read_bytes() == whole.read_bytes()
    assert "a run with 3 passes" in failure(2, *resume, "--passes", 2)


def test_a_plain_model_begins_anew_and_may_keep_checkpoints(folder: Path, tmp_path: Path) -> None:
    """--resume of a model goes over all rows given; of a checkpoint, over the rest of its own."""
    kept, whole, rest = tmp_path / "kept", tmp_path / "whole.pqr", tmp_path / "rest.pqr"
    first = ["train", folder / "a.svm", "--resume", folder / "model.pqr"]
    ok(*first, "--checkpoint", kept, "--every", 100, "-o", whole)
    assert pqrlearn.load(whole).rows == 570
    assert pqrlearn.load(kept).rows == 500
    assert run("train", folder / "a.svm", "--resume", kept, "-o", rest).code == 0
    assert rest.read_bytes() == whole.read_bytes()


# Refused.


@pytest.mark.parametrize("other", [["a.svm"], ["rows.svm", "a.svm"], ["rows.svm.gz"], ["-"]])
def test_a_checkpoint_of_other_inputs_is_refused(folder: Path, other: list[str]) -> None:
    arguments = [*other, "--resume", "checkpoint", "-o", "refused.pqr"]
    said = failure(3, "train", *arguments, cwd=folder)
    assert said.startswith(f"checkpoint is a checkpoint of other inputs than {', '.join(other)}; ")
    assert not (folder / "refused.pqr").exists()


def test_inputs_in_another_order_or_changed_are_refused(folder: Path, tmp_path: Path) -> None:
    for name in ("a.svm", "b.svm"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    kept = ["--checkpoint", tmp_path / "kept", "--every", 100]
    ok(
        "train",
        "--model",
        "pqr",
        tmp_path / "a.svm",
        tmp_path / "b.svm",
        *kept,
        "-o",
        tmp_path / "model.pqr",
    )
    resume = ["--resume", tmp_path / "kept", "-o", tmp_path / "refused.pqr"]
    failure(3, "train", tmp_path / "b.svm", tmp_path / "a.svm", *resume)
    text = bytearray((tmp_path / "b.svm").read_bytes())
    text[0] = ord("0") + ord("1") - text[0]  # the other label
    (tmp_path / "b.svm").write_bytes(text)
    failure(3, "train", tmp_path / "a.svm", tmp_path / "b.svm", *resume)


def test_a_stream_that_is_too_short_is_refused(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "rows.svm").read_bytes().splitlines(keepends=True)
    kept = ["--checkpoint", tmp_path / "kept", "--every", EVERY, "-o", tmp_path / "model.pqr"]
    ok("train", "--model", "pqr", "-", "--order", 4, *kept, stdin=b"".join(lines))
    resume = ["-", "--resume", tmp_path / "kept"]
    said = failure(3, "train", *resume, "-o", tmp_path / "no.pqr", stdin=b"".join(lines[:299]))
    assert said == "the input has fewer rows than the checkpoint has learned"
    assert not (tmp_path / "no.pqr").exists()
    resumed(folder, *resume, stdin=b"".join(lines))


def test_a_damaged_checkpoint_is_a_bad_model_file(folder: Path, tmp_path: Path) -> None:
    kind, kept, tensors = modelfile.read(folder / "checkpoint")
    kept["progress"]["rows"] = -1
    modelfile.write(tmp_path / "damaged", kind, kept, tensors)
    arguments = [folder / "rows.svm", "--resume", tmp_path / "damaged", "-o", tmp_path / "no.pqr"]
    assert "a damaged checkpoint" in failure(4, "train", *arguments)


@pytest.mark.parametrize("path", ["a.svm", "./b.svm"])
def test_a_checkpoint_never_takes_the_place_of_an_input(folder: Path, path: str) -> None:
    before = (folder / path).read_bytes()
    arguments = ["a.svm", "b.svm", "--checkpoint", path, "--every", 10, "-o", "no.pqr"]
    said = failure(2, "train", *arguments, cwd=folder)
    assert said.startswith(f"{path} is an input: it would be overwritten")
    assert (folder / path).read_bytes() == before


@pytest.mark.parametrize("every", ["0", "-1", "1.5", "often"])
def test_how_often_is_a_whole_number_from_1_on(folder: Path, every: str) -> None:
    kept = ["--checkpoint", "kept", "--every", every, "-o", "no.pqr"]
    assert "'--every'" in failure(2, "train", "rows.svm", *kept, cwd=folder)


# What may go wrong meanwhile: one line, the right exit code, nothing half-written.


def limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_full_disk_leaves_the_last_checkpoint_whole(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes((folder / "checkpoint").read_bytes())
    arguments = ["--resume", kept, "--checkpoint", kept, "--every", 10, "-o", tmp_path / "no.pqr"]
    said = failure(1, "train", folder / "rows.svm", *arguments, preexec_fn=limit_file_size)
    assert said.startswith(f"{kept}: cannot be written: ")
    assert "File too large" in said
    assert kept.read_bytes() == (folder / "checkpoint").read_bytes()
    assert names(tmp_path) == ["kept"]
    resumed(folder, folder / "rows.svm", "--resume", kept)


@pytest.mark.parametrize("path", ["missing/kept", "rows.svm/kept", "."])
def test_a_place_that_cannot_be_written_is_told_before_any_work(folder: Path, path: str) -> None:
    arguments = ["missing.svm", "--checkpoint", path, "-o", "no.pqr"]
    assert failure(1, "train", *arguments, cwd=folder).startswith(f"{path}: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only_is_told(folder: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    arguments = ["--checkpoint", tmp_path / "kept", "-o", folder / "no.pqr"]
    said = failure(1, "train", folder / "rows.svm", *arguments)
    assert said == f"{tmp_path / 'kept'}: cannot be written: Permission denied"
    tmp_path.chmod(0o700)


def test_an_interrupted_run_leaves_its_last_checkpoint(folder: Path, tmp_path: Path) -> None:
    """Stdin stands still after 320 rows; those after the last checkpoint are learned again."""
    lines = (folder / "rows.svm").read_bytes().splitlines(keepends=True)
    kept, output = tmp_path / "kept", tmp_path / "model.pqr"
    ok("separate", folder / "rows.svm", "--order", 4, "-o", tmp_path / "sep")
    given = ["--separation", tmp_path / "sep", "--checkpoint", kept, "--every", 100, "-o", output]
    pipe = subprocess.PIPE
    command = [COMMAND, "train", "--model", "pqr", "-", *map(str, given)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        feed(process, b"".join(lines[:320]))
        deadline = time.monotonic() + SECONDS
        while not (kept.exists() and pqrlearn.load(kept).rows == 300):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 1
        out, err = process.communicate()
    assert (out, message(err.decode())) == (b"", "interrupted")
    assert names(tmp_path) == ["kept", "sep"]
    assert pqrlearn.load(kept).rows == 300
    resumed(folder, "-", "--resume", kept, stdin=b"".join(lines))


def test_a_reader_that_has_gone_costs_the_figures_and_not_the_model(folder: Path) -> None:
    output = folder / "unread.pqr"
    arguments = [
        COMMAND,
        "train",
        "--model",
        "pqr",
        "rows.svm",
        "--order",
        "4",
        "--json",
        "-o",
        str(output),
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, cwd=folder, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read().decode()
        assert process.wait(SECONDS) == 1
    assert err == "" or message(err) == "broken pipe: the results were not read"
    assert output.read_bytes() == (folder / "model.pqr").read_bytes()


def test_what_the_killed_have_left_is_cleared_up_and_what_the_living_write_is_not(
    folder: Path, tmp_path: Path
) -> None:
    dead, foreign = tmp_path / ".kept.1.x.part", tmp_path / ".kept.notes.of.mine.part"
    kept = ["--checkpoint", tmp_path / "kept", "--every", EVERY]
    with temporary_folder(tmp_path / "kept") as alive:
        for room in (dead, foreign):
            room.mkdir()
        for room in (dead, alive, foreign):
            (room / "kept").write_text("half")
        ok("train", "--model", "pqr", folder / "rows.svm", *kept, "-o", tmp_path / "model.pqr")
        assert names(tmp_path) == sorted([alive.name, foreign.name, "kept", "model.pqr"])
