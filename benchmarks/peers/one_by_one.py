"""Times learn_one, for us and for peers alike; nothing but the standard library."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

BLOCK = 100


def microseconds(learn_one: Callable[..., Any], path: str, learned: int) -> float:
    """What a row takes, after the first `learned`. A line of the file is a dict and its label.

    Dicts are made a few at a time, outside of the clock: in an application they are new too, and
    not in some far corner of memory.
    """
    seconds, rows = 0.0, 0
    with open(path, encoding="utf-8") as file:
        for line in islice(file, learned):
            learn_one(*json.loads(line))
        while block := [json.loads(line) for line in islice(file, BLOCK)]:
            start = time.perf_counter()
            for x, y in block:
                learn_one(x, y)
            seconds += time.perf_counter() - start
            rows += len(block)
    return seconds * 1e6 / rows
