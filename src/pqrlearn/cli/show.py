"""Output: a progress line on stderr, tables and JSON on stdout."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Literal

from pqrlearn.cli.text import printable, printable_json
from pqrlearn.errors import RowError
from pqrlearn.learners import PQR, Auto, Learner, Mixture
from pqrlearn.metrics import Metrics
from pqrlearn.progressive import Pass
from pqrlearn.schema import Schema

_SHOWN_COLUMNS = 60
Fraction = Callable[[], float | None]


def print_json(figures: dict[str, Any]) -> None:
    print(printable_json(json.dumps(figures, allow_nan=False, ensure_ascii=False)))


def note(message: str) -> None:
    """Prints a message on stderr."""
    print(f"pqr: {printable(message)}", file=sys.stderr)


def note_bad_rows(count: int, first: Sequence[RowError]) -> None:
    """Reports how many rows were skipped, and the first errors."""
    for error in first[:3]:
        note(f"skipped {error}")
    if count:
        note(f"{count:,} bad rows were skipped" if count > 1 else "1 bad row was skipped")


def schema(of: Schema, loss: str) -> None:
    """What the columns of a table are taken for, on stderr; those that are ignored too."""
    shown = of.columns[:_SHOWN_COLUMNS]
    rows = [(column.name, column.kind, of.notes.get(column.name, "")) for column in shown]
    title = f"pqr: columns, for {loss} loss (pqr schema writes them to a file to edit):"
    table(title, ["column", "is", "because"], rows, text_columns=3, file=sys.stderr)
    if len(of.columns) > len(shown):
        print(f"and {len(of.columns) - len(shown):,} more", file=sys.stderr)


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_columns: int = 1,
    file: IO[str] | None = None,
) -> None:
    """A table, by default on stdout: `text_columns` to the left, the others to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, show_header=any(columns))
    drawn.padding = (0, 2, 0, 0)
    for at, column in enumerate(columns):
        drawn.add_column(column, justify="left" if at < text_columns else "right", no_wrap=True)
    for row in rows:
        drawn.add_row(*(Text(printable(cell)) for cell in row))
    out = file or sys.stdout
    if title:
        print(title, file=out)
    # Names may be long: outside a terminal nothing is cut.
    width = None if out.isatty() else 10_000
    Console(file=out, width=width, highlight=False).print(drawn, soft_wrap=False, crop=False)


@contextmanager
def progress(title: str, fraction: Fraction, *, quiet: bool) -> Iterator[Callable[[Metrics], None]]:
    """A line with rows, rows/s, running loss and time left; only on a terminal."""
    with _line(title, quiet=quiet) as line:
        yield lambda metrics: line.show(metrics, fraction) if line else None


@contextmanager
def tally(
    title: str, unit: Literal["rows", "MB"], *, quiet: bool
) -> Iterator[Callable[[int, float | None], None]]:
    """A line with the rows or bytes done, their rate, and the time left."""
    with _line(title, quiet=quiet) as line:
        yield lambda done, share: line.count(done, share, unit) if line else None


@contextmanager
def steps(title: str, *, quiet: bool) -> Iterator[Callable[[float, str], None]]:
    """A line with the current step, the share of the work that is done, and the time left."""
    with _line(title, quiet=quiet) as line:
        yield lambda share, text: line.step(share, text) if line else None


@contextmanager
def _line(title: str, *, quiet: bool) -> Iterator[_Line | None]:
    if quiet or not sys.stderr.isatty():
        yield None
        return
    line = _Line(title)
    try:
        yield line
    finally:
        line.clear()


class _Line:
    """A progress line, redrawn at most ten times per second."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._start = self._drawn = time.monotonic()
        self._share, self._text = 0.0, ""

    def show(self, metrics: Metrics, fraction: Fraction) -> None:
        if self._is_due():
            state = metrics.progress()
            loss = f"loss {state['loss']:.4f} (recent {state['recent']:.4f})"
            self._draw(state["rows"], "rows", fraction(), loss)

    def count(self, done: int, share: float | None, unit: Literal["rows", "MB"]) -> None:
        if self._is_due():
            self._draw(done / 1e6 if unit == "MB" else done, unit, share)

    def step(self, share: float, text: str) -> None:
        if share < self._share:  # a new piece of work
            self._start = time.monotonic()
        self._share = share
        if self._is_due() or text != self._text:
            self._text = text
            self._write("  ".join([f"{self._title}: {text}", *self._left(share)]))

    def clear(self) -> None:
        self._write("")

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now - self._drawn < 0.1:
            return False
        self._drawn = now
        return True

    def _draw(self, done: float, unit: str, share: float | None, *more: str) -> None:
        rate = done / (self._drawn - self._start)
        parts = [f"{self._title}: {done:,.0f} {unit}", f"{rate:,.0f}/s", *more]
        self._write("  ".join([*parts, *self._left(share)]))

    def _left(self, share: float | None) -> list[str]:
        seconds = self._drawn - self._start
        return [f"{share:.0%}", f"{_clock(seconds / share - seconds)} left"] if share else []

    def _write(self, text: str) -> None:
        from shutil import get_terminal_size

        width = get_terminal_size().columns - 1
        sys.stderr.write("\r" + text[:width] + "\x1b[K")
        sys.stderr.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def figure_cells(result: Pass) -> list[tuple[str, str]]:
    """Metrics as cells of a table."""
    measures, figures = result.measures, result.figures
    key, title = measures.key, measures.title
    cells = [(title, f"{figures[key]:.5f}")]
    if measures.ranks:
        cells.append(("AUC", f"{figures['auc']:.5f} ± {figures['auc_error']:.0e}"))
    return [
        *cells,
        (f"best constant's {title}", f"{figures[f'constant_{key}']:.5f}"),
        ("mean label", f"{figures['mean_label']:.5f}"),
        ("mean prediction", f"{figures['mean_prediction']:.5f}"),
    ]


def auto_cells(model: Auto) -> list[tuple[str, str]]:
    """The state of Auto as cells of a table."""
    about = model.summary()
    best = min(about["losses"], key=about["losses"].__getitem__)
    return [
        ("high features", f"{about['high']:,}"),
        ("best expert", f"{best}  ({about['posterior'][best]:.0%} of the posterior)"),
        ("prediction", f"{about['stacked']:.0%} stacked experts, the rest by the posterior"),
        ("loss beyond the best", f"{about['regret']:,.5g}  (at most {about['bound']:,.5g})"),
    ]


def mixture_figures(learner: Mixture) -> dict[str, Any]:
    """The state of a mixture, for JSON; a PQR has an `order`."""
    shares = zip(learner.learners, learner.posterior(), strict=True)
    return {
        "posterior": [
            {"learner": one.kind, **_order(one), "share": share} for one, share in shares
        ],
        "regret": learner.regret(),
        "bound": learner.bound(),
    }


def _order(learner: Learner) -> dict[str, int]:
    return {"order": learner.separation.order} if isinstance(learner, PQR) else {}


def mixture_cells(learner: Mixture) -> list[tuple[str, str]]:
    """The same as cells of a table."""
    figures = mixture_figures(learner)
    shares = [
        (
            f"  {one['learner']}" + (f", order {one['order']:,}" if "order" in one else ""),
            f"{one['share']:.2%}",
        )
        for one in figures["posterior"]
    ]
    regret = f"{figures['regret']:.2f}  (at most {figures['bound']:.2f})"
    return [("posterior", ""), *shares, ("loss beyond the best of them", regret)]


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"
