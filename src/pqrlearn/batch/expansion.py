"""The expanded rows of a linear model as a sparse matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn.learners import LR, PQR, QR
from pqrlearn.rows import Batch

Linear = LR | PQR | QR
Keys = npt.NDArray[np.uint32]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Expanded:
    """Expanded rows: the margins of a model are `matrix @ theta`.

    There is a column for each coordinate that occurs, sorted by block, then key. A key is a feature
    (linear), the rank of a high feature (shared, square) or two ranks (pair).
    """

    matrix: Any  # scipy.sparse.csr_array
    high: Keys
    """The feature of each rank."""
    keys: dict[str, Keys]

    def columns(self, block: str) -> slice:
        sizes = {name: len(keys) for name, keys in self.keys.items()}
        start = sum(sizes[name] for name in list(sizes)[: list(sizes).index(block)])
        return slice(start, start + sizes[block])

    def features(self, block: str) -> Keys:
        """The features of each column of a block; the bias has none."""
        keys = self.keys[block]
        return keys if block in ("bias", "linear") else self.high[keys]

    def key_tensors(self, block: str) -> dict[str, npt.NDArray[Any]]:
        """The keys of a block as in a model file."""
        keys = self.keys[block]
        if block != "pair":
            return {f"{block}.keys": keys}
        counts = np.bincount(keys[:, 1], minlength=len(self.high)).astype(np.uint32)
        return {"pair.counts": counts, "pair.ranks": keys[:, 0]}


def expanded(model: Linear, batch: Batch) -> Expanded:
    """Expands every row, with the same values as in the native model."""
    from scipy.sparse import csr_array

    high = _high(model, batch)
    parts = _parts(model, batch, high)
    rows, columns, values, keys = [], [], [], {}
    width = 0
    for block, (row, key, value) in parts.items():
        distinct, column = np.unique(key, return_inverse=True)
        rows.append(row)
        columns.append(column + width)
        values.append(value)
        keys[block] = _as_keys(block, distinct)
        width += len(distinct)
    at = (np.concatenate(rows), np.concatenate(columns))
    entries = np.concatenate(values).astype(np.float64)
    return Expanded(csr_array((entries, at), shape=(len(batch), width)), high, keys)


def _high(model: Linear, batch: Batch) -> Keys:
    if isinstance(model, PQR):
        return model.separation.features
    return np.unique(batch.indices) if isinstance(model, QR) else np.zeros(0, np.uint32)


Part = tuple[IntArray, IntArray, npt.NDArray[np.float32]]
"""Entries of one block: rows, keys as single numbers, and values."""


def _parts(model: Linear, batch: Batch, high: Keys) -> dict[str, Part]:
    every_row = np.arange(len(batch))
    rows = np.repeat(every_row, np.diff(batch.indptr))
    ranks = _ranks(batch.indices, high)
    low = np.bincount(rows[ranks < 0], batch.values[ranks < 0], len(batch)).astype(np.float32)
    order = np.flatnonzero(ranks >= 0)
    order = order[np.lexsort((ranks[order], rows[order]))]
    h_rows, h_ranks, h_values = rows[order], ranks[order], batch.values[order]
    counts = np.bincount(h_rows, minlength=len(batch))
    scale = _scale(model, counts, low)
    parts: dict[str, Part] = {}
    if model.bias:
        parts["bias"] = every_row, np.zeros(len(batch), np.int64), np.ones(len(batch), np.float32)
    parts["linear"] = rows, batch.indices.astype(np.int64), batch.values
    if "pair" in model.blocks:
        parts["pair"] = _pairs(h_ranks, h_values, counts, scale)
    if "shared" in model.blocks:
        met = low[h_rows] != 0
        shared = h_values * (low * scale)[h_rows]
        parts["shared"] = h_rows[met], h_ranks[met], shared[met]
    if "square" in model.blocks:
        parts["square"] = h_rows, h_ranks, h_values * (h_values * scale[h_rows])
    return parts


def _ranks(indices: Keys, high: Keys) -> IntArray:
    """The rank of each feature, -1 for a low one."""
    if not len(high):
        return np.full(len(indices), -1)
    by_feature = np.argsort(high)
    at = np.minimum(np.searchsorted(high, indices, sorter=by_feature), len(high) - 1)
    found = by_feature[at]
    return np.where(high[found] == indices, found, -1)


def _scale(model: Linear, counts: IntArray, low: Any) -> npt.NDArray[np.float32]:
    """The factor of the interactions of each row, given how many of its features are high."""
    pairs = counts * (counts - 1) // 2
    others = counts if "square" in model.blocks else np.where(low != 0, counts, 0)
    if model.interaction_scale is None:
        return np.ones(len(counts), np.float32)
    many = np.maximum(pairs + others, 1).astype(np.float32)
    return np.divide(model.interaction_scale, np.sqrt(many), dtype=np.float32)


def _pairs(ranks: IntArray, values: Any, counts: IntArray, scale: Any) -> Part:
    """All pairs of high features; rows with equally many are processed together."""
    starts = np.cumsum(counts) - counts
    found: list[Part] = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))]
    for count in np.unique(counts[counts > 1]).tolist():
        rows = np.flatnonzero(counts == count)
        at = starts[rows][:, None] + np.arange(count)
        i, j = np.triu_indices(count, 1)
        value = values[at][:, i] * (values[at][:, j] * scale[rows][:, None])
        key = ranks[at][:, j] << 32 | ranks[at][:, i]
        found.append((np.repeat(rows, len(i)), key.ravel(), value.ravel()))
    row, key, value = (np.concatenate(column) for column in zip(*found, strict=True))
    return row, key, value


def _as_keys(block: str, distinct: IntArray) -> Keys:
    if block == "bias":
        return np.zeros((1, 0), np.uint32)
    if block == "pair":
        distinct = np.stack([distinct & 0xFFFFFFFF, distinct >> 32], axis=1)
    return distinct.astype(np.uint32)
