"""Snapshots of a running service, what they make needless, and erasing an id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pqrlearn.logfile import Kind, pack_outcome
from pqrlearn.serve import models, snapshots
from pqrlearn.serve.ids import NO_LABEL, key_of
from pqrlearn.serve.log import erase
from pqrlearn.serve.service import Service


class Keeper:
    """Takes snapshots in three steps, so that requests are answered meanwhile.

    `begin` lets learning stop at what is in line. Once `ready`, any thread may `write`. `end` goes
    on learning.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self.sequence = service.recovered.snapshot
        """Of the last snapshot."""
        self.failed: str | None = None
        """Why the last one could not be written."""
        self._frozen: Any = None
        self._oldest = 0

    @property
    def due(self) -> bool:
        """Whether enough was learned since the last snapshot."""
        learned = self._service.replica.sequence - self.sequence
        return self._frozen is None and learned >= self._service.settings.snapshot_records

    def begin(self) -> None:
        service = self._service
        service.barrier = service.log.appended
        self._frozen, self._oldest = service.ids.frozen(), service.oldest

    @property
    def ready(self) -> bool:
        barrier = self._service.barrier
        return barrier is not None and self._service.replica.position >= barrier

    def write(self, figures: bytes) -> Path:
        """With the figures of the moment when it was `ready`."""
        service, replica = self._service, self._service.replica
        about = snapshots.About(
            position=replica.position,
            sequence=replica.sequence,
            time=service.log.time,
            oldest=self._oldest,
            refused=replica.refused,
            swaps=replica.swaps,
        )
        model, reference = replica.model, replica.reference
        return snapshots.save(service.folder, about, model, reference, self._frozen, figures)

    def end(self) -> None:
        service = self._service
        self._frozen = service.barrier = None
        self.sequence = service.replica.sequence
        service.synced()

    def take(self) -> Path:
        """All steps at once."""
        self._service.commit()
        self.begin()
        try:
            return self.write(self._service.replica.figures.to_bytes())
        finally:
            self.end()

    def remove_needless(self) -> list[Path]:
        """Removes snapshots, segments and models that no recovery reads."""
        service = self._service
        replayed, read = snapshots.prune(service.folder)
        if service.settings.keep_log:
            return []
        swaps = service.replica.swaps
        models.prune(service.folder, [n for at, n in swaps if at >= replayed] + [swaps[-1][1]])
        return service.log.truncate(read)

    # -- erasing an id -------------------------------------------------------------------

    def forget(self, id: str) -> bool:
        """Forgets an id, and puts in line what says so; whether it was known.

        What the model has learned from its row stays. A snapshot comes next, and then `erase`:
        without the record, the model could not be replayed.
        """
        service, key = self._service, key_of(id.encode())
        row = service.ids.waiting.get(key)
        known = row is not None or service.ids.finished(key) is not None
        if row is not None:
            service.append(Kind.EXPIRED, pack_outcome(id.encode(), row, NO_LABEL, 1.0))
        service.append(Kind.ERASED, b"")
        service.ids.forget(key)
        return known

    def erase(self, id: str) -> int:
        """Overwrites the records of an id, while nothing is committed; how many there were."""
        log = self._service.log
        log.begin_segment()
        erased = erase(log, id)
        for path in snapshots.saved(self._service.folder)[:-1]:
            snapshots.remove(path)
        return erased
