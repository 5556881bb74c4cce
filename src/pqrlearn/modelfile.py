"""The container of models and separations: safetensors, with one key of settings.

No code runs on load. All settings are in the metadata key `pqrlearn`, as JSON with sorted keys.
There are no times and no paths, so equal models are equal bytes. The settings include a digest of
the whole content, which is checked on load. docs/modelfile.md describes the format.
"""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from pqrlearn import _core
from pqrlearn.container import CutOff, Stored, Unreadable, open_tensors
from pqrlearn.errors import Corrupt, ModelFileError, NotAModel, WrongVersion
from pqrlearn.files import atomic_path

FORMAT = 3
_OLDEST = 2  # without a digest
_KEY = "pqrlearn"
_DTYPES = {"U64": "<u8", "I64": "<i8", "F64": "<f8", "F32": "<f4", "U32": "<u4", "U8": "u1"}
"""In the order of tensors in a file: the widest types first, so that all are aligned."""
_PIECE = 1 << 20
BLOCKS = "digests"
"""The tensor with digests of the others, block by block, for files that are read in parts."""
_CUT_OFF = ("incomplete", "invalidoffset", "notfullycovered", "invalidheaderlength")

Settings = dict[str, Any]
Tensors = dict[str, npt.NDArray[Any]]
About = dict[str, tuple[np.dtype[Any], list[int]]]
Digest = _core.Digest


@dataclass(frozen=True)
class InParts:
    """Tensors that are computed while they are written, so that they are never whole in memory.

    Each part has a piece of every tensor.
    """

    about: About
    parts: Callable[[], Iterable[Tensors]]


NO_PARTS = InParts({}, list)


def to_bytes(kind: str, settings: Settings, tensors: Tensors) -> bytes:
    file = io.BytesIO()
    _write(file, kind, settings, tensors)
    return file.getvalue()


def write(
    path: str | os.PathLike[str],
    kind: str,
    settings: Settings,
    tensors: Tensors,
    in_parts: InParts = NO_PARTS,
) -> None:
    with atomic_path(path) as temporary, temporary.open("wb", buffering=0) as file:
        _write(file, kind, settings, tensors, in_parts)


def _write(
    file: IO[bytes],
    kind: str,
    settings: Settings,
    tensors: Tensors,
    in_parts: InParts = NO_PARTS,
) -> None:
    """The bytes that safetensors would write, without its copy of all tensors."""
    about: About = {name: (tensor.dtype, list(tensor.shape)) for name, tensor in tensors.items()}
    about |= in_parts.about
    digests = {name: Digest() for name in about}
    header, starts = _header(kind, settings, about, digests)  # has the length of the final one
    _write_all(file, 0, memoryview(header))
    for part in chain([tensors], in_parts.parts()):
        for name, tensor in part.items():
            data = np.ascontiguousarray(tensor).reshape(-1).view(np.uint8).data
            digests[name].update(data)
            _write_all(file, starts[name], data)
            starts[name] += len(data)
    header, _ = _header(kind, settings, about, digests)
    _write_all(file, 0, memoryview(header))


def _write_all(file: IO[bytes], at: int, data: memoryview) -> None:
    """Writes in pieces: large writes make the system look for large pages."""
    file.seek(at)
    while data:
        data = data[file.write(data[:_PIECE]) :]


def assemble(
    path: Path, kind: str, settings: Settings, columns: dict[str, tuple[type[np.generic], Path]]
) -> None:
    """Writes one-dimensional tensors from files of their own, without loading them.

    One of them is `BLOCKS`, which covers the others.
    """
    sizes = {name: column.stat().st_size for name, (_, column) in columns.items()}
    about: About = {
        name: (np.dtype(dtype), [sizes[name] // np.dtype(dtype).itemsize])
        for name, (dtype, _) in columns.items()
    }
    blocks = digest_of(columns[BLOCKS][1].read_bytes())
    header, starts = _header(kind, settings, about, {BLOCKS: blocks})
    with path.open("wb") as file:
        file.write(header)
        for name in starts:
            with columns[name][1].open("rb") as column_file:
                shutil.copyfileobj(column_file, file, 1 << 20)


def _header(
    kind: str, settings: Settings, about: About, digests: dict[str, Digest]
) -> tuple[bytes, dict[str, int]]:
    """The bytes before the tensors, and the offset of each tensor; sorted by type, then name."""
    names = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
    types = list(names)
    order = sorted(about, key=lambda name: (types.index(about[name][0]), name))
    header: dict[str, Any] = {}
    begins, end = {}, 0
    for name in order:
        dtype, shape = about[name]
        begins[name] = begin = end
        end += math.prod(shape) * dtype.itemsize
        header[name] = {"dtype": names[dtype], "shape": shape, "data_offsets": [begin, end]}
    described = json.loads(_sorted({"format": FORMAT, "kind": kind, **settings}))  # as read
    described["digest"] = _digest(described, header, digests)
    header = {"__metadata__": {_KEY: _sorted(described)}, **header}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    before = struct.pack("<Q", len(text)) + text
    return before, {name: len(before) + begin for name, begin in begins.items()}


def _sorted(described: Any) -> str:
    return json.dumps(described, sort_keys=True, allow_nan=False)


def _digest(described: Settings, entries: dict[str, Any], digests: dict[str, Digest]) -> str:
    """The digest of the settings and of each tensor's type, shape and digest."""
    hashed = {name: f"{digest.value():016x}" for name, digest in digests.items()}
    tensors = {
        name: [entry["dtype"], entry["shape"], hashed.get(name)] for name, entry in entries.items()
    }
    whole = digest_of(_sorted({"settings": described, "tensors": tensors}).encode())
    return f"xxh64:{whole.value():016x}"


def digest_of(data: Any) -> Digest:
    digest = Digest()
    digest.update(data)
    return digest


def from_bytes(data: bytes, name: str = "<bytes>") -> tuple[str, Settings, Tensors]:
    """The kind, the settings and the tensors; ModelFileError if `data` is not a model file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors = load(data)
        size = struct.unpack("<Q", data[:8])[0]
        header: dict[str, Any] = json.loads(data[8 : 8 + size])
    except (SafetensorError, ValueError, KeyError) as error:
        raise _unreadable(name, error) from None
    return (*_checked(name, header, lambda each: digest_of(tensors[each])), tensors)


def read(path: str | os.PathLike[str]) -> tuple[str, Settings, Tensors]:
    """`from_bytes` of a file, without a second copy in memory."""
    with _reading(path):
        header, stored = open_tensors(path)
        tensors = {name: tensor.whole() for name, tensor in stored.items()}
    return (*_checked(str(path), header, lambda name: digest_of(tensors[name])), tensors)


def stored(path: str | os.PathLike[str]) -> tuple[str, Settings, dict[str, Stored]]:
    """Like `read`, but tensors stay on disk: only what is asked for is read."""
    with _reading(path):
        header, tensors = open_tensors(path)

        def digest(name: str) -> Digest:
            found = Digest()
            for piece in tensors[name].pieces():
                found.update(piece)
            return found

        return (*_checked(str(path), header, digest), tensors)


def kind_of(path: str | os.PathLike[str]) -> str:
    """The kind of a file, without reading its tensors."""
    with _reading(path):
        header, _ = open_tensors(path)
    kind: str = _described(str(path), header.get("__metadata__"))["kind"]
    return kind


@contextmanager
def _reading(path: str | os.PathLike[str]) -> Iterator[None]:
    _must_be_a_file(Path(path))
    try:
        yield
    except CutOff as error:
        raise _cut_off(str(path), error) from None
    except Unreadable as error:
        raise _not_a_model(str(path), error) from None
    except OSError as error:
        raise ModelFileError(f"{path}: {error.strerror or error}") from None


def _must_be_a_file(path: Path) -> None:
    try:
        if not path.stat().st_size:
            raise NotAModel(f"{path}: the file is empty; expected a model written by pqr train")
    except OSError as error:
        raise ModelFileError(f"{path}: {error.strerror}") from None
    if path.is_dir():
        raise ModelFileError(f"{path}: a folder; expected a model written by pqr train")


def _unreadable(name: str, error: Exception) -> ModelFileError:
    reason = str(error)
    words = reason.lower().replace(" ", "")  # spelled differently by versions of safetensors
    return (_cut_off if any(sign in words for sign in _CUT_OFF) else _not_a_model)(name, error)


def _cut_off(name: str, error: Exception) -> ModelFileError:
    return Corrupt(f"{name}: the file is cut off or damaged ({error})")


def _not_a_model(name: str, error: Exception) -> ModelFileError:
    return NotAModel(f"{name}: not a model of pqrlearn ({error})")


def _checked(
    name: str, header: dict[str, Any], digest_in: Callable[[str], Digest]
) -> tuple[str, Settings]:
    """The kind and the settings, once the digest is verified."""
    described = _described(name, header.pop("__metadata__", None))
    digest = described.pop("digest", None)
    if digest is not None or described["format"] > _OLDEST:
        hashed = [BLOCKS] if BLOCKS in header else list(header)
        digests = {each: digest_in(each) for each in hashed}
        if digest != _digest(described, header, digests):
            raise Corrupt(
                f"{name}: the file is damaged: its digest does not match its content; "
                "restore it from a copy, or make it again"
            )
    del described["format"]
    return described.pop("kind"), described


def _described(name: str, metadata: dict[str, str] | None) -> Settings:
    """All settings, including `kind` and a `format` that can be read."""
    if not isinstance(metadata, dict) or _KEY not in metadata:
        raise NotAModel(f"{name}: a safetensors file, but not a model of pqrlearn")
    try:
        described: Settings = json.loads(metadata[_KEY])
        version, kind = described["format"], described["kind"]
        _sorted({"settings": described})  # rejects NaN and deep nesting, which have no digest
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Corrupt(f"{name}: its settings cannot be read ({error})") from None
    if type(version) is not int or not isinstance(kind, str):
        raise Corrupt(f"{name}: its format is not a number, or its kind is not a string")
    read = f"this pqrlearn reads ({_OLDEST} and {FORMAT})"
    if version > FORMAT:
        raise WrongVersion(f"{name}: format {version} is newer than {read}: upgrade pqrlearn")
    if version < _OLDEST:
        raise WrongVersion(f"{name}: format {version} is older than {read}: make the file again")
    return described


def tensor(tensors: Tensors, name: str, dtype: type[np.generic], ndim: int) -> npt.NDArray[Any]:
    """The tensor `name`, contiguous; ValueError if it has another type or number of dimensions."""
    if name not in tensors:
        raise ValueError(f"{name} is missing")
    found = tensors[name]
    if found.dtype != dtype or found.ndim != ndim:
        raise ValueError(f"{name} is {found.dtype} with {found.ndim} dimensions")
    return np.ascontiguousarray(found)
