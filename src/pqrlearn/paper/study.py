"""The order study: test loss, training time and size against the order k, on each source.

One split; the other settings are tuned for each order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median, pstdev
from typing import Any

from pqrlearn.loss import loss_named
from pqrlearn.paper.protocol import SCALES, Contender, Plan, Result, pqr
from pqrlearn.paper.sources import Source
from pqrlearn.paper.tables import NAMES, NONE, Table, count, number, signed, times
from pqrlearn.paper.work import Workspace, accuracy, training_times
from pqrlearn.plots import Line, Panel
from pqrlearn.separation import Counts

GRID = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000)


@dataclass(frozen=True)
class Point:
    """PQR with one order and one scale, LR or Auto; time is a multiple of LR's."""

    title: str
    scale: str | None
    order: int
    loss: float
    time: float
    nonzeros: int
    time_spread: float = 0.0
    """Standard deviation of the time over its rounds."""


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
        tables += [_table(source, points), _answer(source, points, pairs)]
        panels += _panels(source, points)
    return tables, panels


def _contenders(source: Source) -> list[Contender]:
    grid = orders(source)
    both = [pqr(k, scale) for scale in SCALES for k in grid]
    return [Contender("LR", "lr"), *both, Contender("Auto", "auto")]


def _point(
    source: Source,
    contender: Contender,
    result: Result,
    seconds: Sequence[float],
    linear: Sequence[float],
) -> Point:
    scale = next((s for s in SCALES if f"({s})" in contender.title), None)
    ratios = [a / b for a, b in zip(seconds, linear, strict=True)]
    time, spread = median(ratios), pstdev(ratios)
    loss = result["tests"][0][_measure(source)]
    order, nonzeros = contender.order or 0, result["nonzeros"]
    return Point(contender.title, scale, order, loss, time, nonzeros, spread)


def _name(source: Source) -> str:
    return source.name + ("" if source.fraction is None else " simulated")


def _measure(source: Source) -> str:
    return loss_named(source.rows().loss).metrics.key


def _table(source: Source, points: Sequence[Point]) -> Table:
    """A line per order, both forms of PQR side by side."""
    by_place = {(point.scale, point.order): point for point in points[:-1]}  # the last is Auto
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
    lines.append(["Auto", *_cells(points[-1]) * len(SCALES)])
    data: list[dict[str, Any]] = [vars(point) for point in points]
    name = f"study {_name(source)}"
    notes = [
        source.rows().note,
        "one split: differences of a few units of the last digit are noise",
    ]
    return Table(name, f"{source.title}: what the order changes", columns, lines, notes, data)


def _answer(
    source: Source, points: Sequence[Point], pairs: Sequence[tuple[Contender, Result]]
) -> Table:
    """What Auto, which is told no order, says about it."""
    mine, about = points[-1], pairs[-1][1]["auto"]
    best = min(points[:-1], key=lambda point: point.loss)
    picked = points[min(range(len(pairs) - 1), key=lambda at: pairs[at][1]["validation"])]
    share = sum(part for name, part in about["posterior"].items() if name.startswith("pairs"))
    measure = NAMES[_measure(source)]
    lines = [
        ["features that rose", f"{about['high']:,} of {about['features']:,}"],
        ["of these among as many of the most frequent", f"{about['frequent']:.1%}"],
        ["posterior of interactions", f"{share:.4f}"],
        ["share of the stacked experts in the prediction", f"{about['stacked']:.4f}"],
        ["best expert", max(about["posterior"], key=about["posterior"].__getitem__)],
        [f"test {measure} of Auto", number(mine.loss)],
        [f"best in hindsight (on the test part): {best.title}", number(best.loss)],
        ["Auto beyond that", signed(mine.loss - best.loss)],
        [f"chosen on the validation part: {picked.title}", number(picked.loss)],
        ["Auto beyond that", signed(mine.loss - picked.loss)],
        ["regret against its experts, training rows", f"{about['regret']:+,.2f}".replace("-", "−")],
        ["which its guarantee bounds by", f"{about['bound']:,.2f}"],
    ]
    title = f"{source.title}: Auto's answer to the question of the order"
    return Table(f"order {_name(source)}", title, ["", ""], lines, data=about)


def _cells(point: Point | None) -> list[str]:
    if point is None:
        return [NONE] * 3
    return [number(point.loss), times(point.time), count(point.nonzeros)]


def _with_spread(line: Line, points: Sequence[Point], field: str) -> Line:
    """With error bars where something was measured more than once: times."""
    spreads = {(f"PQR ({p.scale})", p.order): p.time_spread for p in points if p.scale}
    known = [spreads.get((line.name, int(order))) for order in line.x]
    if field != "time" or None in known:
        return line
    return replace(line, spread=[spread for spread in known if spread is not None])


def _panels(source: Source, points: Sequence[Point]) -> list[Panel]:
    measure = NAMES[_measure(source)]
    shown = {"loss": f"test {measure}", "time": "training time × LR", "nonzeros": "non-zeros"}
    return [
        Panel(
            source.title,
            "order k",
            label,
            [_with_spread(line, points, field) for line in _lines(points, field)],
            x_axis="log",
            y_axis="log" if field == "nonzeros" else "linear",
        )
        for field, label in shown.items()
    ]


def _lines(points: Sequence[Point], field: str) -> list[Line]:
    """A line per form of PQR, and horizontal ones for LR and Auto."""
    ends = [min(p.order for p in points[1:-1]), max(p.order for p in points[1:-1])]
    levels = {point.title: float(getattr(point, field)) for point in (points[0], points[-1])}
    lines = [Line(title, ends, [y, y], style="--") for title, y in levels.items()]
    for scale in SCALES:
        mine = [point for point in points if point.scale == scale]
        values = [float(getattr(point, field)) for point in mine]
        lines.append(Line(f"PQR ({scale})", [point.order for point in mine], values))
    return lines
