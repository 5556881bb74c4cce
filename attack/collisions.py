"""Indices and names that a stranger would choose to fill one place of a hash table.

Patterns that weak hash functions map to few places. An attack that inverts the hash functions of
the core belongs here too.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np

from attack.base import Counts, seeds, tried
from pqrlearn import LR, Auto, Batch
from pqrlearn.learners import Learner

_SIZE = 2000


def indices(random: Random) -> list[int]:
    """Distinct indices that share their low bits, their high bits, or a distance."""
    step = random.choice([1, 64, 1 << 12, 1 << 16, 1 << 20, 2**32 // _SIZE, 0x9E3779B1])
    start = random.randrange(2**32)
    return sorted({(start + n * step) % 2**32 for n in range(_SIZE)})


def names(random: Random) -> list[str]:
    """Names that differ in one place only."""
    length, at = random.choice([8, 16, 64, 200]), random.random()
    head = "x" * int(at * length)
    return [f"{head}{n:06}{'y' * (length - len(head))}" for n in range(_SIZE)]


def attack(seed: int, seconds: float, scratch: Path) -> Counts:
    counts = Counts()
    for each in seeds(seed, seconds):
        tried(counts, "collisions", each, lambda each=each: _learn(Random(each)))
    return counts


def _learn(random: Random) -> None:
    """Each feature in a row of its own has a weight of its own, whatever place it has."""
    model: Learner = random.choice([LR, Auto])("squared")
    chosen = indices(random)
    labels = np.array([random.choice([-1.0, 1.0]) for _ in chosen])
    rows = Batch.from_rows([([index], [1.0]) for index in chosen], labels=labels)
    for _ in range(3):
        model.learn_many(rows)
    assert (np.sign(model.margin_many(rows)) == labels).mean() > 0.9
    named = LR("squared")
    for name, label in zip(names(random), labels.tolist(), strict=False):
        named.learn_one({name: 1.0}, label)
    assert len(named.names) == min(_SIZE, len(labels))
