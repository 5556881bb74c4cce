"""What docs/tables.md shows is run, on files that are made here."""

from __future__ import annotations

import gzip
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
from pqrlearn.readers import FORMATS

TABLES = (Path(__file__).parent.parent / "docs/tables.md").read_text()


def snippets(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", TABLES, re.DOTALL)


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
    commands = [line for text in snippets("sh") for line in text.splitlines()]
    assert len(commands) >= 14
    for command in commands:
        done = at_a_shell(command)
        assert (done.returncode, bool(done.stdout) or "-o " in command) == (0, True), done.stderr


def test_every_snippet_about_tables_runs(tables: Path) -> None:
    for snippet in snippets("python"):
        exec(compile(snippet, "docs/tables.md", "exec"), {})


def test_the_schema_about_tables_is_one_that_reads_them(tables: Path) -> None:
    (toml,) = snippets("toml")
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
        assert name in ("cache", "log") or f"`{name}`" in TABLES
