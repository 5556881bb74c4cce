"""Which rows wait for a label, and what became of the others.

Waiting ids are the bulk, and cost at most 200 bytes each: a key, a position, their place in a dict.
The rows themselves are on disk.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from struct import Struct
from typing import Any, Final, NamedTuple

import msgspec

from pqrlearn.logfile import Kind, Record, labelled_in, name_in, outcome_in

LONGEST_KEY: Final = 40
"""Ids of up to so many bytes are their own key; longer ones have a digest."""
_DIGEST_MARK = b"\xff"  # no id in UTF-8 begins with it
_FINISHED = Struct("<BQd")


class Finished(NamedTuple):
    """What became of a row: by a LABEL (or BOTH), a TIMEOUT, or EXPIRED."""

    kind: int
    row: int
    label: float


def key_of(name: bytes) -> bytes:
    """The key of an id in UTF-8.

    >>> key_of(b"a1")
    b'a1'
    >>> len(key_of(b"a" * 41))
    25
    """
    if len(name) <= LONGEST_KEY:
        return name
    return _DIGEST_MARK + blake2b(name, digest_size=24).digest()


class Ids:
    """Follows the records of a log. `most_finished` ids are remembered, and perhaps twice as many.

    >>> Ids(most_finished=10).waiting
    {}
    """

    def __init__(self, most_finished: int) -> None:
        self.waiting: dict[bytes, int] = {}
        """Where the row of each waiting id is."""
        self._most_finished = most_finished
        self._recent: dict[bytes, bytes] = {}
        self._older: dict[bytes, bytes] = {}

    def finished(self, key: bytes) -> Finished | None:
        found = self._recent.get(key) or self._older.get(key)
        return None if found is None else Finished(*_FINISHED.unpack(found))

    def knows(self, key: bytes) -> bool:
        """Whether there is a row by this id, or was lately."""
        return key in self.waiting or key in self._recent or key in self._older

    @property
    def finished_count(self) -> int:
        return len(self._recent) + len(self._older)

    def apply(self, record: Record) -> None:
        """Takes note of a record."""
        kind = record.kind
        if kind == Kind.PREDICT:
            self.waiting[key_of(name_in(record.payload))] = record.position
        elif kind == Kind.BOTH:
            both = labelled_in(record.payload)
            self.finish(key_of(both.id.encode()), kind, record.position, both.label)
        elif kind in (Kind.LABEL, Kind.TIMEOUT, Kind.EXPIRED):
            outcome = outcome_in(record.payload)
            self.finish(key_of(outcome.id.encode()), kind, outcome.row, outcome.label)

    def finish(self, key: bytes, kind: int, row: int, label: float) -> None:
        """The row of an id has a label, or will not get one."""
        self.waiting.pop(key, None)
        if len(self._recent) >= self._most_finished:
            self._older, self._recent = self._recent, {}
        self._recent[key] = _FINISHED.pack(kind, row, label)

    def forget(self, key: bytes) -> None:
        """As if the id had never been seen."""
        for kept in (self.waiting, self._recent, self._older):
            kept.pop(key, None)

    def frozen(self) -> tuple[dict[bytes, int], dict[bytes, bytes], dict[bytes, bytes]]:
        """A copy, to be written while this one goes on."""
        return self.waiting.copy(), self._recent.copy(), self._older.copy()

    @staticmethod
    def to_bytes(frozen: Any) -> bytes:
        return msgspec.msgpack.encode(frozen)

    @staticmethod
    def from_bytes(data: bytes, most_finished: int) -> Ids:
        """ValueError if `to_bytes` has not written it."""
        kinds = tuple[dict[bytes, int], dict[bytes, bytes], dict[bytes, bytes]]
        ids = Ids(most_finished)
        ids.waiting, ids._recent, ids._older = msgspec.msgpack.decode(data, type=kinds)
        return ids


NO_LABEL: Final = math.nan
"""The label of an EXPIRED row."""
