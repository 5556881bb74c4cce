"""A file of finished results, one JSON line each, synced before the next result is computed.

Long work is cut into pieces, each with a key made of everything that its result depends on. A piece
that is in the journal is not computed again, so work that was stopped resumes where it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from pqrlearn.errors import PqrError

_CODE = (
    *("learners/*.py", "hyper.py", "metrics.py", "rows.py", "separation.py", "progressive.py"),
    *("tune.py", "spaces.py", "paper/protocol.py", "paper/sources.py"),
    *(f"datasets/{name}" for name in ("arithmetic.py", "clicks.py", "field.py", "measured.json")),
)
"""The code that results depend on, besides the native core."""


class Journal:
    """Results by key, in an append-only file.

    Threads and processes may share a file: a line is one write. A line that a crash cut off is
    ignored.

    >>> journal = Journal(None)
    >>> journal.once("6 x 7", lambda: 42), journal.once("6 x 7", lambda: 1 / 0)
    (42, 42)
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        """Without a path, results are kept in memory only."""
        self.path = None if path is None else Path(path)
        self._known: dict[str, Any] = {}
        self._turn = Lock()
        if self.path is not None and self.path.exists():
            self._known = dict(filter(None, map(_entry, self.path.read_bytes().split(b"\n"))))

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __getitem__(self, key: str) -> Any:
        return self._known[key]

    def put(self, key: str, result: Any) -> None:
        """Stores a result that JSON can represent."""
        line = json.dumps({"key": key, "result": result}) + "\n"
        with self._turn:
            if self.path is not None:
                self._append(line.encode())
            self._known[key] = json.loads(line)["result"]

    def once(self, key: str, work: Callable[[], Any]) -> Any:
        """The result under `key`; `work` is called only if there is none yet."""
        if key not in self._known:
            self.put(key, work())
        return self._known[key]

    def _append(self, line: bytes) -> None:
        assert self.path is not None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                rest = memoryview(line if _ends_with_newline(self.path) else b"\n" + line)
                while rest:  # on a nearly full disk a write may stop halfway
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
        except OSError as error:
            raise PqrError(f"{self.path}: cannot be written: {error.strerror or error}") from error


def key_of(*parts: Any) -> str:
    """A hash of plain data and of the code that computes results from it."""
    text = json.dumps([_code_digest(), *parts], sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _entry(line: bytes) -> tuple[str, Any] | None:
    try:
        entry = json.loads(line)
        return entry["key"], entry["result"]
    except (ValueError, KeyError, TypeError):
        return None


def _ends_with_newline(path: Path) -> bool:
    """Whether the last line is complete."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


@cache
def _code_digest() -> str:
    """A digest of the code, so that results of other versions are not reused."""
    home = Path(__file__).parent
    core = find_spec("pqrlearn._core")
    files = [Path(core.origin)] if core and core.origin else []
    files += sorted(path for pattern in _CODE for path in home.glob(pattern))
    digest = blake2b(digest_size=16)
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()
