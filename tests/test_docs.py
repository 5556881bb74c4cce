"""What exists is documented, and documents keep their form. test_docs_run.py runs their code."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pqrlearn.cli import COMMANDS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    assert f"pqr {command}" in README or f"make {command}" in README


def test_every_file_of_the_core_and_the_package_is_on_the_map() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = {path.name for path in (ROOT / "src/pqrlearn").iterdir() if path.is_dir()}
    rooms -= {"__pycache__"}
    files = {path.stem for path in (ROOT / "src/pqrlearn").glob("*.py")} - {"__init__"}
    files |= {path.stem for path in (ROOT / "csrc").rglob("*.*pp")}
    missing = [name for name in sorted(rooms | files) if not re.search(rf"\b{name}\b", text)]
    assert not missing, f"not in ARCHITECTURE.md: {missing}"


def test_documents_name_no_machine() -> None:
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        assert not re.search(r"/(home|root|work|tmp)/", path.read_text()), path


def test_links_between_documents_lead_somewhere() -> None:
    """Also where GitHub shows them; pictures and pages that `make docs` makes are not there."""
    made = {"commands.md", "api.md", "learning-curve.svg", "occurrence.svg", "reliability.svg"}
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", path.read_text()):
            there = os.path.exists(path.parent / target) or Path(target).name in made
            assert there, f"{path.name}: {target}"


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 200


def test_every_decision_fits_on_half_a_page() -> None:
    for path in (ROOT / "docs/decisions").glob("*.md"):
        words = len(path.read_text().split())
        assert words <= 300, f"{path.name} has {words} words: move readings to docs/notes/"


def test_every_decision_that_is_named_exists() -> None:
    known = {int(path.name[:4]) for path in (ROOT / "docs/decisions").glob("*.md")}
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.py")]
    files += [*(ROOT / "src/pqrlearn").rglob("*.py"), *(ROOT / "csrc").rglob("*.*pp")]
    for path in files:
        named = {int(number) for number in re.findall(r"[Dd]ecision (\d+)", path.read_text())}
        assert named <= known, f"{path}: {named - known}"
