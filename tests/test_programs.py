"""Tests that need a program say so, and .ci/run installs it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from programs import needs_compiler, needs_program

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(("required", "outcome"), [("", pytest.skip), ("1", pytest.fail)])
def test_a_missing_program_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, required: str, outcome: type
) -> None:
    monkeypatch.setenv("PQRLEARN_REQUIRE_PROGRAMS", required)
    with pytest.raises(outcome.Exception, match=r"no-such is missing; .* install some-package"):
        needs_program("no-such", "some-package")
    with pytest.raises(outcome.Exception, match=r"install g\+\+"):
        needs_compiler(tmp_path, "--no-such-flag")


def test_the_gate_installs_every_package_that_a_test_needs() -> None:
    tests = "".join(path.read_text() for path in ROOT.glob("tests/*.py"))
    installed = re.search(r"packages=\((.+)\)", (ROOT / ".ci/run").read_text())
    assert installed is not None
    assert set(re.findall(r"package=\"(.+?)\"", tests)) == set(installed[1].split())
