"""What the documents say is run, and what exists is documented."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from command import PQR, SECONDS
from pqrlearn import Schema
from pqrlearn.cli import COMMANDS
from pqrlearn.readers import FORMATS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
TABLES = (ROOT / "docs/tables.md").read_text()


def snippets(text: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("snippet", snippets(README, "python"))
def test_every_snippet_of_the_readme_runs(
    snippet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, "README.md", "exec"), {})


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that docs/tables.md speaks of; the current folder."""
    random, head = np.random.default_rng(4), "id,click,site,age,price,seen,tags"
    assert head in TABLES
    lines = [head]
    for row in range(600):
        site, age = random.choice(["news", "sport", "shop"]), random.integers(18, 80)
        price = f"{random.gamma(2, 10):.2f}" if random.random() < 0.9 else ""
        click = int(random.random() < (0.6 if site == "news" and age < 40 else 0.1))
        seen = f"2024-01-{random.integers(1, 29):02} {random.integers(0, 24):02}:00:00"
        tags = random.choice(["gift|sale", "sale", "new"])
        lines.append(f"r{row},{click},{site},{age},{price},{seen},{tags}")
    text = "\n".join([*lines, ""])
    (tmp_path / "clicks.csv").write_text(text)
    (tmp_path / "clicks-1.csv").write_text(text)
    (tmp_path / "clicks.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "bare.tsv").write_text("yes\tnews\t31\nno\tsport\t44\n")
    (tmp_path / "nested.jsonl").write_text('{"click": 1, "user": {"age": 31}}\n' * 3)
    (tmp_path / "clicks.vw").write_text("1 |site news |user age:31\n-1 |site sport\n")
    table = pyarrow.csv.read_csv(tmp_path / "clicks.csv")
    (tmp_path / "parts/day=1").mkdir(parents=True)
    pyarrow.parquet.write_table(table, tmp_path / "parts/day=1/a.parquet")
    pyarrow.parquet.write_table(table, tmp_path / "tomorrow.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def at_a_shell(command: str) -> subprocess.CompletedProcess[str]:
    folder = shlex.quote(str(Path(PQR).parent))
    return subprocess.run(
        ["sh", "-c", f"PATH={folder}:$PATH; {command}"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_every_command_about_tables_runs(tables: Path) -> None:
    commands = [line for text in snippets(TABLES, "sh") for line in text.splitlines()]
    assert len(commands) >= 14
    for command in commands:
        done = at_a_shell(command)
        assert (done.returncode, bool(done.stdout) or "-o " in command) == (0, True), done.stderr


def test_every_snippet_about_tables_runs(tables: Path) -> None:
    for snippet in snippets(TABLES, "python"):
        exec(compile(snippet, "docs/tables.md", "exec"), {})


def test_the_schema_about_tables_is_one_that_reads_them(tables: Path) -> None:
    (toml,) = snippets(TABLES, "toml")
    Schema.from_toml(toml).write("own.toml")
    assert at_a_shell("pqr train clicks.csv --schema own.toml -o own.pqr").returncode == 0


CHANGES = {
    "there is no column 'age'; the table has columns": (",age,", ",years,"),
    "column 'site' occurs twice in the first line": (",tags", ",site"),
    "type.csv:2: column 'age': 'old' is not a finite number": (r"\n(r0,.,\w+),\d+", r"\n\1,old"),
    "column 'seen': 'soon' is not a time such as 2024-01-31 12:00:00": ("2024.*:00:00", "soon"),
    "label 'click': '2' is not a click: logistic loss takes 0/1 or -1/1": (r"\nr0,.", r"\nr0,2"),
    "few.csv:2: expected 7 cells, found 3": (r"\n(r0,.,\w+),.*", r"\n\1"),
    "latin.csv:2: byte 0xe9 is not UTF-8 text": (r"\n(r0,.),\w+", "\n\\1,caf\xe9"),
    "column 'color' not in the schema": ("tags\n", "tags,color\n"),
}


@pytest.mark.parametrize("message", CHANGES)
def test_the_messages_about_tables_that_changed_are_as_documented(
    tables: Path, message: str
) -> None:
    assert message in TABLES
    at_a_shell("pqr train clicks.csv --label click -o clicks.pqr")
    text = re.sub(*CHANGES[message], Path("clicks.csv").read_text(), count=1)
    if "color" in message:
        text = re.sub(r"(\nr.*)", r"\1,red", text)
    name = message.split(":")[0] if ".csv:" in message else "changed.csv"
    Path(name).write_text(text, "latin-1")
    done = at_a_shell(f"pqr evaluate -m clicks.pqr {name}")
    assert done.returncode != 0
    assert message in done.stderr


def test_every_format_is_documented() -> None:
    for name in FORMATS:
        assert name == "cache" or f"`{name}`" in TABLES


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
