"""Reading safetensors files: the size of a header, the header (JSON), then all tensors, gapless.

Files are read, not mapped: if one is truncated while it is mapped, the system kills the process.
"""

from __future__ import annotations

import json
import math
import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn.system import PRIVATE, read_into

_MOST_HEADER_BYTES = 100_000_000  # as in safetensors
_PIECE_BYTES = 1 << 20
_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BOOL": "?",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
}


class Unreadable(ValueError):
    """Not a safetensors file, or not one with types of NumPy."""


class CutOff(Unreadable):
    """A part of the file is missing, or there is more than its header says."""


@dataclass(frozen=True)
class Stored:
    """A tensor in a file, of which any part can be read; by several threads at once."""

    file: _File
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def part(self, begin: int, end: int) -> npt.NDArray[Any]:
        """The numbers from `begin` to `end`, in one dimension; CutOff if the file has shrunk."""
        found = np.empty(end - begin, self.dtype)
        self.file.read(found.view(np.uint8), self.offset + begin * self.dtype.itemsize)
        return found

    def whole(self) -> npt.NDArray[Any]:
        try:
            return self.part(0, self.size).reshape(self.shape)
        except (ValueError, OverflowError) as error:  # no memory, but dimensions beyond NumPy's
            raise error if isinstance(error, Unreadable) else Unreadable(str(error)) from None

    def pieces(self) -> Iterator[npt.NDArray[Any]]:
        """All of it, in pieces of bounded size."""
        step = _PIECE_BYTES // self.dtype.itemsize
        for begin in range(0, self.size, step):
            yield self.part(begin, min(begin + step, self.size))


class _File:
    """An open file, closed when nobody needs it any more."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | PRIVATE)
        weakref.finalize(self, os.close, self._descriptor)
        self.size = os.fstat(self._descriptor).st_size

    def read(self, into: npt.NDArray[np.uint8], at: int) -> None:
        view = into.data
        while view:
            count = read_into(self._descriptor, view[:_PIECE_BYTES], at)
            if not count:
                raise CutOff("incomplete: the file has become shorter while it was read")
            view, at = view[count:], at + count

    def bytes(self, begin: int, size: int) -> bytes:
        found = np.empty(size, np.uint8)
        self.read(found, begin)
        return found.tobytes()


def open_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Stored]]:
    """The header and the tensors, none of them read yet; OSError or Unreadable."""
    file = _File(path)
    header, start = _header(file)
    tensors, end = {}, 0
    entries = {name: _entry(entry) for name, entry in header.items() if name != "__metadata__"}
    for name, (dtype, shape, begin, stop) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if begin != end or stop - begin != math.prod(shape) * dtype.itemsize:
            raise CutOff(f"invalid offsets of tensor {name!r}")
        tensors[name] = Stored(file, start + begin, dtype, shape)
        end = stop
    if start + end != file.size:
        raise CutOff(f"incomplete: {file.size:,} bytes instead of {start + end:,}")
    return header, tensors


def _header(file: _File) -> tuple[dict[str, Any], int]:
    """The header, and where the tensors begin."""
    if file.size < 8:
        raise Unreadable("there is no header")
    size = int.from_bytes(file.bytes(0, 8), "little")
    if size > _MOST_HEADER_BYTES:
        raise Unreadable(f"a header of {size:,} bytes is too large")
    if 8 + size > file.size:
        raise CutOff("incomplete: the header is longer than the file")
    try:
        header = json.loads(file.bytes(8, size))
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, Unreadable) else Unreadable(str(error)) from None
    if not isinstance(header, dict):
        raise Unreadable("the header is not an object")
    return header, 8 + size


def _entry(entry: Any) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    """The type, the shape and the offsets of a tensor."""
    try:
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [*shape, begin, end]
    except (TypeError, KeyError, ValueError):
        raise Unreadable("a tensor without type, shape or offsets") from None
    if any(type(number) is not int or not 0 <= number < 2**64 for number in numbers):
        raise Unreadable("a shape or an offset is not a whole number")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise Unreadable(f"tensors of type {dtype} are not used")
    return np.dtype(_DTYPES[dtype]), tuple(shape), begin, end
