"""Training runs that are killed, and gone on with from what is left."""

from __future__ import annotations

import gzip
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pqrlearn
from command import PQR as COMMAND
from command import SECONDS, clicks, write_rows
from pqrlearn.checkpoint import Progress
from strategies import cut

EVERY = 50
ROWS = clicks(seed=81, rows=3000)
WAYS = {
    "auto": ("rows.svm", ""),
    "pqr": ("rows.svm", "--model pqr --order 5"),
    "lr by ogd, twice": ("a.svm", "--model lr --optimizer ogd --eta 1 --radius 1 --passes 2"),
    "qr of two files": ("a.svm b.svm", "--model qr --loss squared --optimizer ftrl-general"),
    "compressed": ("rows.svm.gz", "--model pqr --sample-rows 1000"),
    "stdin": ("-", "--model pqr --sample-rows 500 --no-bias"),
    "bad rows": (
        "bad.svm",
        "--model pqr --order 5 --loss squared --on-bad-row skip --bad-rows {home}/bad",
    ),
    "bad rows, twice": (
        "bad.svm",
        "--model lr --loss squared --on-bad-row skip --bad-rows {home}/bad --passes 2",
    ),
}


def write_inputs(folder: Path) -> None:
    """The files that the ways to train read."""
    text = write_rows(folder / "rows.svm", ROWS).read_bytes()
    write_rows(folder / "a.svm", cut(ROWS, 0, 1234))
    write_rows(folder / "b.svm", cut(ROWS, 1234, len(ROWS)))
    (folder / "rows.svm.gz").write_bytes(gzip.compress(text))
    lines = text.splitlines(keepends=True)
    for at in range(0, len(lines), 70):  # not a row, and a row that no model can learn
        lines[at] += b"1 2:\n" if at % 140 else b"1 2:1e38 3:1e38\n"
    (folder / "bad.svm").write_bytes(b"".join(lines))


class Run:
    """One way to train, in a folder of its own, as often as it takes."""

    def __init__(self, folder: Path, home: Path, inputs: str, options: str) -> None:
        self.folder, self.home = folder, home
        self.inputs, self.options = inputs.split(), options.format(home=home).split()
        self.checkpoint, self.output = home / "checkpoint", home / "model.pqr"
        self.bad_rows = home / "bad"
        self.reached = (0, 0)

    def uninterrupted(self) -> tuple[bytes, bytes, bytes]:
        """What a run gives that keeps no checkpoints."""
        return self.results(self.finish(*self.options))

    def results(self, said: bytes) -> tuple[bytes, bytes, bytes]:
        """The model, the bad rows and how many it says there are; removes the files."""
        found = [path.read_bytes() if path.exists() else b"" for path in self.written]
        for path in self.written:
            path.unlink(missing_ok=True)
        count = [line for line in said.splitlines() if line.endswith(b"were skipped")]
        return found[0], found[1], b"".join(count)

    @property
    def written(self) -> tuple[Path, Path]:
        return self.output, self.bad_rows

    def going_on(self) -> list[str]:
        kept = ["--checkpoint", str(self.checkpoint), "--every", str(EVERY)]
        if not self.checkpoint.exists():
            return [*self.options, *kept]
        policy = ["--on-bad-row", "skip", "--bad-rows", str(self.bad_rows)]
        policy *= "--on-bad-row" in self.options
        return ["--resume", str(self.checkpoint), *policy, *kept]

    @contextmanager
    def started(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        command = [COMMAND, "train", *self.inputs, *options, "-o", str(self.output)]
        nowhere, pipe = subprocess.DEVNULL, subprocess.PIPE
        with (
            (self.folder / "rows.svm").open("rb") as rows,
            subprocess.Popen(
                command, cwd=self.folder, stdin=rows, stdout=nowhere, stderr=pipe
            ) as process,
        ):
            yield process

    def finish(self, *options: str) -> bytes:
        with self.started(*options) as process:
            said = process.communicate(timeout=SECONDS)[1]
        assert process.returncode == 0, said
        return said

    def killed(self, random: Random) -> bytes | None:
        """Kills the run a moment after it has written a few checkpoints.

        If it was faster, what it said.
        """
        with self.started(*self.going_on()) as process:
            for _ in range(random.randrange(4)):
                before = self.version()
                while process.poll() is None and self.version() == before:
                    time.sleep(0.0005)
            time.sleep(0.02 * random.random())
            process.kill()
            said = process.communicate(timeout=SECONDS)[1]
        assert process.returncode in (-9, 0), said
        return None if process.returncode == -9 else said

    def version(self) -> tuple[int, int] | None:
        try:
            status = self.checkpoint.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns

    def check(self) -> None:
        """Whatever the moment was: a whole checkpoint, never behind an earlier one."""
        if not self.checkpoint.exists():
            assert self.reached == (0, 0)
            return
        model = pqrlearn.load(self.checkpoint)
        progress = Progress.restored(model.progress, "checkpoint")
        assert progress.rows % EVERY == 0
        assert progress.rows > 0
        assert (progress.done_passes, progress.rows) >= self.reached
        self.reached = progress.done_passes, progress.rows

    def half_written(self) -> int:
        return len(list(self.home.glob(".*.part")))


def kill_often(run: Run, random: Random, kills: int) -> int:
    """Kills a run so often, and finishes it; how many kills have met a checkpoint half written.

    Whatever is interrupted, the results are those of a run that nobody disturbed.
    """
    expected = run.uninterrupted()
    halves = 0
    while kills > 0:
        said = run.killed(random)
        if said is None:
            kills -= 1
            halves += run.half_written() > 0
            run.check()
        else:
            assert run.results(said) == expected
            run.checkpoint.unlink()
            run.reached = (0, 0)
    said = run.finish(*run.going_on())
    assert {path.name for path in run.home.iterdir()} <= {"checkpoint", "model.pqr", "bad"}
    assert run.results(said) == expected
    return halves
