"""kill -9 of training runs at random moments, of every way to train."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from attack.base import Counts, seeds, tried
from kills import WAYS, Run, kill_often, write_inputs  # of tests/
from pqrlearn.cli import main

_KILLS = 10


class Child:
    """A process that runs the command: as far as a `Run` needs it, a Popen."""

    def __init__(self, arguments: list[str], folder: Path, stdin: int, errors: Path) -> None:
        self.returncode: int | None = None
        self._errors = errors
        errors.write_bytes(b"")  # here: the kill may come before the child writes
        self._process = os.fork()
        if self._process == 0:
            code: Any = 70
            try:
                _become(arguments, folder, stdin, errors)
                main()
                code = 0
            except SystemExit as ended:
                code = ended.code
            finally:
                sys.stderr.flush()
                os._exit(code)

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self._process, signal.SIGKILL)

    def communicate(self, timeout: float) -> tuple[None, bytes]:
        self._wait(0)
        return None, self._errors.read_bytes()

    def _wait(self, how: int) -> int | None:
        if self.returncode is None:
            process, status = os.waitpid(self._process, how)
            if process:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _become(arguments: list[str], folder: Path, stdin: int, errors: Path) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    said = os.open(errors, os.O_WRONLY)
    for number, file in enumerate((stdin, nowhere, said)):
        os.dup2(file, number)
    sys.stdin, sys.stdout, sys.stderr = (open(number, mode) for number, mode in enumerate("rww"))  # noqa: SIM115
    os.chdir(folder)
    sys.argv = arguments


class ForkedRun(Run):
    """Starts the command by a fork of this process, which has imported it: ten kills a second.

    What it must end in is what the real command, started as ever, has given.
    """

    def uninterrupted(self) -> tuple[bytes, bytes, bytes]:
        with super().started(*self.options) as process:
            said = process.communicate()[1]
        assert process.returncode == 0, said
        return self.results(said)

    @contextmanager
    def started(self, *options: str) -> Iterator[Any]:
        arguments = ["pqr", "train", *self.inputs, *options, "-o", str(self.output)]
        rows = os.open(self.folder / "rows.svm", os.O_RDONLY)
        child = Child(arguments, self.folder, rows, self.home.with_suffix(".errors"))
        try:
            yield child
        finally:
            os.close(rows)
            child.kill()
            child.poll()


def attack(seed: int, seconds: float, scratch: Path) -> Counts:
    counts = Counts()
    inputs = scratch / "inputs"
    inputs.mkdir(exist_ok=True)
    write_inputs(inputs)
    for each in seeds(seed, seconds):
        random = Random(each)
        way = random.choice(list(WAYS))
        home = Path(tempfile.mkdtemp(dir=scratch))
        run = ForkedRun(inputs, home, *WAYS[way])
        tried(counts, "killed runs", each, lambda run=run, r=random: kill_often(run, r, _KILLS))
    counts["kills"] = _KILLS * counts["killed runs"]
    return counts
