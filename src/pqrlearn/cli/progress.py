"""How far long work has come: a line at a terminal, or a line in a log every 30 seconds."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from pqrlearn.metrics import Metrics

Fraction = Callable[[], float | None]
Part = tuple[int, str]
"""A part of the line, and when it is left out to save room: the largest number first."""

DRAW_SECONDS = 0.1
LOG_SECONDS = 30.0


@contextmanager
def progress(title: str, fraction: Fraction, *, quiet: bool) -> Iterator[Callable[[Metrics], None]]:
    """A line with the share that is done, the time left, rows, rows/s and the running loss."""
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
    if quiet:
        yield None
        return
    line = _Line(title) if sys.stderr.isatty() else _Log(title)
    try:
        yield line
    finally:
        line.clear()


class _Line:
    """A progress line, redrawn at most ten times per second."""

    seconds = DRAW_SECONDS

    def __init__(self, title: str) -> None:
        self._title = title
        self._start = self._drawn = time.monotonic()
        self._share, self._text = 0.0, ""

    def show(self, metrics: Metrics, fraction: Fraction) -> None:
        if self._is_due():
            state = metrics.progress()
            self._draw(state["rows"], "rows", fraction(), _loss(state["loss"], state["recent"]))

    def count(self, done: int, share: float | None, unit: Literal["rows", "MB"]) -> None:
        if self._is_due():
            self._draw(done / 1e6 if unit == "MB" else done, unit, share, [])

    def step(self, share: float, text: str) -> None:
        if share < self._share:  # a new piece of work
            self._start = time.monotonic()
        self._share = share
        if self._is_due() or self._is_news(text):
            self._text = text
            self._write([*self._left(share), (2, text)])

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now - self._drawn < self.seconds:
            return False
        self._drawn = now
        return True

    def _is_news(self, text: str) -> bool:
        return text != self._text

    def _draw(self, done: float, unit: str, share: float | None, loss: list[Part]) -> None:
        rate = done / (self._drawn - self._start)
        rows: list[Part] = [(3, f"{done:,.0f} {unit}"), (4, f"{rate:,.0f}/s")]
        self._write([*self._left(share), *rows, *loss])

    def _left(self, share: float | None) -> list[Part]:
        if share is None:
            return []
        seconds = self._drawn - self._start
        left = f"{_clock(seconds / share - seconds)} left" if share > 0 else ""
        return [(0, f"{share:.0%}"), *([(1, left)] if left else [])]

    def _write(self, parts: list[Part]) -> None:
        from shutil import get_terminal_size

        width = get_terminal_size().columns - 1
        sys.stderr.write("\r" + fitted(self._title, parts, width) + "\x1b[K")
        sys.stderr.flush()


class _Log(_Line):
    """The same in a log, where lines stay."""

    seconds = LOG_SECONDS

    def clear(self) -> None:
        pass

    def _is_news(self, text: str) -> bool:
        return False

    def _write(self, parts: list[Part]) -> None:
        print(f"pqr: {fitted(self._title, parts, 1000)}", file=sys.stderr, flush=True)


def fitted(title: str, parts: list[Part], width: int) -> str:
    """The title and as many parts as there is room for, those of the smallest numbers first.

    >>> fitted("training", [(0, "42%"), (2, "1,000 rows"), (1, "0:10 left")], 30)
    'training: 42%  0:10 left'
    """
    kept = list(parts)
    while kept and len(text := f"{title}: " + "  ".join(part for _, part in kept)) > width:
        kept.remove(max(kept))
    return text if kept else title[:width]


def _loss(loss: float, recent: float) -> list[Part]:
    """Nothing as long as there is none, as before the first rows."""
    if not math.isfinite(loss):
        return []
    since: list[Part] = [(5, f"recent {recent:.4f}")] if math.isfinite(recent) else []
    return [(2, f"loss {loss:.4f}"), *since]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
