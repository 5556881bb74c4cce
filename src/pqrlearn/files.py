"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import glob
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pqrlearn.errors import PqrError

_MARKED_BLOCKS = 16
_BLOCK_BYTES = 1 << 16


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a path to write to; it takes the place of `path` when all is written and synced.

    On any error, also Ctrl-C and a full disk, the old file stays and the new one is removed.
    Permissions are those of the old file, or what the umask says, whoever does the writing.
    """
    target = Path(path)
    try:
        _check_regular(target)
        with room_beside(target) as room:
            beside = room / target.name
            beside.touch()
            mode = (target if target.exists() else beside).stat().st_mode
            yield beside
            sync(beside)
            beside.chmod(stat.S_IMODE(mode))
            os.replace(beside, target)
            sync(target.parent)
    except OSError as error:
        raise unwritable(target, error) from error


@contextmanager
def room_beside(target: Path) -> Iterator[Path]:
    """A new folder, gone at the end; what killed processes have left there goes too.

    Libraries write files beside the one they were asked for, then move them.
    """
    _clear_up(target)
    room = _new_room(target)
    try:
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    with written_whole(path) as beside:
        beside.write_bytes(data)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Fails like `written_whole` would: before long work instead of after it."""
    target = Path(path)
    try:
        _check_regular(target)
        with room_beside(target):
            pass
    except OSError as error:
        raise unwritable(target, error) from error


def _check_regular(target: Path) -> None:
    if os.path.exists(target) and not os.path.isfile(target):
        raise PqrError(f"{target}: not a regular file, so it is not replaced")


def _new_room(target: Path) -> Path:
    head = f".{target.name}.{os.getpid()}."
    return Path(tempfile.mkdtemp(prefix=head, suffix=".part", dir=target.parent))


def _clear_up(target: Path) -> None:
    """Removes what processes that were killed have left beside `target`."""
    for room in target.parent.glob(f".{glob.escape(target.name)}.*.*.part"):
        owner = room.name.rsplit(".", 3)[1]
        if owner.isdigit() and not _is_alive(int(owner)):
            shutil.rmtree(room, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def unwritable(target: Path, error: OSError) -> PqrError:
    return PqrError(f"{target}: cannot be written: {error.strerror or error}")


def sync(path: Path) -> None:
    """Waits until a file or a folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def mark(path: str | os.PathLike[str]) -> str:
    """What a file is known by: its size and a digest of blocks spread over it; stdin by nothing."""
    if path == "-" or not os.path.isfile(path):
        return "stream"
    from hashlib import sha256  # 5 ms and 4 MB that most commands do not need

    size, digest = os.path.getsize(path), sha256()
    with open(path, "rb") as file:
        for block in range(_MARKED_BLOCKS):
            file.seek(block * max(0, size - _BLOCK_BYTES) // (_MARKED_BLOCKS - 1))
            digest.update(file.read(_BLOCK_BYTES))
    return f"{size} bytes, sha256 of {_MARKED_BLOCKS} blocks: {digest.hexdigest()}"
