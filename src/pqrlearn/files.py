"""Writing files atomically, and recognising files by a digest."""

from __future__ import annotations

import errno
import glob
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pqrlearn import system
from pqrlearn.errors import HyperError, PqrError, SettingsConflict

_DIGEST_BLOCKS = 16
_BLOCK_BYTES = 1 << 16


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path to write to, which replaces `path` when the block ends.

    The file is synced first. On any error, including Ctrl-C and a full disk, the old file stays and
    the new one is removed. Permissions are those of the old file, or follow the umask. If `path` is
    a symbolic link, the file that it points to is replaced.
    """
    check_name(path)
    try:
        target = _followed(Path(path))
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
        raise write_error(Path(path), error) from error


@contextmanager
def temporary_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target`, removed at the end.

    Folders that killed processes left there are removed too. A lock tells which are in use: unlike
    a process id, it means the same in every container that has the disk.
    """
    _remove_leftovers(target)
    folder, held = _locked_folder(target)
    try:
        yield folder
    finally:
        _remove(folder, held)


def atomic_write(path: str | os.PathLike[str], data: bytes) -> None:
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises what `atomic_path` would raise: before long work instead of after it."""
    check_name(path)
    try:
        target = _followed(Path(path))
        _check_regular(target)
        with temporary_folder(target):
            pass
    except OSError as error:
        raise write_error(Path(path), error) from error


def check_name(path: str | os.PathLike[str]) -> None:
    """Rejects `-`, which elsewhere means a stream."""
    if path == "-":
        raise HyperError("-: not the name of a file; ./- is a file of this name")


def check_no_input(
    output: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str] | None]
) -> None:
    """Fails if `output` is one of the files that are read."""
    for one in inputs:
        if one and os.path.exists(output) and os.path.exists(one) and os.path.samefile(output, one):
            raise SettingsConflict(f"{os.fspath(output)} is an input: it would be overwritten")


def write_all(file: IO[bytes], data: Any) -> None:
    """Writes all bytes to an unbuffered file, whose `write` may stop halfway."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _followed(target: Path) -> Path:
    """What a symbolic link points to, whether it exists or not."""
    if not target.is_symlink():
        return target
    found = Path(os.path.realpath(target))
    if found.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return found


def _check_regular(target: Path) -> None:
    if os.path.exists(target) and not os.path.isfile(target):
        raise PqrError(f"{target}: not a regular file: it is not replaced")


def _locked_folder(target: Path) -> tuple[Path, int]:
    """A new folder and the lock of whoever uses it."""
    while True:
        prefix = f".{target.name}.{os.getpid()}."
        folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=".part", dir=target.parent))
        try:
            return folder, _held(_lock_of(folder, target), wait=True)
        except FileNotFoundError:
            continue  # another process took it for a leftover, before it was locked
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def _remove_leftovers(target: Path) -> None:
    """Removes temporary folders that no process uses."""
    for folder in target.parent.glob(f".{glob.escape(target.name)}.*.*.part"):
        if not folder.name.rsplit(".", 3)[1].isdigit():
            continue  # not from here
        try:
            held = _held(_lock_of(folder, target), wait=False)
        except OSError:
            continue  # in use, or somebody else's
        _remove(folder, held)


def _remove(folder: Path, held: int) -> None:
    """Removes a folder while its lock is held, so that nobody else begins to use it."""
    shutil.rmtree(folder, ignore_errors=True)
    os.close(held)
    if system.WINDOWS:  # where an open file cannot be removed
        shutil.rmtree(folder, ignore_errors=True)


def _lock_of(folder: Path, target: Path) -> Path:
    return folder / f"{target.name}.lock"


def _held(path: Path, *, wait: bool) -> int:
    """The descriptor of a file that is locked until it is closed, or until the process dies.

    Where the file system has no locks, nobody gets one without `wait`, so that nothing is removed.
    """
    held = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            system.lock(held, wait=wait)
        except OSError as error:
            if not wait or error.errno not in system.NO_LOCKS:
                raise
        if not os.path.samestat(os.stat(path), os.fstat(held)):
            raise FileNotFoundError(path)
    except BaseException:
        os.close(held)
        raise
    return held


def write_error(target: Path, error: OSError) -> PqrError:
    return PqrError(f"{target}: cannot be written: {error.strerror or error}")


def sync(path: Path) -> None:
    """Flushes a file or a folder to disk. Windows has no call that does so for folders."""
    if system.WINDOWS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if system.WINDOWS else os.O_RDONLY)
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
