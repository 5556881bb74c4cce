"""The margin of one row that came from outside, within the limits of a service."""

from __future__ import annotations

from typing import Any

import numpy as np

from pqrlearn.errors import RowError
from pqrlearn.learners import Learner
from pqrlearn.serve.errors import Refused
from pqrlearn.serve.settings import Settings

_ONE = np.zeros(1)


def score(model: Learner, features: dict[str, Any], settings: Settings) -> tuple[float, float]:
    """Margin and prediction."""
    margin = margin_of(model, features, settings)
    return margin, linked(model, margin)


def margin_of(model: Learner, features: dict[str, Any], settings: Settings) -> float:
    """Refused if the row is too large, or none that the model can take."""
    check_size(model, features, settings)
    try:
        return model.margin_one(features)
    except (RowError, TypeError) as error:
        raise Refused(str(error)) from None


def check_size(model: Learner, features: dict[str, Any], settings: Settings) -> None:
    size = len(features)
    if list in map(type, features.values()):
        if model.schema is None:
            raise Refused("a list needs a model with a schema that says which features are lists")
        size += sum(len(value) - 1 for value in features.values() if type(value) is list)
    if size > settings.max_features:
        raise Refused(f"a row of {size:,} features; at most {settings.max_features:,}")
    if not fits_size(model, size, settings):
        pairs, most = _pairs(size), settings.max_pairs
        raise Refused(f"a row of {size:,} features has {pairs:,} pairs; at most {most:,}")


def fits_size(model: Learner, size: int, settings: Settings) -> bool:
    """Whether a row of so many features is within the limits."""
    few = _pairs(size) <= settings.max_pairs or "pair" not in model.blocks
    return size <= settings.max_features and few


def _pairs(size: int) -> int:
    return size * (size - 1) // 2


def linked(model: Learner, margin: float) -> float:
    """The prediction of a margin; for one thread, because a new array would cost more."""
    _ONE[0] = margin
    model._linked(_ONE)
    return float(_ONE[0])
