"""The order study: test loss, training time and size against the order k, on each source.

One split; the other settings are tuned for each order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from pqrlearn.loss import loss_named
from pqrlearn.paper.protocol import SCALES, Contender, Plan, Result, pqr
from pqrlearn.paper.sources import Source
from pqrlearn.paper.tables import NAMES, NONE, Table, count, number, times
from pqrlearn.paper.work import Workspace, accuracy, training_times
from pqrlearn.plots import Line, Panel
from pqrlearn.separation import Counts

GRID = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000)


@dataclass(frozen=True)
class Point:
    """PQR with one order and one scale, or LR; time is a multiple of LR's."""

    title: str
    scale: str | None
    order: int
    loss: float
    time: float
    nonzeros: int


def orders(source: Source) -> list[int]:
    """The grid, up to the number of features."""
    distinct = Counts.of(source.rows().batch).distinct
    return [k for k in GRID if k < distinct] + ([distinct] if distinct <= GRID[-1] else [])


def study(
    workspace: Workspace, plan: Plan, sources: Sequence[Source]
) -> tuple[list[Table], list[Panel]]:
    """A table and three panels for each source."""
    single = replace(plan, splits=1)
    fields = {source: _contenders(source) for source in sources}
    entries = [(source, contender) for source in sources for contender in fields[source]]
    found = iter(accuracy(workspace, single, entries))
    tables, panels = [], []
    for source in sources:
        pairs = [(contender, next(found)[0]) for contender in fields[source]]
        seconds = training_times(workspace, single, source, pairs)
        points = [
            _point(source, contender, result, mine, seconds[0])
            for (contender, result), mine in zip(pairs, seconds, strict=True)
        ]
        tables.append(_table(source, points))
        panels += _panels(source, points)
    return tables, panels


def _contenders(source: Source) -> list[Contender]:
    grid = orders(source)
    return [Contender("LR", "lr"), *(pqr(k, scale) for scale in SCALES for k in grid)]


def _point(
    source: Source,
    contender: Contender,
    result: Result,
    seconds: Sequence[float],
    linear: Sequence[float],
) -> Point:
    scale = next((s for s in SCALES if f"({s})" in contender.title), None)
    time = median(a / b for a, b in zip(seconds, linear, strict=True))
    loss = result["tests"][0][_measure(source)]
    return Point(contender.title, scale, contender.order or 0, loss, time, result["nonzeros"])


def _measure(source: Source) -> str:
    return loss_named(source.rows().loss).metrics.key


def _table(source: Source, points: Sequence[Point]) -> Table:
    """A line per order, both forms of PQR side by side."""
    by_place = {(point.scale, point.order): point for point in points}
    columns = ["k"]
    for scale in SCALES:
        columns += [f"{NAMES[_measure(source)]} ({scale})", "time × LR", "non-zeros"]
    lines = []
    for order in (0, *orders(source)):
        line = ["LR" if order == 0 else f"{order:,}"]
        for scale in SCALES:
            point = by_place.get((scale if order else None, order))
            line += _cells(point)
        lines.append(line)
    data: list[dict[str, Any]] = [vars(point) for point in points]
    name = f"study {source.name}" + ("" if source.fraction is None else " simulated")
    notes = [
        source.rows().note,
        "one split: differences of a few units of the last digit are noise",
    ]
    return Table(name, f"{source.title}: what the order changes", columns, lines, notes, data)


def _cells(point: Point | None) -> list[str]:
    if point is None:
        return [NONE] * 3
    return [number(point.loss), times(point.time), count(point.nonzeros)]


def _panels(source: Source, points: Sequence[Point]) -> list[Panel]:
    measure = NAMES[_measure(source)]
    shown = {"loss": f"test {measure}", "time": "training time × LR", "nonzeros": "non-zeros"}
    return [
        Panel(
            source.title,
            "order k",
            label,
            _lines(points, field),
            x_axis="log",
            y_axis="log" if field == "nonzeros" else "linear",
        )
        for field, label in shown.items()
    ]


def _lines(points: Sequence[Point], field: str) -> list[Line]:
    """A line per form of PQR, and a horizontal one for LR."""
    linear = points[0]
    ends = [min(p.order for p in points[1:]), max(p.order for p in points[1:])]
    level = float(getattr(linear, field))
    lines = [Line("LR", ends, [level, level], style="--")]
    for scale in SCALES:
        mine = [point for point in points if point.scale == scale]
        values = [float(getattr(point, field)) for point in mine]
        lines.append(Line(f"PQR ({scale})", [point.order for point in mine], values))
    return lines
