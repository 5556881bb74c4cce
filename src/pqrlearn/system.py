"""What operating systems do differently: locks, reads at an offset, peak memory."""

from __future__ import annotations

import errno
import os
import sys
import threading
from pathlib import Path
from typing import Any, Final

fcntl: Any
msvcrt: Any
resource: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
try:
    import msvcrt
except ImportError:
    msvcrt = None
try:
    import resource
except ImportError:
    resource = None

WINDOWS: Final = os.name == "nt"
PRIVATE: Final = (
    getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0)
)
"""Flags of `os.open` for a file of bytes that children do not inherit."""

NO_LOCKS: Final = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""Error numbers of `lock` where there are no locks, rather than where somebody else has it."""

_LOCKED_BYTE = 1 << 30  # nobody else can read a locked byte on Windows: one beyond the content
_seeking = threading.Lock()


def lock(file: int, *, wait: bool) -> None:
    """Locks an open file until it is closed, or until the process dies; OSError without a lock."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    elif msvcrt is not None:
        os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def read_at(file: int, size: int, at: int) -> bytes:
    """Up to `size` bytes of an open file from an offset on; by several threads at once."""
    if hasattr(os, "pread"):
        return os.pread(file, size, at)
    with _seeking:
        os.lseek(file, at, os.SEEK_SET)
        return os.read(file, size)


def read_into(file: int, view: memoryview, at: int) -> int:
    """Reads from an offset on into `view`, as `read_at`; how many bytes were read."""
    if hasattr(os, "preadv"):
        return os.preadv(file, [view], at)
    data = read_at(file, len(view), at)
    view[: len(data)] = data
    return len(data)


def peak_memory() -> int:
    """Peak memory of this process, in bytes; 0 where the system does not tell."""
    try:  # getrusage would include the memory of the parent before exec
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        if resource is None:
            return 0
        peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
