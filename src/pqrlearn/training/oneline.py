"""`pqrlearn.train`: a training run in one line of Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, cast

import numpy.typing as npt

from pqrlearn.errors import HyperError
from pqrlearn.frames import inputs_of
from pqrlearn.guess import Choices
from pqrlearn.hyper import Settings
from pqrlearn.learners import Learner
from pqrlearn.loss import LossName
from pqrlearn.progressive import warn_if_useless
from pqrlearn.readers import AnyPath, Reading
from pqrlearn.rows import ArrowStream
from pqrlearn.schema import Schema
from pqrlearn.training.config import TrainConfig
from pqrlearn.training.run import train as run

ModelName = Literal["auto", "pqr", "lr", "qr", "fm", "difacto", "cfm", "ccfm"]

_READING = {*Reading.__dataclass_fields__, *Choices.__dataclass_fields__} - {"choices"}
_RUN = {
    *("on_bad_row", "order", "min_count", "separation", "sample_rows", "names"),
    *("passes", "holdout", "resume", "output"),
}


def train(
    data: AnyPath | ArrowStream | npt.NDArray[Any] | Sequence[AnyPath | ArrowStream],
    *,
    label: str | None = None,
    weight: str | None = None,
    schema: Schema | str | os.PathLike[str] | None = None,
    model: ModelName = "auto",
    loss: LossName | None = None,
    **settings: Any,
) -> Learner:
    """Learns a table in one pass, as `pqr train` does: a path, paths, a frame or an Arrow stream.

    What the columns are is guessed, given the `label`, or said by a `schema`. `settings` are those
    of the model, and the options of `pqr train`, such as `ignore`, `order` or `on_bad_row`. What
    the run showed is `learner.run`: its `figures` are those of rows not seen before, `bad_rows`
    were skipped, and `replaced` values found no room among `max_features` names. A UserWarning says
    so if one constant prediction would have been better. With `holdout=0.1` the last tenth of the
    rows is not learned, and `learner.held_out` is what the finished model shows on it.

    >>> import numpy as np
    >>> clicks = np.array([("news", 1), ("sport", 0)] * 100, [("site", "U9"), ("click", "i4")])
    >>> model = train(clicks, label="click")
    >>> round(model.predict_one({"site": "news"}), 1), model.run.rows
    (1.0, 200)
    """
    given = {"label": label, "weight": weight, "schema": schema, **settings}
    reading = {key: given.pop(key) for key in list(given) if key in _READING}
    options = {key: given.pop(key) for key in list(given) if key in _RUN}
    if foreign := [key for key in given if key not in Settings.__annotations__]:
        raise HyperError(f"{foreign[0]}: neither an option of pqr train nor a setting of a model")
    resumed = options.get("resume") is not None
    config = TrainConfig(
        inputs=tuple(inputs_of(data)),
        reading=Reading.of(**reading),
        model=None if resumed and model == "auto" else model,
        loss=loss,
        settings=cast(Settings, given),
        **{"output": None, **options},
    )
    result = run(config)
    result.learner.held_out = result.held_out
    if result.first is not None:
        bad, replaced = result.bad_rows, result.replaced
        result.learner.run = replace(result.first, bad_rows=bad, replaced=replaced)
        warn_if_useless(result.first, result.learner)
    return result.learner
