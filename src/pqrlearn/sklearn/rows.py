"""What scikit-learn calls X, as Batches: arrays, sparse matrices and frames.

Arrays and frames are tables that a Schema describes: numbers are centred and scaled to a variance
of 1 in the first rows, all other columns are what `guess` says. Sparse matrices are rows as they
are: to centre them would fill them up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import validate_data

from pqrlearn.errors import DataError
from pqrlearn.frames import BATCH_ROWS, Frame
from pqrlearn.guess import Choices, guess
from pqrlearn.learners import Learner
from pqrlearn.learners.frames import unlabelled
from pqrlearn.rows import Batch
from pqrlearn.schema import MOST_COLUMNS, Schema
from pqrlearn.separation import Counts


def is_table(X: Any) -> bool:
    """Whether it is a frame of pandas, polars or pyarrow; a column of one is not."""
    return hasattr(X, "__arrow_c_stream__") and hasattr(X, "columns")


def checked(estimator: Any, X: Any, *, reset: bool) -> Any:
    """X as a frame, an array or a CSR matrix, with as many columns as the estimator has seen.

    With `reset` its columns are those to come.
    """
    if is_table(X):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        if 0 in X.shape:
            raise DataError(f"a table of shape {X.shape} has nothing to learn or predict")
        return X
    array: Any = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr",
        ensure_all_finite=True if issparse(X) else "allow-nan",
    )
    return array


def schema_of(estimator: Any, X: Any) -> Schema | None:
    """The schema of a checked X: as guessed, with numbers scaled. Sparse rows have none."""
    import pyarrow.types as types

    if issparse(X):
        return None
    if X.shape[1] > MOST_COLUMNS:
        raise DataError(
            f"a table has at most {MOST_COLUMNS:,} columns, not {X.shape[1]:,}; "
            "give a sparse matrix instead"
        )
    sample = Frame(as_table(estimator, X)).sample()
    numeric = [
        column.name
        for column in sample.schema
        if types.is_integer(column.type)
        or types.is_floating(column.type)
        or types.is_decimal(column.type)
    ]
    return guess(sample, Choices(numbers=numeric))


def as_table(estimator: Any, X: Any) -> Any:
    """A checked X as an Arrow table, whose columns are called as those that were fitted.

    An index of pandas comes behind the columns, and is left out.
    """
    import pyarrow as pa

    size = X.shape[1]
    names = list(getattr(estimator, "feature_names_in_", map(str, range(size))))
    if is_table(X):
        return Frame(X).table.select(range(size)).rename_columns(names)
    arrays = [pa.array(np.ascontiguousarray(column), from_pandas=True) for column in X.T]
    return pa.table(arrays, names)


def batches(estimator: Any, learner: Learner, X: Any) -> Iterator[tuple[int, Batch]]:
    """Batches of a checked X, and the number of the first row of each."""
    if learner.schema is None:
        rows = csr_array(X if issparse(X) else np.asarray(X, np.float64))
        for start in range(0, rows.shape[0], BATCH_ROWS):
            yield start, Batch.from_csr(rows[start : start + BATCH_ROWS])
        return
    dense = X.toarray() if issparse(X) else X
    yield from unlabelled(learner, as_table(estimator, dense))


def counted(estimator: Any, X: Any, schema: Schema | None) -> Counts:
    """In how many rows of a checked X each feature is not zero."""
    if schema is None:
        return Counts.of(Batch.from_csr(csr_array(X)))
    dense = X.toarray() if issparse(X) else X
    return Counts.of(as_table(estimator, dense), schema)
