"""From the options of pqr train to a learner, and whether they fit a model to go on with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import click
import numpy as np

from pqrlearn import hyper
from pqrlearn.errors import HyperError
from pqrlearn.learners import CCFM, CFM, FM, LR, PQR, QR, DiFacto, Learner
from pqrlearn.readers import read_names
from pqrlearn.separation import Separation

RATES = ("alpha", "beta", "l1", "l2", "eta", "schedule", "radius", "factor_eta", "factor_l2")
BALL = ("radius", "eta", "block_rows")
_SEPARATING = ("separation", "order", "min_count")
_EMBEDDING = ("seed", "init")
_EMBEDDED = ("fm", "difacto")
_TIERED = ("tiers", "factor_eta", "factor_l2")


def new_learner(given: dict[str, Any], loss: str, separate: Callable[[], Separation]) -> Learner:
    """A learner as the options describe it; `separate` is called if it needs a separation."""
    kind = given["model"] or "pqr"
    _refuse_foreign(given, kind)
    if kind in ("cfm", "ccfm"):
        return _with_names(_new_spectral(given, kind, loss), given)
    common: dict[str, Any] = {
        "loss": loss,
        "bias": True if given["bias"] is None else given["bias"],
    }
    common["optimizer"] = new_optimizer(given, kind)
    names = read_names(given["names"]) if given["names"] else None
    model: Learner
    if kind == "lr":
        model = LR(**common)
    elif kind == "fm":
        model = FM(**common, **_only_given(given, ("rank", *_EMBEDDING)))
    elif kind == "difacto":
        model = DiFacto(**common, **_only_given(given, (*_TIERED, *_EMBEDDING)))
    else:
        scale = given["interaction_scale"]
        factor = hyper.INTERACTION_SCALE if scale is None else None if scale == "none" else scale
        common["interaction_scale"] = factor
        model = QR(**common) if kind == "qr" else PQR(separate(), **common)
    if names is not None:
        model.use_names(names)
    return model


def _refuse_foreign(given: dict[str, Any], kind: str) -> None:
    """An option that the model would not hear is an error."""
    if kind != "pqr":
        _refuse(given, _SEPARATING, f"needs --model pqr: {kind} has no separation")
    if kind not in ("pqr", "qr"):
        _refuse(given, ["interaction_scale"], "needs --model pqr or qr")
    if kind not in _EMBEDDED:
        _refuse(given, _EMBEDDING, f"needs --model {' or '.join(_EMBEDDED)}: {kind} has no factors")
    if kind != "fm":
        _refuse(given, ["rank"], "needs --model fm")
    if kind != "difacto":
        _refuse(given, ["tiers"], "needs --model difacto")
    if kind not in ("cfm", "ccfm"):
        _refuse(given, ["block_rows"], "needs --model cfm or ccfm")


def new_optimizer(given: dict[str, Any], model: str) -> hyper.Optimizer:
    kinds = _optimizers(model)
    name = given["optimizer"] or next(iter(kinds))
    if name not in kinds:
        raise click.UsageError(f"--optimizer {name} is not for {model}: use {' or '.join(kinds)}")
    kind = kinds[name]
    rates = [rate for rate in RATES if model != "difacto" or rate not in _TIERED]
    default = hyper.DIFACTO_FTRL if model == "difacto" else kind()
    foreign = [rate for rate in rates if rate not in default.settings()]
    _refuse(given, foreign, f"is not an option of {kind.name}")
    return replace(default, **_only_given(given, rates))


def _optimizers(model: str) -> dict[str, type[hyper.Optimizer]]:
    """Those that a model can learn with, its default first."""
    if model == "fm":
        return {**hyper.DESCENTS}
    return {hyper.Ftrl.name: hyper.Ftrl} if model == "difacto" else hyper.OPTIMIZERS


def _only_given(given: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: given[name] for name in names if given[name] is not None}


def _new_spectral(given: dict[str, Any], kind: str, loss: str) -> Learner:
    """CFM or CCFM: --radius and --eta are the ball's; the linear part of cfm has rates of ftrl."""
    ball = hyper.NuclearBall(**{name: given[name] for name in BALL if given[name] is not None})
    if kind == "ccfm":
        others = ["optimizer", "bias", *(rate for rate in RATES if rate not in BALL)]
        _refuse(given, others, "is not an option of ccfm: all of it is one matrix")
        return CCFM(loss, ball)
    if given["optimizer"] not in (None, hyper.Ftrl.name):
        raise click.UsageError("--optimizer must be ftrl: the linear part of cfm has no other")
    optimizer = new_optimizer(given | {"radius": None, "eta": None}, kind)
    assert isinstance(optimizer, hyper.Ftrl)
    return CFM(loss, optimizer, ball, bias=True if given["bias"] is None else given["bias"])


def _with_names(model: Learner, given: dict[str, Any]) -> Learner:
    if given["names"]:
        model.use_names(read_names(given["names"]))
    return model


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
    optimizer = kept.get("optimizer", {}) | kept.get("ball", {})
    separation = model.separation if isinstance(model, PQR) else None
    return {
        "model": model.kind,
        "loss": kept["loss"],
        "optimizer": optimizer.get("name"),
        **{name: kept.get(name) for name in ("rank", *_EMBEDDING)},
        **{rate: optimizer.get(rate, kept.get(rate)) for rate in (*RATES, "block_rows")},
        "tiers": model.tiers if isinstance(model, DiFacto) else None,
        "order": separation and separation.order,
        "min_count": _repeated_min_count(separation, given["min_count"]),
        "separation": _repeated_separation(separation, given["separation"]),
        "interaction_scale": "none" if "interaction_scale" in kept and scale is None else scale,
        "bias": kept.get("bias"),
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
