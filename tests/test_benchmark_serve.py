"""The benchmark of the service: its rows, its page, and a small run."""

from __future__ import annotations

import doctest
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import serve
from benchmarks.service import page, rows

from programs import needs_program


def test_examples_in_docstrings_run() -> None:
    assert doctest.testmod(rows).failed == 0


@pytest.mark.long
def test_a_small_run_writes_its_readings_and_a_page(tmp_path: Path) -> None:
    needs_program("wrk", package="wrk")
    options = ["--seconds", "1", "--batches", "2", "--repeats", "1", "--records", "2000"]
    command = [*options, "--ids", "5000", "--output", str(tmp_path)]
    done = CliRunner().invoke(serve.main, command)
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "serve.json").read_text())
    assert found["loads"]["lr"]["learn:batch"]["rows"] == 2000
    assert found["recovery"]["auto"]["records"] == 2001
    assert (tmp_path / "SERVE.md").read_text() == page.page(found)
