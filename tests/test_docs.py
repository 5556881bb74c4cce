"""What the documents say is run, and what exists is documented."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from command import PQR
from pqrlearn.cli import COMMANDS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


SNIPPETS = [
    pytest.param(path, snippet, id=f"{path} {number}")
    for path in (
        "README.md",
        "docs/library.md",
        "docs/looking-inside.md",
        "docs/merging.md",
        "docs/python.md",
        "docs/scoring.md",
    )
    for number, snippet in enumerate(
        re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(), re.DOTALL)
    )
]


@pytest.mark.parametrize(("path", "snippet"), SNIPPETS)
def test_every_snippet_of_the_documents_runs(
    path: str, snippet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, path, "exec"), {})


def test_every_line_of_the_page_of_the_command_runs(tmp_path: Path) -> None:
    rows = "".join(
        f"{int(n % 3 == 0)},{'news' if n % 3 == 0 else 'shop'},u{n}\n" for n in range(200)
    )
    for name in ("clicks.csv", "tomorrow.csv"):
        (tmp_path / name).write_text(f"click,site,user\n{rows}")
    page = (ROOT / "docs" / "command.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    environment = os.environ | {"PATH": f"{Path(PQR).parent}:{os.environ['PATH']}"}
    for block in blocks:
        script = ["bash", "-euo", "pipefail", "-c", block]
        done = subprocess.run(
            script, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "answers.csv").read_text().startswith("user,prediction\nu0,")


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
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", path.read_text()):
            assert os.path.exists(path.parent / target), f"{path.name}: {target}"


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
