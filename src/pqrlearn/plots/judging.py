"""Figures of predictions beside labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn.errors import DataError
from pqrlearn.plots.style import (
    LIGHT,
    Theme,
    legend,
    new_axes,
    new_figure,
    number,
    percent,
    plain_numbers,
)

FloatArray = npt.NDArray[np.float64]
SHARES = (*(at / 10 for at in range(10)), 0.95, 0.98, 0.995, 1.0)
"""Where the bins of a reliability diagram end: shares of the rows, by prediction."""
_POINTS = 400  # of a curve: more cannot be seen
_DASHES = ("-", "--", ":", "-.")


def learning_curve(
    rows: npt.ArrayLike,
    losses: Mapping[str, npt.ArrayLike],
    *,
    measure: str = "LogLoss",
    title: str = "Learning curve",
    theme: Theme = LIGHT,
) -> Any:
    """The loss of all rows so far against their number, a line for each model.

    >>> figure = learning_curve([100, 200, 300], {"LR": [0.6, 0.5, 0.4]})
    >>> figure.axes[0].get_ylabel()
    'progressive LogLoss'
    """
    x = np.asarray(rows, np.float64)
    figure = new_figure(theme, title, 3.3)
    axes = new_axes(figure, theme)
    for at, (name, values) in enumerate(losses.items()):
        y = np.asarray(values, np.float64)
        axes.plot(
            x,
            y,
            _DASHES[at % 4],
            color=theme.series[at % len(theme.series)],
            lw=2.2 - 0.2 * min(at, 4),
            label=name,
            marker="o" if len(x) == 1 else None,
        )
    axes.set(xscale="log", xlabel="rows learned", ylabel=f"progressive {measure}")
    axes.margins(x=0.02)
    plain_numbers(axes.xaxis)
    legend(figure, axes, theme)
    return figure


def reliability(
    predictions: npt.ArrayLike,
    labels: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    observed: str = "observed click rate",
    predicted: str = "predicted probability",
    title: str = "Reliability",
    theme: Theme = LIGHT,
) -> Any:
    """Mean labels against mean predictions, with 95 % bands and the rows of each bin.

    Bins are tenths of the rows by prediction; the last tenth is cut further. The band of clicks is
    Wilson's, of other labels 1.96 standard errors.

    >>> figure = reliability([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1])
    >>> len(figure.axes)
    2
    """
    p, y, w = _columns(predictions, labels, weights)
    figure = new_figure(theme, title, 3.9)
    grid = figure.add_gridspec(2, 1, height_ratios=(3.2, 1))
    axes = new_axes(figure, theme, grid[0])
    below = new_axes(figure, theme, grid[1], sharex=axes)
    x, mean, low, high, counts, edges = _bins(p, y, w)
    ends = [min(x.min(), mean.min()), max(x.max(), mean.max())]
    axes.plot(ends, ends, "--", color=theme.soft, lw=1, label="predicted = observed")
    axes.fill_between(x, low, high, color=theme.blue, alpha=0.2, lw=0, label="95 % interval")
    axes.plot(x, mean, "o-", color=theme.blue, lw=1.6, ms=4, label="mean of a bin")
    axes.set(ylabel=observed)
    axes.tick_params(labelbottom=False)
    width = np.maximum(np.diff(edges), 1e-3 * (edges[-1] - edges[0]))
    bars = {"align": "edge", "color": theme.sky, "edgecolor": theme.blue, "lw": 0.5}
    below.bar(edges[:-1], counts, width, **bars)
    below.set(xlabel=predicted, ylabel="rows")
    legend(figure, axes, theme)
    return figure


def _bins(p: FloatArray, y: FloatArray, w: FloatArray) -> tuple[FloatArray, ...]:
    """Of each bin: mean prediction, mean label, its interval, rows; and the edges."""
    edges = np.unique(np.quantile(p, SHARES))
    if len(edges) == 1:
        edges = np.array([edges[0], edges[0]])
    at = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, len(edges) - 2)
    size = len(edges) - 1
    counts = np.bincount(at, minlength=size).astype(np.float64)
    kept = counts > 0
    total, squares = (np.bincount(at, v, size)[kept] for v in (w, w * w))
    x, mean, second = (np.bincount(at, w * v, size)[kept] / total for v in (p, y, y * y))
    rows = total**2 / squares  # as many of weight 1 would be as certain
    z = 1.96
    if np.isin(y, (0.0, 1.0)).all():
        middle = (mean + z * z / (2 * rows)) / (1 + z * z / rows)
        reach = np.sqrt(mean * (1 - mean) / rows + (z / (2 * rows)) ** 2) * z / (1 + z * z / rows)
    else:
        middle = mean
        reach = z * np.sqrt(np.maximum(second - mean**2, 0) / np.maximum(rows - 1, 1))
    return x, mean, middle - reach, middle + reach, counts, edges


def score_histogram(
    predictions: npt.ArrayLike,
    labels: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    predicted: str = "predicted probability",
    title: str = "Predictions",
    theme: Theme = LIGHT,
) -> Any:
    """How predictions are spread: of clicks and of non-clicks, or beside other labels.

    >>> figure = score_histogram([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1])
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['rows with label 0', 'rows with label 1']
    """
    p, y, w = _columns(predictions, labels, weights)
    figure = new_figure(theme, title, 3.1)
    axes = new_axes(figure, theme)
    if np.isin(y, (0.0, 1.0)).all():
        groups = {f"rows with label {one}": (p[y == one], w[y == one]) for one in (0, 1)}
    else:
        groups = {"predictions": (p, w), "labels": (y, w)}
    both = np.concatenate([values for values, _ in groups.values()])
    edges = np.histogram_bin_edges(_without_ends(both), 40)
    styles = ((theme.blue, "-"), (theme.vermilion, "--"))
    for (name, (values, mass)), (colour, dashes) in zip(groups.items(), styles, strict=True):
        if not len(values):
            continue
        shares = np.histogram(values, edges, weights=mass)[0] / mass.sum()
        axes.stairs(shares, edges, color=colour, fill=True, alpha=0.25)
        axes.stairs(shares, edges, color=colour, ls=dashes, lw=1.6, label=name)
    axes.set(xlabel=predicted, ylabel="share of these rows", ylim=(0, None))
    plain_numbers(axes.yaxis, percent)
    legend(figure, axes, theme)
    return figure


def residuals(
    predictions: npt.ArrayLike,
    labels: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    title: str = "Residuals",
    theme: Theme = LIGHT,
) -> Any:
    """How labels differ from predictions.

    >>> residuals([3.5, 4.0], [3.0, 5.0]).axes[0].get_xlabel()
    'label − prediction'
    """
    p, y, w = _columns(predictions, labels, weights)
    figure = new_figure(theme, title, 3.1)
    axes = new_axes(figure, theme)
    errors = y - p
    edges = np.histogram_bin_edges(_without_ends(errors), 40)
    shares = np.histogram(errors, edges, weights=w)[0] / w.sum()
    axes.stairs(shares, edges, color=theme.sky, fill=True)
    axes.stairs(shares, edges, color=theme.blue, lw=1.2)
    mean = float(np.average(errors, weights=w))
    axes.axvline(
        mean, color=theme.vermilion, ls="--", lw=1.6, label=f"mean {number(round(mean, 4))}"
    )
    axes.set(xlabel="label − prediction", ylabel="share of rows", ylim=(0, None))
    plain_numbers(axes.yaxis, percent)
    legend(figure, axes, theme)
    return figure


def roc(
    predictions: npt.ArrayLike,
    labels: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    title: str = "ROC curve",
    theme: Theme = LIGHT,
) -> Any:
    """How many clicks are found for how many false alarms, by the threshold.

    >>> figure = roc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    >>> figure.legends[0].get_texts()[0].get_text()
    'model, AUC 0.7500'
    """
    p, y, w = _columns(predictions, labels, weights)
    hits, alarms = _cumulated(p, w * (y > 0)), _cumulated(p, w * (y <= 0))
    if not (hits[-1] > 0 and alarms[-1] > 0):
        raise DataError("a ROC curve needs rows of both labels")
    x, found = alarms / alarms[-1], hits / hits[-1]
    area = float(np.sum(np.diff(x) * (found[1:] + found[:-1]) / 2))
    figure = new_figure(theme, title, 3.9)
    axes = new_axes(figure, theme)
    kept = _thinned(len(x))
    axes.plot(x[kept], found[kept], color=theme.blue, lw=1.8, label=f"model, AUC {area:.4f}")
    axes.plot([0, 1], [0, 1], "--", color=theme.soft, lw=1, label="chance, AUC 0.5")
    axes.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        plain_numbers(axis, percent)
    legend(figure, axes, theme)
    return figure


def lift(
    predictions: npt.ArrayLike,
    labels: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    rate: str = "click rate",
    title: str = "Lift",
    theme: Theme = LIGHT,
) -> Any:
    """The mean label of the rows predicted highest, as a multiple of all rows'.

    >>> figure = lift([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    >>> figure.axes[0].lines[0].get_ydata().tolist()
    [2.0, 1.0, 1.3333333333333333, 1.0]
    """
    p, y, w = _columns(predictions, labels, weights)
    rows, label = _cumulated(p, w)[1:], _cumulated(p, w * y)[1:]
    if not label[-1] > 0:
        raise DataError("a lift curve needs labels whose mean is above 0")
    share, times = rows / rows[-1], label / rows * (rows[-1] / label[-1])
    figure = new_figure(theme, title, 3.1)
    axes = new_axes(figure, theme)
    first = min(len(share) - 1, int(np.searchsorted(share, min(1e-3 + 50 / len(p), 0.1))))
    first = 0 if len(share) <= 50 else first  # the top of many rows is noise
    kept = first + _thinned(len(share) - first)
    axes.plot(share[kept], times[kept], color=theme.blue, lw=1.8, label="model")
    axes.axhline(1, ls="--", color=theme.soft, lw=1, label="rows at random")
    axes.set(
        xscale="log",
        xlabel="share of rows, highest predictions first",
        ylabel=f"{rate} ÷ that of all rows",
    )
    plain_numbers(axes.xaxis, percent)
    legend(figure, axes, theme)
    return figure


# -- arrays ---------------------------------------------------------------------------


def _columns(
    predictions: npt.ArrayLike, labels: npt.ArrayLike, weights: npt.ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rows that count: predictions, labels and weights."""
    p, y = np.asarray(predictions, np.float64), np.asarray(labels, np.float64)
    w = np.ones(len(p)) if weights is None else np.asarray(weights, np.float64)
    if not len(p) == len(y) == len(w):
        raise DataError(
            f"{len(p)} predictions, {len(y)} labels and {len(w)} weights: each row needs one of "
            "each"
        )
    kept = (w > 0) & np.isfinite(p)
    if not kept.any():
        raise DataError("nothing to draw: no row has a weight above 0")
    return p[kept], y[kept], w[kept]


def _cumulated(p: FloatArray, values: FloatArray) -> FloatArray:
    """Sums of values over the rows predicted highest, from none on; ties come together."""
    order = np.argsort(-p, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(p[order]) != 0, True))
    return np.concatenate([np.zeros(1), np.cumsum(values[order])[ends]])


def _thinned(size: int) -> npt.NDArray[np.int64]:
    """Places of a curve to draw, with its ends; dense at its start."""
    if size <= _POINTS:
        return np.arange(size)
    even, early = np.linspace(0, size - 1, _POINTS // 2), np.geomspace(1, size - 1, _POINTS // 2)
    return np.unique(np.concatenate([even, early]).astype(np.int64))


def _without_ends(values: FloatArray) -> FloatArray:
    """Without the outermost thousandths: a single outlier would leave the rest in one bin."""
    low, high = np.quantile(values, (0.001, 0.999))
    kept: FloatArray = values[(values >= low) & (values <= high)]
    return kept
