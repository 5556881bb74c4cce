"""The learner of a run: a new one, counting features first if it needs that, or a resumed one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pqrlearn.errors import SettingsConflict
from pqrlearn.guess import Choices
from pqrlearn.learners import PQR, Frozen, Learner, Mixture, load, make, settings_of
from pqrlearn.loss import LossName, check_loss
from pqrlearn.readers import AnyPath, Inputs, Reader, Reading, at_most, read_inputs, read_names
from pqrlearn.schema import Schema
from pqrlearn.separation import Counts, Separation, name_tensors
from pqrlearn.training.config import TrainConfig
from pqrlearn.training.holdout import HoldOut

OnCounted = Callable[[Separation, float], None]
"""Called with each separation of a new model and the seconds that counting took."""


@dataclass(frozen=True)
class Counted:
    """How many rows and distinct features were counted for a separation, and how long it took."""

    rows: int
    distinct: int
    seconds: float


def open_inputs(config: TrainConfig, resumed: Learner | None) -> tuple[Inputs, LossName]:
    """The inputs, read by the schema of a resumed model if it has one, and the loss.

    If no loss is given, the labels of a table tell which one fits.
    """
    loss = resumed.loss if resumed else config.new_loss
    inputs = _read(config, config.reading if resumed is None else _resumed(config, resumed), loss)
    if resumed is None and config.loss is None:
        suggested = inputs.suggested_loss()
        if suggested is not None and suggested != loss:
            loss = check_loss(suggested)
            inputs.use_loss(loss)
    return inputs, loss


def _read(
    config: TrainConfig, reading: Reading, loss: str, on_bad_row: str | None = None
) -> Inputs:
    return read_inputs(
        config.inputs, reading, loss=loss, on_bad_row=on_bad_row or config.on_bad_row
    )


def _resumed(config: TrainConfig, learner: Learner) -> Reading:
    """As the model has read before; what is said of columns may only repeat that."""
    reading, schema = config.reading, learner.schema
    if schema is None:
        if reading.schema is not None or reading.choices.given:
            raise SettingsConflict("the model to {resume} has no schema: it has learned no table")
        return reading
    if reading.schema not in (None, schema):
        raise SettingsConflict("{schema} contradicts {resume}: the model has another one")
    _check_repeated(reading.choices, schema)
    return replace(reading, schema=schema, choices=Choices())


def _check_repeated(choices: Choices, schema: Schema) -> None:
    """What is said of columns again must be what the schema of the model says."""
    for name, (kind, extra) in choices.kinds([column.name for column in schema.columns]).items():
        column = schema[name]
        if column.kind != kind or extra not in (None, column.separator, column.format):
            raise SettingsConflict(f"column {name!r} of the model to {{resume}} is {column.kind}")
    label = schema.label
    known: dict[str, Any] = {
        "positive": None if label is None else label.positive,
        "nulls": schema.nulls,
        "hash_bits": schema.hash_bits,
        "max_features": schema.max_features,
    }
    for name, value in known.items():
        if name in choices.given and getattr(choices, name) != value:
            has = "none" if value is None else repr(value)
            raise SettingsConflict(f"{{{name}}} contradicts {{resume}}: the model has {has}")


def new_learner(
    config: TrainConfig, inputs: Inputs, loss: LossName, on_counted: OnCounted
) -> tuple[Learner, Counted | None]:
    """A learner as configured, and what was counted for it, if anything was."""
    counted = None
    if config.kind != PQR.kind:
        learner = make(config.kind, loss, config.settings)
    elif config.separation is not None:
        learner = make(PQR.kind, loss, config.settings, Separation.load(config.separation))
    else:
        start = time.perf_counter()
        counts = _count(config, inputs, loss)
        counted = Counted(counts.rows, counts.distinct, time.perf_counter() - start)
        separations = _separations(config, counts)
        for separation in separations:
            on_counted(separation, counted.seconds)
        learners = [make(PQR.kind, loss, config.settings, one) for one in separations]
        learner = Mixture(learners) if config.order == "auto" else learners[0]
    if config.names is not None:
        learner.use_names(read_names(config.names))
    learner.schema = inputs.schema
    return learner, counted


def _count(config: TrainConfig, inputs: Inputs, loss: str) -> Counts:
    """Counts a sample. Rows that can be read only once are kept in memory for learning."""
    if inputs.enterable:
        reading = config.reading
        if inputs.schema is not None:
            reading = replace(reading, schema=inputs.schema, choices=Choices())
        readers = _read(config, reading, loss, on_bad_row="skip").readers
        return Counts.of_readers(_learned(readers, config.holdout), config.sample_rows)
    head = inputs.head(config.sample_rows)
    most = sum(map(len, head))
    if config.holdout is not None:
        most = HoldOut(config.holdout).learned_of(most)
    if config.sample_rows is not None:
        most = min(most, config.sample_rows)
    return Counts.of(at_most(head, most), inputs.schema)


def _learned(readers: Sequence[Reader], holdout: float | None) -> list[Reader]:
    """The inputs without the share of them, at the end, that is held out."""
    if holdout is None:
        return list(readers)
    left, found = (1 - holdout) * sum(reader.size for reader in readers), []
    for reader in readers:
        if left >= 1:
            found.append(reader if reader.size <= left else reader.part(0, int(left)))
        left -= reader.size
    return found


def _separations(config: TrainConfig, counts: Counts) -> list[Separation]:
    """One, or with `order="auto"` one for each order to mix."""
    if config.order == "auto":
        return [counts.separate(order=order) for order in counts.orders()]
    return [counts.separate(order=config.order, min_count=config.min_count)]


def resumed_learner(config: TrainConfig) -> Learner | None:
    """The model to resume, if any. Settings of the configuration may only repeat its own."""
    if config.resume is None:
        return None
    learner = load(config.resume)
    if isinstance(learner, Frozen):
        raise SettingsConflict(
            f"{{resume}} {os.fspath(config.resume)}: a frozen model does not learn; resume the "
            "model it was made of"
        )
    for name, known in _known_fields(learner, config).items():
        value = getattr(config, name)
        if value not in (None, known):
            raise _contradiction(name, value, known, config.resume)
    settings: dict[str, Any] = {**settings_of(_first(learner))}
    for name, value in config.settings.items():
        if name not in settings or value != settings[name]:
            raise _contradiction(name, value, settings.get(name), config.resume)
    return learner


def _contradiction(name: str, value: Any, known: Any, resume: AnyPath) -> SettingsConflict:
    def shown(value: Any) -> Any:
        return "none" if name == "interaction_scale" and value is None else value

    has = "" if shown(known) is None else f"; the model has {shown(known)}"
    path = os.fspath(resume)
    return SettingsConflict(f"{{{name}}} {shown(value)} contradicts {{resume}} {path}{has}")


def _first(learner: Learner) -> Learner:
    """The learners of `order="auto"` have the same settings."""
    return learner.learners[0] if isinstance(learner, Mixture) else learner


def _known_fields(learner: Learner, config: TrainConfig) -> dict[str, Any]:
    """The fields of the configuration as the resumed model has them.

    A separation, a threshold or a file of names that agrees with the model counts as its own.
    """
    one = _first(learner)
    separation = one.separation if isinstance(one, PQR) and one is learner else None
    order: int | str | None = separation.order if separation is not None else None
    return {
        "model": one.kind,
        "loss": learner.loss,
        "order": "auto" if one is not learner and isinstance(one, PQR) else order,
        "min_count": _known_min_count(separation, config.min_count),
        "separation": _known_separation(separation, config.separation),
        "names": _known_names(learner, config.names),
    }


def _known_min_count(separation: Separation | None, given: int | None) -> int | None:
    """The given threshold if no feature below it is high, otherwise the smallest count."""
    if given is None or separation is None or separation.order == 0:
        return None
    least = int(separation.counts.min())
    return given if least >= given else least


def _known_separation(separation: Separation | None, path: AnyPath | None) -> AnyPath | None:
    """The path if the same features are high in it."""
    if path is None or separation is None:
        return None
    same = np.array_equal(Separation.load(path).features, separation.features)
    return path if same else "another"


def _known_names(learner: Learner, path: AnyPath | None) -> AnyPath | None:
    """The path if the model has the names in it."""
    if path is None:
        return None
    given, known = name_tensors(read_names(path)), name_tensors(learner.names)
    same = given.keys() == known.keys()
    same = same and all(np.array_equal(given[part], known[part]) for part in given)
    return path if same else "others"
