"""A fair lock for Learners in Python: one thread alone, or several that only read.

Native learners have the same in csrc/shared.hpp and csrc/bind/forks.hpp.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from signal import SIGINT, getsignal, signal
from threading import Condition, Lock, current_thread, get_ident, main_thread
from types import FrameType
from weakref import WeakSet


@dataclass(frozen=True, eq=False)
class _Ticket:
    thread: int
    alone: bool


class Turns:
    """First come, first served, so that neither learning nor reading waits forever.

    A thread that has a turn already gets another one at once: what a value computes while its row
    is learned may ask the model. os.fork() waits for a turn alone, so that the child gets a model
    between two rows. A turn of an `outer` lock may include those of others.

    >>> turns = Turns()
    >>> with turns.alone(), turns.among():
    ...     print("learning")
    learning
    """

    def __init__(self, *, outer: bool = False) -> None:
        self.outer = outer
        self._begin()
        _forks.add(self)

    def _begin(self) -> None:
        self._changed = Condition()
        self._tickets: list[_Ticket] = []  # first those who have a turn, then those who wait

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else has a turn meanwhile, and Ctrl-C waits: nothing is half learned."""
        ticket = self._take(alone=True)
        try:
            with without_interrupts():
                yield
        finally:
            self._give_back(ticket)

    @contextmanager
    def among(self) -> Iterator[None]:
        """Only other readers have a turn meanwhile."""
        ticket = self._take(alone=False)
        try:
            yield
        finally:
            self._give_back(ticket)

    def _take(self, *, alone: bool) -> _Ticket | None:
        """None if this thread has a turn already."""
        me = get_ident()
        with self._changed:
            if any(ticket.thread == me for ticket in self._tickets):
                return None
            ticket = _Ticket(me, alone)
            self._tickets.append(ticket)
            try:
                self._changed.wait_for(lambda: self._is_due(ticket))
            except BaseException:  # Ctrl-C: those behind must not wait for this ticket
                self._remove(ticket)
                raise
            return ticket

    def _is_due(self, ticket: _Ticket) -> bool:
        ahead = self._tickets[: self._tickets.index(ticket)]
        return not ahead if ticket.alone else not any(other.alone for other in ahead)

    def _give_back(self, ticket: _Ticket | None) -> None:
        if ticket is not None:
            with self._changed:
                self._remove(ticket)

    def _remove(self, ticket: _Ticket) -> None:
        self._tickets.remove(ticket)
        self._changed.notify_all()


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Ctrl-C takes effect at the end of the block."""
    handler = getsignal(SIGINT)
    if not callable(handler) or current_thread() is not main_thread():
        yield  # handlers only run on the main thread
        return
    caught: list[FrameType | None] = []
    signal(SIGINT, lambda _, frame: caught.append(frame))
    try:
        yield
    finally:
        signal(SIGINT, handler)
        if caught:
            handler(SIGINT, caught[0])


class _Forks:
    """All locks there are, taken before a fork; the child starts with new ones.

    There the other threads do not exist, nor what they held or waited for.
    """

    def __init__(self) -> None:
        self._all: WeakSet[Turns] = WeakSet()
        self._taken: list[tuple[Turns, _Ticket | None]] = []
        self._one_at_a_time = Lock()
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            os.register_at_fork(
                before=self._before, after_in_parent=self._in_parent, after_in_child=self._in_child
            )

    def add(self, turns: Turns) -> None:
        self._all.add(turns)

    def _before(self) -> None:
        self._one_at_a_time.acquire()
        for turns in sorted(self._all, key=lambda turns: not turns.outer):  # as learners take them
            self._taken.append((turns, turns._take(alone=True)))

    def _in_parent(self) -> None:
        for turns, ticket in self._taken:
            turns._give_back(ticket)
        self._taken.clear()
        self._one_at_a_time.release()

    def _in_child(self) -> None:
        for turns in self._all:
            turns._begin()
        self._taken.clear()
        self._one_at_a_time = Lock()


_forks = _Forks()
