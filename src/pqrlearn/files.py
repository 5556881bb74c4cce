"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pqrlearn.errors import PqrError


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a path to write to; it takes the place of `path` when all is written and synced.

    On any error, also Ctrl-C and a full disk, the old file stays and the new one is removed.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        raise PqrError(f"{target}: not a regular file, so it is not replaced")
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield beside
        _sync(beside)
        os.replace(beside, target)
        _sync(target.parent)
    except OSError as error:
        raise PqrError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    with written_whole(path) as beside:
        beside.write_bytes(data)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
