"""The container of models and separations: safetensors, with one key of settings.

No code runs on load. All settings sit in the metadata key `pqrlearn`, as JSON with sorted keys;
there are no times and no paths, so equal models are equal bytes. docs/modelfile.md is its page.
"""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn.errors import Corrupt, ModelFileError, NotAModel, WrongVersion
from pqrlearn.files import written_whole

FORMAT = 1
_KEY = "pqrlearn"
_CUT_OFF = ("incomplete", "invalidoffset", "notfullycovered", "invalidheaderlength")

Settings = dict[str, Any]
Tensors = dict[str, npt.NDArray[Any]]


def to_bytes(kind: str, settings: Settings, tensors: Tensors) -> bytes:
    from safetensors.numpy import save

    return bytes(save(_contiguous(tensors), metadata=_metadata(kind, settings)))


def write(path: str | os.PathLike[str], kind: str, settings: Settings, tensors: Tensors) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    with written_whole(path) as beside:
        try:
            save_file(_contiguous(tensors), beside, metadata=_metadata(kind, settings))
        except SafetensorError as error:  # it wraps the operating system's errors in text
            raise OSError(str(error)) from error


def from_bytes(data: bytes, name: str = "<bytes>") -> tuple[str, Settings, Tensors]:
    """The kind, the settings and the tensors; ModelFileError if `data` is no such file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors = load(data)
        size = struct.unpack("<Q", data[:8])[0]
        metadata = json.loads(data[8 : 8 + size]).get("__metadata__")
    except (SafetensorError, ValueError, KeyError) as error:
        raise _unreadable(name, error) from None
    return (*_settings(name, metadata), tensors)


def read(path: str | os.PathLike[str]) -> tuple[str, Settings, Tensors]:
    """`from_bytes` of a file, without holding the file and the tensors at once."""
    from safetensors import SafetensorError, safe_open

    _must_be_a_file(Path(path))
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        # the last two: types such as BF16, which safetensors has and NumPy has not
        raise _unreadable(str(path), error) from None
    except OSError as error:
        raise ModelFileError(f"{path}: {error.strerror or error}") from None
    return (*_settings(str(path), metadata), tensors)


def kind_of(path: str | os.PathLike[str]) -> str:
    """What a file holds, without reading its tensors."""
    from safetensors import SafetensorError, safe_open

    _must_be_a_file(Path(path))
    try:
        with safe_open(path, framework="numpy") as file:
            return _settings(str(path), file.metadata())[0]
    except SafetensorError as error:
        raise _unreadable(str(path), error) from None


def _must_be_a_file(path: Path) -> None:
    try:
        if not path.stat().st_size:
            raise NotAModel(f"{path}: the file is empty; expected a model written by pqr train")
    except OSError as error:
        raise ModelFileError(f"{path}: {error.strerror}") from None
    if path.is_dir():
        raise ModelFileError(f"{path}: a folder; expected a model written by pqr train")


def _contiguous(tensors: Tensors) -> Tensors:
    return {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}


def _metadata(kind: str, settings: Settings) -> dict[str, str]:
    described = {"format": FORMAT, "kind": kind, **settings}
    return {_KEY: json.dumps(described, sort_keys=True, allow_nan=False)}


def _unreadable(name: str, error: Exception) -> ModelFileError:
    reason = str(error)
    words = reason.lower().replace(" ", "")  # versions of safetensors differ in how they spell it
    if any(sign in words for sign in _CUT_OFF):
        return Corrupt(f"{name}: the file is cut off or damaged ({reason})")
    return NotAModel(f"{name}: not a model of pqrlearn ({reason})")


def _settings(name: str, metadata: dict[str, str] | None) -> tuple[str, Settings]:
    if not isinstance(metadata, dict) or _KEY not in metadata:
        raise NotAModel(f"{name}: a safetensors file, but not a model of pqrlearn")
    try:
        settings = json.loads(metadata[_KEY])
        version, kind = settings.pop("format"), settings.pop("kind")
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise Corrupt(f"{name}: its settings cannot be read ({error})") from None
    if version != FORMAT:
        raise WrongVersion(f"{name}: format {version!r}; this pqrlearn reads format {FORMAT}")
    if not isinstance(kind, str):
        raise Corrupt(f"{name}: its kind is not a word")
    return kind, settings


def tensor(tensors: Tensors, name: str, dtype: type[np.generic], ndim: int) -> npt.NDArray[Any]:
    """The tensor called `name`, contiguous, if it is of that type and shape; else ValueError."""
    if name not in tensors:
        raise ValueError(f"{name} is missing")
    found = tensors[name]
    if found.dtype != dtype or found.ndim != ndim:
        raise ValueError(f"{name} is {found.dtype} with {found.ndim} dimensions")
    return np.ascontiguousarray(found)
