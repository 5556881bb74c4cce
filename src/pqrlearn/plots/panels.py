"""Panels of lines side by side, with one legend: the figures of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pqrlearn.plots.style import (
    LIGHT,
    WIDTH,
    Theme,
    legend_of,
    new_axes,
    new_figure,
    number,
    plain_numbers,
)

Axis = Literal["linear", "log"]
_MARKERS = "osD^vPX"
_DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Line:
    """Named points; `spread` is drawn as error bars, such as a standard deviation."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] | None = None
    style: Literal["-", "--", ".", "o-"] = "o-"


@dataclass(frozen=True)
class Panel:
    """One pair of axes and its lines. A line looks the same in every panel of a figure."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    x_axis: Axis = "linear"
    y_axis: Axis = "linear"
    ticks: Sequence[float] = field(default=())
    """Positions of the x ticks; by default chosen by matplotlib."""


def draw(
    panels: Sequence[Panel], *, columns: int = 3, title: str = "", theme: Theme = LIGHT
) -> Any:
    """A matplotlib Figure, the panels side by side in rows of `columns`.

    >>> figure = draw([Panel("one", "rows", "loss", [Line("LR", [1, 2], [0.7, 0.6])])])
    >>> len(figure.axes), len(figure.legends)
    (1, 1)
    """
    across = min(columns, len(panels))
    down = -(-len(panels) // across)
    width = max(WIDTH, 3.9 * across)
    figure = new_figure(theme, title, 3.1 * down + 0.5, width)
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    entries: dict[str, Any] = {}
    for at, panel in enumerate(panels):
        axes = new_axes(figure, theme, down, across, at + 1)
        for line in panel.lines:
            drawn = _draw_line(axes, line, names.index(line.name), len(names), theme)
            entries.setdefault(line.name, drawn)
        _finish(axes, panel)
    legend_of(figure, entries, theme, columns=max(3, 2 * across))
    return figure


def _draw_line(axes: Any, line: Line, at: int, of: int, theme: Theme) -> Any:
    """Later lines are thinner, so that none hides an equal one under it."""
    thin = at / max(3, of - 1)
    colour = theme.series[at % len(theme.series)]
    dashes = "" if line.style == "." else "--" if line.style == "--" else _DASHES[at % 4]
    marker = _MARKERS[at % len(_MARKERS)] if line.style in (".", "o-") else None
    return axes.errorbar(
        line.x,
        line.y,
        yerr=line.spread,
        color=colour,
        ls=dashes or "none",
        lw=3.0 - 2.0 * thin,
        marker=marker,
        ms=7.0 - 4.0 * thin,
        mfc="none" if at % 2 else colour,
        elinewidth=1,
        capsize=2.5,
    )


def _finish(axes: Any, panel: Panel) -> None:
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    axes.title.set_text(panel.title)  # in the size that it has
    axes.set_xscale(panel.x_axis)
    axes.set_yscale(panel.y_axis)
    axes.margins(x=0.06, y=0.08)
    for axis in (axes.xaxis, axes.yaxis):
        plain_numbers(axis)
    if panel.ticks:
        axes.set_xticks(panel.ticks, [number(tick) for tick in panel.ticks])
        axes.minorticks_off()
