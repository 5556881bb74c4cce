"""Rows whose label did not come in time: time-outs are records, so that replay reads no clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pqrlearn.logfile import Kind, Record, name_in, pack_outcome
from pqrlearn.serve.ids import NO_LABEL, key_of
from pqrlearn.serve.replica import NEGATIVE
from pqrlearn.serve.service import Service

AT_ONCE: Final = 1 << 18
"""Bytes of the log that one call of `expire` looks at."""


def expire(service: Service) -> bool:
    """Puts time-outs in line, the oldest rows first; whether there may be more at once.

    It reads the log again, from the oldest row that waits: no queue of ids is kept in memory.
    """
    settings = service.settings
    latest = None
    if settings.label_window is not None:
        latest = service.now() - int(settings.label_window * 1e6)
    looked = False
    for record in _from_oldest(service):
        if _waits(service, record):
            full = len(service.ids.waiting) > settings.max_waiting
            due = latest is not None and record.time <= latest
            if not (due or full) or service.log.waiting >= settings.max_pending:
                return False
            _time_out(service, record, learned=due and settings.unlabelled == "negative")
        service.oldest = record.end
        looked = True
    return looked and service.oldest < service.log.synced


def _from_oldest(service: Service) -> Iterator[Record]:
    position, end = max(service.oldest, service.log.first), service.log.synced
    if position < end:
        yield from service.log.following(position, min(end, position + AT_ONCE))


def _waits(service: Service, record: Record) -> bool:
    if record.kind != Kind.PREDICT:
        return False
    return service.ids.waiting.get(key_of(name_in(record.payload))) == record.position


def _time_out(service: Service, record: Record, *, learned: bool) -> None:
    name = name_in(record.payload)
    kind, label = (Kind.TIMEOUT, NEGATIVE) if learned else (Kind.EXPIRED, NO_LABEL)
    service.append(kind, pack_outcome(name, record.position, label, 1.0))
