from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pqrlearn import plots
from pqrlearn.errors import MissingExtra

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
    assert [text.get_text() for text in third.get_legend().get_texts()] == ["LR", "PQR"]
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
