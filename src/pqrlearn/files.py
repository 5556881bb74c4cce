"""Writing files atomically, and recognising files by a digest."""

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

_DIGEST_BLOCKS = 16
_BLOCK_BYTES = 1 << 16


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path to write to, which replaces `path` when the block ends.

    The file is synced first. On any error, including Ctrl-C and a full disk, the old file stays and
    the new one is removed. Permissions are those of the old file, or follow the umask.
    """
    target = Path(path)
    try:
        _check_regular(target)
        with temporary_folder(target) as folder:
            temporary = folder / target.name
            temporary.touch()
            mode = (target if target.exists() else temporary).stat().st_mode
            yield temporary
            sync(temporary)
            temporary.chmod(stat.S_IMODE(mode))
            os.replace(temporary, target)
            sync(target.parent)
    except OSError as error:
        raise write_error(target, error) from error


@contextmanager
def temporary_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target`, removed at the end.

    Folders that killed processes left there are removed too.
    """
    _remove_leftovers(target)
    prefix = f".{target.name}.{os.getpid()}."
    folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=".part", dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def atomic_write(path: str | os.PathLike[str], data: bytes) -> None:
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises what `atomic_path` would raise: before long work instead of after it."""
    target = Path(path)
    try:
        _check_regular(target)
        with temporary_folder(target):
            pass
    except OSError as error:
        raise write_error(target, error) from error


def _check_regular(target: Path) -> None:
    if os.path.exists(target) and not os.path.isfile(target):
        raise PqrError(f"{target}: not a regular file: it is not replaced")


def _remove_leftovers(target: Path) -> None:
    """Removes temporary folders of processes that no longer run."""
    for folder in target.parent.glob(f".{glob.escape(target.name)}.*.*.part"):
        owner = folder.name.rsplit(".", 3)[1]
        if owner.isdigit() and not _is_alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def write_error(target: Path, error: OSError) -> PqrError:
    return PqrError(f"{target}: cannot be written: {error.strerror or error}")


def sync(path: Path) -> None:
    """Flushes a file or a folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_digest(path: str | os.PathLike[str]) -> str:
    """The size of a file and a hash of blocks spread over it; "stream" for stdin and pipes."""
    if path == "-" or not os.path.isfile(path):
        return "stream"
    from hashlib import sha256  # lazy: costs 5 ms and 4 MB

    size, digest = os.path.getsize(path), sha256()
    with open(path, "rb") as file:
        for block in range(_DIGEST_BLOCKS):
            file.seek(block * max(0, size - _BLOCK_BYTES) // (_DIGEST_BLOCKS - 1))
            digest.update(file.read(_BLOCK_BYTES))
    return f"{size} bytes, sha256 of {_DIGEST_BLOCKS} blocks: {digest.hexdigest()}"
