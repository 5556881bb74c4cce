"""Several models on the same rows, in one read: which one to take, and how sure that is.

The package is not called `compare`: it would hide the function `pqrlearn.compare`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pqrlearn.comparison.config import MODELS, CompareConfig
from pqrlearn.comparison.paired import Blocks, Interval
from pqrlearn.comparison.race import Race, Racer
from pqrlearn.comparison.run import Compared, Comparison, run
from pqrlearn.frames import inputs_of
from pqrlearn.guess import Choices
from pqrlearn.loss import LossName
from pqrlearn.readers import Reading

__all__ = [
    "MODELS",
    "Blocks",
    "CompareConfig",
    "Compared",
    "Comparison",
    "Interval",
    "Race",
    "Racer",
    "compare",
    "run",
]

_READING = {*Reading.__dataclass_fields__, *Choices.__dataclass_fields__} - {"choices"}


def compare(
    data: Any,
    *,
    label: str | None = None,
    models: Sequence[str] | None = None,
    loss: LossName | None = None,
    **options: Any,
) -> Comparison:
    """Trains several models on the same rows, each row predicted before it is learned.

    `data` is a path, paths, a frame or an Arrow stream, read once. `models` are names as in
    `pqr train --model`; by default auto, lr and pqr, all with default settings. `options` are those
    of `pqr compare`, such as `ignore`, `order` or `on_bad_row`. `advice` says which to take.

    >>> import numpy as np
    >>> clicks = np.array([("news", 1), ("sport", 0)] * 500, [("site", "U9"), ("click", "i4")])
    >>> found = compare(clicks, label="click", models=["lr", "auto"])
    >>> [one.kind for one in found.models], found.rows
    (['lr', 'auto'], 1000)
    >>> found.best.loss < found.constant
    True
    """
    given = {"label": label, **options}
    reading = {key: given.pop(key) for key in list(given) if key in _READING}
    config = CompareConfig(
        inputs=tuple(inputs_of(data)),
        reading=Reading.of(**reading),
        models=None if models is None else tuple(models),
        loss=loss,
        **given,
    )
    return run(config)
