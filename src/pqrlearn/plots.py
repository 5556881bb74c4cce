"""Figures from plain data: panels of lines, as PNG, as SVG, or inside a page.

Needs matplotlib, which is imported when a figure is drawn: `pip install "pqrlearn[plots]"`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pqrlearn.errors import MissingExtra
from pqrlearn.files import atomic_write

Axis = Literal["linear", "log"]
COLOURS = ("#1f6feb", "#d1495b", "#2e933c", "#8c5e99", "#e08e0b", "#3aa6a1", "#6e6e6e", "#7a4b2a")


@dataclass(frozen=True)
class Line:
    """Named points; `spread` is drawn as a band around them, such as a standard deviation."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] | None = None
    style: Literal["-", "--", ".", "o-"] = "o-"


@dataclass(frozen=True)
class Panel:
    """One pair of axes and its lines. A line has the same colour in every panel of a figure."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    x_axis: Axis = "linear"
    y_axis: Axis = "linear"
    ticks: Sequence[float] = field(default=())
    """Positions of the x ticks; by default chosen by matplotlib."""


def check() -> None:
    """Raises what `draw` would raise: before long work instead of after it."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtra("figures", "plots") from None


def draw(panels: Sequence[Panel], *, columns: int = 3) -> Any:
    """A matplotlib Figure, the panels side by side in rows of `columns`."""
    check()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = min(columns, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(4.6 * across, 3.5 * down), layout="constrained")
    FigureCanvasAgg(figure)
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)}
    for at, panel in enumerate(panels):
        _fill(figure.add_subplot(down, across, at + 1), panel, colours)
    return figure


def _fill(axes: Any, panel: Panel, colours: dict[str, str]) -> None:
    for line in panel.lines:
        colour = colours[line.name]
        axes.plot(line.x, line.y, line.style, color=colour, label=line.name, markersize=3.5, lw=1.4)
        if line.spread is not None:
            low = [y - s for y, s in zip(line.y, line.spread, strict=True)]
            high = [y + s for y, s in zip(line.y, line.spread, strict=True)]
            axes.fill_between(line.x, low, high, color=colour, alpha=0.15, lw=0)
    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    axes.set_xscale(panel.x_axis)
    axes.set_yscale(panel.y_axis)
    if panel.ticks:
        axes.set_xticks(panel.ticks, [f"{tick:,.12g}" for tick in panel.ticks])
        axes.minorticks_off()
    axes.grid(alpha=0.25, lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    columns = 2 if len(axes.lines) > 4 else 1
    axes.legend(fontsize=8, frameon=False, ncols=columns)


def save(figure: Any, path: str | os.PathLike[str]) -> list[Path]:
    """Writes `path` as PNG and as SVG, whatever its suffix; returns the two paths."""
    paths = [Path(path).with_suffix(suffix) for suffix in (".png", ".svg")]
    for target in paths:
        atomic_write(target, _rendered(figure, target.suffix[1:]))
    return paths


def svg(figure: Any) -> str:
    """The figure as an <svg> element, for a page that needs no other file."""
    text = _rendered(figure, "svg").decode()
    return text[text.index("<svg") :]


def _rendered(figure: Any, form: str) -> bytes:
    """Without dates and random ids: equal data give equal bytes."""
    from matplotlib import rc_context

    stream = io.BytesIO()
    metadata = {"Date": None} if form == "svg" else {"Software": None}
    with rc_context({"svg.hashsalt": "pqrlearn"}):
        figure.savefig(stream, format=form, dpi=150, metadata=metadata)
    return stream.getvalue()
