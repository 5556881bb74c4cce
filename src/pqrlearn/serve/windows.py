"""Rows whose label did not come in time: time-outs are records, so that replay reads no clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pqrlearn.logfile import Kind, Record, pack_outcome, row_in
from pqrlearn.serve.ids import NO_LABEL, key_of
from pqrlearn.serve.replica import NEGATIVE
from pqrlearn.serve.service import Service

AT_ONCE: Final = 2_000
"""Records looked at by one call of `expire`."""


def expire(service: Service) -> bool:
    """Puts time-outs in line, the oldest rows first; whether there may be more at once.

    It reads the log again, from the oldest row that waits: no queue of ids is kept in memory.
    """
    settings = service.settings
    latest = None
    if settings.label_window is not None:
        latest = service.now() - int(settings.label_window * 1e6)
    looked = 0
    for record in _from_oldest(service):
        if _waits(service, record):
            full = len(service.ids.waiting) > settings.max_waiting
            due = latest is not None and record.time <= latest
            if not (due or full) or service.log.waiting >= settings.max_pending:
                return False
            _time_out(service, record, learned=due and settings.unlabelled == "negative")
        service.oldest = record.end
        looked += 1
    return looked == AT_ONCE


def _from_oldest(service: Service) -> Iterator[Record]:
    position = max(service.oldest, service.log.first)
    for _ in range(AT_ONCE):
        if position >= service.log.synced:
            return
        record = service.log.at(position)
        yield record
        position = record.end


def _waits(service: Service, record: Record) -> bool:
    if record.kind != Kind.PREDICT:
        return False
    key = key_of(row_in(record.payload).id)
    return service.ids.waiting.get(key) == record.position


def _time_out(service: Service, record: Record, *, learned: bool) -> None:
    name = row_in(record.payload).id.encode()
    kind, label = (Kind.TIMEOUT, NEGATIVE) if learned else (Kind.EXPIRED, NO_LABEL)
    service.append(kind, pack_outcome(name, record.position, label, 1.0))
