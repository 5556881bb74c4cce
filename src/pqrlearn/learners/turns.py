"""A fair lock for Learners in Python: one thread alone, or several that only read.

Native learners have the same in csrc/shared.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, get_ident


@dataclass(frozen=True, eq=False)
class _Ticket:
    thread: int
    alone: bool


class Turns:
    """First come, first served, so that neither learning nor reading waits forever.

    A thread that has a turn already gets another one at once: what a value computes while its row
    is learned may ask the model.

    >>> turns = Turns()
    >>> with turns.alone(), turns.among():
    ...     print("learning")
    learning
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._tickets: list[_Ticket] = []  # first those who have a turn, then those who wait

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else has a turn meanwhile."""
        ticket = self._take(alone=True)
        try:
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
