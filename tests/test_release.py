"""What a release consists of: one version, its changes, an image."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from pythons import Outcome, find, show

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CHANGES = (ROOT / "CHANGELOG.md").read_text()


def test_the_version_is_written_once_and_cited() -> None:
    assert PROJECT["project"]["version"] == version("pqrlearn")
    cited = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited == [version("pqrlearn")]


def test_the_changelog_begins_with_what_is_unreleased_or_with_the_version() -> None:
    headings = re.findall(r"^## \[(.+?)\]", CHANGES, re.MULTILINE)
    assert headings[0] in ("Unreleased", version("pqrlearn"))
    assert len(headings) == len(set(headings))


def test_the_image_copies_what_exists_and_what_docker_is_shown() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    shown = (ROOT / ".dockerignore").read_text().splitlines()
    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in shown, name


def test_wheels_are_built_for_every_python_that_is_supported() -> None:
    built = {name.removesuffix("-*") for name in PROJECT["tool"]["cibuildwheel"]["build"]}
    versions = re.findall(r"Python :: 3\.(\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert built == {f"cp3{minor}" for minor in versions}
    assert PROJECT["project"]["requires-python"] == f">=3.{min(map(int, versions))}"


def test_a_release_is_published_only_after_all_wheels_are_tested() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/wheels.yml").read_text())["jobs"]
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert jobs["publish"]["permissions"] == {"id-token": "write"}


def test_a_python_that_is_not_found_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert find("3.99") is None
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert find(own) is not None
    failed = Outcome(own, sys.executable, wheel="failed after 3 s")
    assert not failed.passed
    show([failed], ["3.99"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].split()[:3] == [own, "failed", "after"]
    assert lines[-1].startswith("3.99    not found")
