"""Thread storms: every Learner is taught while other threads predict, save and copy it."""

from __future__ import annotations

from pathlib import Path
from random import Random

from attack.base import Counts, seeds, tried
from contract import check_other_threads_see_it_between_two_rows as check  # of tests/
from strategies import random_batch
from test_contract import convex_learners, learners


def attack(seed: int, seconds: float, scratch: Path) -> Counts:
    counts, makers = Counts(), list((learners() | convex_learners()).values())
    for each in seeds(seed, seconds):
        random = Random(each)
        make, rows = random.choice(makers), random.choice([32, 64, 128])
        batch = random_batch(each, rows=rows, features=random.choice([8, 30]))
        tried(counts, "storms", each, lambda make=make, batch=batch: check(make, batch))
    return counts
