"""Where the learner and its readers are in the log, in a file that all of them have mapped.

It says nothing that must survive: a service that is started writes it anew.
"""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path
from typing import Final

from pqrlearn.system import PRIVATE

MOST_READERS: Final = 64
_PLACE_BYTES = 16  # a position, and when it was put there in microseconds


class Positions:
    """Place 0 is how far the log is synced; the others are how far each reader has come."""

    def __init__(self, folder: Path, *, new: bool = False) -> None:
        size = _PLACE_BYTES * (MOST_READERS + 1)
        if new:  # readers of a service that was killed still have the old one mapped
            (folder / "positions").unlink(missing_ok=True)
        file = os.open(folder / "positions", os.O_RDWR | os.O_CREAT | PRIVATE, 0o644)
        try:
            os.ftruncate(file, size)
            # Aligned words: another process sees the old one or the new one.
            self._words = memoryview(mmap.mmap(file, size)).cast("Q")
        finally:
            os.close(file)

    def put(self, place: int, position: int) -> None:
        self._words[2 * place] = position
        self._words[2 * place + 1] = int(time.time() * 1e6)

    def synced(self) -> int:
        """How far readers may read."""
        return self._words[0]

    def readers(self) -> list[tuple[int, int, float]]:
        """Number, position, and seconds since it was put, of each reader that has put one."""
        found = []
        for place in range(1, MOST_READERS + 1):
            position, moment = self._words[2 * place : 2 * place + 2]
            if moment:
                found.append((place, position, time.time() - moment / 1e6))
        return found
