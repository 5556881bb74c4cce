"""kill -9 at random moments: the checkpoint is whole, and the run it belongs to loses nothing.

Each way to train is killed many times over, mostly while it writes checkpoints, and gone on with
from what is left. In the end its model has the bytes of a run that nobody disturbed.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kills import WAYS, Run, kill_often, write_inputs

KILLS = 17  # of each way: more than a hundred in all


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kill")
    write_inputs(folder)
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_a_run_killed_at_any_moment_goes_on_to_the_same_bytes(
    folder: Path, tmp_path: Path, way: str
) -> None:
    halves = kill_often(Run(folder, tmp_path, *WAYS[way]), Random(way), KILLS)
    assert halves > 0, "no kill has met a checkpoint that was being written"


def test_the_kills_are_a_hundred_and_more() -> None:
    assert KILLS * len(WAYS) > 100
