"""Disks that fail: every system call of writing a file, and a file system that is full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from command import PQR as COMMAND
from command import SECONDS, clicks, failure, write_rows
from failing import with_failing_calls
from pqrlearn import LR, PQR, Separation
from strategies import random_batch

TESTS = Path(__file__).parent


def test_a_file_is_old_or_new_whatever_call_fails(tmp_path: Path) -> None:
    """Opening, writing, syncing, locking and renaming; with an error, or halfway."""
    assert with_failing_calls("faults.py", tmp_path) > 300


def test_what_a_command_writes_is_old_or_new_whatever_call_fails(tmp_path: Path) -> None:
    """And a training run goes on from what is left to the same model and bad rows."""
    assert with_failing_calls("faults_commands.py", tmp_path) > 400


@pytest.mark.parametrize("command", ["predict", "evaluate"])
@pytest.mark.parametrize("bad", [b"rubbish\n", b"1 1:1e38 2:1e38\n"])  # for readers, for models
def test_bad_rows_that_cannot_be_written_are_an_error_that_names_their_file(
    command: str, bad: bytes, tmp_path: Path
) -> None:
    model = PQR(Separation.top_k([{1: 1.0, 2: 1.0}], 2))
    model.learn_many([{1: 1.0, 2: 1.0}], [1.0])
    model.save(tmp_path / "model")
    (tmp_path / "rows").write_bytes(b"1 1:1\n" + bad)
    given = ["-m", tmp_path / "model", tmp_path / "rows", "--on-bad-row", "skip"]
    given += ["-o", tmp_path / "predictions"] * (command == "predict")
    told = failure(1, command, *given, "--bad-rows", "/dev/full")
    assert told == "/dev/full: cannot be written: No space left on device"
    assert not (tmp_path / "predictions").exists()


@pytest.fixture
def full() -> list[str]:
    """A command that runs a script where the folder DISK is a file system of 64 kB."""
    mount = 'mount -t tmpfs -o size=64k tmpfs "$DISK" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mount, "sh"]
    environment = os.environ | {"DISK": "/tmp"}
    tried = subprocess.run([*command, "true"], env=environment, capture_output=True, check=False)
    if tried.returncode:
        pytest.skip("no file system can be mounted here: unshare and mount need to be root")
    return command


FILL = """
import os, shutil, subprocess, sys
disk, model, rows, command = sys.argv[1:]
def left(): return sorted(os.listdir(disk))
shutil.copy(model, f"{disk}/model")
old = open(model, "rb").read()
for more in (["-o", f"{disk}/model"], ["-o", f"{disk}/new"]):
    done = subprocess.run([command, "train", rows, *more], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stderr == f"pqr: {more[1]}: cannot be written: No space left on device\\n"
    assert left() == ["model"], left()
    assert open(f"{disk}/model", "rb").read() == old
other = model + ".other"
bad = ["--on-bad-row", "skip", "--bad-rows", f"{disk}/bad", "-o", other]
done = subprocess.run([command, "train", "--model", "lr", "-", *bad],
                      input="rubbish\\n" * 20_000 + "1 1:1\\n", capture_output=True, text=True)
assert done.returncode == 1, done.stderr
assert done.stderr == f"pqr: {disk}/bad: cannot be written: No space left on device\\n"
assert not os.path.exists(other)
print("done")
"""


def test_a_full_disk_is_an_error_that_names_the_file(full: list[str], tmp_path: Path) -> None:
    disk, model = tmp_path / "disk", tmp_path / "model"
    disk.mkdir()
    LR().save(model)
    rows = write_rows(tmp_path / "rows.svm", clicks(seed=3), random_batch(4, 4000, 8000))
    arguments = [sys.executable, "-c", FILL, disk, model, rows, COMMAND]
    environment = os.environ | {"DISK": str(disk), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*full, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
