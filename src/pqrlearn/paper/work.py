"""Measures the cells of a plan on several processes, and stores each result at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import cast

from pqrlearn.journal import Journal, key_of
from pqrlearn.paper.protocol import Cell, Contender, Plan, Result, cell, measure
from pqrlearn.paper.sources import Source

OnStep = Callable[[float, str], None]
"""Called with the share of the work that is done and a description of the current step."""


def silent(done: float, text: str) -> None:
    """Shows nothing."""


@dataclass
class Workspace:
    """A folder for results, and the number of processes that compute them."""

    cache: Path | None
    jobs: int = 1
    watch: OnStep = silent

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
        costs = {key: c.cost() for key, c in missing.items()}
        # The longest first, but grouped by source: a process reads the rows of a source once.
        first = {c.source: at for at, c in reversed(list(enumerate(cells)))}
        order = sorted(missing, key=lambda key: (first[missing[key].source], -costs[key]))
        self.reused += len(set(keys)) - len(missing)
        done, total = 0.0, sum(costs.values())
        for key, result in self._measured({key: missing[key] for key in order}):
            if key:
                self.journal.put(key, result)
                done += costs[key]
                order.remove(key)
            self.watch(done / total, f"{len(order)} cells to go, the longest first")
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


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes, because not every learner releases the GIL."""
    pool = ProcessPoolExecutor(
        jobs,
        mp_context=get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_DFL),  # Ctrl-C ends them silently
    )
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def accuracy(
    workspace: Workspace, plan: Plan, entries: Sequence[tuple[Source, Contender]]
) -> list[list[Result]]:
    """The results of each contender on its source, one for each split.

    Costly contenders are tuned on the first splits only, and reuse their settings on the others.
    """
    few = min(plan.costly_splits, plan.splits)
    tuned = [few if contender.costly else plan.splits for _, contender in entries]
    early = [
        cell(plan, source, contender, split)
        for (source, contender), splits in zip(entries, tuned, strict=True)
        for split in range(splits)
    ]
    found = iter(workspace.results(early))
    first = [[next(found) for _ in range(splits)] for splits in tuned]
    late = [
        cell(plan, source, contender, split, settings=mine[split % few]["settings"])
        for (source, contender), mine in zip(entries, first, strict=True)
        for split in range(len(mine), plan.splits)
    ]
    found = iter(workspace.results(late))
    return [mine + [next(found) for _ in range(len(mine), plan.splits)] for mine in first]


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
