"""From the options of pqr train to a learner, and whether they fit a model to go on with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import numpy as np

from pqrlearn import hyper
from pqrlearn.errors import HyperError
from pqrlearn.learners import LR, PQR, QR, Learner
from pqrlearn.readers import read_names
from pqrlearn.separation import Separation

RATES = ("alpha", "beta", "l1", "l2", "eta", "schedule", "radius")
_SEPARATING = ("separation", "order", "min_count")


def new_learner(given: dict[str, Any], loss: str, separate: Callable[[], Separation]) -> Learner:
    """A learner as the options describe it; `separate` is called if it needs a separation."""
    kind = given["model"] or "pqr"
    scale = given["interaction_scale"]
    if kind != "pqr":
        _refuse(given, _SEPARATING, f"needs --model pqr: {kind} has no separation")
    if kind == "lr":
        _refuse(given, ["interaction_scale"], "needs a model with interactions")
    factor = hyper.INTERACTION_SCALE if scale is None else None if scale == "none" else scale
    bias = True if given["bias"] is None else given["bias"]
    optimizer = new_optimizer(given)
    names = read_names(given["names"]) if given["names"] else None
    model: Learner
    if kind == "lr":
        model = LR(loss, optimizer, bias=bias)
    elif kind == "qr":
        model = QR(loss, optimizer, interaction_scale=factor, bias=bias)
    else:
        model = PQR(separate(), loss, optimizer, interaction_scale=factor, bias=bias)
    if names is not None:
        model.use_names(names)
    return model


def new_optimizer(given: dict[str, Any]) -> hyper.Optimizer:
    kind = hyper.OPTIMIZERS[given["optimizer"] or hyper.Ftrl.name]
    own = kind().settings()
    _refuse(given, [rate for rate in RATES if rate not in own], f"is not an option of {kind.name}")
    return kind(**{rate: given[rate] for rate in RATES if given[rate] is not None})


def _refuse(given: dict[str, Any], names: Any, reason: str) -> None:
    for name in names:
        if given[name] is not None:
            raise click.UsageError(f"{_flag(name)} {reason}")


def refuse_contradictions(model: Learner, given: dict[str, Any]) -> None:
    """With --resume the settings are the model's; a flag may only repeat them."""
    for name, known in _known(model, given).items():
        value = given[name]
        if value is not None and value != known:
            has = f"; the model has {known}" if known is not None else ""
            raise HyperError(f"{_flag(name)} {value} contradicts --resume {given['resume']}{has}")


def _known(model: Learner, given: dict[str, Any]) -> dict[str, Any]:
    kept = model.settings()
    scale = kept.get("interaction_scale")
    optimizer = kept.get("optimizer", {})
    separation = model.separation if isinstance(model, PQR) else None
    return {
        "model": model.kind,
        "loss": kept["loss"],
        "optimizer": optimizer.get("name"),
        **{rate: optimizer.get(rate) for rate in RATES},
        "order": separation and separation.order,
        "min_count": _repeated_min_count(separation, given["min_count"]),
        "separation": _repeated_separation(separation, given["separation"]),
        "interaction_scale": "none" if scale is None else scale,
        "bias": kept["bias"],
        "names": _repeated_names(model, given["names"]),
    }


def _repeated_min_count(separation: Separation | None, count: int | None) -> int | None:
    """`count` if no feature below it is high."""
    if count is None or separation is None or separation.order == 0:
        return None
    return count if separation.counts.min() >= count else int(separation.counts.min())


def _repeated_separation(separation: Separation | None, path: str | None) -> str | None:
    """`path` if the same features are high in it as in the model."""
    if path is None or separation is None:
        return None
    same = np.array_equal(Separation.load(path).features, separation.features)
    return path if same else "another"


def _repeated_names(model: Learner, path: str | None) -> str | None:
    """`path` if the model has the names in it."""
    if path is None:
        return None
    given, kept = read_names(path).arrays(), model.names.arrays()
    return path if all(np.array_equal(given[at], kept[at]) for at in range(3)) else "others"


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
