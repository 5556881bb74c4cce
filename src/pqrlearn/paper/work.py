"""Measures the cells of a plan on several processes, and stores each result at once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import cast

from pqrlearn.errors import PqrError
from pqrlearn.journal import Journal, key_of
from pqrlearn.paper.plan import Plan, cell
from pqrlearn.paper.protocol import Cell, Contender, Result, measure
from pqrlearn.paper.sources import Source

OnStep = Callable[[float, str], None]
"""Called with the share of the work that is done and a description of the current step."""


def silent(done: float, text: str) -> None:
    """Shows nothing."""


class Unfinished(PqrError):
    """A cell has no result, and none was to be computed."""


@dataclass
class Workspace:
    """A folder for results, and the number of processes that compute them.

    With `finished`, none is computed: what is missing raises Unfinished.
    """

    cache: Path | None
    jobs: int = 1
    watch: OnStep = silent
    finished: bool = False

    def __post_init__(self) -> None:
        self.journal = Journal(self.cache / "cells.jsonl" if self.cache else None)
        self.reused = 0

    def results(self, cells: Sequence[Cell]) -> list[Result]:
        """The result of each cell, in order; known results are reused."""
        for source in dict.fromkeys(one.source for one in cells):
            self.watch(0.0, f"reading {source.title}")
            source.rows()
        keys = [one.key() for one in cells]
        missing = {key: c for key, c in zip(keys, cells, strict=True) if key not in self.journal}
        if missing and self.finished:
            raise Unfinished(f"{len(missing)} cells are not finished; leave out --finished")
        costs = {key: c.cost() for key, c in missing.items()}
        # The longest first, so that all processes end together, but grouped by source: a process
        # reads the rows of a source once.
        first = {c.source: at for at, c in reversed(list(enumerate(cells)))}
        sign = 1 if self.jobs == 1 else -1  # alone, the shortest first: more is done if stopped
        order = sorted(missing, key=lambda key: (first[missing[key].source], sign * costs[key]))
        self.reused += len(set(keys)) - len(missing)
        done, total = 0.0, sum(costs.values())
        for key, result in self._measured({key: missing[key] for key in order}):
            if key:
                self.journal.put(key, result)
                done += costs[key]
                order.remove(key)
            self.watch(done / total, f"{len(order)} cells to go")
        return [self.journal[key] for key in keys]

    def _measured(self, cells: dict[str, Cell]) -> Iterator[tuple[str, Result]]:
        """Keys and results as they finish; an empty key each second, to update progress."""
        trials = self.cache / "trials.jsonl" if self.cache else None
        if self.jobs == 1 or len(cells) < 2:
            for key, one in cells.items():
                yield "", {}
                yield key, measure(one, trials)
            return
        with _pool(min(self.jobs, len(cells))) as pool:
            work = {pool.submit(measure, one, trials): key for key, one in cells.items()}
            waiting = set(work)
            while waiting:
                yield "", {}
                finished, waiting = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
                yield from ((work[future], future.result()) for future in finished)


def _start_worker() -> None:
    """Ctrl-C ends a worker silently, and so does the end of its parent, however it came."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = parent_process()
    assert parent is not None
    Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes, because not every learner releases the GIL."""
    pool = ProcessPoolExecutor(
        jobs,
        mp_context=get_context("spawn"),
        initializer=_start_worker,
    )
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def accuracy(
    workspace: Workspace,
    plan: Plan,
    entries: Sequence[tuple[Source, Contender]],
    tuned: int | None = None,
) -> list[list[Result]]:
    """The results of each contender on its source, one for each split.

    Costly contenders are tuned on the first splits only, and reuse their settings on the others;
    with `tuned`, all contenders are tuned on that many splits.
    """
    splits = [plan.splits_of(source, contender) for source, contender in entries]
    early = [
        min(count, tuned or (plan.costly_splits if contender.costly else count))
        for (_, contender), count in zip(entries, splits, strict=True)
    ]
    cells = [
        cell(plan, *entry, split)
        for entry, count in zip(entries, early, strict=True)
        for split in range(count)
    ]
    found = iter(workspace.results(cells))
    first = [[next(found) for _ in range(count)] for count in early]
    cells = [
        cell(plan, *entry, split, settings=mine[split % len(mine)]["settings"])
        for entry, mine, count in zip(entries, first, splits, strict=True)
        for split in range(len(mine), count)
    ]
    found = iter(workspace.results(cells))
    return [
        mine + [next(found) for _ in range(len(mine), count)]
        for mine, count in zip(first, splits, strict=True)
    ]


def training_times(
    workspace: Workspace, plan: Plan, source: Source, entries: Sequence[tuple[Contender, Result]]
) -> list[list[float]]:
    """Processor seconds of one training pass in memory, for each contender in each round.

    They run alone and in turn, so that a slow minute of the machine affects all of them.
    """
    cells = [
        cell(plan, source, contender, 0, settings=result["settings"])
        for contender, result in entries
    ]
    key = key_of("times", plan.timings, [mine.key() for mine in cells])
    if workspace.finished and key not in workspace.journal:
        raise Unfinished(f"{source.title}: times are not finished; leave out --finished")

    def rounds() -> list[list[float]]:
        tasks = [mine.task() for mine in cells]
        seconds: list[list[float]] = [[] for _ in cells]
        for turn in range(plan.timings):
            for at, (mine, task) in enumerate(zip(cells, tasks, strict=True)):
                start = time.process_time()
                task.trained(mine.settings or {})
                seconds[at].append(time.process_time() - start)
            workspace.watch((turn + 1) / plan.timings, f"{source.title}, times, one at a time")
        return seconds

    return cast("list[list[float]]", workspace.journal.once(key, rounds))
