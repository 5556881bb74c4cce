"""A run: rows are counted and cut, then learned in rounds."""

from __future__ import annotations

import logging
import math
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
from pyspark.sql import DataFrame, SparkSession, functions

from pqrlearn.errors import HyperError
from pqrlearn.hyper import MAX_ORDER, check_whole
from pqrlearn.learners import LEARNERS, Learner, State
from pqrlearn.learners.build import make
from pqrlearn.loss import loss_named
from pqrlearn.merging.models import CHOICES, Candidate, best_unseen
from pqrlearn.merging.rounds import Round
from pqrlearn.merging.states import BLOCKS, Common, blocks_of
from pqrlearn.separation import Separation
from pqrlearn.spark import preparing, shards, tasks
from pqrlearn.spark.folder import Folder
from pqrlearn.spark.plan import Columns, Cuts, Job, Point

_LOG = logging.getLogger("pqrlearn.spark")


@dataclass(frozen=True)
class Run:
    """What a fit is asked for."""

    kind: str
    loss: str
    settings: dict[str, Any]
    columns: Columns
    order: int | None = None
    order_col: str | None = None
    workers: int = 1
    rounds: int = 8
    passes: int = 1
    held: int = 10_000
    folder: str | None = None


def fit(frame: DataFrame, run: Run) -> tuple[Learner, list[Round]]:
    """The model that the rows of a DataFrame make, and what each round showed."""
    _check(run)
    with _work_folder(frame.sparkSession, run.folder) as folder:
        placed = preparing.place(frame, run.columns, run.order_col, folder / "placed")
        columns = preparing.with_schema(frame, run.columns, placed)
        found = preparing.count(frame, columns, run.loss, placed, folder / "names")
        cuts = _cuts(run, placed.rows)
        preparing.cut(frame, columns, run.loss, placed, found, cuts, folder / "rows")
        learner = _start(run, columns, found, placed.rows)
        placed.table.remove()
        return _Rounds(frame.sparkSession, run, cuts, folder, learner, found).all()


def _check(run: Run) -> None:
    """Settings out of their range are known before rows are sorted for hours."""
    counts = {"num_workers": run.workers, "rounds": run.rounds, "passes": run.passes}
    for name, value in counts.items():
        check_whole(name, value, least=1)
    if run.workers > 1:
        check_whole("held_rows", run.held, least=2)
    if run.order is not None:
        check_whole("order", run.order, least=0, most=MAX_ORDER)
    none = np.zeros(0, np.uint32)
    empty = Separation(none, none.astype(np.uint64), 0, 0) if run.kind == "pqr" else None
    settings: Any = run.settings
    make(run.kind, run.loss, settings, empty)


@contextmanager
def _work_folder(session: SparkSession, given: str | None) -> Iterator[Folder]:
    """A folder of its own inside the shared one, removed at the end."""
    if given is not None:
        folder = Folder.of(given) / f"pqrlearn-{uuid4().hex}"
        folder.make()
        try:
            yield folder
        finally:
            folder.remove()
        return
    if not str(session.conf.get("spark.master", "")).startswith("local"):
        raise HyperError(
            "work_folder must be given: a folder that all nodes of the cluster can read and write"
        )
    made = tempfile.mkdtemp(prefix="pqrlearn-")
    try:
        yield Folder(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _cuts(run: Run, rows: int) -> Cuts:
    held = 0 if run.workers == 1 else run.held
    if rows - held < run.workers * run.rounds:
        judging = f", num_workers={run.workers} and held_rows={held}" if held else ""
        raise HyperError(
            f"{rows} rows are too few for rounds={run.rounds}{judging}: each worker needs a row in "
            f"each round{', beside those held' if held else ''}; give smaller numbers"
        )
    return Cuts(rows, run.workers, run.rounds, held)


def _start(run: Run, columns: Columns, found: preparing.Found, rows: int) -> Learner:
    """The model before the first row, with all names."""
    separation = None
    if run.kind == "pqr":
        distinct = len(found.features)
        default = math.isqrt(max(distinct, 1) - 1) + 1 if distinct else 0
        order = default if run.order is None else run.order
        first = np.lexsort((found.features, -found.counts.astype(np.int64)))[:order]
        high, counts = found.features[first], found.counts[first]
        separation = Separation(high, counts, rows, distinct, found.names, columns.schema)
    settings: Any = run.settings
    learner = make(run.kind, run.loss, settings, separation)
    learner.use_names(found.names)
    learner.schema = columns.schema
    return learner


def _slots(found: preparing.Found, order: int, rows: int) -> int:
    """About how many slots a state will have: pairs are those of all ranks, or of all rows."""
    mean = float(found.counts.sum()) / rows
    return len(found.features) + order + min(order * (order + 1) // 2, int(rows * mean * mean))


class _Rounds:
    """The loop of rounds; what passes through the driver is a few numbers for each worker."""

    def __init__(
        self,
        session: SparkSession,
        run: Run,
        cuts: Cuts,
        folder: Folder,
        learner: Learner,
        found: preparing.Found,
    ) -> None:
        self._session, self._run, self._cuts, self._folder = session, run, cuts, folder
        self._state = learner.state()
        kept = ("optimizer", "separation.features", "separation.counts")
        arrays = {name: self._state.arrays[name] for name in kept if name in self._state.arrays}
        order = len(arrays.get("separation.features", ()))
        settings = {n: v for n, v in self._state.settings.items() if n != "schema"}
        common = Common(self._state.kind, settings, arrays, None, order)  # names have no pickle
        features = int(found.features[-1]) + 1 if len(found.features) else 0
        count = shards.how_many(_slots(found, order, cuts.rows), run.workers)
        ranges = shards.Ranges.of(BLOCKS[common.kind], features, order, count)
        self._job = Job(folder / "rows", cuts.ends, common, ranges)

    def all(self) -> tuple[Learner, list[Round]]:
        point, found = self._first(), []
        for number in range(self._run.rounds * self._run.passes):
            point, shown = self._round(point, number)
            found.append(shown)
            _LOG.info("round %d: loss %.5f, %d rows", number + 1, shown.loss, shown.rows)
        if self._cuts.held:
            point, _ = self._learned(point, "last", self._run.rounds * self._run.workers, 1, None)
        return self._native(point), found

    def _first(self) -> Point:
        """Empty shards."""
        empty = blocks_of(self._state)
        cut = [self._job.ranges.cut(empty, shard) for shard in range(self._job.ranges.shards)]
        rows = [(shard, 0, shards.to_bytes(blocks)) for shard, blocks in enumerate(cut)]
        table = self._folder / "start"
        table.write(self._session.createDataFrame(rows, tasks.MERGED))
        return Point(table, table, 0, 0, 0)

    def _round(self, point: Point, number: int) -> tuple[Point, Round]:
        begin, workers = time.perf_counter(), self._run.workers
        piece = number % self._run.rounds * workers
        judging = self._cuts.judging(number) if workers > 1 else None
        after, shown = self._learned(point, f"round-{number}", piece, workers, judging)
        loss = sum(row["loss"] for row in shown["summary"])
        weight = sum(row["weight"] for row in shown["summary"])
        figure = loss_named(self._run.loss).metrics.figure(loss / weight) if weight else math.nan
        moved, rows = shown["bytes"], sum(row["rows"] for row in shown["summary"])
        seconds = time.perf_counter() - begin
        return after, Round(number, rows, figure, shown["m"], shown["alone"], moved, seconds)

    def _learned(
        self, point: Point, name: str, piece: int, workers: int, judging: Any
    ) -> tuple[Point, dict[str, Any]]:
        """All workers learn, their shards are merged, the best merge is chosen."""
        home = self._folder / name
        task = partial(tasks.learn, job=self._job, point=point, first_piece=piece, judging=judging)
        (home / "learned").write(self._each(workers).mapInArrow(task, tasks.LEARNED))
        learned = self._session.read.parquet((home / "learned").uri)
        summary = (
            learned.filter(functions.col("shard") == tasks.SUMMARY).orderBy("worker").collect()
        )
        rows = sum(row["rows"] for row in summary)
        last = max(row["next_feature"] for row in summary)
        choices = [math.inf] if workers == 1 else tasks.choices_for(self._unit(summary, rows))
        self._merge(learned, point, choices, home / "merged")
        last = max(last, point.next_feature)
        after = Point(home, home / "merged", 0, point.rows + rows, last)
        shown = {"summary": summary, "m": None, "alone": None}
        shown["bytes"] = sum(row["bytes"] for row in summary)
        if judging is not None:
            after = self._chosen(learned, point, after, summary, judging, shown)
        point.home.remove()
        return after, shown

    def _each(self, count: int) -> DataFrame:
        """One task for each number."""
        return self._session.range(0, count, 1, count)

    def _unit(self, summary: Any, rows: int) -> float:
        grown = sum(row["bias_growth"] for row in summary)
        return rows / grown if self._run.loss == "squared" and grown > 0 else 1.0

    def _merge(self, learned: DataFrame, point: Point, choices: list[float], to: Folder) -> None:
        job = self._job

        def merged(table: Any) -> Any:  # no partial: Spark looks at the parameters
            return tasks.merge_shard(table, job=job, point=point, choices=choices)

        sent = learned.filter(functions.col("shard") >= 0).select("worker", "shard", "slots")
        to.write(sent.groupBy("shard").applyInArrow(merged, tasks.MERGED))

    def _chosen(
        self,
        learned: DataFrame,
        point: Point,
        merged: Point,
        summary: Any,
        judging: Any,
        shown: dict[str, Any],
    ) -> Point:
        task = partial(tasks.judge, job=self._job, point=merged, judging=judging)
        judged = self._each(len(CHOICES)).mapInArrow(task, tasks.JUDGED).orderBy("choice").collect()
        shown["bytes"] += sum(row["bytes"] for row in judged)
        merges = [
            Candidate(m, None, (row["first"], row["second"]))
            for m, row in zip(CHOICES, judged, strict=True)
        ]
        alone = [Candidate(None, row["worker"], (row["first"], row["second"])) for row in summary]
        if best_unseen(alone) < best_unseen(merges):
            row = summary[min(range(len(alone)), key=lambda at: alone[at].loss)]
            shown["alone"] = row["worker"]
            return self._single(learned, point, merged, row)
        best = min(range(len(merges)), key=lambda at: merges[at].loss)
        shown["m"] = CHOICES[best]
        return replace(merged, choice=best)

    def _single(self, learned: DataFrame, point: Point, merged: Point, row: Any) -> Point:
        """The state of one worker, whose slots are passed on as they are."""
        table = merged.home / "alone"
        only = learned.filter(functions.col("worker") == row["worker"])
        self._merge(only, point, [math.inf], table)
        last = max(row["next_feature"], point.next_feature)
        return Point(merged.home, table, 0, point.rows + row["rows"], last)

    def _native(self, point: Point) -> Learner:
        blocks, _ = tasks.state_at(self._job, point)
        state = self._job.common.state(blocks, point.rows)
        settings = self._state.settings | {"rows": point.rows, "next_feature": point.next_feature}
        learner: Learner = LEARNERS[state.kind].from_state(
            State(state.kind, settings, state.arrays, self._state.names)
        )
        return learner
