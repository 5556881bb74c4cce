"""The weights of a model as one table, by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pqrlearn import _core
from pqrlearn.learners.terms import counts_of

if TYPE_CHECKING:
    from pqrlearn.learners.base import Learner

COLUMNS = ("name", "other", "block", "weight", "support", "rank")


def weights_table(learner: Learner) -> Any:
    """All weights that are not zero, those of high features, and the bias."""
    import pyarrow as pa

    parts = [_part(learner, block) for block in learner.blocks]
    about = {
        "model": learner.kind,
        "loss": learner.loss,
        "interaction_scale": getattr(learner, "interaction_scale", None),
        "shares_pairs": learner._shares_pairs,
    }
    found = pa.concat_tables(parts) if parts else pa.table({name: [] for name in COLUMNS})
    return found.replace_schema_metadata({"pqrlearn": json.dumps(about)})


def _part(learner: Learner, block: str) -> Any:
    import pyarrow as pa

    features, weights = learner.weights(block)
    if block in ("shared", "square"):
        features, weights = _with_all_high(learner, features, weights)
    elif block != "bias":
        kept = np.flatnonzero(weights)
        features, weights = features[kept], weights[kept]
    size = len(weights)
    first = None if block == "bias" else features if features.ndim == 1 else features[:, 0]
    second = None if features.ndim == 1 else features[:, 1]
    other: Any = pa.nulls(size, pa.string())
    if second is not None:
        other = numbers(second) if block == "factor" else names_of(learner.names, second)
    support = np.full(size, -1) if first is None else counts_of(learner._seen(), first)
    if block == "bias":
        support[:] = learner.rows
    elif second is not None and block != "factor":
        support[:] = -1  # of a pair, nobody knows
    high = block in ("shared", "square") and hasattr(learner, "_high")
    ranks = np.arange(size) if high else np.full(size, -1)
    return pa.table(
        {
            "name": pa.nulls(size, pa.string())
            if first is None
            else names_of(learner.names, first),
            "other": other,
            "block": pa.array([block] * size, pa.string()),
            "weight": pa.array(weights.astype(np.float64)),
            "support": pa.array(support, pa.int64(), mask=support < 0),
            "rank": pa.array(ranks, pa.int64(), mask=ranks < 0),
        }
    )


def _with_all_high(
    learner: Any, features: npt.NDArray[np.uint32], weights: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[Any]]:
    """Which features are high says which are low: whoever scores from the table needs that."""
    high = learner._high() if hasattr(learner, "_high") else features
    at = {feature: number for number, feature in enumerate(high.tolist())}
    found = np.zeros(len(high), np.float64)
    found[[at[feature] for feature in features.tolist()]] = weights
    return high, found


def names_of(names: _core.Names, features: npt.NDArray[np.uint32]) -> Any:
    """The name of each feature, or its number, as an Arrow array."""
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = numbers(features)
    if not len(names):
        return plain
    known, ends, text = names.arrays()
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text))]
    texts = pa.LargeStringArray.from_buffers(len(known), buffers[1], buffers[2])
    at = np.minimum(np.searchsorted(known, features), len(known) - 1)
    found = pa.array(at, mask=known[at] != features)
    return pc.coalesce(texts.take(found).cast(pa.string()), plain)


def numbers(features: npt.NDArray[np.uint32]) -> Any:
    import pyarrow as pa

    return pa.array(np.ascontiguousarray(features)).cast(pa.string())
