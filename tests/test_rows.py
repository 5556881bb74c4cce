"""Batches: what they are given stays the caller's, what they hold does not change."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from pqrlearn import Batch
from pqrlearn.errors import RowError


def arrays() -> list[np.ndarray]:
    return [
        np.array([0, 2, 3]),
        np.array([1, 4, 2], np.uint32),
        np.array([1, 0.5, 2], np.float32),
        np.array([1.0, 0.0]),
        np.array([1, 3], np.float32),
        np.array([7, 9]),
    ]


def test_a_batch_leaves_the_arrays_of_the_caller_alone() -> None:
    given = arrays()
    batch = Batch(*given)
    assert all(array.flags.writeable for array in given)
    for array in given:
        array[:] = 0
    held = [batch.indptr, batch.indices, batch.values, batch.labels, batch.weights, batch.lines]
    for found, expected in zip(held, arrays(), strict=True):
        assert found is not None
        assert np.array_equal(found, expected)
        with pytest.raises(ValueError, match="read-only"):
            found[0] = 1


def test_rows_that_are_not_canonical_are_refused() -> None:
    given = arrays()
    given[1] = np.array([4, 1, 2], np.uint32)
    with pytest.raises(RowError, match="row 0: indices must rise"):
        Batch(*given)
    with pytest.raises(RowError, match="row 0: indices must rise"):
        Batch._owned(*given)


def test_arrays_that_nobody_else_has_are_not_copied() -> None:
    given = arrays()
    assert np.shares_memory(Batch._owned(*given).indices, given[1])


def test_a_matrix_stays_as_it_was() -> None:
    matrix = csr_array((np.ones(3, np.float32), ([0, 0, 1], [4, 1, 2])), shape=(2, 5))
    labels = np.array([1.0, 0.0])
    batch = Batch.from_csr(matrix, labels)
    assert labels.flags.writeable
    assert matrix.data.flags.writeable
    labels[:] = 5
    matrix.data[:] = 9
    assert (batch.labels.tolist(), batch.values.tolist()) == ([1, 0], [1, 1, 1])
