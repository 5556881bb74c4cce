"""Frames and records for learners: tables in memory, and Mappings that a schema describes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pqrlearn import _core
from pqrlearn.encoder import Encoder
from pqrlearn.errors import DataError, HyperError, RefusedRow, RowError
from pqrlearn.frames import Frame
from pqrlearn.guess import Choices, guess
from pqrlearn.loss import loss_named
from pqrlearn.names import Names
from pqrlearn.records import Records
from pqrlearn.rows import Batch, FloatArray, as_numbers, not_a_number
from pqrlearn.schema import Schema

if TYPE_CHECKING:
    from pqrlearn.learners.base import Learner


def fresh_names(learner: Learner) -> Names:
    """Where names go that the learner does not have; numbered behind all that it has learned."""
    fresh = Names()
    fresh.start_at(max(learner.names.next_feature, learner.next_feature))
    return fresh


def learn_frame(learner: Learner, X: Any, y: Any, weights: Any) -> FloatArray:
    """Margins before each row was learned. A learner without a schema guesses one first."""
    frame = Frame(X)
    labels = _targets(learner, frame, y, weights)
    if learner.schema is None:
        learner.schema = guess(frame.sample(), Choices())
        _warn_if_feature(learner.schema, getattr(y, "name", None))
    return _joined(learner.learn_margins, _labelled(learner, learner.schema, frame, labels))


def _warn_if_feature(schema: Schema, label: Any) -> None:
    """A column that is also given as labels predicts them perfectly, and nothing else."""
    if any(column.name == label for column in schema.columns if column.kind != "ignored"):
        warnings.warn(
            f"the labels are called {label!r}, and so is a column of the table, which counts as a "
            f"feature: leave it out of the table",
            UserWarning,
            stacklevel=4,
        )


def _targets(learner: Learner, frame: Frame, y: Any, weights: Any) -> tuple[Any, Any] | None:
    """Labels and weights that were given, checked; None if they are columns of the frame."""
    if y is None:
        if weights is not None:
            raise RowError("weights need labels beside them, or a schema with a weight")
        if learner.schema is None or learner.schema.label is None:
            raise RowError("there are no labels: give y, or a schema with a label")
        return None
    labels, amounts = as_numbers("labels", y), np.ones(np.shape(y), np.float32)
    if weights is not None:
        amounts = as_numbers("weights", weights, np.float32)
    rows = len(labels) if frame.table is None else frame.table.num_rows
    if not len(labels) == len(amounts) == rows:
        raise RowError("labels and weights must have one entry per row")
    try:
        _core.check_targets(learner.loss, labels, amounts)
    except ValueError as error:
        raise RowError(str(error)) from None
    return loss_named(learner.loss).kept(labels), amounts


def _labelled(
    learner: Learner, schema: Schema, frame: Frame, targets: tuple[Any, Any] | None
) -> Iterator[tuple[int, Batch]]:
    encoder = Encoder(schema, loss_named(learner.loss), labelled=targets is None)
    if targets is None and frame.table is not None:
        _check_targets(encoder, frame)
    for start, table in frame.slices():
        encoder.check(table.schema.names)
        columns, labels, amounts = _good(encoder, table, start)
        if targets is not None:
            rows = slice(start, start + table.num_rows)
            labels, amounts = targets[0][rows], targets[1][rows]
            if len(labels) < table.num_rows:
                raise RowError("labels and weights must have one entry per row")
        fresh = fresh_names(learner)
        yield start, encoder.numbered(columns, labels, amounts, learner.names, fresh)


def _check_targets(encoder: Encoder, frame: Frame) -> None:
    """Labels and weights of the whole table, before the first row is learned."""
    targets = [c for c in encoder.schema.columns if c.kind in ("label", "weight")]
    only = Encoder(Schema(tuple(targets), nulls=encoder.schema.nulls), encoder.loss, labelled=True)
    for start, table in frame.slices():
        encoder.check(table.schema.names)
        _good(only, table.select([column.name for column in targets]), start)


def _good(encoder: Encoder, table: Any, start: int) -> tuple[Any, Any, Any]:
    columns, labels, weights, bad = encoder.encode(table)
    if bad:
        raise RowError(f"row {start + bad[0].row}: {bad[0].message}")
    return columns, labels, weights


def predict_frame(learner: Learner, X: Any) -> FloatArray:
    """Margins. Names that the learner does not have are numbered, and forgotten."""
    return _joined(learner._batch_margins, unlabelled(learner, X))


def unlabelled(learner: Learner, X: Any) -> Iterator[tuple[int, Batch]]:
    """Batches of a frame, without labels, and the number of the first row of each.

    The learner may learn a Batch before the next one is made, or not.
    """
    encoder = Encoder(known_schema(learner), None, labelled=False)
    fresh = fresh_names(learner)
    for start, table in Frame(X).slices():
        encoder.check(table.schema.names)
        columns, labels, weights = _good(encoder, table, start)
        yield start, encoder.numbered(columns, labels, weights, learner.names, fresh)


def known_schema(learner: Learner) -> Schema:
    if learner.schema is None:
        raise HyperError(
            "the model does not know the columns of a table yet: train(table, label=…) and "
            "learn_many(table, labels) find out, and model.schema can be set"
        )
    return learner.schema


def labelled_batches(learner: Learner, X: Any) -> Iterator[Batch]:
    """The rows of a frame with labels, to be scored; nothing is learned from them."""
    encoder = Encoder(known_schema(learner), loss_named(learner.loss), labelled=True)
    if encoder.schema.label is None:
        raise DataError("the schema has no label to score by")
    fresh = fresh_names(learner)
    for start, table in Frame(X).slices():
        encoder.check(table.schema.names)
        columns, labels, weights = _good(encoder, table, start)
        yield encoder.numbered(columns, labels, weights, learner.names, fresh)


def _joined(margins_of: Any, batches: Iterator[tuple[int, Batch]]) -> FloatArray:
    """Margins of all batches; a refused row is numbered within the frame."""
    found: list[FloatArray] = []
    for start, batch in batches:
        try:
            found.append(margins_of(batch))
        except RefusedRow as error:
            message = error.message.replace(f"row {error.row}: ", "", 1)
            whole = RefusedRow(f"row {start + error.row}: {message}")
            whole.row, whole.alone = start + error.row, error.alone
            whole.margins = np.concatenate([*found, error.margins])
            raise whole from None
    return np.concatenate(found) if found else np.zeros(0)


def learn_record(learner: Learner, x: Any, y: float, weight: float) -> float:
    """The prediction of a row that the schema describes, before it is learned."""
    if error := not_a_number(y, weight):
        raise error
    try:
        _core.check_targets(learner.loss, np.array([y], np.float64), np.array([weight], np.float32))
    except ValueError as error:
        raise RowError(str(error).removeprefix("row 0: ")) from None
    label = float(loss_named(learner.loss).kept(np.array([y], np.float64))[0])
    batch = _records(learner).batch(x, learner.names, fresh_names(learner), label, weight)
    return float(learner._linked(learner.learn_margins(batch))[0])


def record_margin(learner: Learner, x: Any) -> float:
    batch = _records(learner).batch(x, learner.names, fresh_names(learner))
    return float(learner._batch_margins(batch)[0])


def _records(learner: Learner) -> Records:
    """Made once for a schema."""
    schema = known_schema(learner)
    if learner._records is None or learner._records.schema is not schema:
        learner._records = Records(schema)
    records: Records = learner._records
    return records
