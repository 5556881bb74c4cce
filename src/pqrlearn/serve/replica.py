"""What a log makes of a model: the same while serving, in recovery and in readers.

Everything here depends on records alone, in their order: no clock, no ids, no chance.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pqrlearn.errors import HyperError, PqrError
from pqrlearn.learners import LR, Frozen, Learner, load
from pqrlearn.logfile import Kind, Log, Record, labelled_in, outcome_in, row_in
from pqrlearn.serve.figures import Figures

NEGATIVE: Final = 0.0
"""What a row that nobody labelled in time is learned as."""
features_in = msgspec.json.Decoder(dict[str, Any]).decode


class Erased(PqrError):
    """A record whose content somebody has asked to erase: only snapshots know what it did."""


class Replica:
    """A model that has learned the records up to `position`, and what that has shown.

    `reference` is an LR beside it, to be compared with; a model that is one needs none.
    """

    def __init__(
        self, log: Log, model: Learner, position: int = 0, reference: Learner | None = None
    ) -> None:
        self._log, self.position = log, position
        self.sequence = 0
        self.refused = 0
        """How many rows the model could not learn."""
        self.swaps: list[tuple[int, str]] = []
        self.looked_at = 0
        """How many look inside the model on another thread: it must not learn meanwhile."""
        self.use(model, reference)
        self.figures = Figures(self.model.loss)

    def use(self, model: Learner, reference: Learner | None = None) -> None:
        check_learns(model)
        self.model = model
        self.reference = None if model.kind == LR.kind else reference or reference_of(model)

    def apply(self, record: Record) -> None:
        """Learns what a record says."""
        kind = record.kind
        if kind == Kind.PREDICT:
            self.figures.predicted(record.time, row_in(record.payload).margin)
        elif kind in (Kind.LABEL, Kind.TIMEOUT):
            outcome = outcome_in(record.payload)
            row = self._log.at(outcome.row)
            margin, features = _row_of(row)
            self.figures.delayed(record.time - row.time, timeout=kind == Kind.TIMEOUT)
            self._learn(features, outcome.label, outcome.weight, margin, record.time)
        elif kind == Kind.BOTH:
            both = labelled_in(record.payload)
            self.figures.predicted(record.time, both.margin)
            self._learn(both.features, both.label, both.weight, both.margin, record.time)
        elif kind == Kind.EXPIRED:
            self.figures.expired += 1
        elif kind == Kind.SWAP:
            self._swap(record)
        elif kind == Kind.ERASED and record.payload:
            raise Erased(f"the record at {record.position:,} was erased: it cannot be replayed")
        self.position, self.sequence = record.end, record.sequence

    def _learn(
        self, features: bytes, label: float, weight: float, margin: float, time: int
    ) -> None:
        row = features_in(features)
        beside = self._beside(row, label, weight)
        try:
            self.model.learn_one(row, label, weight)
        except (PqrError, TypeError):  # a model that was swapped in may want other rows
            self.refused += 1
            return
        self.figures.learned(time, margin, label, weight, beside)

    def _beside(self, row: dict[str, Any], label: float, weight: float) -> float | None:
        """The margin of the reference, which then learns the row too."""
        if self.reference is None:
            return None
        try:
            margin = self.reference.margin_one(row)
            self.reference.learn_one(row, label, weight)
        except (PqrError, TypeError):
            return None
        return margin

    def _swap(self, record: Record) -> None:
        name = record.payload.decode()
        model = load(self._log.folder / "models" / name)
        self.swaps.append((record.position, name))
        same = model.loss == self.model.loss and model.schema == self.model.schema
        self.use(model, self.reference if same else None)
        if model.loss != self.figures.loss:
            self.figures = Figures(model.loss)


def _row_of(record: Record) -> tuple[float, bytes]:
    """Margin and features of a PREDICT or BOTH."""
    if record.kind == Kind.PREDICT:
        row = row_in(record.payload)
        return row.margin, row.features
    both = labelled_in(record.payload)
    return both.margin, both.features


def check_learns(model: Learner) -> None:
    if isinstance(model, Frozen):
        raise HyperError("a frozen model does not learn: serve the model it was made of")


def reference_of(model: Learner) -> Learner:
    """A new LR for the same rows."""
    found = LR(model.loss)
    found.schema = model.schema
    return found
