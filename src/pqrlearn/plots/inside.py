"""Figures of what is inside a model: weights, pairs, features, and where it is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn.plots.style import (
    FONT_SIZE,
    LIGHT,
    WIDTH,
    Theme,
    legend_of,
    new_axes,
    new_figure,
    plain_numbers,
    short,
)

_NAME = 50  # characters of a name above its bar
_CELL_NAME = 20
_DOTS = 300  # of a curve of features


def strongest(
    names: Sequence[str],
    effects: npt.ArrayLike,
    support: Sequence[int | None] | None = None,
    *,
    unit: str = "effect on the margin",
    title: str = "Strongest weights",
    theme: Theme = LIGHT,
) -> Any:
    """Bars with a name above each, in the order given, and in how many rows each was seen.

    >>> figure = strongest(["site=news", "site=shop"], [0.4, -0.3], [900, None])
    >>> [text.get_text() for text in figure.axes[0].texts][:2]
    ['site=news', '900 rows']
    """
    sizes = np.asarray(effects, np.float64)
    figure = new_figure(theme, title, 1.1 + 0.36 * max(1, len(sizes)))
    axes = new_axes(figure, theme)
    colours = [theme.blue if size >= 0 else theme.vermilion for size in sizes]
    at = np.arange(len(sizes))
    axes.barh(at, sizes, 0.38, color=colours)
    _names_above(axes, names, support, theme)
    axes.axvline(0, color=theme.soft, lw=1)
    axes.set(xlabel=unit, ylim=(len(sizes) - 0.5, -0.85))
    axes.grid(axis="y", visible=False)
    shown = {"raises the prediction": theme.blue, "lowers it": theme.vermilion}
    legend_of(figure, {name: _patch(colour) for name, colour in shown.items()}, theme)
    return figure


def worst(
    names: Sequence[str],
    losses: npt.ArrayLike,
    errors: npt.ArrayLike,
    constants: npt.ArrayLike,
    support: Sequence[int | None] | None = None,
    *,
    overall: float,
    measure: str = "mean LogLoss",
    title: str = "Where the loss is worst",
    theme: Theme = LIGHT,
) -> Any:
    """Field values by the loss of their rows, with 95 % intervals.

    `constants` are the losses of the constants that fit these rows best, `overall` is the loss of
    all rows.

    >>> figure = worst(["site=shop"], [0.6], [0.02], [0.62], [900], overall=0.4)
    >>> figure.axes[0].get_xlabel()
    'mean LogLoss'
    """
    sizes, reach = np.asarray(losses, np.float64), np.asarray(errors, np.float64)
    figure = new_figure(theme, title, 1.1 + 0.36 * max(1, len(sizes)))
    axes = new_axes(figure, theme)
    at = np.arange(len(sizes))
    error = axes.errorbar(
        sizes, at, xerr=1.96 * reach, fmt="o", color=theme.vermilion, ms=5, capsize=3, lw=1.4
    )
    (local,) = axes.plot(constants, at, "D", mfc="none", mec=theme.blue, ms=6, ls="none")
    line = axes.axvline(overall, color=theme.soft, ls="--", lw=1.2)
    _names_above(axes, names, support, theme)
    axes.set(xlabel=measure, ylim=(len(sizes) - 0.5, -0.85))
    axes.grid(axis="y", visible=False)
    entries = {"model": error, "best constant for these rows": local, "all rows": line}
    legend_of(figure, entries, theme)
    return figure


def _names_above(
    axes: Any, names: Sequence[str], support: Sequence[int | None] | None, theme: Theme
) -> None:
    """The name of a row of the figure to the left, its support to the right."""
    behind = {"facecolor": theme.paper, "edgecolor": "none", "pad": 1.0}  # hides lines
    style = {"va": "center", "fontsize": FONT_SIZE - 1, "parse_math": False, "bbox": behind}
    across = axes.get_yaxis_transform()
    for at, name in enumerate(names):
        seen = None if support is None else support[at]
        most = _NAME if seen is None else _NAME - 14
        place = {"y": at - 0.42, "transform": across, **style}
        axes.text(0.0, s=short(name, most), ha="left", color=theme.ink, **place)
        if seen is not None:
            axes.text(1.0, s=f"{seen:,} rows", ha="right", color=theme.soft, **place)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


def _patch(colour: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=colour)


def heat_map(
    names: Sequence[str],
    values: npt.ArrayLike,
    *,
    unit: str = "effect on the margin",
    title: str = "Pairs",
    theme: Theme = LIGHT,
) -> Any:
    """A square of pairs: the stronger, the darker; nan is left empty.

    >>> figure = heat_map(["site", "hour"], [[float("nan"), 0.4], [0.4, float("nan")]])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['site', 'hour']
    """
    cells = np.asarray(values, np.float64)
    size = len(cells)
    figure = new_figure(theme, title, min(WIDTH, 1.9 + 0.2 * size) + 0.8)
    axes = new_axes(figure, theme)
    top = float(np.nanmax(np.abs(cells))) if np.isfinite(cells).any() else 1.0
    signed = bool((cells < 0).any())
    colours = _colours(theme, signed)
    axes.grid(visible=False)
    mesh = axes.pcolormesh(
        np.ma.masked_invalid(cells),
        cmap=colours,
        vmin=-top if signed else 0.0,
        vmax=top or 1.0,
        edgecolors=theme.rule,
        lw=0.4,
    )
    places, shown = np.arange(size) + 0.5, [short(name, _CELL_NAME) for name in names]
    axes.set(aspect="equal", ylim=(size, 0), anchor="N")
    axes.set_xticks(places, shown, rotation=90)
    axes.set_yticks(places, shown)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set(parse_math=False, fontsize=FONT_SIZE - (1 if size <= 16 else 2.5))
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    _scale(figure, axes, mesh, unit, theme)
    return figure


def _colours(theme: Theme, signed: bool) -> Any:
    """Strong colours that fade to nothing at 0, so that they suit any page."""
    from matplotlib.colors import ListedColormap, to_rgb

    steps = np.linspace(0, 1, 32) ** 0.8
    up = [(*to_rgb(theme.blue), float(step)) for step in steps]
    down = [(*to_rgb(theme.vermilion), float(step)) for step in steps[::-1]]
    return ListedColormap([*down, *up] if signed else up)


def _scale(figure: Any, axes: Any, mesh: Any, unit: str, theme: Theme) -> None:
    """What the colours mean, below."""
    from matplotlib.ticker import MaxNLocator

    place = {"location": "bottom", "shrink": 0.8, "aspect": 34, "pad": 0.03}
    scale = figure.colorbar(mesh, ax=axes, ticks=MaxNLocator(5), **place)
    scale.outline.set_edgecolor(theme.rule)
    scale.ax.set_facecolor("none")
    scale.solids.set_rasterized(False)  # an image could not follow the colours of a page
    scale.set_label(unit, color=theme.ink, fontsize=FONT_SIZE)
    scale.ax.tick_params(colors=theme.soft, labelsize=FONT_SIZE - 1)
    plain_numbers(scale.ax.xaxis)


def occurrence(
    counts: npt.ArrayLike,
    high: npt.ArrayLike | None = None,
    *,
    title: str = "Features by how often they occur",
    theme: Theme = LIGHT,
) -> Any:
    """In how many rows each feature is, the most frequent first; `high` says which are high.

    >>> figure = occurrence([900, 40, 3, 1], [True, True, False, False])
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['2 high features', '2 low features']
    """
    rows = np.asarray(counts, np.float64)
    order = np.argsort(-rows, kind="stable")
    is_high = np.zeros(len(rows), bool) if high is None else np.asarray(high, bool)
    ranks, rows, is_high = np.arange(1, len(rows) + 1), rows[order], is_high[order]
    figure = new_figure(theme, title, 3.3)
    axes = new_axes(figure, theme)
    axes.plot(*_points(ranks, rows), "-", color=theme.rule, lw=2, zorder=1)
    groups = [("low", ~is_high, theme.vermilion, "s")]
    if high is not None:
        groups.insert(0, ("high", is_high, theme.blue, "o"))
    for name, of, colour, marker in groups:
        what = f"{name} features" if high is not None else "features"
        axes.plot(
            *_points(ranks[of], rows[of]),
            marker,
            color=colour,
            mfc="none" if name == "low" else colour,
            ms=3.5,
            mew=0.8,
            label=f"{int(of.sum()):,} {what}",
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="rank of the feature, the most frequent first",
        ylabel="rows in which it occurs",
    )
    for axis in (axes.xaxis, axes.yaxis):
        plain_numbers(axis)
    handles, names = axes.get_legend_handles_labels()
    legend_of(figure, dict(zip(names, handles, strict=True)), theme)
    return figure


def _points(ranks: Any, rows: Any) -> tuple[Any, Any]:
    """As many points as can be seen, spread evenly over the logarithm of the rank."""
    if len(ranks) > _DOTS:
        at = np.searchsorted(ranks, np.geomspace(ranks[0], ranks[-1], _DOTS))
        at = np.unique(np.clip(at, 0, len(ranks) - 1))
        return ranks[at], rows[at]
    return ranks, rows
