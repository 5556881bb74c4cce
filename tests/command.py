"""Runs the real command, in a process of its own, as a person at a shell would."""

from __future__ import annotations

import json
import os
import pty
import re
import struct
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD
from typing import Any

import numpy as np

from pqrlearn import Batch
from pqrlearn.readers import format_batch
from strategies import as_dicts, random_batch

PQR = os.environ.get("PQR_COMMAND") or str(Path(sysconfig.get_path("scripts")) / "pqr")
SECONDS = 300  # no command of a test takes this long unless it hangs
LOGGED = re.compile(r"^pqr: [^\n]*: (\d+%|[\d,]+ (rows|MB)  [\d,]+/s)[^\n]*\n", re.MULTILINE)
"""What a command logs every 30 seconds, as it may on a loaded machine."""


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


def run(*arguments: object, stdin: bytes = b"", **settings: Any) -> Result:
    """Whatever happens: the exit code, stdout and stderr."""
    done = subprocess.run(
        [PQR, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=SECONDS,
        check=False,
        **settings,
    )
    err = LOGGED.sub("", done.stderr.decode())
    return Result(done.returncode, done.stdout.decode(), err)


def ok(*arguments: object, stdin: bytes = b"") -> str:
    """The results of a command that has nothing to complain about."""
    result = run(*arguments, stdin=stdin)
    assert (result.code, result.err) == (0, "")
    return result.out


def in_terminal(*arguments: object) -> list[str]:
    """The lines that a command shows at a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "dumb"}
    command = [PQR, *map(str, arguments)]
    subprocess.run(command, stdout=theirs, env=environment, timeout=SECONDS, check=True)
    lines = all_of(ours, theirs).decode().splitlines()
    assert max(map(len, lines)) <= 80
    return lines


def all_of(ours: int, theirs: int) -> bytes:
    """What has been written to a terminal, which is closed."""
    os.write(theirs, b"END")
    seen = b""
    while not seen.endswith(b"END"):
        seen += os.read(ours, 1 << 16)
    os.close(ours)
    os.close(theirs)
    return seen.removesuffix(b"END")


def figures(*arguments: object, stdin: bytes = b"") -> dict[str, Any]:
    """What a command prints with --json: exactly one JSON object."""
    found = json.loads(ok(*arguments, "--json", stdin=stdin))
    assert isinstance(found, dict)
    return found


def failure(code: int, *arguments: object, stdin: bytes = b"", **settings: Any) -> str:
    """The message of a command that must fail: one line on stderr, nothing on stdout."""
    result = run(*arguments, stdin=stdin, **settings)
    assert (result.code, result.out) == (code, ""), result.err
    return message(result.err)


@contextmanager
def fed_slowly(
    text: bytes, *arguments: object, stderr: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that gets its input in three pieces, cut anywhere, each when it waits for it."""
    command, pipe = [PQR, *map(str, arguments)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr) as process:
        for piece in (text[:1001], text[1001:5003], text[5003:]):
            feed(process, piece)
        yield process


def feed(process: subprocess.Popen[bytes], piece: bytes) -> None:
    """Gives input to a command, and waits until it has been read and surely dealt with."""
    assert process.stdin is not None
    process.stdin.write(piece)
    process.stdin.flush()
    deadline = time.monotonic() + SECONDS
    while struct.unpack("i", ioctl(process.stdin, FIONREAD, bytes(4))) != (0,):
        assert process.poll() is None, "the command has ended early"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.2)


def message(err: str) -> str:
    """What the one line on stderr says."""
    assert err.startswith("pqr: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    return err.removeprefix("pqr: ").removesuffix("\n")


def clicks(seed: int, rows: int = 400) -> Batch:
    """Weighted rows with something to learn, so that no command has to warn."""
    batch = random_batch(seed, rows)
    margins = [6 * row.get(0, 0.0) + 4 * row.get(1, 0.0) for row in as_dicts(batch)]
    chance = 1 / (1 + np.exp(-np.array(margins) - 0.5))
    labels = (np.random.default_rng(seed).random(rows) < chance).astype(float)
    return replace(batch, labels=labels)


def write_rows(path: Path, *batches: Batch) -> Path:
    path.write_bytes(b"".join(map(format_batch, batches)))
    return path
