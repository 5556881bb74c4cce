"""Every snippet and every command of README.md and docs/ is run, or says why not."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections import Counter
from pathlib import Path

import click
import pytest

from command import ok
from pages import PAGES, ROOT, Block, at_a_shell, blocks, not_printed, unmarked
from pqrlearn import datasets, train
from pqrlearn.cli import pqr
from pqrlearn.datasets.clicks import ClickStream

ELSEWHERE = {"docs/serving.md": "test_docs_serving", "docs/tables.md": "test_docs_tables"}
"""Pages whose blocks need more than a folder: their tests."""
CODE = {page: [one for one in blocks(page) if one.language in ("python", "sh")] for page in PAGES}
RUN = [page for page in PAGES if CODE[page] and page not in ELSEWHERE]
LEFT = [one for page in RUN for one in CODE[page] if one.not_run]
NOT_RUN = {
    "README.md": 2,
    "docs/howto/move.md": 2,
    "docs/howto/serve.md": 2,
    "docs/howto/spark.md": 1,
    "docs/installing.md": 4,
    "docs/paper.md": 2,
    "docs/spark.md": 1,
    "docs/start.md": 1,
}
"""How many blocks of a page say that they are not run."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that pages take for granted."""
    folder = tmp_path_factory.mktemp("files")
    table, later = folder / "clicks.csv", folder / "tomorrow.csv"
    ok("data", "simulate", "clicks", "-o", table, "--rows", 1000)
    ok("data", "simulate", "clicks", "-o", later, "--rows", 300, "--start", 1000)
    stream = ClickStream.demo()
    stream.write_libsvm(folder / "clicks.svm", 1000)
    stream.write_libsvm(folder / "tomorrow.svm", 300, start=1000)
    model = train(table, label="click")
    model.save(folder / "clicks.pqr")
    return folder


@pytest.fixture
def folder(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """These files; the current folder."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", RUN)
def test_every_block_of_the_page_runs(page: str, folder: Path) -> None:
    for block in CODE[page]:
        if block.not_run or not is_there(block.needs):
            continue
        if block.language == "python":
            code = "\n" * (block.line - 1) + block.text  # errors name the line of the page
            exec(compile(code, page, "exec"), {"path": "clicks.pqr"})  # for docs/modelfile.md
        else:
            printed = at_a_shell(block.text, folder)
            missing = not_printed(block.shown, printed)
            assert not missing, f"{block}: not printed: {missing}; printed:\n{printed}"


def is_there(data: str) -> bool:
    return not data or datasets.get(data).whole()


@pytest.mark.parametrize("data", sorted({one.needs for page in RUN for one in CODE[page]} - {""}))
def test_the_data_of_the_pages_is_there(data: str) -> None:
    if not is_there(data):
        pytest.skip(f"{data} is not here: blocks that need it are not run")


@pytest.mark.parametrize("block", LEFT, ids=str)
def test_a_block_that_is_not_run_names_what_exists(block: Block) -> None:
    """Commands and options, extras, and targets of make."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    makefile = (ROOT / "Makefile").read_text()
    for extra in re.findall(r"pqrlearn\[(\w+)\]", block.text):
        assert extra in project["optional-dependencies"]
    for target in re.findall(r"^make ([\w-]+)", block.text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for line in re.findall(r"^pqr (.*)", block.text, re.MULTILINE):
        check_options(line)


def check_options(line: str) -> None:
    command: click.Command = pqr
    words = line.partition(" #")[0].split()
    with click.Context(pqr) as context:
        while isinstance(command, click.Group):
            found = command.get_command(context, words.pop(0))
            assert found is not None, line
            command = found
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    for word in words:
        assert not re.match(r"--?\w", word) or word in known, f"{line}: {word}"


def test_blocks_that_are_not_run_are_counted_and_say_why() -> None:
    assert Counter(one.page for one in LEFT) == NOT_RUN
    assert all(len(one.not_run) > 8 for one in LEFT)


@pytest.mark.parametrize("page", PAGES)
def test_code_is_marked_as_code(page: str) -> None:
    assert not unmarked(page)


def test_pages_that_are_tested_elsewhere_are() -> None:
    for page, test in ELSEWHERE.items():
        assert Path(page).name in (ROOT / "tests" / f"{test}.py").read_text()
