"""Figures from plain arrays, as matplotlib figures, PNG, SVG, or elements of a page.

    figure = reliability(predictions, labels)
    save(figure, "reliability.png")

Colours are those of Okabe and Ito, which colour-blind people can tell apart; `theme=DARK` is for
dark pages. Needs matplotlib, which is imported when a figure is drawn:
`pip install "pqrlearn[plots]"`.
"""

from __future__ import annotations

from pqrlearn.plots.inside import heat_map, occurrence, strongest, worst
from pqrlearn.plots.judging import (
    learning_curve,
    lift,
    reliability,
    residuals,
    roc,
    score_histogram,
)
from pqrlearn.plots.panels import Line, Panel, draw
from pqrlearn.plots.style import DARK, LIGHT, Theme, check, save, svg, variables

__all__ = [
    "DARK",
    "LIGHT",
    "Line",
    "Panel",
    "Theme",
    "check",
    "draw",
    "heat_map",
    "learning_curve",
    "lift",
    "occurrence",
    "reliability",
    "residuals",
    "roc",
    "save",
    "score_histogram",
    "strongest",
    "svg",
    "variables",
    "worst",
]
