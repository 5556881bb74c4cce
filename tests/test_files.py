"""Files and pipes that fail: exit code 1, one line, and never half a file."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from command import PQR as COMMAND
from command import SECONDS, clicks, failure, feed, message, run, write_rows
from pqrlearn import LR, PQR, Separation
from pqrlearn.errors import PqrError
from pqrlearn.files import atomic_path, atomic_write, check_writable, temporary_folder

ROWS = clicks(seed=71, rows=200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """rows.svm and a model of it."""
    folder = tmp_path_factory.mktemp("files")
    write_rows(folder / "rows.svm", ROWS)
    model = PQR(Separation.top_k(ROWS, 4))
    model.learn_many(ROWS)
    model.save(folder / "model.pqr")
    return folder


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Writing beside, then moving.


def test_a_file_is_there_when_all_of_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic_write(path, b"old")
    with atomic_path(path) as beside:
        beside.write_bytes(b"new")
        assert path.read_bytes() == b"old"
        assert tmp_path in beside.parents  # moving it there takes no copy
    assert path.read_bytes() == b"new"
    assert leftovers(tmp_path) == ["file"]


def fail_halfway(path: Path, error: BaseException) -> None:
    with atomic_path(path) as beside:
        beside.write_bytes(b"ne")
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), OSError(28, "disk full")])
def test_whatever_happens_the_old_file_stays_and_nothing_else(
    tmp_path: Path, error: BaseException
) -> None:
    path = tmp_path / "file"
    atomic_write(path, b"old")
    with pytest.raises((type(error), PqrError)):
        fail_halfway(path, error)
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == ["file"]


def test_a_model_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    path = tmp_path / "model.pqr"
    LR().save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", break_down)
    with pytest.raises(PqrError, match="cannot be written: Input/output error"):
        LR("squared").save(path)
    assert path.read_bytes() == before
    assert leftovers(tmp_path) == ["model.pqr"]


@pytest.mark.parametrize("name", [".", "missing/file", "file/file", "x" * 300])
def test_a_place_that_cannot_be_written_is_one_kind_of_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    for attempt in (check_writable, lambda path: atomic_write(path, b"new")):
        with pytest.raises(PqrError):
            attempt(tmp_path / name)
    assert leftovers(tmp_path) == ["file"]


def test_saving_keeps_the_permissions_a_person_gave(tmp_path: Path) -> None:
    path = tmp_path / "model.pqr"
    before = os.umask(0o027)
    try:
        LR().save(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o604)
    LR().save(path)
    assert path.stat().st_mode & 0o777 == 0o604
    assert leftovers(tmp_path) == ["model.pqr"]


@pytest.mark.parametrize(
    "attempt", [check_writable, lambda path: atomic_write(path, b"new")], ids=["check", "write"]
)
def test_what_a_killed_process_left_is_cleared_before_any_work(
    tmp_path: Path, attempt: Callable[[Path], None]
) -> None:
    """A run that was killed right after its last checkpoint never writes that file again."""
    with subprocess.Popen([sys.executable, "-c", KILLED, tmp_path / "file"]) as process:
        process.wait(SECONDS)
    assert len(leftovers(tmp_path)) == 1
    with temporary_folder(tmp_path / "file") as alive:
        attempt(tmp_path / "file")
        assert alive.name in leftovers(tmp_path)
    assert leftovers(tmp_path) in ([], ["file"])


KILLED = """
import os, sys, pathlib
from pqrlearn.files import temporary_folder
with temporary_folder(pathlib.Path(sys.argv[1])):
    os.kill(os.getpid(), 9)
"""
WRITE = "import sys; from pqrlearn.files import atomic_write; atomic_write(sys.argv[1], b'other')"


def test_a_process_of_another_container_leaves_alone_what_is_being_written(tmp_path: Path) -> None:
    """There the process that writes cannot be seen: its id is not one, or another's."""
    apart = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no PID namespaces here: unshare needs to be root")
    path = tmp_path / "file"
    with atomic_path(path) as beside:
        beside.write_bytes(b"mine")
        subprocess.run([*apart, sys.executable, "-c", WRITE, path], check=True, timeout=SECONDS)
        assert path.read_bytes() == b"other"
        assert beside.read_bytes() == b"mine"
    assert path.read_bytes() == b"mine"
    assert leftovers(tmp_path) == ["file"]


def test_a_folder_taken_for_a_leftover_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process comes between making the folder and locking it."""
    made, path = tempfile.mkdtemp, tmp_path / "file"

    def interrupted(**options: object) -> str:
        monkeypatch.undo()
        folder = made(**options)  # type: ignore[call-overload]
        atomic_write(path, b"other")
        assert not os.path.exists(folder)
        return str(folder)

    monkeypatch.setattr(tempfile, "mkdtemp", interrupted)
    atomic_write(path, b"mine")
    assert path.read_bytes() == b"mine"
    assert leftovers(tmp_path) == ["file"]


# Links and names.


def test_a_link_stays_and_the_file_behind_it_is_written(folder: Path, tmp_path: Path) -> None:
    link, real, new = tmp_path / "link", tmp_path / "disk" / "model.pqr", tmp_path / "new"
    real.parent.mkdir()
    link.symlink_to("disk/model.pqr")
    new.symlink_to(link)
    for name in (link, new):
        result = run("train", "--model", "lr", folder / "rows.svm", "-o", name, "--quiet")
        assert result.code == 0, result.err
        assert name.is_symlink()
    assert not real.is_symlink()
    assert LR.load(real).rows > 0
    assert leftovers(tmp_path / "disk") == ["model.pqr"]


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(PqrError, match="a: cannot be written: Too many levels of symbolic links"):
        atomic_write(tmp_path / "a", b"new")
    assert leftovers(tmp_path) == ["a", "b"]


def test_two_outputs_may_not_be_one_file_behind_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("model.pqr")
    arguments = ["-o", tmp_path / "model.pqr", "--checkpoint", tmp_path / "link"]
    said = failure(2, "train", folder / "rows.svm", *arguments)
    assert said == "--output, --bad-rows and --checkpoint must be different files"


def test_a_dash_is_no_file(folder: Path, tmp_path: Path) -> None:
    wanted = "-: not the name of a file; ./- is a file of this name"
    rows = folder / "rows.svm"
    for command in (
        ["train", rows, "-o", "-"],
        ["train", rows, "-o", "model.pqr", "--checkpoint", "-"],
        ["train", rows, "-o", "model.pqr", "--on-bad-row", "skip", "--bad-rows", "-"],
        ["separate", rows, "-o", "-"],
        ["data", "convert", rows, "-o", "-"],
        ["paper", "all", "-o", "-"],
    ):
        assert failure(2, *command, cwd=tmp_path) == wanted
    assert leftovers(tmp_path) == []
    assert run("train", rows, "-o", "./-", cwd=tmp_path).code == 0
    assert leftovers(tmp_path) == ["-"]


def test_a_dash_is_stdout_where_the_results_are_text(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("y,site\n1,a\n0,b\n")
    for command in (
        ["predict", "-m", folder / "model.pqr", folder / "rows.svm"],
        ["schema", "table.csv", "--label", "y"],
    ):
        plain, dashed = (run(*command, *more, cwd=tmp_path) for more in ([], ["-o", "-"]))
        assert plain.out
        assert (dashed.code, dashed.out) == (0, plain.out)
    assert leftovers(tmp_path) == ["table.csv"]


EVIL = "rows\x1b[2J\x9b31m\nx.svm"
SHOWN = r"rows\x1b[2J\x9b31m\nx.svm"


def test_a_file_name_cannot_command_the_terminal(folder: Path, tmp_path: Path) -> None:
    assert SHOWN in failure(3, "train", EVIL, "-o", "model.pqr", cwd=tmp_path)
    (tmp_path / EVIL).write_bytes((folder / "rows.svm").read_bytes() + b"rubbish\n")
    result = run("train", EVIL, "-o", "model.pqr", "--on-bad-row", "skip", cwd=tmp_path)
    assert f"skipped {SHOWN}:" in result.err
    result = run("train", folder / "rows.svm", "-o", EVIL, cwd=tmp_path)
    assert (result.code, SHOWN in result.out) == (0, True)
    for text in (result.out, result.err):
        assert all(c.isprintable() or c == "\n" for c in text)


def test_a_feature_name_cannot_command_the_terminal(tmp_path: Path) -> None:
    model = LR()
    for _ in range(3):
        model.learn_one({"\x1b]0;title\x07": 1.0, "\x9b2J": 1.0}, 1)
    model.save(tmp_path / "model.pqr")
    for more in ([], ["--json"]):
        result = run("inspect", tmp_path / "model.pqr", *more)
        assert result.code == 0, result.err
        assert all(c.isprintable() or c == "\n" for c in result.out)
    found = json.dumps(json.loads(result.out))
    assert "\\u009b2J" in found


# The real command.


def limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


@pytest.mark.parametrize("command", ["train", "predict"])
def test_a_full_disk_leaves_the_old_file_whole(folder: Path, tmp_path: Path, command: str) -> None:
    output = tmp_path / "output"
    output.write_text("old")
    model = ["-m", folder / "model.pqr"] * (command == "predict")
    arguments = [command, *model, folder / "rows.svm", "-o", output]
    said = failure(1, *arguments, preexec_fn=limit_file_size)
    assert said.startswith(f"{output}: cannot be written: ")
    assert "File too large" in said
    assert output.read_text() == "old"
    assert leftovers(tmp_path) == ["output"]


def test_results_that_cannot_be_printed_are_an_error(folder: Path) -> None:
    arguments = [COMMAND, "predict", "-m", str(folder / "model.pqr"), str(folder / "rows.svm")]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            arguments, stdout=full, stderr=subprocess.PIPE, timeout=SECONDS, check=False
        )
    assert done.returncode == 1
    assert message(done.stderr.decode()) == "output: No space left on device"


@pytest.mark.parametrize("output", ["missing/model.pqr", "rows.svm/model.pqr", ".", "/dev/null"])
def test_a_place_that_cannot_be_written_is_told_before_any_work(folder: Path, output: str) -> None:
    said = failure(1, "train", "missing.svm", "-o", output, cwd=folder)
    assert said.startswith(f"{output}: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only_is_told(folder: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    said = failure(1, "train", folder / "rows.svm", "-o", tmp_path / "model.pqr")
    assert said == f"{tmp_path / 'model.pqr'}: cannot be written: Permission denied"
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("learner", ["pqr", "lr"])
def test_an_interrupted_run_writes_nothing(folder: Path, tmp_path: Path, learner: str) -> None:
    """PQR is still counting when it is interrupted, LR is learning."""
    output = tmp_path / "model.pqr"
    output.write_text("old")
    arguments = [COMMAND, "train", "-", "-o", str(output), "--model", learner]
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        feed(process, (folder / "rows.svm").read_bytes())
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 1  # although stdin is still open
        out, err = process.communicate()
    assert out == b""
    assert message(err.decode()) == "interrupted"
    assert output.read_text() == "old"
    assert leftovers(tmp_path) == ["model.pqr"]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_gone_is_no_crash(folder: Path, tmp_path: Path, unbuffered: str) -> None:
    rows = write_rows(tmp_path / "many.svm", *[ROWS] * 100)
    arguments = [COMMAND, "predict", "-m", str(folder / "model.pqr"), str(rows)]
    pipe, environment = subprocess.PIPE, os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(arguments, stdout=pipe, stderr=pipe, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read().decode()
        assert process.wait(SECONDS) == 1
    assert err == "" or message(err)
