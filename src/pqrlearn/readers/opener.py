"""From a path to the Reader of its format."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import IO, Any

from pqrlearn.errors import HyperError
from pqrlearn.readers.base import AnyPath, Reader
from pqrlearn.readers.cache import CacheReader, looks_like_a_cache
from pqrlearn.readers.inputs import Inputs
from pqrlearn.readers.libsvm import LibsvmReader
from pqrlearn.readers.source import is_file

FORMATS: dict[str, type[LibsvmReader | CacheReader]] = {
    "cache": CacheReader,
    "libsvm": LibsvmReader,
}
_HEAD_BYTES = 16


def open_reader(
    path: AnyPath,
    *,
    format: str | None = None,
    loss: str | None = None,
    on_bad_row: str = "stop",
    keep_bad: IO[bytes] | None = None,
) -> Reader:
    """A file, or stdin when `path` is "-". Its format is told by its first bytes, or given.

    Labels must fit the `loss`, if one is given, and come as it keeps them.
    """
    if format is not None and format not in FORMATS:
        raise HyperError(f"format={format!r} must be one of {', '.join(FORMATS)}")
    kind = FORMATS[format or _format_of(path)]
    return kind(path, loss=loss, on_bad_row=on_bad_row, keep_bad=keep_bad)


def _format_of(path: AnyPath) -> str:
    if not is_file(path):  # a pipe must not be opened twice: its writer would see it close
        return "libsvm"
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:  # told when it is read
        return "libsvm"
    return "cache" if looks_like_a_cache(head) else "libsvm"


def read(
    paths: AnyPath | Iterable[AnyPath],
    *,
    schema: Any = None,
    loss: str | None = None,
    format: str | None = None,
    on_bad_row: str = "stop",
) -> Inputs:
    """The rows of one or more files, as Batches; "-" is stdin, compressed files are read as is.

    Labels must fit the `loss`, if one is given. `format` is "libsvm" or "cache"; by default it is
    told by the first bytes. `on_bad_row="skip"` leaves bad rows out and counts them.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "clicks.svm")
    ...     _ = file.write_text("1 3:1 7:0.5\\n0 3:1\\n1 x\\n")
    ...     rows = read(file, loss="logistic", on_bad_row="skip")
    ...     [batch.labels.tolist() for batch in rows], rows.bad_rows
    ([[1.0, 0.0]], 1)
    """
    if schema is not None:
        raise HyperError("schemas belong to tables; this format has none")
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    options: dict[str, Any] = {"format": format, "loss": loss, "on_bad_row": on_bad_row}
    return Inputs([open_reader(path, **options) for path in given])
