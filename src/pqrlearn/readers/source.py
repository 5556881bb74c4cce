"""Bytes from a file or from stdin, decompressed and cut at line ends."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from pqrlearn.errors import DataError

MAX_LINE_BYTES = 64 << 20
"""A longer line is a bad row; without a bound, a file of zeros would fill the memory."""

_NEWLINE = re.compile(rb"\n")
_BLOCK_BYTES = 1 << 16
_PROBES, _PROBE_BYTES = 16, 1 << 16
_STEP_BYTES = 1 << 12  # of a block at a time: a hostile archive may grow 30,000-fold


_looked_at: WeakKeyDictionary[Any, Source] = WeakKeyDictionary()
"""The stdin whose first bytes have been read: whoever opens it begins with them."""


def first_bytes(path: str | os.PathLike[str], size: int) -> bytes:
    """Those of a file or of stdin, decompressed: at most `size`, or those of the first line."""
    source = open_source(path)
    if path == "-":
        _looked_at[sys.stdin] = source
        return source.peek(size)
    with source:
        return source.peek(size)


def open_source(path: str | os.PathLike[str]) -> Source:
    """Opens a file, or stdin if `path` is "-". Compression is detected from the first bytes."""
    if path == "-" and sys.stdin in _looked_at:
        return _looked_at.pop(sys.stdin)
    if path == "-":
        # Unbuffered: a thread that waits for input would hold the lock of the buffer.
        stdin = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
        return Source(stdin, "<stdin>", None, keep_open=True)
    name = os.fspath(path)
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115
    except OSError as error:
        raise _unreadable(name, error) from error
    status = os.fstat(file.fileno())
    return Source(file, name, status.st_size if stat.S_ISREG(status.st_mode) else None)


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is a regular file; "-" is always stdin."""
    return path != "-" and os.path.isfile(path)


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is stdin or a pipe, which can be read only once."""
    return path == "-" or (os.path.exists(path) and stat.S_ISFIFO(os.stat(path).st_mode))


def is_plain_file(path: str | os.PathLike[str]) -> bool:
    """Whether it is a regular file that is not compressed, which can be entered anywhere.

    A named pipe must not be opened twice: its writer would see it close.
    """
    if not is_file(path):
        return False
    with open_source(path) as source:
        return source.seekable


def estimated_lines(path: str | os.PathLike[str]) -> float:
    """From the line ends in a few places spread over a plain file."""
    seen, ends, size = 0, 0, os.path.getsize(path)
    with open(path, "rb") as file:
        for probe in range(_PROBES):
            file.seek(probe * size // _PROBES)
            block = file.read(_PROBE_BYTES)
            seen += len(block)
            ends += block.count(b"\n")
    return size * max(ends, 1) / max(seen, 1)


class Source:
    """A stream of decompressed bytes, opened lazily.

    `name` is its name in messages; `size` is its length on disk, None if unknown.
    """

    def __init__(self, file: Any, name: str, size: int | None, *, keep_open: bool = False) -> None:
        self.name, self.size, self._keep_open = name, size, keep_open
        self._raw = _Raw(file, name)
        self._stream: _Raw | _Inflated | None = None

    @property
    def compressed(self) -> bool:
        return self._opened() is not self._raw

    @property
    def seekable(self) -> bool:
        """Whether `seek` works: only in uncompressed regular files."""
        return self.size is not None and not self.compressed

    @property
    def position(self) -> int:
        """How many bytes of the file have been consumed, out of `size`; thread-safe."""
        return 0 if self._stream is None else self._stream.position

    def peek(self, size: int) -> bytes:
        """The first bytes, before any is read: `size` of them, or those of the first line."""
        return self._opened().peek(size)[:size]

    def readinto(self, buffer: memoryview) -> int:
        """Reads at least one byte into `buffer` and returns how many; 0 at the end."""
        return self._opened().readinto(buffer)

    def read(self, size: int = -1) -> bytes:
        """Reads `size` bytes, fewer only at the end; by default all that are left."""
        result, buffer = bytearray(), memoryview(bytearray(_BLOCK_BYTES))
        while size < 0 or len(result) < size:
            wanted = len(buffer) if size < 0 else size - len(result)
            count = self.readinto(buffer[:wanted])
            if count == 0:
                break
            result += buffer[:count]
        return bytes(result)

    def seek(self, offset: int) -> None:
        if not self.seekable:
            raise DataError(f"{self.name}: only a plain file can be read in parts")
        self._raw.seek(offset)

    def close(self) -> None:
        if not self._keep_open:
            self._raw.file.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _opened(self) -> _Raw | _Inflated:
        if self._stream is None:
            make = _decompressor(self._raw.peek(6), self.name)
            if self.size is not None:
                self._raw.seek(0)  # back to the start
            self._stream = self._raw if make is None else _Inflated(self._raw, make)
        return self._stream


def lines_between(
    source: Source, chunk_bytes: int, start: int, stop: int | None
) -> Iterator[tuple[int, memoryview]]:
    """Like `whole_lines`, but only the lines that begin at byte `start` or later, before `stop`.

    Adjacent ranges have every line exactly once.
    """
    if start > 0:
        source.seek(start - 1)  # the line with this byte belongs to the range before
    size = chunk_bytes if stop is None else min(chunk_bytes, stop - start + 1)
    for offset, text in whole_lines(source, size, max(start - 1, 0)):
        begin = _after_newline(text, 0) if offset < start else 0
        if stop is not None and offset + begin >= stop:
            return
        end = len(text) if stop is None else _after_newline(text, max(stop - 1 - offset, begin))
        if begin < end:
            yield offset + begin, text[begin:end]
        if stop is not None and offset + len(text) >= stop:
            return


def whole_lines(
    source: Source, chunk_bytes: int, offset: int = 0
) -> Iterator[tuple[int, memoryview]]:
    """Texts of whole lines, about `chunk_bytes` long, with the offset of each.

    A line longer than MAX_LINE_BYTES is cut after one more byte, without a newline, and the rest of
    it is dropped. A text is valid until the next iteration.
    """
    buffer, held, passing = bytearray(max(1, chunk_bytes)), 0, False
    while fresh := source.readinto(memoryview(buffer)[held:]):
        end = held + fresh
        begin = buffer.find(b"\n", 0, end) + 1 if passing else 0
        passing = passing and begin == 0
        cut = end if passing else max(begin, buffer.rfind(b"\n", held, end) + 1)
        if begin < cut and not passing:
            yield offset + begin, memoryview(buffer)[begin:cut]
        buffer[: end - cut] = buffer[cut:end]
        held, offset = end - cut, offset + cut
        if held > MAX_LINE_BYTES:
            yield offset, memoryview(buffer)[: MAX_LINE_BYTES + 1]
            held, offset, passing = 0, offset + held, True
        if held == len(buffer):
            buffer = buffer + bytearray(held)
    if held:
        yield offset, memoryview(buffer)[:held]


def _after_newline(text: memoryview, begin: int) -> int:
    """The end of the line with byte `begin`, including its newline."""
    newline = _NEWLINE.search(text, begin)
    return len(text) if newline is None else newline.end()


class _Raw:
    """An uncompressed file, whose first bytes can be read in advance."""

    def __init__(self, file: Any, name: str) -> None:
        self.file, self.name, self.position = file, name, 0
        self._head = b""

    def peek(self, size: int) -> bytes:
        """The first `size` bytes, fewer only at the end or of text: a pipe may deliver them one by
        one, and the next line may wait for an answer to this one."""
        buffer = bytearray(size)
        while b"\n" not in self._head and (
            count := self._fill(memoryview(buffer)[len(self._head) :])
        ):
            self._head += buffer[len(self._head) : len(self._head) + count]
        return self._head

    def readinto(self, buffer: memoryview) -> int:
        if self._head:
            count = min(len(self._head), len(buffer))
            buffer[:count], self._head = self._head[:count], self._head[count:]
        else:
            count = self._fill(buffer)
        self.position += count
        return count

    def seek(self, offset: int) -> None:
        self.file.seek(offset)
        self._head, self.position = b"", offset

    def _fill(self, buffer: memoryview) -> int:
        try:
            return self.file.readinto(buffer) or 0
        except OSError as error:
            raise _unreadable(self.name, error) from error


class _Decompressor(Protocol):
    """The common interface of zlib, bz2, lzma and zstandard."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class _Inflated:
    """A compressed file of one or more complete members."""

    def __init__(self, raw: _Raw, make: Callable[[], _Decompressor]) -> None:
        self._raw, self._make = raw, make
        self._member: _Decompressor | None = None
        self._block, self._used = b"", 0
        self._ready = memoryview(b"")

    @property
    def position(self) -> int:
        return self._raw.position - len(self._block) + self._used

    def peek(self, size: int) -> bytes:
        return bytes(self._ready) if self._ready or self._refill() else b""

    def readinto(self, buffer: memoryview) -> int:
        filled = 0
        while filled < len(buffer) and (self._ready or self._refill()):
            count = min(len(self._ready), len(buffer) - filled)
            buffer[filled : filled + count] = self._ready[:count]
            self._ready = self._ready[count:]
            filled += count
        return filled

    def _refill(self) -> bool:
        """Decompresses some bytes; False at the end."""
        while not self._ready:
            piece = self._take()
            if not piece and self._member is not None:
                raise DataError(f"{self._raw.name}: the compressed file is truncated")
            if not piece:
                return False
            self._inflate(piece)
        return True

    def _take(self) -> bytes:
        if self._used == len(self._block):
            buffer = bytearray(_BLOCK_BYTES)
            self._block, self._used = bytes(buffer[: self._raw.readinto(memoryview(buffer))]), 0
        piece = self._block[self._used : self._used + _STEP_BYTES]
        self._used += len(piece)
        return piece

    def _inflate(self, piece: bytes) -> None:
        if self._member is None:
            piece = piece.lstrip(b"\0")  # padding between members
            if not piece:
                return
            self._member = self._make()
        try:
            self._ready = memoryview(self._member.decompress(piece))
        except MemoryError:
            raise
        except Exception as error:  # each library has its own exceptions
            raise DataError(f"{self._raw.name}: the compressed file is damaged: {error}") from error
        if self._member.eof:
            self._used -= len(self._member.unused_data)
            self._member = None


def _decompressor(head: bytes, name: str) -> Callable[[], _Decompressor] | None:
    """How to decompress a file that starts with `head`; None if it is not compressed."""
    if head.startswith(b"\x1f\x8b"):
        import zlib

        return lambda: zlib.decompressobj(wbits=31)
    if head.startswith(b"\x28\xb5\x2f\xfd") or _is_skippable_frame(head):
        return _zstd(name)
    if head.startswith(b"BZh"):
        import bz2

        return bz2.BZ2Decompressor
    if head.startswith(b"\xfd7zXZ\0"):
        import lzma

        return lzma.LZMADecompressor
    return None


def _is_skippable_frame(head: bytes) -> bool:
    """A zstd frame without data; parallel zstd writes a table of contents in one."""
    return head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5


def _zstd(name: str) -> Callable[[], _Decompressor]:
    try:
        import zstandard
    except ImportError as error:
        raise DataError(f'{name}: reading .zst needs: pip install "pqrlearn[zst]"') from error
    return lambda: zstandard.ZstdDecompressor().decompressobj()


def _unreadable(name: str, error: OSError) -> DataError:
    return DataError(f"{name}: cannot be read: {error.strerror or error}")
