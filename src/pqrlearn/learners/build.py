"""A learner from flat settings, and back.

The command line, tuning and the paper's protocol all describe a learner this way: by its kind and
by the settings that differ from its defaults, under the names of the command's options.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from pqrlearn import hyper
from pqrlearn.errors import HyperError, SettingsConflict
from pqrlearn.hyper import Settings
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
_OWN: dict[str, tuple[str, ...]] = {
    "auto": ("memory",),
    "pqr": ("interaction_scale", "max_pairs_per_row", "bias"),
    "lr": ("bias",),
    "qr": ("interaction_scale", "max_pairs_per_row", "bias"),
    "fm": ("rank", "seed", "init", "bias"),
    "difacto": ("tiers", "factor_eta", "factor_beta", "factor_l2", "seed", "init", "bias"),
    "cfm": ("bias",),
    "ccfm": (),
}
_BALL = tuple(field.name for field in fields(hyper.NuclearBall))
_SPECTRAL = ("cfm", "ccfm")


def make(kind: str, loss: str, settings: Settings, separation: Separation | None = None) -> Learner:
    """A new learner. The separation is for a learner that needs one; others ignore it.

    >>> make("lr", "squared", {"alpha": 0.2, "l2": 1.0}).settings()["optimizer"]["alpha"]
    0.2
    """
    arguments = check_settings(kind, settings)
    if kind == PQR.kind:
        arguments["separation"] = separation
    learner: Any = LEARNERS[kind]
    return cast(Learner, learner(loss=loss, **arguments))


def check_settings(kind: str, settings: Settings) -> dict[str, Any]:
    """Rejects settings that the learner does not use; the others as arguments of its class."""
    if kind not in LEARNERS:
        raise HyperError(f"model={kind!r} must be one of {', '.join(LEARNERS)}")
    rest: dict[str, Any] = {**settings}
    arguments = _take(rest, _OWN[kind])
    hyper.check_interaction_scale(arguments.get("interaction_scale"))
    hyper.check_memory(arguments.get("memory"))
    hyper.check_max_pairs(arguments.get("max_pairs_per_row", hyper.MAX_PAIRS_PER_ROW))
    if kind in _SPECTRAL:
        arguments["ball"] = hyper.NuclearBall(**_take(rest, _BALL))
    if optimizers(kind):
        arguments["optimizer"] = _take_optimizer(rest, kind)
    for name in rest:
        raise unused(name, kind, [other for other in LEARNERS if name in _setting_names(other)])
    return arguments


def settings_of(learner: Learner) -> Settings:
    """The settings that `make` needs to build the same learner again."""
    found = {name: getattr(learner, name) for name in _OWN[learner.kind]}
    for part in ("ball", "optimizer"):
        if hasattr(learner, part):
            found |= getattr(learner, part).settings()
    if "name" in found:
        found["optimizer"] = found.pop("name")
    return cast(Settings, found)


def optimizers(kind: str) -> dict[str, type[hyper.Optimizer]]:
    """The optimizers of a learner, its default first."""
    if kind in ("auto", "ccfm"):
        return {}
    if kind == "fm":
        return {**hyper.DESCENTS}
    return {hyper.Ftrl.name: hyper.Ftrl} if kind in ("difacto", "cfm") else {**hyper.OPTIMIZERS}


def unused(name: str, kind: str, users: Sequence[str]) -> HyperError:
    """The error for a setting that a learner would ignore, but `users` would not."""
    if not users:
        return HyperError(f"no model has a setting {name!r}")
    reason = ": auto, the default, tunes itself" if kind == "auto" else f", not {kind}"
    return SettingsConflict(f"{{{name}}} needs {{model}} {any_of(users)}{reason}")


def any_of(words: Sequence[str]) -> str:
    """Words in a sentence: "a", "a or b", "a, b or c"."""
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _setting_names(kind: str) -> set[str]:
    names = {*_OWN[kind], *(_BALL if kind in _SPECTRAL else ())}
    for optimizer in optimizers(kind).values():
        names |= {"optimizer", *_rate_names(optimizer)}
    return names


def _rate_names(optimizer: type[hyper.Optimizer]) -> list[str]:
    return [field.name for field in fields(optimizer)]


def _take_optimizer(rest: dict[str, Any], kind: str) -> hyper.Optimizer:
    """Moves the name and the rates of the optimizer out of `rest`."""
    known = optimizers(kind)
    name = rest.pop("optimizer", None) or next(iter(known))
    if name not in known:
        raise SettingsConflict(f"{{optimizer}} {name} is not for {kind}: use {any_of([*known])}")
    default = hyper.DIFACTO_FTRL if kind == "difacto" else known[name]()
    optimizer = replace(default, **_take(rest, _rate_names(known[name])))
    for rate in rest:
        users = [other for other, its in known.items() if rate in _rate_names(its)]
        if users:
            raise SettingsConflict(f"{{{rate}}} needs {{optimizer}} {any_of(users)}, not {name}")
    return optimizer


def _take(rest: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: rest.pop(name) for name in names if name in rest}
