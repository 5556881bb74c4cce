"""What people see while a command works: a line at a terminal, and nothing anywhere else."""

from __future__ import annotations

import os
import pty
import re
import sys
import time
from io import StringIO
from pathlib import Path

import pytest

from command import SECONDS, clicks, fed_slowly
from pqrlearn.cli import show
from pqrlearn.metrics import Metrics
from pqrlearn.readers import format_batch

TEXT = format_batch(clicks(seed=81))


@pytest.mark.parametrize("arguments", [[], ["--quiet"]], ids=["", "quiet"])
def test_people_at_a_terminal_see_a_line_unless_they_want_quiet(
    tmp_path: Path, arguments: list[str]
) -> None:
    ours, theirs = pty.openpty()
    given = ["train", "-", "--model", "lr", *arguments, "-o", tmp_path / "model.pqr"]
    with fed_slowly(TEXT, *given, stderr=theirs) as process:
        process.communicate(timeout=SECONDS)
        assert process.returncode == 0
    os.write(theirs, b"END")
    seen = b""
    while not seen.endswith(b"END"):
        seen += os.read(ours, 1 << 16)
    os.close(ours)
    os.close(theirs)
    if arguments:
        assert seen == b"END"
    else:
        assert re.match(rb"\rtraining: \d+ rows  [\d,]+/s  loss 0\.\d{4} ", seen)
        assert seen.endswith(b"\r\x1b[KEND")


def test_nobody_at_a_terminal_means_no_line(tmp_path: Path) -> None:
    given = ["train", "-", "--model", "lr", "-o", tmp_path / "model.pqr"]
    with fed_slowly(TEXT, *given) as process:
        assert process.communicate(timeout=SECONDS)[1] == b""


def test_the_line_tells_how_long_it_will_take(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "200")
    now = iter([0.0, 0.05, 10.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    metrics = Metrics("logistic")
    metrics.update([0.0] * 5000, [1.0] * 5000)
    with show.progress("training", lambda: 0.1, quiet=False) as watch:
        watch(metrics)
        watch(metrics)
    drawn = "training: 5,000 rows  500/s  loss 0.6931 (recent 0.6931)  10%  1:30 left"
    assert screen.getvalue() == f"\r{drawn}\x1b[K\r\x1b[K"


def test_work_without_a_loss_is_told_in_rows_or_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "200")
    now = iter([0.0, 10.0, 0.0, 10.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    with show.tally("converting", "rows", quiet=False) as watch:
        watch(5000, None)
    with show.tally("fetching", "MB", quiet=False) as watch:
        watch(20_000_000, 0.5)
    rows, megabytes = "converting: 5,000 rows  500/s", "fetching: 20 MB  2/s  50%  0:10 left"
    assert screen.getvalue() == f"\r{rows}\x1b[K\r\x1b[K\r{megabytes}\x1b[K\r\x1b[K"
    with show.tally("fetching", "MB", quiet=True) as watch:
        watch(1, 0.5)  # asks no clock


def test_work_in_steps_starts_its_clock_anew_with_every_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "200")
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with show.steps("tuning", quiet=False) as step:
        for now, share, text in [(10, 0.5, "a"), (20, 0.0, "b"), (30, 0.25, "c")]:
            clock[0] = now
            step(share, text)
    lines = [line.removesuffix("\x1b[K") for line in screen.getvalue().split("\r")]
    assert lines == ["", "tuning: a  50%  0:10 left", "tuning: b", "tuning: c  25%  0:30 left", ""]
