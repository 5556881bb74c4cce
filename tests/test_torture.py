"""The torture of `make torture`, a little of each part."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from programs import needs_compiler
from torture_disk import full_disk
from torture_kills import Tortured, Weather
from torture_soak import soak
from torture_windows import windows


def test_a_service_with_a_reader_outlives_all_of_it(tmp_path: Path) -> None:
    needs_compiler(tmp_path, "-shared", "-fPIC")
    options = ("--readers", 1, "--reader-port", 0)
    service = Tortured(tmp_path / "log", 3, Weather(tmp_path), options)
    for _ in range(3):
        service.kill()
    assert service.finish() > 0
    assert service.counts["readers that converged"] == 1


def test_each_row_has_the_outcome_that_its_client_was_told(tmp_path: Path) -> None:
    found = windows(tmp_path, seed=1, kills=2)
    assert found["timeouts"] > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    assert full_disk(tmp_path, seed=1)["labels"] > 0


def test_a_soak_counts_rows_and_memory(tmp_path: Path) -> None:
    """Too short to tell growth; `make torture` does that."""
    assert soak(tmp_path, seed=1, seconds=2)["rows"] > 0
