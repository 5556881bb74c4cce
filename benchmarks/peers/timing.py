"""Times a part of a script, for us and for peers alike; nothing but the standard library."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any


def timed(work: Callable[[], Any]) -> dict[str, float]:
    """What a call takes."""
    before, start = os.times(), time.perf_counter()
    work()
    seconds, after = time.perf_counter() - start, os.times()
    user, system = after.user - before.user, after.system - before.system
    return {"seconds": seconds, "user_seconds": user, "system_seconds": system}
