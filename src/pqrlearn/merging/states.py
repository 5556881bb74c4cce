"""The states of several models in one numbering: checked, taken apart, put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn.errors import HyperError
from pqrlearn.learners import State
from pqrlearn.merging.numbering import Numbering
from pqrlearn.merging.rule import Slots

BLOCKS = {
    "lr": ("bias", "linear"),
    "pqr": ("bias", "linear", "pair", "shared"),
    "qr": ("bias", "linear", "pair", "square"),
}
"""The blocks of each kind that can be merged."""
REFUSED = {
    "auto": "no rule for its experts held up on real rows; merge PQR or LR",
    "fm": "two models may have turned the same vectors in different directions",
    "difacto": "two models may have turned the same vectors in different directions",
    "cfm": "its matrix comes of sums over all rows that are not kept by coordinate",
    "ccfm": "its matrix comes of sums over all rows that are not kept by coordinate",
    "mixture": "its shares belong to the rows of one worker: merge its learners one by one",
    "frozen": "it does not learn: merge the models, then freeze the result",
}
"""Why the other kinds cannot be merged."""
_GROWS = ("rows", "next_feature")


@dataclass(frozen=True)
class Common:
    """What merged models have in common: all of a State but its slots."""

    kind: str
    settings: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]
    names: Any
    order: int

    def state(self, slots: dict[str, Slots], rows: int) -> State:
        """The state with these slots."""
        settings = self.settings | {"rows": rows}
        arrays = self.arrays | {}
        for block in BLOCKS[self.kind]:
            arrays |= _arrays(block, slots[block], self.order)
        return State(self.kind, settings, arrays, self.names)


def check_alike(states: Sequence[State], called: Sequence[str]) -> None:
    """HyperError unless the states are of one kind that can be merged, with equal settings."""
    for state, who in zip(states, called, strict=True):
        if state.kind != states[0].kind:
            raise HyperError(
                f"{who} is a model of kind {state.kind}, {called[0]} of kind {states[0].kind}: "
                "only models of one kind can be merged"
            )
    _check_kind(states[0], called[0])
    for state, who in zip(states, called, strict=True):
        _check_settings(state, who, states[0], called[0])


def _check_kind(state: State, who: str) -> None:
    if state.kind not in BLOCKS:
        raise HyperError(
            f"{who}: a model of kind {state.kind} cannot be merged: "
            + (REFUSED.get(state.kind, "there is no rule for it"))
        )
    optimizer = state.settings["optimizer"]["name"]
    if optimizer != "ftrl":
        raise HyperError(
            f"{who}: a model with optimizer {optimizer} cannot be merged: it does not keep how "
            "much was learned of each coordinate; use ftrl"
        )


def _check_settings(state: State, who: str, first: State, first_called: str) -> None:
    left_out = (*_GROWS, "separation")
    names = [name for name in {**first.settings, **state.settings} if name not in left_out]
    for name in names:
        one, other = (each.settings.get(name) for each in (first, state))
        if one != other:
            shown = "" if name == "schema" else f" ({other!r} and {one!r})"
            raise HyperError(
                f"{who} and {first_called} differ in {name}{shown}: "
                "only models with equal settings can be merged"
            )


def in_common(
    states: Sequence[State], called: Sequence[str]
) -> tuple[Common, list[dict[str, Slots]]]:
    """What the states share, and the slots of each in the numbering of the first."""
    numbering = Numbering(states, called)
    high = [
        numbering.of(at, state.arrays[_HIGH[state.kind]]) if state.kind in _HIGH else None
        for at, state in enumerate(states)
    ]
    ranks, arrays, order = _ranks(states, called, high)
    slots = [
        {
            block: _slots(block, state, lambda keys, at=at: numbering.of(at, keys), ranks[at])
            for block in BLOCKS[state.kind]
        }
        for at, state in enumerate(states)
    ]
    ends = [int(each["linear"].keys[-1]) + 1 for each in slots if len(each["linear"].keys)]
    ends += [state.settings["next_feature"] for state in states]
    settings = states[0].settings | {"next_feature": max(ends)}
    arrays = {"optimizer": states[0].arrays["optimizer"], **arrays}
    return Common(states[0].kind, settings, arrays, numbering.names, order), slots


_HIGH = {"pqr": "separation.features", "qr": "high"}


def _ranks(
    states: Sequence[State], called: Sequence[str], high: Sequence[Any]
) -> tuple[list[Any], dict[str, Any], int]:
    """For each state what its ranks become, or None; the arrays of high features; the order."""
    kind, nothing = states[0].kind, [None] * len(states)
    if kind == "lr":
        return nothing, {}, 0
    if kind == "pqr":
        for each, who in zip(high, called, strict=True):
            if not np.array_equal(each, high[0]):
                raise HyperError(
                    f"{who} and {called[0]} have different separations: make one with "
                    "Separation.top_k or pqr separate, and give it to all workers"
                )
        arrays = states[0].arrays
        kept = {name: arrays[name] for name in ("separation.features", "separation.counts")}
        return nothing, kept, len(high[0])
    found = {feature: rank for rank, feature in enumerate(high[0].tolist())}
    for each in high:
        for feature in each.tolist():
            found.setdefault(feature, len(found))
    maps = [np.array([found[f] for f in each.tolist()], np.uint64) for each in high]
    return maps, {"high": np.array(list(found), np.uint32)}, len(found)


def blocks_of(state: State) -> dict[str, Slots]:
    """The slots of a state that need no other numbers.

    >>> from pqrlearn import LR
    >>> model = LR()
    >>> _ = model.learn_one({7: 1.0}, 1)
    >>> blocks_of(model.state())["linear"].keys.tolist()
    [7]
    """
    return {block: _slots(block, state, lambda keys: keys, None) for block in BLOCKS[state.kind]}


def _slots(block: str, state: State, renumbered: Any, ranks: Any) -> Slots:
    """One block of a state, with keys in common numbers, rising."""
    arrays = state.arrays
    if block == "bias":
        return Slots(np.zeros(1, np.uint64), arrays["bias"].reshape(1, 2))
    slots = arrays[f"{block}.slots"]
    if block == "pair":
        counts = arrays["pair.counts"]
        pair = np.stack([np.repeat(np.arange(len(counts)), counts), arrays["pair.ranks"]])
        if ranks is not None:
            pair = np.sort(ranks[pair], axis=0)[::-1]
        keys = pair[0].astype(np.uint64) << np.uint64(32) | pair[1].astype(np.uint64)
    elif block == "linear":
        keys = renumbered(arrays["linear.keys"]).astype(np.uint64)
    else:
        keys = arrays[f"{block}.keys"].astype(np.uint64)
        keys = keys if ranks is None else ranks[keys]
    if (keys[1:] > keys[:-1]).all():
        return Slots(keys, slots)
    order = np.argsort(keys, kind="stable")
    return Slots(keys[order], slots[order])


def _arrays(block: str, slots: Slots, order: int) -> dict[str, npt.NDArray[Any]]:
    """The inverse."""
    if block == "bias":
        found = slots.slots if len(slots.slots) else np.zeros((1, 2))
        return {"bias": found.reshape(2)}
    if block == "pair":
        higher = (slots.keys >> np.uint64(32)).astype(np.int64)
        return {
            "pair.counts": np.bincount(higher, minlength=order).astype(np.uint32),
            "pair.ranks": (slots.keys & np.uint64(0xFFFFFFFF)).astype(np.uint32),
            "pair.slots": slots.slots,
        }
    return {f"{block}.keys": slots.keys.astype(np.uint32), f"{block}.slots": slots.slots}


def check_start(
    base: dict[str, Slots], model: dict[str, Slots], rows: tuple[int, int], who: str
) -> None:
    """HyperError if the model cannot have started from the base: n never falls."""
    good = rows[0] <= rows[1]
    for block, before in base.items():
        after = model[block]
        at = np.searchsorted(after.keys, before.keys)
        inside = np.minimum(at, max(len(after.keys) - 1, 0))
        found = len(after.keys) > 0 and (after.keys[inside] == before.keys).all()
        empty = not len(before.keys)
        good = good and bool(
            empty or (found and (after.slots[inside, 1] >= before.slots[:, 1]).all())
        )
    if not good:
        raise HyperError(
            f"{who} did not start from the base: it has learned less of some feature; "
            "give the model that all workers started from, or no base if they started from nothing"
        )
