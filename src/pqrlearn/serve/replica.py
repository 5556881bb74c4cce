"""What a log makes of a model: the same while serving, in recovery and in readers.

Everything here depends on records alone, in their order: no clock, no ids, no chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

import msgspec

from pqrlearn.errors import HyperError, PqrError
from pqrlearn.learners import LR, Frozen, Learner, load
from pqrlearn.logfile import Kind, Log, Record, both_in, label_in, margin_in
from pqrlearn.serve.figures import MOMENT, Figures

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

    def apply(self, records: Iterable[Record]) -> None:
        """Learns what records say, in their order."""
        for _, run in groupby(records, lambda record: (record.kind, record.time // MOMENT)):
            self.apply_run(list(run))

    def apply_run(self, run: list[Record]) -> None:
        """The same for records of one kind and of one moment of the figures."""
        first, last, kind = run[0], run[-1], run[0].kind
        if kind == Kind.PREDICT:
            self.figures.predicted(first.time, [margin_in(record.payload) for record in run])
        elif kind == Kind.BOTH:
            self._learn_both(run)
        elif kind in (Kind.LABEL, Kind.TIMEOUT):
            self._learn_labels(run, timeout=kind == Kind.TIMEOUT)
        elif kind == Kind.EXPIRED:
            self.figures.expired += len(run)
        elif kind == Kind.SWAP:
            for record in run:
                self._swap(record)
        elif kind == Kind.ERASED and (gone := next((one for one in run if one.payload), None)):
            raise Erased(f"the record at {gone.position:,} was erased: it cannot be replayed")
        self.position, self.sequence = last.end, last.sequence

    def _learn_both(self, run: list[Record]) -> None:
        rows = [both_in(record.payload) for record in run]
        self.figures.predicted(run[0].time, [margin for *_, margin in rows])
        self._learn(run[0].time, rows)

    def _learn_labels(self, run: list[Record], *, timeout: bool) -> None:
        outcomes = [label_in(record.payload) for record in run]
        before = self._log.rows_at([row for row, _, _ in outcomes])
        delays = [record.time - row[0] for record, row in zip(run, before, strict=True)]
        self.figures.delayed(delays, timeout=timeout)
        rows = [
            (features, label, weight, margin)
            for (_, label, weight), (_, margin, features) in zip(outcomes, before, strict=True)
        ]
        self._learn(run[0].time, rows)

    def _learn(self, time: int, rows: list[tuple[bytes, float, float, float]]) -> None:
        """Learns rows of features, label, weight and the margin that was served."""
        scored, learn_one = [], self.model.learn_one
        for features, label, weight, margin in rows:
            row = features_in(features)
            beside = math.nan if self.reference is None else self._beside(row, label, weight)
            try:
                learn_one(row, label, weight)
            except (PqrError, TypeError):  # a model that was swapped in may want other rows
                self.refused += 1
                continue
            scored.append((margin, label, weight, beside))
        self.figures.learned(time, scored)

    def _beside(self, row: dict[str, Any], label: float, weight: float) -> float:
        """The margin of the reference, which then learns the row too."""
        assert self.reference is not None
        try:
            margin = self.reference.margin_one(row)
            self.reference.learn_one(row, label, weight)
        except (PqrError, TypeError):
            return math.nan
        return margin

    def _swap(self, record: Record) -> None:
        name = record.payload.decode()
        model = load(self._log.folder / "models" / name)
        self.swaps.append((record.position, name))
        same = model.loss == self.model.loss and model.schema == self.model.schema
        self.use(model, self.reference if same else None)
        if model.loss != self.figures.loss:
            self.figures = Figures(model.loss)


def check_learns(model: Learner) -> None:
    if isinstance(model, Frozen):
        raise HyperError("a frozen model does not learn: serve the model it was made of")


def reference_of(model: Learner) -> Learner:
    """A new LR for the same rows."""
    found = LR(model.loss)
    found.schema = model.schema
    return found
