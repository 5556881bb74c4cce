"""`make docs`: the manual builds strictly, needs no network, and can be read on a phone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from manual import doctests, github, matrix, pictures

from browser import SECONDS, Browser, browser
from pages import ROOT

READ = ("index", "start", "howto/imbalanced", "explanation/model", "reference/api")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manual, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


def test_every_page_of_the_manual_is_there(site: Path) -> None:
    for page in (ROOT / "docs").glob("**/*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / str(name).replace("README", "index")).exists(), name
    assert "pqr train" in (site / "reference/commands.html").read_text()
    assert "learn_one" in (site / "reference/api.html").read_text()


def test_no_page_of_the_manual_fetches_anything(site: Path) -> None:
    fetched = (
        r"<(?:script|img|iframe)[^>]* src=\"?http|<link[^>]*stylesheet[^>]* href=\"?http|@import"
    )
    for page in [*site.glob("**/*.html"), *site.glob("**/*.css")]:
        assert not re.search(fetched, page.read_text()), page


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("page", READ)
def test_a_page_of_the_manual_loads_and_fits(
    page: str, width: int, site: Path, window: Browser
) -> None:
    window.open(site / f"{page}.html", width, dark=width == 390)
    assert window.errors() == []
    assert window.run("return document.documentElement.scrollWidth") <= width
    assert window.run("return [...document.images].every(image => image.naturalWidth > 0)")
    names = "performance.getEntriesByType('resource').map(entry => entry.name)"
    assert window.run(f"return {names}.filter(name => !name.startsWith('file:'))") == []


def test_the_search_works_without_a_server(site: Path, window: Browser) -> None:
    window.open(site / "start.html", 1280, dark=False)
    box = "document.querySelector('[data-md-component=search-query]')"
    window.run(f"{box}.focus(); {box}.value = 'checkpoint'")
    found, deadline = [], time.monotonic() + SECONDS
    while not found:
        assert time.monotonic() < deadline
        window.run(f"{box}.dispatchEvent(new Event('keyup', {{bubbles: true}}))")
        links = "document.querySelectorAll('.md-search-result__link')"
        found = window.run(f"return [...{links}].map(link => link.href)")
        time.sleep(0.05)
    assert any("resume.html" in link for link in found)


def test_the_picture_of_the_readme_is_the_one_that_is_drawn() -> None:
    assert pictures.KEPT.read_text() == matrix.matrix()


def test_links_lead_to_the_place_that_a_page_has_in_the_manual() -> None:
    text = "- a\n[b](docs/auto.md#x)\n[c](csrc/row.hpp)\n```\n[d](docs/auto.md)\n```\n"
    assert github.mended(text, "index.md") == (
        "- a\n[b](auto.md#x)\nc (`csrc/row.hpp`)\n```\n[d](docs/auto.md)\n```\n"
    )
    assert github.mended("[a](../README.md)", "auto.md") == "[a](index.md)"
    there = "[a](../project/benchmarks/RESULTS.md)"
    assert github.mended("[a](../../benchmarks/RESULTS.md)", "howto/spark.md") == there


def test_lists_and_tables_that_follow_a_line_are_seen() -> None:
    assert github.mended("so:\n- a\n- b\n", "auto.md") == "so:\n\n- a\n- b\n"
    assert github.mended("so:\n| a |\n|---|\n", "auto.md") == "so:\n\n| a |\n|---|\n"


def test_examples_in_docstrings_become_code() -> None:
    text = doctests.fenced("Does.\n\n>>> a = [0][:1]\n>>> a\n[0]\n\nMore.\n\n>>> 1\n1")
    assert text.count("```pycon") == 2
    assert "[0]\n```\nMore.\n" in text
