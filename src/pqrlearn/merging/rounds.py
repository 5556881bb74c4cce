"""Rounds over processes: all workers learn from one state, then their models are merged.

What a cluster does, on one machine: for tests, and to measure what merging costs in loss.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from typing import Any, Final

import numpy as np

from pqrlearn.errors import HyperError
from pqrlearn.hyper import check_whole
from pqrlearn.learners import Learner, from_bytes
from pqrlearn.loss import loss_named
from pqrlearn.merging.models import merged
from pqrlearn.rows import Batch

HELD_ROWS: Final = 10_000
"""How many rows that no worker has learned yet judge a merge."""


@dataclass(frozen=True)
class Round:
    """What a round showed: its progressive loss, how it was merged, and what was moved."""

    number: int
    rows: int
    loss: float
    m: float | None
    alone: int | None
    bytes: int
    """Of the models that went to the workers and came back."""
    seconds: float


def cuts(rows: int, rounds: int, workers: int) -> list[list[int]]:
    """For each round the ends of the workers' shares: worker p has rows from p's to p + 1's.

    >>> cuts(10, rounds=2, workers=2)
    [[0, 2, 5], [5, 7, 10]]
    """
    ends = [rows * piece // (rounds * workers) for piece in range(rounds * workers + 1)]
    return [ends[number * workers :][: workers + 1] for number in range(rounds)]


def learn_in_rounds(
    model: Learner,
    rows: Batch,
    *,
    workers: int,
    rounds: int,
    passes: int = 1,
    held: int = HELD_ROWS,
    processes: int | None = None,
    watch: Callable[[Round], None] | None = None,
) -> tuple[Learner, list[Round]]:
    """The model after `passes` over the rows, each in `rounds`, and what each round showed.

    Each worker learns a run of consecutive rows in every round. The `held` rows after a round judge
    its merge; the last ones of all judge those of the last round and of later passes, and the model
    learns them at the end. One worker has nothing to merge, and ends with the bytes of the
    sequential run. With `processes=0` all happens in this one.

    >>> from pqrlearn import LR, Batch
    >>> rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 500, labels=[1, 0] * 500)
    >>> model, found = learn_in_rounds(LR(), rows, workers=2, rounds=4, held=100, processes=0)
    >>> model.rows, [each.rows for each in found], found[3].loss < found[0].loss
    (1000, [225, 225, 225, 225], True)
    """
    check_whole("workers", workers, least=1)
    check_whole("rounds", rounds, least=1)
    check_whole("passes", passes, least=1)
    kept = 0 if workers == 1 else held
    taught = len(rows) - kept
    if taught < rounds * workers or (workers > 1 and held < 1):
        raise HyperError(
            f"{len(rows)} rows are too few for {rounds} rounds of {workers} workers "
            f"and {held} rows to choose merges by"
        )
    found: list[Round] = []
    with _pool(processes, workers) as pool:
        for ends in cuts(taught, rounds, workers) * passes:
            parts = [rows.part(a, b) for a, b in pairwise(ends)]
            after = ends[-1] if len(found) < rounds else taught
            model, shown = _round(model, parts, rows.part(after, after + kept), len(found), pool)
            found.append(shown)
            if watch is not None:
                watch(shown)
    if kept:
        model.learn_margins(rows.part(taught, len(rows)))
    return model, found


@contextmanager
def _pool(processes: int | None, workers: int) -> Iterator[Executor | None]:
    if processes == 0:
        yield None
        return
    with ProcessPoolExecutor(processes or workers, get_context("spawn")) as pool:
        yield pool


def _round(
    model: Learner, parts: list[Batch], held: Batch, number: int, pool: Executor | None
) -> tuple[Learner, Round]:
    begin, start = time.perf_counter(), model.to_bytes()
    many: Callable[..., Any] = map if pool is None else pool.map
    ends = list(many(_learned, [start] * len(parts), parts))
    models = [from_bytes(data) for data, _, _ in ends]
    merge = merged(models, model, rows=held if len(models) > 1 else None)
    loss, weight = (sum(each[at] for each in ends) for at in (1, 2))
    figure = loss_named(model.loss).metrics.figure(loss / weight) if weight else float("nan")
    moved = len(start) * len(ends) + sum(len(data) for data, _, _ in ends)
    rows = sum(map(len, parts))
    seconds = time.perf_counter() - begin
    return merge.learner, Round(number, rows, figure, merge.m, merge.alone, moved, seconds)


def _learned(start: bytes, rows: Batch) -> tuple[bytes, float, float]:
    """What a worker does: a pure function of the state and its rows."""
    model = from_bytes(start)
    loss, weight = progressive(model, rows)
    return model.to_bytes(), loss, weight


def progressive(model: Learner, rows: Batch) -> tuple[float, float]:
    """Learns rows; returns the loss of the predictions made before, in total, and the weight."""
    margins = model.learn_margins(rows)
    losses = loss_named(model.loss).loss(margins, rows.labels)
    weights = rows.weights.astype(np.float64)
    return float(weights @ losses), float(weights.sum())
