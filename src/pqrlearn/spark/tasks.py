"""What tasks do with states: learn, merge a shard, judge a merge. Pure functions of their input.

A task that is retried, or run twice, gives the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from pqrlearn.errors import RowError
from pqrlearn.learners import LEARNERS, Learner, State
from pqrlearn.merging.models import CHOICES, loss_on
from pqrlearn.merging.rounds import progressive
from pqrlearn.merging.rule import Moves, Rates
from pqrlearn.merging.states import blocks_of
from pqrlearn.names import Names
from pqrlearn.rows import Batch
from pqrlearn.spark import shards
from pqrlearn.spark.plan import Job, Point
from pqrlearn.spark.reading import first_rows, in_order, piece_rows

SUMMARY = -1
"""The shard of a row that says what a worker did, and has no slots."""
LEARNED = (
    "worker int, shard int, slots binary, rows long, next_feature long, loss double, "
    "weight double, bias_growth double, first double, second double, bytes long, seconds double"
)
MERGED = "shard int, choice int, slots binary"
JUDGED = "choice int, first double, second double, bytes long"


def state_at(job: Job, point: Point, shard: int | None = None) -> tuple[shards.Blocks, int]:
    """The slots of a state, or of one shard of it, and how many bytes were read."""
    wanted = {"choice": point.choice} | ({} if shard is None else {"shard": shard})
    found: dict[int, bytes] = {}
    for batch in point.table.batches(["shard", "slots"], **wanted):
        found |= zip(
            batch.column("shard").to_pylist(), batch.column("slots").to_pylist(), strict=True
        )
    blocks = shards.joined(shards.from_bytes(found[each]) for each in sorted(found))
    return blocks, sum(map(len, found.values()))


def learner_of(job: Job, blocks: shards.Blocks, point: Point) -> Learner:
    state = job.common.state(blocks, point.rows)
    settings = state.settings | {"next_feature": point.next_feature}
    learner: Learner = LEARNERS[state.kind].from_state(
        State(state.kind, settings, state.arrays, Names())
    )
    return learner


def learn(
    batches: Iterable[Any],
    *,
    job: Job,
    point: Point,
    first_piece: int,
    judging: tuple[list[int], int] | None,
) -> Iterator[Any]:
    """Each worker learns its piece; what it has moved goes out by shards, then a summary."""
    for batch in batches:
        for worker in batch.column("id").to_pylist():
            yield from _learned(job, point, worker, first_piece + worker, judging)


def _learned(job: Job, point: Point, worker: int, piece: int, judging: Any) -> Iterator[Any]:
    begin = time.perf_counter()
    before, read = state_at(job, point)
    learner = learner_of(job, before, point)
    loss = weight = 0.0
    start = job.ends[piece]
    for rows in piece_rows(job.rows, piece):
        more, by = _progressive(learner, rows, start)
        loss, weight, start = loss + more, weight + by, start + len(rows)
    halves = (np.nan, np.nan) if judging is None else halves_on(learner, job, judging)
    after = blocks_of(learner.state())
    moved = {name: slots.since(before[name]) for name, slots in after.items()}
    grown = float(after["bias"].squares.sum() - before["bias"].squares.sum())
    sent = 0
    for shard in range(job.ranges.shards):
        slots = shards.to_bytes(job.ranges.cut(moved, shard))
        sent += len(slots)
        yield _row(LEARNED, worker, shard, slots, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0.0)
    seconds = time.perf_counter() - begin
    rows_learned = learner.rows - point.rows
    about = (rows_learned, learner.next_feature, loss, weight, grown, *halves, read + sent, seconds)
    yield _row(LEARNED, worker, SUMMARY, b"", *about)


def _progressive(learner: Learner, rows: Batch, start: int) -> tuple[float, float]:
    try:
        return progressive(learner, rows)
    except RowError as error:
        raise RowError(in_order(error.message, lambda row: start + row)) from None


_TYPES = {
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "binary": pa.binary(),
}


def _row(schema: str, *values: Any) -> Any:
    fields = [field.split() for field in schema.split(", ")]
    arrays = [
        pa.array([value], _TYPES[kind]) for (_, kind), value in zip(fields, values, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, [name for name, _ in fields])


def halves_on(learner: Learner, job: Job, judging: tuple[list[int], int]) -> tuple[float, float]:
    """The loss on every other row that nobody has learned, and on those between."""
    pieces, count = judging
    rows = Batch.joined(first_rows(job.rows, tuple(pieces), count))
    first, second = (loss_on(learner, [rows.take(np.arange(at, len(rows), 2))]) for at in (0, 1))
    return first, second


def merge_shard(table: Any, *, job: Job, point: Point, choices: list[float]) -> Any:
    """One shard of all workers, merged with each m; `choices` are in units of the rule."""
    shard = table.column("shard")[0].as_py()
    given = zip(table.column("worker").to_pylist(), table.column("slots").to_pylist(), strict=True)
    workers = [shards.from_bytes(slots) for _, slots in sorted(given)]
    base, _ = state_at(job, point, shard)
    rates = Rates.of(job.common.settings["optimizer"])
    moves = {
        name: Moves(slots, [worker[name] for worker in workers], rates)
        for name, slots in base.items()
    }
    made = [
        _row(
            MERGED,
            shard,
            choice,
            shards.to_bytes({name: each.merged(m) for name, each in moves.items()}),
        )
        for choice, m in enumerate(choices)
    ]
    return pa.Table.from_batches(made)


def judge(
    batches: Iterable[Any], *, job: Job, point: Point, judging: tuple[list[int], int]
) -> Iterator[Any]:
    """The loss of each candidate on rows that nobody has learned."""
    for batch in batches:
        for choice in batch.column("id").to_pylist():
            at = replace(point, choice=choice)
            blocks, read = state_at(job, at)
            halves = halves_on(learner_of(job, blocks, at), job, judging)
            yield _row(JUDGED, choice, *halves, read)


def choices_for(unit: float) -> list[float]:
    """The m that are tried, in units of curvature over squared slope."""
    return [m * unit for m in CHOICES]
