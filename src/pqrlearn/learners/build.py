"""A learner from flat settings, under the names that pqr train gives its options.

The command line, tuning and the paper's protocol all describe a learner this way: by its kind and
by the settings that differ from its defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from pqrlearn import hyper
from pqrlearn.errors import HyperError
from pqrlearn.learners.auto import Auto
from pqrlearn.learners.base import Learner
from pqrlearn.learners.ccfm import CCFM
from pqrlearn.learners.cfm import CFM
from pqrlearn.learners.difacto import DiFacto
from pqrlearn.learners.fm import FM
from pqrlearn.learners.pqr import LR, PQR, QR
from pqrlearn.separation import Separation

LEARNERS: dict[str, type[Learner]] = {
    learner.kind: learner for learner in (Auto, PQR, LR, QR, FM, DiFacto, CFM, CCFM)
}
BALL = tuple(field.name for field in fields(hyper.NuclearBall))
SPECTRAL = ("cfm", "ccfm")
_OWN: dict[str, tuple[str, ...]] = {
    "auto": ("memory",),
    "pqr": ("interaction_scale", "bias"),
    "lr": ("bias",),
    "qr": ("interaction_scale", "bias"),
    "fm": ("rank", "seed", "init", "bias"),
    "difacto": ("tiers", "factor_eta", "factor_l2", "seed", "init", "bias"),
    "cfm": ("bias",),
    "ccfm": (),
}


def make(
    kind: str,
    loss: str,
    settings: Mapping[str, Any],
    separate: Callable[[], Separation] | None = None,
) -> Learner:
    """A learner; `separate` is called if it needs a separation, after all else was checked.

    >>> make("lr", "squared", {"alpha": 0.2, "l2": 1.0}).settings()["optimizer"]["alpha"]
    0.2
    """
    if kind not in LEARNERS:
        raise HyperError(f"model={kind!r} must be one of {', '.join(LEARNERS)}")
    rest = dict(settings)
    parts: dict[str, Any] = _taken(rest, _OWN[kind])
    if kind in SPECTRAL:
        parts["ball"] = hyper.NuclearBall(**_taken(rest, BALL))
    if optimizers(kind):
        parts["optimizer"] = _optimizer(kind, rest)
    if rest:
        raise HyperError(f"{', '.join(rest)}: not for {kind}")
    if kind == "pqr":
        parts["separation"] = separate() if separate else None
    build: Any = LEARNERS[kind]
    learner: Learner = build(loss=loss, **parts)
    return learner


def optimizers(kind: str) -> dict[str, type[hyper.Optimizer]]:
    """Those that a learner can learn with, its default first."""
    if kind in ("auto", "ccfm"):
        return {}
    if kind == "fm":
        return {**hyper.DESCENTS}
    return {hyper.Ftrl.name: hyper.Ftrl} if kind in ("difacto", "cfm") else {**hyper.OPTIMIZERS}


def _optimizer(kind: str, rest: dict[str, Any]) -> hyper.Optimizer:
    """Takes its name and its rates out of `rest`."""
    kinds = optimizers(kind)
    name = rest.pop("optimizer", None) or next(iter(kinds))
    if name not in kinds:
        raise HyperError(f"optimizer={name!r} must be one of {', '.join(kinds)} for {kind}")
    default = hyper.DIFACTO_FTRL if kind == "difacto" else kinds[name]()
    return replace(default, **_taken(rest, [field.name for field in fields(default)]))


def _taken(rest: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: rest.pop(name) for name in names if name in rest}
