"""Forks while threads learn: the child can use every model."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from attack.base import Counts, seeds, tried
from pqrlearn.learners import Learner
from test_fork import MAKE, exit_code, learning, put_to_work  # of tests/

_FORKS = 10


def attack(seed: int, seconds: float, scratch: Path) -> Counts:
    counts = Counts()
    for each in seeds(seed, seconds):
        model = MAKE[Random(each).choice(list(MAKE))]()
        with learning(model):
            for _ in range(_FORKS):
                tried(counts, "forks", each, lambda model=model: _fork(model))
    return counts


def _fork(model: Learner) -> None:
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if put_to_work(model) else 3)
        finally:
            os._exit(4)
    code = exit_code(child)
    assert code == 0, f"the child has ended with {code} (-1: it hung)"
