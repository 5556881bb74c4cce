"""Writing the log: groups of records, each with one write and one sync."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pqrlearn.errors import Corrupt, PqrError
from pqrlearn.files import atomic_path, atomic_write, sync, write_error
from pqrlearn.logfile import (
    FIRST,
    FORMAT,
    HEAD,
    MARK,
    Kind,
    Log,
    Record,
    Segment,
    check_folder,
    head_in,
    head_of,
    id_in,
    packed,
    records_in,
    segment_name,
)
from pqrlearn.serve.errors import Unavailable
from pqrlearn.system import NO_LOCKS, PRIVATE, lock, read_at

ROOMS = ("log", "snapshots", "models")


class Lock:
    """A folder that no other service uses, as long as this one lives."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | PRIVATE, 0o644)
        try:
            lock(self._file, wait=False)
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, f"{os.getpid()}\n".encode())
        except BlockingIOError:
            owner = read_at(self._file, 20, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise PqrError(f"{folder}: in use by another pqr serve, process {owner}") from None
        except OSError as error:
            os.close(self._file)
            if error.errno in NO_LOCKS:
                raise PqrError(f"{folder}: cannot be locked: {error.strerror}") from error
            raise write_error(folder / "lock", error) from error

    def release(self) -> None:
        os.close(self._file)


def prepare(folder: Path) -> None:
    """Makes an empty or missing folder one for a log."""
    if (folder / MARK).exists():
        check_folder(folder)
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if strange := sorted(path.name for path in folder.iterdir() if not _of_a_start(path)):
            raise PqrError(f"{folder}: neither empty nor a log: it has {strange[0]!r}")
        for room in ROOMS:
            (folder / room).mkdir(exist_ok=True)
        about = {"format": FORMAT, "pqrlearn": version("pqrlearn")}
        atomic_write(folder / MARK, json.dumps(about).encode() + b"\n")
    except OSError as error:
        raise write_error(folder, error) from error


def _of_a_start(path: Path) -> bool:
    """Whether a service that was stopped while it made its folder may have left it."""
    if path.name in ROOMS:
        return path.is_dir() and not any(path.iterdir())
    return path.name == "lock" or path.name.startswith(f".{MARK}.")


class LogWriter(Log):
    """A log that grows. One thread appends records, another may commit them.

    `appended` is the position behind the last record and `synced` the one behind the last that is
    safe on disk. After a write or a sync has failed nobody knows what is on disk: `failed` stays,
    and nothing is written until the service is started again.
    """

    def __init__(self, folder: Path, *, segment_bytes: int = 64 << 20) -> None:
        prepare(folder)
        _drop_headless(folder)
        super().__init__(folder)
        self.failed: OSError | None = None
        self.cut = 0
        """Bytes of a torn write that were found at the end, and cut."""
        self._segment_bytes = segment_bytes
        self._pending: list[bytes] = []
        self._unsynced: deque[list[Record]] = deque()
        self.waiting = 0
        """How many records are not on disk yet."""
        self._turn = threading.Lock()
        self._output = -1
        last = self._open_last() if self.segments else None
        self.sequence = 0 if last is None else last.sequence
        self.time = 0 if last is None else last.time
        self.appended = self.synced = self.segments[-1].end if self.segments else 0
        self.clean = last is not None and last.kind == Kind.END

    def _open_last(self) -> Record | None:
        """Cuts what is torn; the last record."""
        segment, last = self.segments[-1], None
        for record in records_in(segment, torn=True):
            last = record
        end = segment.base if last is None else last.end
        if end < segment.end:
            at = segment.offset(end)
            self.cut = segment.end - end
            os.truncate(segment.path, at)
            sync(segment.path)
            segment = self.segments[-1] = segment._replace(size=at)
        self._output = os.open(segment.path, os.O_WRONLY | os.O_APPEND | PRIVATE)
        if last is None and len(self.segments) > 1:
            *_, last = records_in(self.segments[-2])
        return last

    # -- appending: one thread ---------------------------------------------------

    def append(self, kind: Kind, payload: bytes, time: int) -> Record:
        """Puts a record in line; it is not on disk before the next `commit`."""
        return self.append_many(kind, [payload], time)[0]

    def append_many(self, kind: Kind, payloads: Iterable[bytes], time: int) -> list[Record]:
        """The same for many of one kind."""
        self.check()
        self.time = time = max(time, self.time)
        found, plain = list[Record](), int(kind)
        with self._turn:
            first = 0 if self._pending else FIRST
            position, sequence, pending = self.appended, self.sequence, self._pending
            for payload in payloads:
                sequence += 1
                data = packed(plain | first, sequence, time, payload)
                pending.append(data)
                found.append(Record(position, plain, sequence, time, payload))
                position += len(data)
                first = 0
            self.appended, self.sequence = position, sequence
            if found:
                self._unsynced.append(found)
                self.waiting += len(found)
        return found

    def check(self) -> None:
        """Unavailable if the log cannot be written any more."""
        if self.failed is not None:
            raise _unavailable(self.failed)

    def at(self, position: int) -> Record:
        if position < self.synced:
            return super().at(position)
        of = [run for run in self._unsynced if run[0].position <= position]
        found = [record for record in of[-1] if record.position == position] if of else []
        if not found:
            raise KeyError(position)
        return found[0]

    def forget_synced(self) -> None:
        """Frees what was kept of records that can be read from disk now."""
        while self._unsynced and self._unsynced[0][0].position < self.synced:
            self.waiting -= len(self._unsynced.popleft())

    # -- committing: any one thread ----------------------------------------------

    def commit(self) -> int:
        """Writes and syncs all records in line; returns how many there were."""
        self.check()
        with self._turn:
            group, self._pending = self._pending, []
            end, first = self.appended, self.sequence - len(group) + 1
        if not group:
            return 0
        with self._writing():
            if not self.segments or self._size >= self._segment_bytes:
                self._roll(self.synced, first)
            _write(self._output, b"".join(group))
            os.fdatasync(self._output)
        self.synced = end
        return len(group)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Nobody knows what is on disk once a write has failed: nothing more is accepted."""
        try:
            yield
        except OSError as error:
            self.failed = error
            raise _unavailable(error) from error

    @property
    def _size(self) -> int:
        return self.synced - self.segments[-1].base

    def _roll(self, base: int, sequence: int) -> None:
        """Begins a new segment."""
        path = self.folder / "log" / segment_name(base)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | PRIVATE
        file = os.open(path, flags, 0o644)
        _write(file, head_of(base, sequence, version("pqrlearn")))
        os.fsync(file)
        sync(path.parent)
        if self._output >= 0:
            os.close(self._output)
            self.segments[-1] = self.segments[-1]._replace(size=self._size + HEAD.size)
        self._output = file
        self.segments.append(Segment(path, base, HEAD.size))

    # -- between commits -----------------------------------------------------------

    def begin_segment(self) -> None:
        """Closes the last segment, if it has records."""
        with self._turn:
            first = self.sequence - len(self._pending) + 1
        if self.segments and self._size > 0:
            with self._writing():
                self._roll(self.synced, first)

    def truncate(self, needed: int) -> list[Path]:
        """Removes the segments before the one that holds the position `needed`."""
        removed = []
        while len(self.segments) > 1 and self.segments[1].base <= needed:
            segment = self.segments.pop(0)
            file = self._files.pop(segment.base, None)
            if file is not None:
                os.close(file)
            segment.path.unlink()
            sync(segment.path.parent)  # one after the other: no gap, whatever happens
            removed.append(segment.path)
        return removed

    def close(self) -> None:
        self.close_files()
        if self._output >= 0:
            os.close(self._output)
            self._output = -1


def erase(log: LogWriter, name: str) -> int:
    """Overwrites the records of an id in all segments but the last; how many there were.

    Records keep their length and sequence, so that positions stay what they are. Open files still
    have the old ones: `close_files` comes next.
    """
    erased = 0
    for segment in log.segments[:-1]:
        found = [record for record in records_in(segment) if id_in(record) == name]
        if not found:
            continue
        data = bytearray(segment.path.read_bytes())
        for record in found:
            at = segment.offset(record.position)
            first = data[at + 8] & FIRST
            blank = packed(Kind.ERASED | first, record.sequence, record.time, _blank(record))
            data[at : at + len(blank)] = blank
        with atomic_path(segment.path) as temporary:
            temporary.write_bytes(data)
        erased += len(found)
    return erased


def _blank(record: Record) -> bytes:
    return bytes(len(record.payload))


def _write(file: int, data: bytes) -> None:
    view: Any = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _unavailable(error: OSError) -> Unavailable:
    return Unavailable(
        f"the log cannot be written ({error.strerror or error}): nothing is accepted until the "
        "service is started again"
    )


def _drop_headless(folder: Path) -> None:
    """Removes a last segment whose head was never finished: it has no records."""
    paths = sorted((folder / "log").glob("*.log"))
    if not paths or paths[-1].stat().st_size > HEAD.size:
        return
    try:
        head_in(paths[-1], paths[-1].read_bytes())
    except Corrupt:
        paths[-1].unlink()
        sync(paths[-1].parent)
