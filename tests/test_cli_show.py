"""What people see while a command works: a line at a terminal, and nothing anywhere else."""

from __future__ import annotations

import pty
import re
import sys
import time
from io import StringIO
from pathlib import Path

import pytest

from command import SECONDS, all_of, clicks, fed_slowly
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
    seen = all_of(ours, theirs)
    if arguments:
        assert seen == b""
    else:
        assert re.match(rb"\rtraining: \d+ rows  [\d,]+/s", seen)
        assert re.search(rb"\rtraining: \d+ rows  [\d,]+/s  loss 0\.\d{4}", seen)
        assert b"nan" not in seen
        assert seen.endswith(b"\r\x1b[K")


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
    drawn = "training: 10%  1:30 left  5,000 rows  500/s  loss 0.6931  recent 0.6931"
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
    rows, megabytes = "converting: 5,000 rows  500/s", "fetching: 50%  0:10 left  20 MB  2/s"
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
    drawn = ["tuning: 50%  0:10 left  a", "tuning: 0%  b", "tuning: 25%  0:30 left  c"]
    assert lines == ["", *drawn, ""]


@pytest.mark.parametrize("columns", [80, 60, 40, 10])
def test_a_line_fits_the_terminal_and_drops_what_matters_least(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    metrics = Metrics("logistic")
    metrics.update([0.0] * 5000, [1.0] * 5000)
    monkeypatch.setattr(
        metrics, "progress", lambda: {"rows": 149_639_105, "loss": 0.4909, "recent": 0.4905}
    )
    with show.progress("training", lambda: 0.42, quiet=False) as watch:
        clock[0] = 9000.0
        watch(metrics)
    line = screen.getvalue().split("\r")[1].removesuffix("\x1b[K")
    assert line == {
        80: "training: 42%  3:27:09 left  149,639,105 rows  16,627/s  loss 0.4909",
        60: "training: 42%  3:27:09 left  149,639,105 rows  loss 0.4909",
        40: "training: 42%  3:27:09 left",
        10: "training",
    }[columns].replace(
        "left  loss", "left  149,639,105 rows  loss" if columns == 60 else "left  loss"
    )
    assert len(line) < columns


def test_a_loss_that_is_not_known_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", screen)
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    metrics = Metrics("logistic")
    with show.progress("training", lambda: 0.0, quiet=False) as watch:
        for rows in (0, 10, 0):  # none yet; some; none since the last line
            metrics.update([0.0] * rows, [1.0] * rows)
            clock[0] += 1
            watch(metrics)
    lines = [line.removesuffix("\x1b[K") for line in screen.getvalue().split("\r")[1:-1]]
    assert lines == [
        "training: 0%  0 rows  0/s",
        "training: 0%  10 rows  5/s  loss 0.6931  recent 0.6931",
        "training: 0%  10 rows  3/s  loss 0.6931",
    ]


def test_without_a_terminal_a_long_run_logs_a_line_every_30_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    metrics = Metrics("logistic")
    with show.progress("training", lambda: clock[0] / 100, quiet=False) as watch:
        for now in (1, 29, 31, 45, 60, 62, 70):
            metrics.update([0.0], [1.0])
            clock[0] = now
            watch(metrics)
    assert log.getvalue().splitlines() == [
        "pqr: training: 31%  1:09 left  3 rows  0/s  loss 0.6931  recent 0.6931",
        "pqr: training: 62%  0:38 left  6 rows  0/s  loss 0.6931  recent 0.6931",
    ]
    with show.steps("tuning", quiet=True) as step:
        step(0.5, "a")
    with show.steps("tuning", quiet=False) as step:
        step(0.5, "best 0.5")
        clock[0] += 30
        step(0.6, "best 0.4")
    assert log.getvalue().splitlines()[2:] == ["pqr: tuning: 60%  0:20 left  best 0.4"]
