"""Rows in the forms in which learners are given them, and errors with the place of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import numpy as np

from pqrlearn import _core
from pqrlearn.errors import RefusedRow, RowError
from pqrlearn.rows import Batch, Features, FloatArray, as_numbers


def as_batch(X: Any, y: Any = None, weights: Any = None) -> Batch:
    if isinstance(X, Batch):
        if y is None and weights is None:
            return X
        labels = X.labels if y is None else as_numbers("labels", y)
        amounts = X.weights if weights is None else as_numbers("weights", weights, np.float32)
        return Batch._owned(
            X.indptr, X.indices, X.values, labels, amounts, X.lines, X.source, X.new_names
        )
    if hasattr(X, "tocsr"):
        return Batch.from_csr(X.tocsr(), y, weights)
    raise TypeError(
        "rows must be a Batch, a frame, an array, a SciPy sparse matrix or a list of dicts, "
        f"not {type(X).__name__}"
    )


def are_dicts(X: object) -> TypeGuard[Sequence[Features]]:
    return isinstance(X, Sequence) and not isinstance(X, str | bytes)


def each_row(rows: Sequence[Any], call: Callable[[Any], float]) -> FloatArray:
    """The result of the call for each row; an error names the row."""
    found = np.empty(len(rows))
    for at, row in enumerate(rows):
        try:
            found[at] = call(row)
        except RowError as error:
            raise RowError(f"row {at}: {error.message}") from None
        except TypeError as error:
            raise TypeError(f"row {at}: {error}") from None
    return found


def without_row(error: ValueError) -> str:
    return str(error).removeprefix("row 0: ")


def complete(
    margins: FloatArray, batch: Batch, why: Callable[[Batch], str] = lambda row: _core.TOO_LARGE
) -> FloatArray:
    """The margins, if there is one for each row; otherwise the error of the first row without."""
    if len(margins) == len(batch):
        return margins
    row = len(margins)
    line = None if batch.lines is None else int(batch.lines[row])
    head = "" if batch.lines is not None else f"row {row}: "
    at = {"path": batch.source, "line": line, "byte": None if line is None else 1}
    alone = batch.part(row, row + 1).take(np.array([0]))  # a copy: a part keeps the batch alive
    error = RefusedRow(head + why(alone), **at)  # type: ignore[arg-type]
    error.row, error.alone, error.margins = row, alone, margins
    raise error


def located(error: ValueError, batch: Batch) -> RowError:
    """The error of the core, with the line of the file instead of the row of the batch."""
    head, _, message = str(error).partition(": ")
    if batch.lines is None or not head.startswith("row "):
        return RowError(str(error))
    line = int(batch.lines[int(head.removeprefix("row "))])
    return RowError(message, path=batch.source, line=line, byte=1)
