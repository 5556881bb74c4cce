"""Several models that started from one state become one that goes on learning."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

import numpy as np

from pqrlearn.errors import DataError, HyperError
from pqrlearn.frames import is_frame
from pqrlearn.learners import LEARNERS, Learner, State
from pqrlearn.learners.frames import labelled_batches
from pqrlearn.loss import loss_named
from pqrlearn.merging.rule import Moves, Rates, Slots
from pqrlearn.merging.states import BLOCKS, Common, check_alike, check_start, in_common
from pqrlearn.metrics import Metrics
from pqrlearn.readers import Inputs
from pqrlearn.rows import Batch

CHOICES: Final = (1.0, 4.0, 16.0, 64.0, math.inf)
"""The m that are tried on rows that no model has learned."""

Blocks = dict[str, Slots]


@dataclass(frozen=True)
class Candidate:
    """What was tried: a merge with this m, or (m is None) the model of this number alone."""

    m: float | None
    model: int | None
    halves: tuple[float, float]
    """The loss on every other row, and on those between."""

    @property
    def loss(self) -> float:
        """The mean of both."""
        return sum(self.halves) / 2


def best_unseen(tried: Sequence[Candidate]) -> float:
    """The loss of the best one on rows that it was not chosen by.

    Each half of the rows chooses, and the other one judges: the best of many models would be
    favoured by luck on the rows that it was chosen by.

    >>> best_unseen([Candidate(None, 0, (0.5, 0.9)), Candidate(None, 1, (0.7, 0.4))])
    0.8
    """
    first, second = (min(tried, key=lambda each: each.halves[half]) for half in (0, 1))
    return (first.halves[1] + second.halves[0]) / 2


def _tried(
    m: float | None, model: int | None, learner: Learner, halves: Sequence[Sequence[Batch]]
) -> Candidate:
    first, second = (loss_on(learner, half) for half in halves)
    return Candidate(m, model, (first, second))


@dataclass(frozen=True)
class Merged:
    """The result of a merge with `m`, or `alone`: the number of the model that beats all merges.

    `tried` is empty where there were no rows to choose by.
    """

    learner: Learner
    m: float | None
    alone: int | None
    tried: tuple[Candidate, ...]


def merge(models: Sequence[Learner], base: Learner | None = None, *, rows: Any = None) -> Learner:
    """One model of several that learned different rows, starting from `base` or from nothing.

    All must be LR, PQR or QR with FTRL-Proximal, equal settings and one separation. Features are
    matched by name. `rows`, with labels, that no model has learned (some thousands; Batches, what
    `pqrlearn.read` returns, or a frame) choose how far the merged model moves; without them that
    follows from the mean size of a row. If the best model alone predicts them better than the best
    merge, a copy of it is returned, with a UserWarning; each half of the rows finds the best, and
    the other one judges it. A single model is returned as it is, bit for bit.

    >>> from pqrlearn import LR
    >>> here, there = LR(), LR()
    >>> _ = here.learn_many([{"site": "news"}] * 100, [1] * 100)
    >>> _ = there.learn_many([{"site": "shop"}] * 100, [0] * 100)
    >>> both = merge([here, there])
    >>> both.predict_one({"site": "news"}) > 0.7, both.predict_one({"site": "shop"}) < 0.3
    (True, True)
    >>> both.rows
    200
    """
    found = merged(models, base, rows=rows)
    if found.alone is not None:
        warnings.warn(
            f"no merge predicts these rows as well as model {found.alone + 1} alone, "
            "which is returned: merge more often, or learn with smaller steps",
            UserWarning,
            stacklevel=2,
        )
    return found.learner


def merged(
    models: Sequence[Learner],
    base: Learner | None = None,
    *,
    rows: Any = None,
    called: Sequence[str] | None = None,
) -> Merged:
    """Like `merge`, and says what was tried.

    `called` are names of the models for messages. `rows` may also be a function, which is given a
    model and reads the rows with its names.

    >>> from pqrlearn import LR
    >>> merged([LR(), LR()]).m
    inf
    """
    models = list(models)
    if not models:
        raise HyperError("there is nothing to merge: give at least one model")
    names = list(called or [f"model {number + 1}" for number in range(len(models))])
    states = [each.state() for each in models]
    start = _nothing(states[0]) if base is None else base.state()
    check_alike([*states, start], [*names, "the base"])
    first = names[0] if base is None else "the base"
    common, (before, *after) = in_common([start, *states], [first, *names])
    rows_of = [state.settings["rows"] for state in [start, *states]]
    for blocks, count, who in zip(after, rows_of[1:], names, strict=True):
        check_start(before, blocks, (rows_of[0], count), who)
    _check_once(models, names)
    if len(models) == 1:
        return Merged(_copy(states[0]), None, None, ())
    work = _Work(common, before, after, rows_of)
    return work.by_size() if rows is None else work.by_rows(rows)


def _check_once(models: Sequence[Learner], names: Sequence[str]) -> None:
    first: dict[int, str] = {}
    for model, name in zip(models, names, strict=True):
        if id(model) in first:
            raise HyperError(
                f"{first[id(model)]} and {name} are one and the same: its rows would count twice"
            )
        first[id(model)] = name


def _nothing(state: State) -> State:
    """The state before the first row, with the names of the first model."""
    empty = {
        name: array[:0] if name.endswith((".keys", ".slots", ".ranks")) else array
        for name, array in state.arrays.items()
    }
    empty["bias"] = np.zeros_like(state.arrays.get("bias", np.zeros(2)))
    if "pair.counts" in empty:
        empty["pair.counts"] = np.zeros_like(empty["pair.counts"])
    return State(state.kind, state.settings | {"rows": 0}, empty, state.names)


def _copy(state: State) -> Learner:
    learner: Learner = LEARNERS[state.kind].from_state(state)
    return learner


@dataclass(frozen=True)
class _Work:
    """Models in one numbering, ready to be merged with any m."""

    common: Common
    before: Blocks
    after: list[Blocks]
    rows: list[int]
    """Of the base, then of each model."""

    def with_m(self, m: float) -> Learner:
        """The merged model; m counts in units of curvature over squared slope."""
        unit = self._unit()
        slots = {block: moves.merged(m * unit) for block, moves in self._moves.items()}
        start, *ends = self.rows
        return _copy(self.common.state(slots, start + sum(end - start for end in ends)))

    @cached_property
    def _moves(self) -> dict[str, Moves]:
        rates = Rates.of(self.common.settings["optimizer"])
        return {
            block: Moves(self.before[block], [each[block] for each in self.after], rates)
            for block in BLOCKS[self.common.kind]
        }

    def single(self, model: int) -> Learner:
        """One model, in the common numbering."""
        return _copy(self.common.state(self.after[model], self.rows[model + 1]))

    def by_size(self) -> Merged:
        """With m the mean squared length of a row; ∞ where that is unknown."""
        bias = self._growth("bias")
        m = sum(map(self._growth, BLOCKS[self.common.kind])) / bias if bias > 0 else math.inf
        return Merged(self.with_m(m), m, None, ())

    def by_rows(self, rows: Any) -> Merged:
        """The best merge on these rows, unless the best model alone is better."""
        batches = list(labelled(self.single(0), rows))
        halves = [[batch.take(np.arange(at, len(batch), 2)) for batch in batches] for at in (0, 1)]
        merges = [_tried(m, None, self.with_m(m), halves) for m in CHOICES]
        alone = [
            _tried(None, model, self.single(model), halves) for model in range(len(self.after))
        ]
        return self.chosen(merges, alone)

    def chosen(self, merges: Sequence[Candidate], alone: Sequence[Candidate]) -> Merged:
        best, single = (min(each, key=lambda one: one.loss) for each in (merges, alone))
        tried = (*merges, *alone)
        if best_unseen(alone) < best_unseen(merges):
            assert single.model is not None
            return Merged(self.single(single.model), None, single.model, tried)
        assert best.m is not None
        return Merged(self.with_m(best.m), best.m, None, tried)

    def _growth(self, block: str) -> float:
        """By how much the models' sums of squared gradients have grown, in all."""
        start = float(self.before[block].squares.sum())
        return sum(float(each[block].squares.sum()) - start for each in self.after)

    def _unit(self) -> float:
        """Curvature over squared slope: 1 on average for clicks and counts, not for ratings."""
        bias = self._growth("bias")
        if self.common.settings["loss"] != "squared" or bias <= 0:
            return 1.0
        return sum(end - self.rows[0] for end in self.rows[1:]) / bias


def labelled(learner: Learner, rows: Any) -> Iterable[Batch]:
    """Rows with labels as Batches, in the learner's numbers: a Batch, Batches, files, a frame."""
    if callable(rows):
        return cast("Iterable[Batch]", rows(learner))
    if isinstance(rows, Batch):
        return [rows]
    if isinstance(rows, Inputs):
        rows.use_names(learner.names, learner.next_feature)
    return labelled_batches(learner, rows) if is_frame(rows) else cast("Iterable[Batch]", rows)


def loss_on(learner: Learner, batches: Iterable[Batch]) -> float:
    """LogLoss, RMSE or deviance of a model on rows with labels; DataError if there are none.

    >>> from pqrlearn import LR
    >>> loss_on(LR("squared"), [Batch.from_rows([([0], [1.0])], labels=[2])])
    2.0
    """
    metrics = Metrics(learner.loss)
    for batch in batches:
        metrics.update(learner.margin_many(batch.without_names()), batch.labels, batch.weights)
    figures = metrics.result()
    if not figures["rows"]:
        raise DataError("there are too few rows to choose the merge by: give some thousands")
    return figures[loss_named(learner.loss).metrics.key]
