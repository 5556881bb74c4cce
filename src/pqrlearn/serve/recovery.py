"""What a service begins with: the last snapshot and the log since, or a new model."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from pqrlearn.errors import Corrupt, HyperError
from pqrlearn.learners import Auto
from pqrlearn.logfile import Kind, Log
from pqrlearn.schema import Schema
from pqrlearn.serve import models, snapshots
from pqrlearn.serve.ids import Ids
from pqrlearn.serve.log import LogWriter
from pqrlearn.serve.replica import Erased, Replica
from pqrlearn.serve.settings import Settings

AT_ONCE: Final = 1000
"""Records that are replayed together."""


@dataclass
class Recovered:
    replica: Replica
    ids: Ids
    oldest: int
    """No row before this position waits for a label."""
    snapshot: int = 0
    """The sequence of the snapshot it is from."""
    records: int = 0
    """How many were replayed."""
    seconds: float = 0.0


def recover(
    log: LogWriter,
    settings: Settings,
    model: bytes | None,
    schema: Schema | None,
    clock: Callable[[], float],
) -> Recovered:
    started = time.monotonic()
    found = _from_snapshot(log, settings)
    _replay(log, found)
    swaps = found.replica.swaps
    if not swaps:
        given = _fresh(schema) if model is None else model
        _begin(log, found.replica, given, int(clock() * 1e6))
    elif model is not None and models.name_of(model) != swaps[-1][1]:
        raise HyperError(
            f"{log.folder}: has another model than the one given: start it without one, and POST "
            "the other one to /v1/model to swap it in"
        )
    elif schema is not None and schema != found.replica.model.schema:
        raise HyperError(f"{log.folder}: its model has another schema than the one given")
    found.seconds = time.monotonic() - started
    return found


def _replay(log: LogWriter, found: Recovered) -> None:
    try:
        records = log.records(found.replica.position)
        while some := list(islice(records, AT_ONCE)):
            for record in some:
                found.ids.apply(record)
            found.replica.apply(some)
            found.records += len(some)
    except (Erased, KeyError) as error:
        raise Corrupt(f"{log.folder}: the log needs a later snapshot ({error})") from None


def _from_snapshot(log: LogWriter, settings: Settings) -> Recovered:
    saved = snapshots.saved(log.folder)
    if not saved:
        if log.first > 0:
            raise Corrupt(f"{log.folder}: the log begins at {log.first:,}, without a snapshot")
        return Recovered(Replica(log, Auto()), Ids(settings.max_finished), oldest=0)
    found = snapshots.restore(saved[-1], settings.max_finished)
    about = found.about
    if about.position > log.synced:
        raise Corrupt(f"{saved[-1]}: the log ends at {log.synced:,}, before it")
    replica = restored(log, found)
    return Recovered(replica, found.ids, about.oldest, snapshot=about.sequence)


def restored(log: Log, found: snapshots.Snapshot) -> Replica:
    """What a snapshot has learned."""
    about = found.about
    replica = Replica(log, found.model, about.position, found.reference)
    replica.sequence, replica.refused = about.sequence, about.refused
    replica.swaps = list(about.swaps)
    if found.figures is not None and found.figures.loss == replica.model.loss:
        replica.figures = found.figures
    return replica


def _fresh(schema: Schema | None) -> bytes:
    model = Auto()
    model.schema = schema
    return model.to_bytes()


def _begin(log: LogWriter, replica: Replica, model: bytes, time: int) -> None:
    """The first record of a log: the model that it begins with."""
    name = models.keep(log.folder, model)
    record = log.append(Kind.SWAP, name.encode(), time)
    log.commit()
    log.forget_synced()
    replica.apply([record])
