"""Tests a wheel in empty environments: `make test-bare` and `make test-pythons`.

python tests/pythons.py --wheel dist/pqrlearn-*.whl     # with this Python
python tests/pythons.py --sdist dist/pqrlearn-*.tar.gz  # with all that it finds
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
HOME = ROOT / "build" / "pythons"
VERSIONS = ("3.11", "3.12", "3.13")
BARE = ["--confcutdir=tests/bare", "tests/bare"]
_FAST = ("files", "fork", "interrupt", "models", "rows", "state", "threads", "turns")
FAST = [f"tests/test_{name}.py" for name in _FAST]
"""What depends most on the interpreter: the border with C++, threads, forks, signals, files."""
FAST_NEEDS = ["hypothesis", "matplotlib"]


@dataclass
class Outcome:
    version: str
    python: str
    wheel: str = "–"
    bare: str = "–"
    fast: str = "–"

    @property
    def passed(self) -> bool:
        return not any("failed" in what for what in (self.wheel, self.bare, self.fast))


def candidates(version: str) -> Iterator[Path]:
    """Interpreters of a version, on PATH and of pyenv."""
    if found := shutil.which(f"python{version}"):
        yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))


def find(version: str) -> Path | None:
    """The first that runs: the command of pyenv exists also for versions that are not chosen."""
    script = "import sys, venv; print('.'.join(map(str, sys.version_info[:2])))"
    for python in candidates(version):
        done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return python
    return None


def run(what: str, *command: object) -> str:
    """Runs a command, and says how it went."""
    print(f"{what}: {' '.join(map(str, command))}", flush=True)
    start = time.monotonic()
    done = subprocess.run([*map(str, command)], cwd=ROOT, check=False)
    seconds = f"{time.monotonic() - start:.0f} s"
    return f"passed in {seconds}" if done.returncode == 0 else f"failed after {seconds}"


def pip(python: Path, *arguments: object) -> list[object]:
    return [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]


def test(outcome: Outcome, wheel: Path, *, fast: bool) -> None:
    """Installs a wheel in a new environment, tests it there without extras, then some more."""
    home = HOME / outcome.version
    subprocess.run([outcome.python, "-m", "venv", "--clear", home], check=True)
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    outcome.wheel = run("install", *pip(python, "install", wheel))
    if not outcome.passed:
        return
    subprocess.run([*map(str, pip(python, "install", "pytest"))], check=True)
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    outcome.bare = run("bare", *pytest, *BARE)
    if fast:
        subprocess.run([*map(str, pip(python, "install", *FAST_NEEDS))], check=True)
        outcome.fast = run("fast", *pytest, *FAST)


def build(outcome: Outcome, sdist: Path) -> Path | None:
    folder = HOME / f"wheel-{outcome.version}"
    shutil.rmtree(folder, ignore_errors=True)
    command = pip(Path(outcome.python), "wheel", "--no-deps", "--wheel-dir", folder, sdist)
    outcome.wheel = run("wheel", *command)
    return next(folder.glob("*.whl"), None) if outcome.passed else None


def show(outcomes: list[Outcome], missing: list[str]) -> None:
    print(f"\n{'Python':8}{'wheel':20}{'bare tests':20}{'fast tests':20}interpreter")
    for one in outcomes:
        print(f"{one.version:8}{one.wheel:20}{one.bare:20}{one.fast:20}{one.python}")
    for version in missing:
        print(f"{version:8}not found on PATH nor among the versions of pyenv")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--wheel", type=Path, help="test it with the Python that runs this")
    given.add_argument("--sdist", type=Path, help="build a wheel with each Python, and test it")
    parser.add_argument("versions", nargs="*", default=VERSIONS, help="such as 3.12")
    options = parser.parse_args()
    if options.wheel:
        outcome = Outcome(f"{sys.version_info[0]}.{sys.version_info[1]}", sys.executable)
        test(outcome, options.wheel, fast=False)
        show([outcome], [])
        return 0 if outcome.passed else 1
    outcomes, missing = [], []
    for version in options.versions:
        if (python := find(version)) is None:
            missing.append(version)
            continue
        outcomes.append(outcome := Outcome(version, str(python)))
        if (wheel := build(outcome, options.sdist)) is not None:
            test(outcome, wheel, fast=True)
    show(outcomes, missing)
    return 0 if outcomes and all(one.passed for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
