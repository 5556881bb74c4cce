"""Commands that write files while system calls fail: run by test_faults.py, as faults.py is.

    LD_PRELOAD=faults.so python tests/faults_commands.py FOLDER

Whatever fails, and whenever: the output of a command is the old one or the new one, whole; the
error names a file; a training run that is gone on with ends in the model and the bad rows of one
that nothing disturbed. Prints how many calls have failed.
"""

from __future__ import annotations

import errno
import io
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from itertools import count
from pathlib import Path
from random import Random

from command import clicks, write_rows
from faults import HALFWAY, SYSTEM, Write, check_named, fail_at_every_call
from pqrlearn import LR, PQR, Separation
from pqrlearn.cli import pqr
from pqrlearn.errors import PqrError
from serving import busy, start_lr

KINDS = ((errno.ENOSPC, False), (errno.EIO, True), (HALFWAY, False))
ROWS = clicks(seed=9, rows=100)


def run(*arguments: object) -> None:
    """The command in this process; an error of the system must say which file it is about."""
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            pqr.main([*map(str, arguments)], standalone_mode=False)
    except OSError as error:
        check_named(error)
        raise PqrError(str(error)) from error


def write_inputs(folder: Path) -> None:
    folder.mkdir()
    lines = write_rows(folder / "rows.svm", ROWS).read_bytes().splitlines(keepends=True)
    bad = [line + b"1 2:\n" * (at % 9 == 0) for at, line in enumerate(lines)]
    (folder / "bad.svm").write_bytes(b"".join(bad))
    (folder / "table.csv").write_text("click,site,hour\n1,a,3\n0,b,4\n1,a,4\n0,b,3\n" * 3)
    separation = Separation.top_k(ROWS, 3)
    for name in ("one.pqr", "other.pqr"):
        model = PQR(separation)
        model.learn_many(ROWS)
        model.save(folder / name)
    LR().save(folder / "new.pqr")
    service = start_lr(folder / "log")
    busy(service, Random(1), 40)
    service.close()


def writers(folder: Path) -> dict[str, Write]:
    """By the name of the file that is written."""
    rows, model = folder / "rows.svm", ("-m", folder / "one.pqr")
    models = (folder / "one.pqr", folder / "other.pqr")
    return {
        "weights.csv": lambda path: run("export", *model, "-o", path),
        "weights.json": lambda path: run("export", *model, "-o", path),
        "weights.parquet": lambda path: run("export", *model, "-o", path),
        "frozen.pqr": lambda path: run("export", *model, "-o", path),
        "predictions": lambda path: run("predict", *model, rows, "-o", path),
        "separation": lambda path: run("separate", rows, "-o", path),
        "schema.toml": lambda path: run(
            "schema", folder / "table.csv", "--label", "click", "-o", path
        ),
        "merged.pqr": lambda path: run("merge", *models, "-o", path),
        "converted": lambda path: run("data", "convert", rows, "-o", path),
        "rows.jsonl": lambda path: run("log", folder / "log", "-o", path),
        "rows.parquet": lambda path: run("log", folder / "log", "-o", path),
    }


def fail_in_training(folder: Path, home: Path, error: int, *, for_good: bool) -> int:
    """Training with checkpoints and bad rows, and going on from what is left."""
    skipping = ("--on-bad-row", "skip", "--bad-rows", home / "bad")
    kept = ("--checkpoint", home / "checkpoint", "--every", 40, "-o", home / "model")
    given = ("train", folder / "bad.svm", *skipping, *kept)
    outputs = [home / name for name in ("model", "bad")]
    run(*given, "--model", "pqr")
    expected = [path.read_bytes() for path in outputs]
    for nth in count(1):
        shutil.rmtree(home)
        home.mkdir()
        failed = False
        SYSTEM.faults_arm(nth, error, for_good)
        try:
            run(*given, "--model", "pqr")
        except PqrError:
            failed = True
        finally:
            calls = SYSTEM.faults_disarm()
        assert not (failed and error == HALFWAY), f"call {nth}: a short write is no error"
        if failed:
            begun = (home / "checkpoint").exists()
            run(*given, *(("--resume", home / "checkpoint") if begun else ("--model", "pqr")))
        assert [path.read_bytes() for path in outputs] == expected, f"call {nth}, error {error}"
        run(*given, "--model", "pqr")  # removes a folder whose removal has failed
        assert {path.name for path in home.iterdir()} == {"model", "bad", "checkpoint"}
        if calls < nth:
            return nth - 1
    raise AssertionError


def main(folder: Path) -> None:
    inputs, home = folder / "inputs", folder / "outputs"
    write_inputs(inputs)
    failures = 0
    for name, write in writers(inputs).items():
        with suppress(FileNotFoundError):
            shutil.rmtree(home)
        home.mkdir()
        for error, for_good in KINDS:
            failures += fail_at_every_call(home / name, write, error, for_good=for_good)
    for error, for_good in KINDS:
        failures += fail_in_training(inputs, home, error, for_good=for_good)
    print(failures)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
