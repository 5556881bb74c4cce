"""The core of the service: decides about requests, logs them, and learns what was logged.

One thread calls everything here but `Service.log.commit`, which another may call. A request is
checked, a record is put in line, and its answer may go out once the log has synced it: whoever
waits for that compares `log.synced` with `log.appended`. Then `synced` learns, in the log's order.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from pqrlearn.errors import HyperError
from pqrlearn.learners import Learner
from pqrlearn.logfile import Kind, Record, pack_labelled, pack_outcome, pack_row, row_of
from pqrlearn.loss import loss_named
from pqrlearn.schema import Schema
from pqrlearn.serve import log as logs
from pqrlearn.serve.errors import Contradiction, Refused, TooLate, Unavailable, UnknownId
from pqrlearn.serve.ids import Finished, key_of
from pqrlearn.serve.recovery import recover
from pqrlearn.serve.replica import features_in
from pqrlearn.serve.scoring import linked, margin_of, score
from pqrlearn.serve.settings import Settings

LONGEST_ID: Final = 200
"""Bytes of an id."""
LARGEST_ROW: Final = 1 << 24
"""Bytes of a row in the log."""
LARGEST_WEIGHT: Final = float(np.finfo(np.float32).max)
_encoded = msgspec.json.Encoder().encode


def _steady() -> float:
    """Seconds that only pass, while the machine sleeps too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@lru_cache(maxsize=1024)
def fits(loss: str, label: float) -> bool:
    """Whether a loss takes a label."""
    return bool(loss_named(loss).check_label(np.array([label], np.float64)).all())


def text_of(features: dict[str, Any]) -> bytes:
    """A row as the log keeps it."""
    found = _encoded(features)
    if len(found) > LARGEST_ROW:
        raise Refused(f"a row of {len(found):,} bytes; at most {LARGEST_ROW:,}")
    return found


def _present(text: bytes) -> dict[str, Any]:
    """The features of a row, without those that are absent."""
    return {name: value for name, value in features_in(text).items() if value is not None}


def new_ids(count: int) -> list[str]:
    """Of 32 hexadecimal digits, so that nobody can guess one.

    >>> [len(id) for id in new_ids(2)]
    [32, 32]
    """
    digits = os.urandom(16 * count).hex()
    return [digits[at : at + 32] for at in range(0, len(digits), 32)]


class Prediction(NamedTuple):
    id: str
    prediction: float
    margin: float


class Service:
    """A model, its log, and the rows that wait for labels.

    Opening a folder recovers what was acknowledged: the last snapshot, and the log since. `model`
    is the file that a new log begins with; without it, the model is an Auto by the `schema`.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        *,
        model: bytes | None = None,
        schema: Schema | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder, self.settings = folder, settings
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = logs.Lock(folder)
        try:
            self.log = logs.LogWriter(folder, segment_bytes=settings.segment_bytes)
            self.recovered = recover(self.log, settings, model, schema, clock)
            self.replica, self.ids = self.recovered.replica, self.recovered.ids
            self.oldest = self.recovered.oldest
            """No row before this position waits for a label."""
            self._check_negative()
        except BaseException:
            self._lock.release()
            raise
        self._effects: deque[list[Record]] = deque()
        self.unlearned = 0
        """How many records are not learned yet: they wait for the disk, or for a snapshot."""
        self.barrier: int | None = None
        """Where learning stops for now, so that a snapshot can be written."""
        self._offset = max(clock(), self.log.time / 1e6) - _steady()

    def _check_negative(self) -> None:
        window = self.settings.label_window is not None and self.settings.unlabelled == "negative"
        if window and self.model.loss == "squared":
            raise HyperError("ratings have no negatives: rows without a label can be forgotten")

    def close(self) -> None:
        """Lets go of the folder."""
        self.log.close()
        self._lock.release()

    # -- what is asked ----------------------------------------------------------------

    @property
    def model(self) -> Learner:
        return self.replica.model

    def now(self) -> int:
        """Microseconds. Steps of the system's clock while the service runs do not show."""
        return int((_steady() + self._offset) * 1e6)

    def predict(self, features: dict[str, Any], id: str | None = None) -> Prediction:
        """A prediction whose row waits for its label."""
        key = b""
        if id is not None:
            key = self.key(id)
            if (before := self.before(key)) is not None:
                margin = self.same_row(id, _encoded(features), before)
                return Prediction(id, linked(self.model, margin), margin)
        margin, prediction = score(self.model, features, self.settings)
        self.check_room()
        name = new_ids(1)[0] if id is None else id
        record = self._put(Kind.PREDICT, pack_row(name.encode(), margin, text_of(features)))
        self.ids.waiting[key or name.encode()] = record.position
        return Prediction(name, prediction, margin)

    def learn(
        self,
        id: str,
        label: float,
        weight: float = 1.0,
        features: dict[str, Any] | None = None,
    ) -> bool:
        """Whether the label is learned: not if it has been before."""
        key = self.key(id)
        self.check_label(label, weight)
        self.check_room()
        text = None if features is None else _encoded(features)
        if (learned := self.learn_known(id, key, label, weight, text)) is not None:
            return learned
        if features is None:
            raise UnknownId(f"no row is known by the id {id!r}")
        margin = margin_of(self.model, features, self.settings)
        both = pack_labelled(id.encode(), margin, label, weight, text_of(features))
        self.append(Kind.BOTH, both)
        return True

    def learn_known(
        self, id: str, key: bytes, label: float, weight: float, text: bytes | None
    ) -> bool | None:
        """`learn` for a row that was there before; None if there was none."""
        if (row := self.ids.waiting.get(key)) is not None:
            if text is not None:
                self.same_row(id, text, row)
            self._put(Kind.LABEL, pack_outcome(id.encode(), row, label, weight))
            self.ids.finish(key, Kind.LABEL, row, label)
            return True
        if (found := self.ids.finished(key)) is not None:
            return self._learn_again(id, found, label, weight)
        return None

    def _learn_again(self, id: str, found: Finished, label: float, weight: float) -> bool:
        if found.kind == Kind.EXPIRED:
            raise TooLate(f"the row of {id!r} has expired: its label came too late")
        if self._kept(label) == self._kept(found.label):
            return False
        if found.kind != Kind.TIMEOUT:
            raise Contradiction(f"the row of {id!r} has the label {found.label:g}, not {label:g}")
        if self.settings.late == "refuse" or found.row < self.log.first:
            raise TooLate(f"the row of {id!r} was learned as a negative: its label came too late")
        # With its features: the segment of the row may be removed before the next snapshot.
        margin, features = row_of(self.log.at(found.row))
        self.append(Kind.BOTH, pack_labelled(id.encode(), margin, label, weight, features))
        return True

    def before(self, key: bytes) -> int | None:
        """Where the row of an id is, that was predicted before."""
        row = self.ids.waiting.get(key)
        if row is None and (found := self.ids.finished(key)) is not None:
            row = found.row
        return row

    def same_row(self, id: str, text: bytes, position: int) -> float:
        """The margin that was answered before to the same row."""
        if position < self.log.first:
            raise TooLate(f"the id {id!r} has been used, and its row is not kept any more")
        margin, before = row_of(self.log.at(position))
        if _present(before) != _present(text):
            raise Contradiction(f"the id {id!r} belongs to a row with other features")
        return margin

    # -- checks ------------------------------------------------------------------------

    def key(self, id: str) -> bytes:
        if not 0 < len(id.encode(errors="replace")) <= LONGEST_ID or not id.isprintable():
            raise Refused(f"an id must have 1 to {LONGEST_ID} bytes of printable text")
        return key_of(id.encode())

    def check_label(self, label: float, weight: float) -> None:
        loss = loss_named(self.model.loss)
        if not fits(self.model.loss, label):
            raise Refused(f"label {label:g} {loss.wants}")
        if not 0 <= weight < LARGEST_WEIGHT:
            raise Refused(f"weight {weight:g} must be finite and not negative")

    def bad_labels(self, labels: Sequence[float], weights: Sequence[float]) -> set[int]:
        """The numbers of those that `check_label` refuses."""
        amounts = np.array(weights, np.float64)
        good = loss_named(self.model.loss).check_label(np.array(labels, np.float64))
        good = good & (amounts >= 0) & (amounts < LARGEST_WEIGHT)
        return set(np.flatnonzero(~good).tolist())

    def _kept(self, label: float) -> float:
        return float(loss_named(self.model.loss).kept(np.array([label], np.float64))[0])

    def check_room(self, rows: int = 1) -> None:
        if self.log.waiting + rows > max(self.settings.max_pending, rows):
            raise Unavailable("too many requests wait for the disk: try again in a second")
        if self.unlearned + rows > max(self.settings.max_unlearned, rows):
            raise Unavailable("too many records wait to be learned: try again in a second")

    # -- logging and learning --------------------------------------------------------------

    def append(self, kind: Kind, payload: bytes) -> Record:
        """Puts a record in line, and takes note of it."""
        record = self._put(kind, payload)
        self.ids.apply(record)
        return record

    def _put(self, kind: Kind, payload: bytes) -> Record:
        return self.put(kind, [payload])[0]

    def put(self, kind: Kind, payloads: Iterable[bytes]) -> list[Record]:
        """Puts records in line, of which the caller takes note."""
        records = self.log.append_many(kind, payloads, self.now())
        if records:
            self._effects.append(records)
            self.unlearned += len(records)
        return records

    def commit(self) -> int:
        """Writes, syncs and learns all that is in line; returns how many records that were."""
        count = self.log.commit()
        self.synced()
        return count

    def synced(self) -> None:
        """Learns what has been synced, but for what waits for a snapshot or a look inside."""
        effects, end = self._effects, self.log.synced
        if self.replica.looked_at:
            return
        if self.barrier is not None:
            end = min(end, self.barrier)
        while effects and effects[0][0].position < end:
            self.replica.apply_run(effects[0])
            self.unlearned -= len(effects.popleft())
        self.log.forget_synced()

    def take_over(self, name: str) -> bool:
        """Swaps in a model that `models.keep` has kept; the same one again changes nothing."""
        if self._next_model() == name:
            return False
        self.append(Kind.SWAP, name.encode())
        return True

    def _next_model(self) -> str:
        waiting = [run[-1] for run in self._effects if run[-1].kind == Kind.SWAP]
        return waiting[-1].payload.decode() if waiting else self.replica.swaps[-1][1]
