"""The log of a service: checksummed records in segments. docs/serving.md describes the format.

A position is a byte offset in the whole log: the segment of base B holds the records at B and
after. Everything here only reads; `serve.log` writes.
"""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

from pqrlearn.errors import Corrupt, DataError, MissingExtra, NotAModel, WrongVersion
from pqrlearn.system import PRIVATE, read_at

try:
    import google_crc32c
except ModuleNotFoundError:
    raise MissingExtra("logs of pqr serve", "serve") from None

crc32c: Callable[[bytes], int] = google_crc32c.value
FORMAT: Final = 1
MARK: Final = "pqr-log.json"
"""The file that tells a folder with a log from others."""
MAGIC: Final = b"pqrlog1\n"
HEAD: Final = Struct("<8sQQ32sI4x")
"""Of a segment: magic, base, sequence of its first record, version of pqrlearn, checksum."""
HEADER: Final = Struct("<IIBQq")
"""Of a record: length of the payload, checksum of all the rest, kind, sequence, microseconds."""
FIRST: Final = 0x80
"""Flag of a kind: the record begins a group, so that everything before it was synced."""
MOST_BYTES: Final = 1 << 26
"""Of a payload. A longer one is a length that was damaged."""

_USUAL_BYTES = 4096  # read at once: most records fit
_BLOCK_BYTES = 1 << 16  # read at once where records are read in order
_MOST_FILES = 64  # open at a time
_KIND_AT = 8  # in a record
_BEGINS = re.compile(rb"[\x81-\x88]")  # kinds with FIRST
_LENGTH = Struct("<I")
_REST = Struct("<BQq")
_MARGIN = Struct("<d")
_ROW = Struct("<dH")
_LABELLED = Struct("<dddH")
_OUTCOME = Struct("<QddH")
_ROW_HEADS = {1: _ROW, 1 | FIRST: _ROW, 3: _LABELLED, 3 | FIRST: _LABELLED}


class Kind(IntEnum):
    """What a record says."""

    PREDICT = 1  # a row was predicted, and waits for its label
    LABEL = 2  # a label came, and is learned
    BOTH = 3  # a row and its label came together
    TIMEOUT = 4  # no label came in time: the row is learned as a negative
    EXPIRED = 5  # no label came in time: the row is not learned
    SWAP = 6  # another model takes over
    END = 7  # the service was stopped, and everything before was learned
    ERASED = 8  # somebody asked for the record to be erased


class Record(NamedTuple):
    position: int
    kind: int
    sequence: int
    time: int
    payload: bytes

    @property
    def end(self) -> int:
        return self.position + HEADER.size + len(self.payload)


class Row(NamedTuple):
    """The payload of PREDICT: features as received, and the margin that was served."""

    id: str
    margin: float
    features: bytes


class Labelled(NamedTuple):
    """The payload of BOTH."""

    id: str
    margin: float
    label: float
    weight: float
    features: bytes


class Outcome(NamedTuple):
    """The payload of LABEL, TIMEOUT and EXPIRED: what became of the row at `row`."""

    id: str
    row: int
    label: float
    weight: float


def packed(kind: int, sequence: int, time: int, payload: bytes) -> bytes:
    rest = _REST.pack(kind, sequence, time) + payload
    length = _LENGTH.pack(len(payload))
    return length + _LENGTH.pack(crc32c(length + rest)) + rest


def pack_row(name: bytes, margin: float, features: bytes) -> bytes:
    """A `Row`; the name is its id."""
    return _ROW.pack(margin, len(name)) + name + features


def row_in(payload: bytes) -> Row:
    margin, size = _ROW.unpack_from(payload)
    end = _ROW.size + size
    return Row(payload[_ROW.size : end].decode(), margin, payload[end:])


def name_in(payload: bytes) -> bytes:
    """The id of a `Row`, in UTF-8."""
    return payload[_ROW.size : _ROW.size + _ROW.unpack_from(payload)[1]]


def margin_in(payload: bytes) -> float:
    """The margin of PREDICT or BOTH."""
    margin: float = _MARGIN.unpack_from(payload)[0]
    return margin


def row_of(record: Record) -> tuple[float, bytes]:
    """Margin and features of PREDICT or BOTH."""
    head = _ROW if record.kind == Kind.PREDICT else _LABELLED
    values = head.unpack_from(record.payload)
    return values[0], record.payload[head.size + values[-1] :]


def pack_labelled(
    name: bytes, margin: float, label: float, weight: float, features: bytes
) -> bytes:
    """A `Labelled`."""
    return _LABELLED.pack(margin, label, weight, len(name)) + name + features


def labelled_in(payload: bytes) -> Labelled:
    margin, label, weight, size = _LABELLED.unpack_from(payload)
    end = _LABELLED.size + size
    return Labelled(payload[_LABELLED.size : end].decode(), margin, label, weight, payload[end:])


def pack_outcome(name: bytes, row: int, label: float, weight: float) -> bytes:
    """An `Outcome`."""
    return _OUTCOME.pack(row, label, weight, len(name)) + name


def outcome_in(payload: bytes) -> Outcome:
    row, label, weight, size = _OUTCOME.unpack_from(payload)
    return Outcome(payload[_OUTCOME.size : _OUTCOME.size + size].decode(), row, label, weight)


def label_in(payload: bytes) -> tuple[int, float, float]:
    """The row, label and weight of an `Outcome`."""
    row, label, weight, _ = _OUTCOME.unpack_from(payload)
    return row, label, weight


def both_in(payload: bytes) -> tuple[bytes, float, float, float]:
    """The features, label, weight and margin of a `Labelled`."""
    margin, label, weight, size = _LABELLED.unpack_from(payload)
    return payload[_LABELLED.size + size :], label, weight, margin


def id_in(record: Record) -> str | None:
    """The id that a record is about, if it is about one."""
    kind = record.kind
    if kind == Kind.PREDICT:
        return row_in(record.payload).id
    if kind == Kind.BOTH:
        return labelled_in(record.payload).id
    if kind in (Kind.LABEL, Kind.TIMEOUT, Kind.EXPIRED):
        return outcome_in(record.payload).id
    return None


def record_at(data: bytes, at: int, position: int) -> Record | None:
    """The record at byte `at`, or None if there is none that is whole and valid."""
    begin = at + HEADER.size
    if begin > len(data):
        return None
    length, checksum, kind, sequence, time = HEADER.unpack_from(data, at)
    if length > MOST_BYTES or begin + length > len(data):
        return None
    if crc32c(data[at : at + 4] + data[at + 8 : begin + length]) != checksum:
        return None
    return Record(position, kind & ~FIRST, sequence, time, data[begin : begin + length])


def _row_at(data: bytes, at: int) -> tuple[int, float, bytes] | None:
    """The time, margin and features of the record at byte `at`, if it is whole, and a row."""
    begin = at + HEADER.size
    if at < 0 or begin > len(data):
        return None
    length, checksum, kind, _, time = HEADER.unpack_from(data, at)
    end, head = begin + length, _ROW_HEADS.get(kind)
    if head is None or end > len(data):
        return None
    if crc32c(data[at : at + 4] + data[at + 8 : end]) != checksum:
        return None
    values = head.unpack_from(data, begin)
    return time, values[0], data[begin + head.size + values[-1] : end]


class Segment(NamedTuple):
    """One file of the log."""

    path: Path
    base: int
    size: int
    """Of the file."""

    @property
    def end(self) -> int:
        return self.base + self.size - HEAD.size

    def offset(self, position: int) -> int:
        """Where a position is in the file."""
        return position - self.base + HEAD.size


def segment_name(base: int) -> str:
    return f"{base:020}.log"


def head_of(base: int, sequence: int, version: str) -> bytes:
    plain = MAGIC + Struct("<QQ32s").pack(base, sequence, version.encode()[:32])
    return plain + Struct("<I4x").pack(crc32c(plain))


def head_in(path: Path, data: bytes) -> tuple[int, int, str]:
    """Base, first sequence and version of a segment."""
    if len(data) < HEAD.size or not data.startswith(MAGIC):
        raise Corrupt(f"{path}: damaged at byte 0: not the head of a segment")
    _, base, sequence, version, checksum = HEAD.unpack_from(data)
    if crc32c(data[: HEAD.size - 8]) != checksum or path.name != segment_name(base):
        raise Corrupt(f"{path}: damaged at byte 0: the head does not match its checksum")
    return base, sequence, version.rstrip(b"\0").decode(errors="replace")


def segments(folder: Path) -> list[Segment]:
    """Those of a folder, in order; gaps between them are damage."""
    found: list[Segment] = []
    for path in sorted((folder / "log").glob("*.log")):
        size = path.stat().st_size
        if size < HEAD.size:
            continue  # just begun by the service; anywhere else, it is missed by the next one
        with path.open("rb") as file:
            base, _, _ = head_in(path, file.read(HEAD.size))
        if found and found[-1].end != base:
            raise Corrupt(f"{path}: the segment before it ends at {found[-1].end:,}, not {base:,}")
        found.append(Segment(path, base, size))
    return found


def records_in(segment: Segment, start: int = 0, *, torn: bool = False) -> Iterator[Record]:
    """The records of a segment from position `start` on.

    At one that is not whole: Corrupt with its place; or the end, if `torn` allows that.
    """
    data = segment.path.read_bytes()
    at, last = segment.offset(max(start, segment.base)), None
    if start <= segment.base:
        last = head_in(segment.path, data)[1] - 1
    while at < len(data):
        record = record_at(data, at, at - HEAD.size + segment.base)
        if record is None:
            if torn and is_torn(data, at):
                return
            raise damaged(segment, at)
        if last is not None and record.sequence != last + 1:
            raise Corrupt(f"{segment.path}: damaged at byte {at:,}: a record is missing before it")
        last = record.sequence
        yield record
        at += HEADER.size + len(record.payload)


def damaged(segment: Segment, at: int) -> Corrupt:
    return Corrupt(
        f"{segment.path}: damaged at byte {at:,}: a record does not match its checksum; "
        "restore the file from a copy"
    )


def is_torn(data: bytes, at: int) -> bool:
    """Whether nothing behind the bad record at `at` shows that it had been synced.

    A group is written only after the one before it was synced. So the beginning of a later group
    proves that the record was whole once, and is damaged now.
    """
    kinds = _BEGINS.finditer(data, at + 1 + _KIND_AT)
    return all(record_at(data, kind.start() - _KIND_AT, 0) is None for kind in kinds)


class Log:
    """A log to be read, whether another process writes it or not."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        check_folder(self.folder)
        self.segments = segments(self.folder)
        self._files: dict[int, int] = {}

    @property
    def first(self) -> int:
        """The first position that is kept."""
        return self.segments[0].base if self.segments else 0

    def records(self, start: int = 0) -> Iterator[Record]:
        """All records from a position on; the last segment may end in a torn one."""
        for segment in list(self.segments):
            last = segment is self.segments[-1]
            if last or segment.end > start:
                yield from records_in(segment, start, torn=last)

    def following(self, start: int, end: int) -> Iterator[Record]:
        """Records from a position on and up to about `end`, as far as their segment has them."""
        segment = self._holding(start)
        size = min(end, self._next_base(segment)) - start
        data = read_at(self._file(segment), max(size, _USUAL_BYTES), segment.offset(start))
        at = 0
        while at < size and (record := record_at(data, at, start + at)) is not None:
            yield record
            at += HEADER.size + len(record.payload)
        if at == 0 and data:
            yield self.at(start)  # longer than all that was to be read

    def refresh(self) -> None:
        """Looks for new segments, and for those that are gone."""
        self.segments = segments(self.folder)

    def _next_base(self, segment: Segment) -> int:
        number = bisect_right(self.segments, segment.base, key=lambda segment: segment.base)
        return self.segments[number].base if number < len(self.segments) else 1 << 62

    def at(self, position: int) -> Record:
        """The record at a position; KeyError if it is not kept."""
        segment = self._holding(position)
        return _read(self._file(segment), segment, position)

    def rows_at(self, positions: Sequence[int]) -> list[tuple[int, float, bytes]]:
        """The times, margins and features of rows; those that lie near each other are read at once.

        Like `at` for many, without what labels do not need.
        """
        found: list[tuple[int, float, bytes]] = []
        data, start, last = b"", 0, -_BLOCK_BYTES
        for position in positions:
            row = _row_at(data, position - start)
            if row is None:
                segment = self._holding(position)
                near = 0 <= position - last < _BLOCK_BYTES
                size = _BLOCK_BYTES if near else _USUAL_BYTES
                data = read_at(self._file(segment), size, segment.offset(position))
                start, row = position, _row_at(data, 0)
            if row is None:  # longer than what was read, or damaged
                record = self.at(position)
                row = record.time, *row_of(record)
            found.append(row)
            last = position
        return found

    def _holding(self, position: int) -> Segment:
        if self.segments and position >= self.segments[-1].base:
            return self.segments[-1]
        number = bisect_right(self.segments, position, key=lambda segment: segment.base) - 1
        if number < 0:
            raise KeyError(position)
        return self.segments[number]

    def _file(self, segment: Segment) -> int:
        if segment.base not in self._files:
            if len(self._files) >= _MOST_FILES:
                self.close_files()
            self._files[segment.base] = os.open(segment.path, os.O_RDONLY | PRIVATE)
        return self._files[segment.base]

    def close_files(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])


def _read(file: int, segment: Segment, position: int) -> Record:
    at = segment.offset(position)
    data = read_at(file, _USUAL_BYTES, at)
    if len(data) < HEADER.size:
        raise damaged(segment, at)
    length = HEADER.size + int(HEADER.unpack_from(data)[0])
    if len(data) < length <= MOST_BYTES:
        data = read_at(file, length, at)
    record = record_at(data, 0, position)
    if record is None:
        raise damaged(segment, at)
    return record


def check_folder(folder: Path) -> dict[str, Any]:
    """What the mark of a folder says."""
    try:
        found = json.loads((folder / MARK).read_bytes())
    except OSError as error:
        raise DataError(f"{folder}: no log of pqr serve: {MARK}: {error.strerror}") from None
    except ValueError as error:
        raise NotAModel(f"{folder / MARK}: not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise WrongVersion(f"{folder / MARK}: a log of another format than {FORMAT}")
    return found
