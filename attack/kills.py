"""kill -9 of training runs at random moments, of every way to train."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from attack.base import Counts, seeds, tried
from kills import WAYS, Run, kill_often, write_inputs  # of tests/

_KILLS = 5


def attack(seed: int, seconds: float, scratch: Path) -> Counts:
    counts = Counts()
    inputs = scratch / "inputs"
    inputs.mkdir(exist_ok=True)
    write_inputs(inputs)
    for each in seeds(seed, seconds):
        random = Random(each)
        way = random.choice(list(WAYS))
        home = Path(tempfile.mkdtemp(dir=scratch))
        run = Run(inputs, home, *WAYS[way])
        tried(counts, "killed runs", each, lambda run=run, r=random: kill_often(run, r, _KILLS))
    counts["kills"] = _KILLS * counts["killed runs"]
    return counts
