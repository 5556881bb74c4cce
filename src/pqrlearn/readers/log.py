"""The log of a service as rows with labels, in the order in which the service has learned them."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from pqrlearn import _core, modelfile
from pqrlearn.errors import ModelFileError, RowError
from pqrlearn.loss import ANY_NUMBER, loss_named
from pqrlearn.readers.base import KEPT_ERRORS, AnyPath, BadRowFile, Reader
from pqrlearn.readers.tables import TableOptions
from pqrlearn.records import Records
from pqrlearn.rows import Batch, NewNames
from pqrlearn.schema import Schema

BLOCK_ROWS: Final = 4096


class Learned(NamedTuple):
    """A row that a service has learned, with the margin that it had answered."""

    id: str
    position: int
    """Of the record that brought the label."""
    time: int
    row_time: int
    timeout: bool
    label: float
    weight: float
    margin: float
    features: bytes


def learned_rows(log: Any, stop: int | None = None) -> Iterator[Learned]:
    """The rows of an open log that had a label, or were negatives after a time-out.

    Labels whose row is not in the log any more are left out, and so is what was erased.
    """
    from pqrlearn.logfile import Kind, labelled_in, outcome_in, row_in  # lazy: needs an extra

    for record in log.records():
        if stop is not None and record.position >= stop:
            return
        if record.kind == Kind.BOTH:
            both = labelled_in(record.payload)
            values = both.label, both.weight, both.margin, both.features
            yield Learned(both.id, record.position, record.time, record.time, False, *values)
        elif record.kind in (Kind.LABEL, Kind.TIMEOUT):
            found = outcome_in(record.payload)
            if found.row < log.first:
                continue
            before = log.at(found.row)
            if before.kind != Kind.PREDICT:
                continue
            row, timeout = row_in(before.payload), record.kind == Kind.TIMEOUT
            values = found.label, found.weight, row.margin, row.features
            yield Learned(found.id, record.position, record.time, before.time, timeout, *values)


def served(folder: Path) -> tuple[str | None, Schema | None]:
    """The loss and the schema of the model that a service has, or had last."""
    saved = sorted(path for path in (folder / "snapshots").glob("*") if path.name.isdigit())
    files = [path / "model.pqr" for path in saved[-1:]]
    files += sorted((folder / "models").glob("*.pqr"), key=os.path.getmtime)[-1:]
    for path in files:
        try:
            settings = modelfile.stored(path)[1]
        except (ModelFileError, OSError):
            continue
        schema = settings.get("schema")
        return settings.get("loss"), None if schema is None else Schema.from_json(schema)
    return None, None


class LogReader(Reader):
    """Rows are read by the schema of the service's model; without one, as dicts of features."""

    named = True

    def __init__(
        self,
        path: AnyPath,
        *,
        loss: str | None = None,
        on_bad_row: str = "stop",
        keep_bad: BadRowFile | None = None,
        table: TableOptions = TableOptions(),  # noqa: B008
    ) -> None:
        super().__init__(path, on_bad_row=on_bad_row, keep_bad=keep_bad)
        from pqrlearn.logfile import Log  # lazy: needs an extra

        self._log = Log(path)
        self._stop = self._log.segments[-1].end if self._log.segments else 0
        self._at = self._log.first
        self.served_loss, schema = served(Path(path))
        self._schema = table.schema if table.schema is not None else schema
        self._loss = loss_named(loss or ANY_NUMBER)

    @property
    def schema(self) -> Schema | None:
        return self._schema

    def use_loss(self, loss: str) -> None:
        """Labels must fit this loss; before reading."""
        self._loss = loss_named(loss)

    def _read(self) -> Generator[Batch, None, None]:
        block: list[Batch] = []
        make = self._by_schema(self._schema) if self._schema is not None else self._as_dict
        for row in learned_rows(self._log, self._stop):
            self._at = row.position
            try:
                block.append(make(row))
            except (RowError, TypeError) as error:
                self._ahead = len(block)
                if not self._skip:
                    yield from _joined(block)
                self._note(row, str(error))
            if len(block) >= BLOCK_ROWS:
                yield from _joined(block)
        self._at = self._stop
        yield from _joined(block)

    def _label(self, row: Learned) -> float:
        label = np.array([row.label])
        if not self._loss.check_label(label).all():
            raise RowError(f"label {row.label:g} {self._loss.wants}")
        return float(self._loss.kept(label)[0])

    def _by_schema(self, schema: Schema) -> Any:
        records = Records(schema)

        def batch(row: Learned) -> Batch:
            features, label = json.loads(row.features), self._label(row)
            return records.batch(features, self.names, self.names, label, row.weight)

        return batch

    def _as_dict(self, row: Learned) -> Batch:
        reader, names = _core.DictReader(), self.names
        reader.names = names
        before = names.next_feature
        try:
            arrays = reader.read(json.loads(row.features), before)[:3]
        except ValueError as error:
            raise RowError(str(error).removeprefix("row 0: ")) from None
        label, weight = np.array([self._label(row)]), np.array([row.weight], np.float32)
        reader.keep()
        new = np.arange(before, names.next_feature, dtype=np.uint32)
        called = [str(names.name(feature)) for feature in new.tolist()]
        fresh = NewNames(new, called, np.zeros(len(new), np.int64)) if called else None
        return Batch._unchecked(*arrays, label, weight, None, None, fresh)

    def _note(self, row: Learned, message: str) -> None:
        error = RowError(f"record {row.position:,}: {message}", path=self.path)
        error.case = ("bad row",)
        if not self._skip:
            raise error
        self.bad_rows += 1
        if len(self.first_bad) < KEPT_ERRORS:
            self.first_bad.append(error)
        if self.keep_bad is not None:
            self.keep_bad.write(row.features + b"\n")

    @property
    def bytes(self) -> int:
        return self._stop - self._log.first

    def fraction(self) -> float:
        return (self._at - self._log.first) / self.bytes if self.bytes else 1.0

    def digest(self) -> str:
        from hashlib import sha256  # lazy: costs 5 ms and 4 MB

        ends = [segment.path.read_bytes()[-4096:] for segment in self._log.segments[-1:]]
        hashed = sha256(b"".join(ends)).hexdigest()
        return f"log from {self._log.first} to {self._stop}, sha256 of its end: {hashed}"


def _joined(block: list[Batch]) -> Iterator[Batch]:
    """The rows of a block as one Batch, which empties it."""
    if block:
        joined = Batch.joined(block)
        block.clear()
        yield joined
