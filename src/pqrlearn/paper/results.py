"""From the results of cells to the rows of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, stdev
from typing import Any

from pqrlearn.paper.plan import Plan
from pqrlearn.paper.printed import printed
from pqrlearn.paper.protocol import Contender, Result, contenders
from pqrlearn.paper.sources import Source
from pqrlearn.paper.work import Unfinished, Workspace, accuracy, training_times


@dataclass(frozen=True)
class Row:
    """A contender on a source: its results on every split, and those of LR; none if unfinished."""

    source: Source
    contender: Contender
    results: Sequence[Result]
    linear: Sequence[Result]
    seconds: Sequence[float] = ()
    linear_seconds: Sequence[float] = ()

    def summary(self, measure: str) -> dict[str, float | None]:
        """Mean, standard deviations, the paper's value, and the paired difference from LR."""
        mine, linear = by_split(self.results, measure), by_split(self.linear, measure)
        paired = [a - b for a, b in zip(mine, linear, strict=False)]  # on the splits of both
        paper = printed(self.source.name, measure, self.contender.printed)
        if self.contender.kind == "lr":
            paired = []
        mean = _mean(mine)
        return {
            "mean": mean,
            "seeds_std": self._seeds_std(measure),
            "splits_std": _std(mine),
            "minus_lr": _mean(paired),
            "minus_lr_error": standard_error(paired),
            "paper": paper and paper[0],
            "paper_std": paper and paper[1],
            "minus_paper": None if mean is None or paper is None else mean - paper[0],
        }

    def minus(self, other: Row, measure: str) -> tuple[float | None, float | None]:
        """The mean difference from another row on the splits of both, and its standard error."""
        both = by_split(self.results, measure), by_split(other.results, measure)
        paired = [] if other is self else [a - b for a, b in zip(*both, strict=False)]
        return _mean(paired), standard_error(paired)

    def _seeds_std(self, measure: str) -> float | None:
        """Mean standard deviation within a split, which is the paper's ±."""
        spreads = [_std([test[measure] for test in result["tests"]]) for result in self.results]
        return _mean([spread for spread in spreads if spread is not None])

    def time(self) -> float | None:
        """Time of a training pass, as a multiple of LR's in the same round."""
        if not self.seconds:
            return None
        return median(a / b for a, b in zip(self.seconds, self.linear_seconds, strict=True))

    def nonzeros(self) -> float | None:
        return _mean([result["nonzeros"] for result in self.results])

    def data(self) -> dict[str, Any]:
        losses = {measure: self.summary(measure) for measure in self.source.rows().measures}
        return self.costs() | losses | {"splits": list(self.results)}

    def costs(self) -> dict[str, Any]:
        """What can be shown of a simulated stream too."""
        return {
            "model": self.contender.title,
            "settings": [result["settings"] for result in self.results],
            "nonzeros": self.nonzeros(),
            "time": self.time(),
            "seconds": list(self.seconds),
        }


def by_split(results: Sequence[Result], measure: str) -> list[float]:
    """The mean over seeds, per split."""
    return [fmean(test[measure] for test in result["tests"]) for result in results]


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _std(values: Sequence[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None


def standard_error(values: Sequence[float]) -> float | None:
    """Of the mean; None if there is one value only."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def measured(workspace: Workspace, plan: Plan, sources: Sequence[Source]) -> list[list[Row]]:
    """Every contender on every source; those that are not finished have results of the first
    splits, or none."""
    entries = [(source, c) for source in sources for c in contenders(source.name)]
    if workspace.finished:
        results = [_finished(workspace, plan, entry) for entry in entries]
    else:
        results = accuracy(workspace, plan, entries)
    found = list(zip(entries, results, strict=True))
    rows = []
    for source in sources:
        mine = [(c, results) for (s, c), results in found if s == source]
        rows.append([Row(source, c, results, mine[0][1][: len(results)]) for c, results in mine])
    return rows


def _finished(workspace: Workspace, plan: Plan, entry: tuple[Source, Contender]) -> list[Result]:
    """The results on the first splits, as many as are finished."""
    found: list[Result] = []
    for splits in range(1, plan.splits_of(*entry) + 1):
        try:
            found = accuracy(workspace, replace(plan, splits=splits), [entry])[0]
        except Unfinished:
            break
    return found


def timed(workspace: Workspace, plan: Plan, rows: Sequence[Row]) -> list[Row]:
    """The rows of one source, with training times if there are any."""
    entries = [(row.contender, row.results[0]) for row in rows if row.results]
    try:
        found = training_times(workspace, plan, rows[0].source, entries)
    except Unfinished:
        return list(rows)
    seconds = iter(found)
    return [
        replace(row, seconds=next(seconds), linear_seconds=found[0]) if row.results else row
        for row in rows
    ]
