"""Columns become Batches, with the names that they bring along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pqrlearn.names import Column, Names, number
from pqrlearn.rows import Batch, NewNames


def batch_of(
    columns: Sequence[Column],
    names: Names,
    labels: Any,
    weights: Any = None,
    lines: Any = None,
    source: str | None = None,
) -> Batch:
    """One row of each column after the other; names that are new are added to `names`.

    >>> import numpy as np
    >>> site = Column(["site=a", "site=b"], np.array([1, 0], np.int32))
    >>> batch = batch_of([site], Names(), labels=[1, 0])
    >>> batch.new_names.names, batch.part(1, 2).new_names.names
    (['site=b', 'site=a'], ['site=a'])
    """
    rows = number(columns, names)
    new = None
    if rows.new_names:
        new = NewNames(rows.new_indices, rows.new_names, rows.new_rows)
    arrays = rows.indptr, rows.indices, rows.values, labels, weights
    return Batch._made(*arrays, lines=lines, source=source, new_names=new)
