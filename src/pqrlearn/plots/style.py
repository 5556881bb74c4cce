"""How all figures look: themes, numbers on axes, names; and how they are written."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Final

from pqrlearn.errors import HyperError, MissingExtra
from pqrlearn.files import atomic_write

WIDTH: Final = 4.5
"""Of a figure, in inches: readable on a phone, where it is 390 pixels wide."""
FONT_SIZE: Final = 9.0


@dataclass(frozen=True)
class Theme:
    """Colours by their use; `series` are for lines, in this order.

    >>> LIGHT.series[0]
    '#0072b2'
    """

    paper: str
    ink: str
    soft: str
    """For what should stand back: axes, notes."""
    rule: str
    """For grids."""
    blue: str
    vermilion: str
    green: str
    purple: str
    orange: str
    sky: str

    @property
    def series(self) -> tuple[str, ...]:
        """Colours of lines.

        >>> len(DARK.series)
        7
        """
        own = (self.blue, self.vermilion, self.green, self.purple, self.orange, self.sky)
        return (*own, self.soft)


LIGHT: Final = Theme(
    paper="#ffffff",
    ink="#1c1e21",
    soft="#5c636b",
    rule="#d9dde1",
    blue="#0072b2",
    vermilion="#d55e00",
    green="#009e73",
    purple="#cc79a7",
    orange="#e69f00",
    sky="#56b4e9",
)
DARK: Final = Theme(
    paper="#15181c",
    ink="#e8eaed",
    soft="#a2a9b1",
    rule="#363c43",
    blue="#4aa8e8",
    vermilion="#ff8a3d",
    green="#2bc79b",
    purple="#e6a3c8",
    orange="#f5bd3d",
    sky="#9ad5f8",
)
"""The same colours, light enough for a dark page."""


def check() -> None:
    """Raises what drawing would raise: before long work instead of after it."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtra("figures", "plots") from None


def new_figure(theme: Theme, title: str, height: float, width: float = WIDTH) -> Any:
    """An empty figure with its title, which a page shows in its own words instead."""
    check()
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_settings()):
        figure = Figure(figsize=(width, height), layout="constrained", facecolor=theme.paper)
        FigureCanvasAgg(figure)
        # The size of a title is in the figure's, so that a wide one need not be large.
        figure.suptitle(title, x=0.02, ha="left", fontsize=FONT_SIZE + 2, color=theme.ink)
    return figure


def new_axes(figure: Any, theme: Theme, *where: Any, **shared: Any) -> Any:
    """Axes with a quiet grid, and numbers in the same form everywhere."""
    from matplotlib import rc_context

    with rc_context(_settings()):
        axes = figure.add_subplot(*where, **shared)
        axes.set_facecolor("none")
        axes.grid(color=theme.rule, lw=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(theme.soft)
        axes.tick_params(colors=theme.soft, labelsize=FONT_SIZE - 1, which="both")
        for label in (axes.xaxis.label, axes.yaxis.label, axes.title):
            label.set(color=theme.ink, fontsize=FONT_SIZE)
        plain_numbers(axes.xaxis)
        plain_numbers(axes.yaxis)
    return axes


def legend(figure: Any, axes: Any, theme: Theme, columns: int = 3) -> None:
    """One for the figure, below its axes, where it hides nothing."""
    handles, names = axes.get_legend_handles_labels()
    legend_of(figure, dict(zip(names, handles, strict=True)), theme, columns)


def legend_of(figure: Any, entries: dict[str, Any], theme: Theme, columns: int = 3) -> None:
    if entries:
        figure.legend(
            entries.values(),
            entries.keys(),
            loc="outside lower center",
            ncols=min(columns, len(entries)),
            frameon=False,
            fontsize=FONT_SIZE - 0.5,
            labelcolor=theme.ink,
            handlelength=2.3,
            columnspacing=1.2,
        )


# -- numbers and names ------------------------------------------------------------


def number(value: float) -> str:
    """A number on an axis: with commas, in thousands from 10,000 on, without useless digits.

    >>> [number(x) for x in (0.25, -3, 1234, 20_000, 1.5e6, 2e9, 1e-7)]
    ['0.25', '−3', '1,234', '20k', '1.5M', '2G', '1e−07']
    """
    size = abs(value)
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if size >= factor and size >= 1e4:
            return f"{value / factor:,.4g}{unit}".replace("-", "−")
    text = f"{value:,.0f}" if size >= 1000 else f"{value:.6g}"
    return text.replace("-", "−")


def percent(value: float) -> str:
    """A share on an axis.

    >>> percent(0.25), percent(0.001)
    ('25 %', '0.1 %')
    """
    return f"{100 * value:.4g} %"


def plain_numbers(axis: Any, form: Callable[[float], str] = number) -> None:
    """Without exponents and offsets, whatever the scale; call it again after setting that."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: form(value)))
    axis.set_minor_formatter(NullFormatter())
    if axis.get_scale() == "log":
        low, high = sorted(axis.get_view_interval())
        if low > 0 and high / low < 50:  # less than two powers of ten: say more
            axis.set_major_locator(LogLocator(10, (1.0, 2.0, 5.0)))


def short(name: str, most: int) -> str:
    """A name on one line: control characters are escaped, and the middle of long ones left out.

    >>> short("site=news", 12), short("site=a-very-long-one", 12), short("a\\nb", 12)
    ('site=news', 'site=a…g-one', 'a\\\\nb')
    """
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
    if len(plain) <= most:
        return plain
    tail = (most - 1) // 2
    return f"{plain[: most - 1 - tail]}…{plain[len(plain) - tail :]}"


# -- writing ------------------------------------------------------------------------

WIDE_FONTS: Final = ("Noto Sans CJK", "WenQuanYi", "PingFang", "Hiragino", "Microsoft YaHei")
"""How the names of fonts with Chinese, Japanese and Korean characters begin, on most systems."""


@cache
def _settings() -> dict[Any, Any]:
    from matplotlib.font_manager import get_font_names

    wide = sorted(name for name in get_font_names() if name.startswith(WIDE_FONTS))
    return {
        "text.parse_math": False,  # a name may contain dollars
        "font.size": FONT_SIZE,
        # The first comes with matplotlib; another one, if there is one, has what it lacks.
        "font.family": ["DejaVu Sans", *wide[:1]],
        "svg.hashsalt": "pqrlearn",
        "svg.fonttype": "path",
    }


def save(
    figure: Any, path: str | os.PathLike[str], forms: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Writes `path` as PNG and as SVG, whatever its suffix; returns the paths.

    >>> from tempfile import TemporaryDirectory
    >>> from pqrlearn.plots import roc
    >>> with TemporaryDirectory() as folder:
    ...     [path.name for path in save(roc([0.2, 0.7], [0, 1]), Path(folder, "roc"), ["svg"])]
    ['roc.svg']
    """
    for form in forms:
        if form not in ("png", "svg"):
            raise HyperError(f"form={form!r} must be png or svg")
    paths = [Path(path).with_suffix(f".{form}") for form in forms]
    for target in paths:
        atomic_write(target, _rendered(figure, target.suffix[1:]))
    return paths


def svg(figure: Any, name: str = "figure") -> str:
    """The figure as an <svg> element for a page: without its title, in the page's colours.

    Colours of `LIGHT` become variables of the page, which `variables` defines. Equal parts of two
    figures of a page have different ids if the figures have different names.

    >>> from pqrlearn.plots import roc
    >>> element = svg(roc([0.2, 0.7], [0, 1]), "roc")
    >>> element.startswith("<svg"), "var(--blue, #0072b2)" in element
    (True, True)
    """
    title = figure._suptitle
    if title is not None:
        title.set(visible=False, in_layout=False)
    try:
        text = _rendered(figure, "svg", facecolor="none").decode()
    finally:
        if title is not None:
            title.set(visible=True, in_layout=True)
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\g<1>{name}-", text)
    for colour in fields(LIGHT):
        value = getattr(LIGHT, colour.name)
        text = text.replace(f": {value}", f": var(--{colour.name}, {value})")
    text = re.sub(r"\s*\n\s*", "\n", text)
    return text[text.index("<svg") :]


def variables(theme: Theme) -> str:
    """The colours of a theme as CSS declarations.

    >>> variables(DARK)[:32]
    '--paper: #15181c; --ink: #e8eaed'
    """
    return "; ".join(f"--{colour.name}: {getattr(theme, colour.name)}" for colour in fields(theme))


def _rendered(figure: Any, form: str, **settings: Any) -> bytes:
    """Without dates and random ids: equal data give equal bytes."""
    from matplotlib import rc_context
    from matplotlib.text import Text

    stream = io.BytesIO()
    metadata = {"Date": None} if form == "svg" else {"Software": None}
    with rc_context(_settings()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # shown as a box
        for text in figure.findobj(Text):
            text.set_fontfamily(_settings()["font.family"])
        figure.savefig(stream, format=form, dpi=150, metadata=metadata, **settings)
    return stream.getvalue()
