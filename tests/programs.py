"""Programs that tests need and a machine may lack.

A test without its program is skipped, and says which Debian package has it. Where .ci/run has
installed them all it sets PQRLEARN_REQUIRE_PROGRAMS, and such a test fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

COMPILER = os.environ.get("CXX", "g++")


def needs_program(program: str, package: str) -> None:
    if shutil.which(program) is None:
        lacks(program, package)


def lacks(what: str, package: str) -> None:
    give_up(f"{what} is missing; on Debian: apt-get install {package}")


def needs_compiler(folder: Path, *flags: str) -> None:
    """A C++ compiler that knows these flags; `folder` is for a program to try them on."""
    needs_program(COMPILER, package="g++")
    if not compiler_knows(folder, *flags):
        give_up(f"{COMPILER} cannot build with {' '.join(flags)}; on Debian: apt-get install g++")


def compiler_knows(folder: Path, *flags: str) -> bool:
    source = folder / "empty.cpp"
    source.write_text("int main() {}\n")
    command = [COMPILER, *flags, str(source), "-o", str(folder / "empty")]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def give_up(reason: str) -> None:
    if os.environ.get("PQRLEARN_REQUIRE_PROGRAMS"):
        pytest.fail(reason)
    pytest.skip(reason)
