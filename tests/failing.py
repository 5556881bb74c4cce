"""Scripts that run with a library whose system calls fail on demand: tests/native/faults.c."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from command import SECONDS
from programs import COMPILER, needs_compiler

TESTS = Path(__file__).parent


def with_failing_calls(script: str, folder: Path) -> int:
    """How many cases a script of tests/ has tried in `folder`, all of them well."""
    built, own = folder / "library", folder / "files"
    built.mkdir()
    own.mkdir()
    environment = {"LD_PRELOAD": str(_library(built)), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, TESTS / script, own],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def _library(folder: Path) -> Path:
    flags = ["-x", "c", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    needs_compiler(folder, "-shared", "-fPIC")
    command = [COMPILER, *flags, str(TESTS / "native/faults.c"), "-o", str(folder / "faults.so")]
    built = subprocess.run([*command, "-ldl"], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder / "faults.so"
