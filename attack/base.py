"""What all attacks share."""

from __future__ import annotations

import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

Counts = Counter[str]
Attack = Callable[[int, float, Path], Counts]
"""A seed, how many seconds to go on, and a folder for its files."""


def seeds(seed: int, seconds: float) -> Iterator[int]:
    """New seeds until the time is over; at least one."""
    deadline = time.monotonic() + seconds
    yield seed
    while time.monotonic() < deadline:
        seed += 1
        yield seed


def tried(counts: Counts, what: str, seed: int, attempt: Callable[[], object]) -> None:
    """Counts an attempt, or a failure, which is described on stderr."""
    try:
        attempt()
        counts[what] += 1
    except Exception:
        print(f"FAILED: {what}, seed {seed}\n{traceback.format_exc()}", file=sys.stderr)
        counts["failed"] += 1
