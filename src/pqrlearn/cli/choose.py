"""From the options of pqr train to a learner, and whether they fit a model to go on with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import click
import numpy as np

from pqrlearn.cli.options import AUTO
from pqrlearn.errors import HyperError
from pqrlearn.learners import PQR, DiFacto, Learner, Mixture, make
from pqrlearn.learners.build import BALL, optimizers
from pqrlearn.learners.mixture import check_mixable
from pqrlearn.loss import LossName
from pqrlearn.readers import read_names
from pqrlearn.separation import Separation

RATES = ("alpha", "beta", "l1", "l2", "eta", "schedule", "radius", "factor_eta", "factor_l2")
_SEPARATING = ("separation", "order", "min_count")
_EMBEDDING = ("seed", "init")
_EMBEDDED = ("fm", "difacto")
_TIERED = ("tiers", "factor_eta", "factor_l2")
_SETTINGS = (
    *("optimizer", *RATES, *BALL, "rank", *_TIERED, *_EMBEDDING),
    *("interaction_scale", "bias", "memory"),
)


def new_learner(
    given: dict[str, Any], loss: LossName, separations: Iterator[Separation]
) -> Learner:
    """A learner as the options describe it; nothing is counted if it needs no separation."""
    kind = given["model"] or "auto"
    _refuse_foreign(given, kind)
    if kind == "auto" and loss == "poisson":
        raise click.UsageError(
            "--loss poisson needs a --model, such as pqr or lr: auto has no bound there"
        )
    settings = _only_given(given, _SETTINGS)
    if settings.get("interaction_scale") == "none":
        settings["interaction_scale"] = None
    made = partial(make, kind, loss, settings)
    if given["order"] == AUTO:
        check_mixable(loss)
        first = made(lambda: next(separations))
        model: Learner = Mixture([first, *(made(_same(one)) for one in separations)])
    else:
        model = made(lambda: next(separations))
    if given["names"]:
        model.use_names(read_names(given["names"]))
    return model


def _same(separation: Separation) -> Callable[[], Separation]:
    return lambda: separation


def _refuse_foreign(given: dict[str, Any], kind: str) -> None:
    """An option that the model would ignore is an error."""
    if kind == "auto":
        _refuse_for_auto(given)
        return
    _refuse(given, ["memory"], "needs --model auto")
    if kind != "pqr":
        _refuse(given, _SEPARATING, f"needs --model pqr: {kind} has no separation")
    if given["order"] == AUTO:
        reason = "already says which features are high: leave out --order auto"
        _refuse(given, ["separation", "min_count"], reason)
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
    _refuse_rates(given, kind)


def _refuse_for_auto(given: dict[str, Any]) -> None:
    """It tunes itself: whoever sets a rate or an order means another model."""
    embedded, ball = {*_EMBEDDING, "rank", "tiers", "factor_eta", "factor_l2"}, {"block_rows"}
    for name in (*_SEPARATING, *_SETTINGS, "block_rows"):
        if name == "memory" or given[name] is None:
            continue
        model = "fm or difacto" if name in embedded else "cfm or ccfm" if name in ball else "pqr"
        raise click.UsageError(f"{_flag(name)} needs --model {model}: auto chooses by itself")


def _refuse_rates(given: dict[str, Any], kind: str) -> None:
    """Rates are those of the optimizer, but for the ball of cfm and ccfm."""
    if kind == "ccfm":
        others = ["optimizer", "bias", *(rate for rate in RATES if rate not in BALL)]
        _refuse(given, others, "is not an option of ccfm: all of it is one matrix")
        return
    kinds = optimizers(kind)
    name = given["optimizer"] or next(iter(kinds))
    if name not in kinds:
        raise click.UsageError(f"--optimizer {name} is not for {kind}: use {' or '.join(kinds)}")
    apart = BALL if kind == "cfm" else _TIERED if kind == "difacto" else ()
    known = kinds[name]().settings()
    foreign = [rate for rate in RATES if rate not in known and rate not in apart]
    _refuse(given, foreign, f"is not an option of {name}")


def _only_given(given: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: given[name] for name in names if given[name] is not None}


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
    if isinstance(model, Mixture) and all(isinstance(one, PQR) for one in model.learners):
        apart = {"order": AUTO, "min_count": None, "separation": None}
        return _known(model.learners[0], given) | apart
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
        "memory": kept.get("memory"),
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
