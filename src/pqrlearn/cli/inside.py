"""What `pqr inspect` shows of the inside of a model: weights, experts, what is low, importance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pqrlearn.cli import show
from pqrlearn.explain import (
    Importance,
    Strong,
    most_frequent_low,
    strongest,
    worth_of_interactions,
)
from pqrlearn.learners import Auto, Learner
from pqrlearn.learners.terms import counts_of


def _strong(learner: Learner, top: int) -> dict[str, list[Strong]]:
    return {b: strongest(learner, b, top) for b in learner.blocks if b != "bias"}


def risen(learner: Learner, top: int) -> list[tuple[str, int]]:
    """The first features that rose, in that order, and in how many rows each has been."""
    if not isinstance(learner, Auto):
        return []
    first = learner.high[:top]
    counts = counts_of(learner._seen(), first).tolist()
    return [(learner.name_of(f), count) for f, count in zip(first.tolist(), counts, strict=True)]


def figures(learner: Learner, top: int, found: Importance | None) -> dict[str, Any]:
    """All of it, for JSON."""
    named = {
        block: [
            {"features": one.names, "weight": one.weight, "effect": one.effect}
            | {"support": one.support}
            for one in rows
        ]
        for block, rows in _strong(learner, top).items()
    }
    shown: dict[str, Any] = {"strongest": named}
    if low := most_frequent_low(learner, top):
        shown["low"] = [{"feature": name, "support": count} for name, count in low]
    if isinstance(learner, Auto):
        rose = risen(learner, top)
        shown["risen"] = [{"feature": name, "support": count} for name, count in rose]
        shown["interactions"] = worth_of_interactions(learner)
    if found is not None:
        shown["importance"] = {
            "rows": found.rows,
            "fields": _first(found.fields.items(), top),
            "pairs": [[*pair, size] for pair, size in _first(found.pairs.items(), top)],
        }
    return shown


def _first(items: Iterable[Any], top: int) -> list[Any]:
    return list(items)[:top]


def print_inside(learner: Learner, top: int, found: Importance | None) -> None:
    """The same as tables."""
    if isinstance(learner, Auto):
        _print_experts(learner)
    if found is not None:
        _print_importance(found, top)
    for block, rows in _strong(learner, top).items():
        if rows:
            _print_weights(block, rows)
    rose, low = risen(learner, top), most_frequent_low(learner, top)
    for title, features in (("first to rise", rose), ("most frequent low features", low)):
        if features:
            cells = [(name, f"{count:,}") for name, count in features]
            show.table(f"\n{title}", ["feature", "seen"], cells)


def _print_experts(learner: Auto) -> None:
    about = learner.summary()
    experts = [
        (name, f"{share:.1%}", f"{about['losses'][name]:,.1f}")
        for name, share in about["posterior"].items()
    ]
    show.table("\nexperts", ["", "posterior", "total loss"], experts)
    print(f"\n{worth_of_interactions(learner)}")


def _print_importance(found: Importance, top: int) -> None:
    title = f"\nimportance: mean absolute contribution, over {found.rows:,} rows"
    fields = [(name, f"{size:.4f}") for name, size in _first(found.fields.items(), top)]
    show.table(title, ["field", "importance"], fields)
    pairs = [(" × ".join(pair), f"{size:.4f}") for pair, size in _first(found.pairs.items(), top)]
    if pairs:
        show.table("\nimportance of pairs of fields", ["fields", "importance"], pairs)


def _print_weights(block: str, rows: list[Strong]) -> None:
    """Columns that have nothing to say are left out: effects that are weights, unknown support."""
    columns = {"feature": [" × ".join(one.names) for one in rows]}
    columns["weight"] = [f"{one.weight:+.4f}" for one in rows]
    if any(one.effect not in (None, one.weight) for one in rows):
        columns["effect"] = [f"{one.effect:+.4f}" for one in rows]
    if any(one.support is not None for one in rows):
        columns["seen"] = ["" if one.support is None else f"{one.support:,}" for one in rows]
    cells = list(zip(*columns.values(), strict=True))
    show.table(f"\nstrongest {block} weights", list(columns), cells)
