"""Figures: what is drawn is what was given, nothing is clipped, and all look alike."""

from __future__ import annotations

import re
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from pqrlearn import plots
from pqrlearn.errors import DataError, HyperError, MissingExtra
from pqrlearn.plots.style import WIDE_FONTS
from programs import lacks

LINES = [
    plots.Line("LR", [1, 10, 100], [3.0, 2.0, 1.0], spread=[0.1, 0.1, 0.1]),
    plots.Line("PQR", [1, 10, 100], [2.0, 1.5, 0.5], style="--"),
]


def panel(title: str) -> plots.Panel:
    return plots.Panel(title, "order", "RMSE", LINES, x_axis="log", ticks=[1, 10, 100])


def test_a_figure_has_every_panel_line_and_label() -> None:
    figure = plots.draw([panel("first"), panel("second"), panel("third")], columns=2)
    first, second, third = figure.axes
    assert [axes.get_title() for axes in (first, second, third)] == ["first", "second", "third"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["LR", "PQR"]
    assert list(first.lines[0].get_ydata()) == [3.0, 2.0, 1.0]
    assert first.lines[0].get_color() == second.lines[0].get_color()
    assert first.get_xscale() == "log"


def test_a_figure_is_saved_as_png_and_svg(tmp_path: Path) -> None:
    png, svg = plots.save(plots.draw([panel("one")]), tmp_path / "figure.png")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in svg.read_bytes()


def test_equal_data_are_drawn_in_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        plots.save(plots.draw([panel("one")]), tmp_path / name)
    for suffix in (".png", ".svg"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_an_svg_for_a_page_starts_with_its_element() -> None:
    assert plots.svg(plots.draw([panel("one")])).startswith("<svg")


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r'pip install "pqrlearn\[plots\]"'):
        plots.draw([panel("one")])


# Figures of a model.

CHANCE = np.random.default_rng(0)
P = 1 / (1 + np.exp(-CHANCE.normal(-1.5, 1.0, 5000)))
Y = (CHANCE.random(5000) < P).astype(float)
HOSTILE = "a$x_{$<script>\u202e\n&" + "long" * 40
NAMES = [f"site={n}" for n in range(7)] + [HOSTILE]
EFFECTS = [0.9, -0.8, 0.7, -0.6, 0.5, 0.4, -0.3, 0.2]
SQUARE = np.where(np.eye(8) > 0, np.nan, CHANCE.normal(0, 1, (8, 8)))
FIGURES: dict[str, Callable[[plots.Theme], Any]] = {
    "learning": lambda t: plots.learning_curve(
        [100, 1000, 90_000], {"auto": [0.5, 0.4, 0.3], "best constant": [0.6] * 3}, theme=t
    ),
    "reliability": lambda t: plots.reliability(P, Y, theme=t),
    "ratings": lambda t: plots.reliability(5 * P, np.round(5 * P), theme=t),
    "scores": lambda t: plots.score_histogram(P, Y, theme=t),
    "residuals": lambda t: plots.residuals(P, Y, theme=t),
    "roc": lambda t: plots.roc(P, Y, theme=t),
    "lift": lambda t: plots.lift(P, Y, theme=t),
    "strongest": lambda t: plots.strongest(NAMES, EFFECTS, [10**k for k in range(8)], theme=t),
    "worst": lambda t: plots.worst(
        NAMES, np.abs(EFFECTS), [0.01] * 8, [0.3] * 8, [7] * 8, overall=0.4, theme=t
    ),
    "pairs": lambda t: plots.heat_map(NAMES, SQUARE, theme=t),
    "occurrence": lambda t: plots.occurrence(
        10**5 // np.arange(1, 5001), np.arange(5000) < 70, theme=t
    ),
    "panels": lambda t: plots.draw([panel("one"), panel("two")], theme=t),
}
everything = pytest.mark.parametrize("name", FIGURES)


@everything
@pytest.mark.parametrize("theme", [plots.LIGHT, plots.DARK])
def test_no_text_is_clipped_and_no_label_covers_another(name: str, theme: plots.Theme) -> None:
    figure = FIGURES[name](theme)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    width, height = figure.canvas.get_width_height()
    texts = [text for legend in figure.legends for text in legend.get_texts()]
    for axes in figure.axes:
        texts += [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        for axis in (axes.xaxis, axes.yaxis):
            shown = _labels_in_view(axis)
            texts += shown
            boxes = [label.get_window_extent(renderer) for label in shown]
            for one, other in combinations(boxes, 2):
                assert not one.overlaps(other), [label.get_text() for label in shown]
    for text in texts:
        if text.get_text():
            box = text.get_window_extent(renderer)
            assert min(box.x0, box.y0) > -1, text.get_text()
            assert box.x1 < width + 1, text.get_text()
            assert box.y1 < height + 1, text.get_text()


def _labels_in_view(axis: Any) -> list[Any]:
    """Ticks outside of the view have labels, too, which are not drawn."""
    low, high = sorted(axis.get_view_interval())
    return [
        tick.label1
        for tick in axis.get_major_ticks()
        if low <= tick.get_loc() <= high and tick.label1.get_text() and tick.label1.get_visible()
    ]


@everything
def test_a_figure_has_one_legend_at_most_and_units_on_its_axes(name: str) -> None:
    figure = FIGURES[name](plots.LIGHT)
    assert len(figure.legends) <= 1
    assert not any(axes.get_legend() for axes in figure.axes)
    assert all(axes.get_xlabel() or axes.get_ylabel() for axes in figure.axes if name != "pairs")


@everything
def test_an_element_for_a_page_is_xml_in_the_colours_of_the_page(name: str) -> None:
    element = plots.svg(FIGURES[name](plots.LIGHT), name)
    ElementTree.fromstring(element)
    own = {*re.findall(r"(?<!, )#[0-9a-f]{6}\b", re.sub(r"url\(#[^)]*\)", "", element))}
    assert own == set(), "colours that a dark page cannot change"
    assert "<script" not in element
    assert "<image" not in element
    assert "http" not in re.sub(r'xmlns(:xlink)?="[^"]*"', "", element)
    ids = re.findall(r'\bid="([^"]+)"', element)
    assert all(one.startswith(f"{name}-") for one in ids)
    used = re.findall(r'(?:xlink:href="#|url\(#)([^")]+)', element)
    assert {*used} <= {*ids}


def test_a_theme_has_as_many_colours_as_the_other_and_all_differ() -> None:
    for theme in (plots.LIGHT, plots.DARK):
        colours = re.findall(r"#[0-9a-f]{6}", plots.variables(theme))
        assert len(colours) == len({*colours}) == 10


def test_colours_of_lines_stand_out_from_the_paper() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for theme in (plots.LIGHT, plots.DARK):
        for colour, least in ((theme.ink, 7.0), (theme.soft, 4.5), (theme.blue, 3.0)):
            light, dark = sorted((luminance(colour), luminance(theme.paper)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= least, colour


def test_the_roc_curve_has_the_area_that_scikit_learn_finds() -> None:
    weights = np.random.default_rng(1).random(5000)
    coarse = np.round(P, 2)  # with ties
    figure = plots.roc(coarse, Y, weights)
    shown = figure.legends[0].get_texts()[0].get_text()
    assert shown == f"model, AUC {roc_auc_score(Y, coarse, sample_weight=weights):.4f}"


def test_bins_of_a_reliability_diagram_hold_all_rows_and_their_means() -> None:
    axes, below = plots.reliability(P, Y).axes
    assert sum(bar.get_height() for bar in below.patches) == 5000
    x, y = axes.lines[1].get_data()
    assert (np.diff(x) > 0).all()
    first = np.quantile(P, 0.1) > P
    assert (x[0], y[0]) == pytest.approx((P[first].mean(), Y[first].mean()))


def test_the_band_of_a_calibrated_model_holds_the_predictions_of_most_bins() -> None:
    axes, _ = plots.reliability(P, Y).axes
    x = axes.lines[1].get_xdata()
    vertices = axes.collections[0].get_paths()[0].vertices
    inside = [
        min(v[1] for v in vertices if v[0] == one)
        <= one
        <= max(v[1] for v in vertices if v[0] == one)
        for one in x
    ]
    assert sum(inside) >= len(x) - 3


def test_the_lift_of_all_rows_is_1_and_of_the_first_that_of_the_best_rows() -> None:
    line = plots.lift(P, Y).axes[0].lines[0]
    share, times = line.get_data()
    assert (share[-1], times[-1]) == pytest.approx((1.0, 1.0))
    top = np.sort(P)[-round(5000 * share[0])] <= P
    assert times[0] == pytest.approx(Y[top].mean() / Y.mean())


def test_rows_of_weight_0_do_not_count() -> None:
    twice = np.concatenate([P, P]), np.concatenate([Y, 1 - Y]), np.repeat([1.0, 0.0], 5000)
    for draw in (plots.roc, plots.lift, plots.reliability, plots.score_histogram, plots.residuals):
        one, other = (plots.svg(draw(*given)) for given in ((P, Y), twice))  # type: ignore[operator]
        assert one == other


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.roc([0.5], [1]), "both labels"),
        (lambda: plots.lift([0.5], [0]), "above 0"),
        (lambda: plots.reliability([0.5], [1, 0]), "1 predictions, 2 labels"),
        (lambda: plots.reliability([], []), "nothing to draw"),
    ],
)
def test_what_cannot_be_drawn_is_an_error(draw: Callable[[], Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        draw()


def test_one_row_or_one_feature_is_enough_for_a_figure() -> None:
    figures = [
        plots.learning_curve([1], {"LR": [0.7]}),
        plots.reliability([0.5], [1]),
        plots.score_histogram([0.5], [1]),
        plots.residuals([0.5], [1]),
        plots.lift([0.5], [1]),
        plots.strongest(["a"], [0.0]),
        plots.strongest([], []),
        plots.heat_map(["a", "b"], [[np.nan, 0.0], [0.0, np.nan]]),
        plots.occurrence([1], [False]),
        plots.worst(["a"], [0.7], [np.nan], [0.6], overall=0.7),
    ]
    for figure in figures:
        assert plots.svg(figure).startswith("<svg")


def test_a_figure_is_saved_in_the_form_that_was_asked_for(tmp_path: Path) -> None:
    figure = plots.roc(P, Y, theme=plots.DARK)
    assert plots.save(figure, tmp_path / "roc.v1", ["svg"]) == [tmp_path / "roc.svg"]
    assert plots.DARK.paper in (tmp_path / "roc.svg").read_text()
    with pytest.raises(HyperError, match="form='pdf' must be png or svg"):
        plots.save(figure, tmp_path / "roc", ["pdf"])


def test_names_in_chinese_are_readable_where_a_font_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.font_manager import get_font_names

    if not any(name.startswith(WIDE_FONTS) for name in get_font_names()):
        lacks("a font with Chinese characters", package="fonts-wqy-microhei")
    monkeypatch.setattr(warnings, "filterwarnings", lambda *_: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of each character that it lacks
        plots.save(plots.strongest(["城市=北京"], [0.5]), tmp_path / "figure")
