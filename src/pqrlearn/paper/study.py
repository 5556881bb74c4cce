"""The order study: test loss, training time and size against the order k, on each source.

The other settings are tuned for each order on the first split; what won is measured on all splits.
Simulated streams show time and size only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles

from pqrlearn.loss import loss_named
from pqrlearn.paper.plan import Plan
from pqrlearn.paper.protocol import SCALES, Contender, Result, pqr
from pqrlearn.paper.results import by_split, standard_error
from pqrlearn.paper.sources import Source
from pqrlearn.paper.tables import NAMES, NONE, Table, count, number, signed, small, times
from pqrlearn.paper.work import Unfinished, Workspace, accuracy, training_times
from pqrlearn.plots import Line, Panel

GRID = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000)


@dataclass(frozen=True)
class Point:
    """PQR with one order and one scale, LR or Auto; time is a multiple of LR's."""

    title: str
    scale: str | None
    order: int
    loss: float
    """Mean over the splits."""
    time: float
    nonzeros: float
    loss_error: float | None
    """Standard error of the difference from LR, paired split by split."""
    time_spread: float
    """Half the interquartile range over the rounds: other programs make some of them outliers."""

    def spread(self, field: str) -> float:
        """The half-width of an error bar; 0 is none."""
        return {"loss": self.loss_error or 0.0, "time": self.time_spread}.get(field, 0.0)


def orders(source: Source) -> list[int]:
    """The grid, up to the number of features."""
    distinct = source.features()
    return [k for k in GRID if k < distinct] + ([distinct] if distinct <= GRID[-1] else [])


def study(
    workspace: Workspace, plan: Plan, sources: Sequence[Source]
) -> tuple[list[Table], list[Panel]]:
    """Two tables and three panels for each source; of a simulated one no losses."""
    tables, panels = [], []
    for source in sources:
        try:
            drawn, more = _of(workspace, plan, source)
        except Unfinished:
            note = f"{source.title}: not finished"
            drawn, more = [Table(f"study {_name(source)}", note, ["k"], [])], []
        tables += drawn
        panels += more
    return tables, panels


def _of(workspace: Workspace, plan: Plan, source: Source) -> tuple[list[Table], list[Panel]]:
    field = _contenders(source)
    results = accuracy(workspace, plan, [(source, contender) for contender in field], tuned=1)
    first = [mine[0] for mine in results]
    seconds = training_times(workspace, plan, source, list(zip(field, first, strict=True)))
    points = [
        _point(source, contender, mine, results[0], times, seconds[0])
        for contender, mine, times in zip(field, results, seconds, strict=True)
    ]
    tables = [_table(source, points, len(results[0]))]
    if source.fraction is None:
        tables.append(_answer(source, points, first))
    return tables, _panels(source, points)


def _contenders(source: Source) -> list[Contender]:
    grid = orders(source)
    both = [pqr(k, scale) for scale in SCALES for k in grid]
    return [Contender("LR", "lr"), *both, Contender("Auto", "auto")]


def _point(
    source: Source,
    contender: Contender,
    results: Sequence[Result],
    linear: Sequence[Result],
    seconds: Sequence[float],
    linear_seconds: Sequence[float],
) -> Point:
    scale = next((s for s in SCALES if f"({s})" in contender.title), None)
    ratios = [a / b for a, b in zip(seconds, linear_seconds, strict=True)]
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    losses, others = (by_split(of, _measure(source)) for of in (results, linear))
    paired = [a - b for a, b in zip(losses, others, strict=True)]
    return Point(
        contender.title,
        scale,
        contender.order or 0,
        fmean(losses),
        median(ratios),
        fmean(result["nonzeros"] for result in results),
        None if contender.kind == "lr" else standard_error(paired),
        (high - low) / 2,
    )


def _name(source: Source) -> str:
    return source.name + ("" if source.fraction is None else " simulated")


def _measure(source: Source) -> str:
    return loss_named(source.rows().loss).metrics.key


def _table(source: Source, points: Sequence[Point], splits: int) -> Table:
    """A line per order, both forms of PQR side by side."""
    by_place = {(point.scale, point.order): point for point in points[:-1]}  # the last is Auto
    shown, real = _shown(source), source.fraction is None
    columns, lines = ["k"], []
    for scale in SCALES:
        columns += [f"{title} ({scale})" for title in shown.values()]
    for order in (0, *orders(source)):
        line = ["LR" if order == 0 else f"{order:,}"]
        for scale in SCALES:
            line += _cells(by_place.get((scale if order else None, order)), shown)
        lines.append(line)
    lines.append(["Auto", *_cells(points[-1], shown) * len(SCALES)])
    losses = ("loss", "loss_error")
    data = [{k: v for k, v in vars(p).items() if real or k not in losses} for p in points]
    notes = [source.rows().note]
    if real:
        notes.append(
            f"means over {splits} splits, tuned on the first; ±: standard error of the difference "
            "from LR, paired split by split"
        )
    name = f"study {_name(source)}"
    return Table(name, f"{source.title}: what the order changes", columns, lines, notes, data)


def _shown(source: Source) -> dict[str, str]:
    """The fields of a point that are shown, and what they are called."""
    found = {"loss": NAMES[_measure(source)], "loss_error": "±"} if source.fraction is None else {}
    return found | {"time": "time × LR", "nonzeros": "non-zeros"}


def _answer(source: Source, points: Sequence[Point], first: Sequence[Result]) -> Table:
    """What Auto, which is told no order, says about it; what it found out is of the first split."""
    mine, about = points[-1], first[-1]["auto"]
    best = min(points[:-1], key=lambda point: point.loss)
    picked = points[min(range(len(first) - 1), key=lambda at: first[at]["validation"])]
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


def _cells(point: Point | None, shown: Iterable[str]) -> list[str]:
    forms = {"loss": number, "loss_error": small, "time": times, "nonzeros": count}
    return [NONE if point is None else forms[field](getattr(point, field)) for field in shown]


def _panels(source: Source, points: Sequence[Point]) -> list[Panel]:
    labels = {"time": "training time × LR", "nonzeros": "non-zeros"}
    if source.fraction is None:
        labels = {"loss": f"test {NAMES[_measure(source)]}"} | labels
    return [
        Panel(
            source.title,
            "order k",
            label,
            _lines(points, field),
            x_axis="log",
            y_axis="log" if field == "nonzeros" else "linear",
        )
        for field, label in labels.items()
    ]


def _lines(points: Sequence[Point], field: str) -> list[Line]:
    """A line per form of PQR, and horizontal ones for LR and Auto."""
    ends = [min(p.order for p in points[1:-1]), max(p.order for p in points[1:-1])]
    levels = {point.title: float(getattr(point, field)) for point in (points[0], points[-1])}
    lines = [Line(title, ends, [y, y], style="--") for title, y in levels.items()]
    for scale in SCALES:
        mine = [point for point in points if point.scale == scale]
        values = [float(getattr(point, field)) for point in mine]
        spread = [point.spread(field) for point in mine]
        bars = spread if any(spread) else None
        lines.append(Line(f"PQR ({scale})", [p.order for p in mine], values, spread=bars))
    return lines
