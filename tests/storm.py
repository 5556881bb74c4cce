"""Threads that ask a model over and over while another one teaches it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SECONDS = 120


@contextmanager
def hurried() -> Iterator[None]:
    """Lets Python switch threads as often as it can, so that what may interleave does."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Readers:
    """Threads that ask `question` of a model over and over while it learns."""

    def __init__(self, count: int, question: Callable[[], Any]) -> None:
        self.seen: set[Any] = set()
        self.errors: list[Exception] = []
        self.asked = [0] * count  # how often each has got an answer
        self._question, self._stop = question, threading.Event()
        self._ready = threading.Barrier(count + 1)
        self._threads = [threading.Thread(target=self._ask, args=(at,)) for at in range(count)]

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        self._ready.wait(SECONDS)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive()

    def wait(self) -> None:
        """Until one of them has asked the model as it is now: twice, as it may be at it already."""
        before, deadline = self.asked.copy(), time.monotonic() + SECONDS
        while all(now < old + 2 for now, old in zip(self.asked, before, strict=True)):
            assert not self.errors
            assert time.monotonic() < deadline
            time.sleep(0.0001)

    def _ask(self, at: int) -> None:
        try:
            self.seen.add(self._question())
            self._ready.wait(SECONDS)
            while not self._stop.is_set():
                self.seen.add(self._question())
                self.asked[at] += 1
        except Exception as error:
            self.errors.append(error)
