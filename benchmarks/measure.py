"""What one run of a command took."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
"""Commands run here, and paths below it are written from here."""

PEERS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
"""Of the peers' own environment, if there is one."""

STOPWATCH = Path(__file__).with_name("stopwatch.py")


class BenchmarkError(Exception):
    """A contender failed, or said something else than was expected."""


@dataclass(frozen=True)
class Outcome:
    """A command that has ended well: end to end, from the start of its process to its end."""

    seconds: float
    peak_bytes: int
    user_seconds: float
    system_seconds: float
    stdout: str
    stderr: str


def measure(command: Sequence[str]) -> Outcome:
    """Runs a command from the root of the repository; BenchmarkError if it fails."""
    with TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        stopwatch = [sys.executable, "-I", "-S", str(STOPWATCH), str(out), str(err)]
        done = subprocess.run(
            [*stopwatch, *command], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True
        )
        if done.returncode:
            raise BenchmarkError(done.stderr.decode(errors="replace").strip().splitlines()[-1])
        measured = json.loads(done.stdout)
        code = measured.pop("code")
        stdout, stderr = (path.read_text(errors="replace") for path in (out, err))
    if code:
        raise BenchmarkError(f"{' '.join(command)}: exit code {code}\n{stderr[-2000:]}")
    return Outcome(**measured, stdout=stdout, stderr=stderr)


def near(path: str | os.PathLike[str]) -> str:
    """A path as commands have it: short, and the same on every machine, if it is below ROOT."""
    absolute = Path(os.path.abspath(path))
    return str(absolute.relative_to(ROOT) if absolute.is_relative_to(ROOT) else absolute)


def tell(message: str) -> None:
    """One line for whoever waits."""
    print(f"bench: {message}", file=sys.stderr, flush=True)
