"""The file of bad rows: skipped by readers or refused by the model, in input order."""

from __future__ import annotations

import math
import os
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import IO

from pqrlearn.checkpoint import Progress
from pqrlearn.errors import RefusedRow, SettingsConflict
from pqrlearn.files import write_all, write_error
from pqrlearn.readers import AnyPath, Inputs, format_batch


class BadRows:
    """Bad rows of the first pass, each written once the model has learned the rows around it.

    Readers are ahead of the model, on another thread, so what they find waits here. So the file
    does not depend on timing, and a checkpoint knows how long it was: a run that is resumed drops
    what was written later, and ends in the same bytes as one that was never interrupted.
    """

    def __init__(self, path: AnyPath, inputs: Inputs, start: Progress) -> None:
        self._path, self._inputs = Path(path), inputs
        self._found: deque[tuple[int, bytes]] = deque()  # by readers, with the rows before each
        self._first: float = 0
        if start.bad_bytes is not None:  # rows before this one are in the file
            self._first = math.inf if start.done_passes else start.rows
        try:
            self._file = self._opened(start.bad_bytes)
        except OSError as error:
            raise write_error(self._path, error) from error
        self.size = start.bad_bytes or 0

    def _opened(self, size: int | None) -> IO[bytes]:
        if size is None:
            return self._path.open("wb", buffering=0)
        found = self._path.stat().st_size if self._path.exists() else 0
        if found < size:
            raise SettingsConflict(
                f"{{bad_rows}} {self._path} has {found:,} bytes, but the run had written {size:,} "
                "before the checkpoint: give the file of that run, or leave it out"
            )
        file = self._path.open("r+b", buffering=0)
        file.truncate(size)
        file.seek(size)
        return file

    def write(self, row: bytes) -> int:
        """Takes a row that a reader skips, on the thread that reads."""
        if self._inputs.position >= self._first:
            self._found.append((self._inputs.position, row))
        return len(row)

    def advance(self, rows: float, refused: list[RefusedRow]) -> None:
        """Writes bad rows among the first `rows` rows; `refused` are those that are new."""
        lines = []
        while self._found and self._found[0][0] < rows:
            position, row = self._found.popleft()
            lines.append((position, 0, row))
        lines += [(error.number, 1, format_batch(error.alone)) for error in refused]
        data = b"".join(line for *_, line in sorted(lines, key=lambda line: line[:2]))
        try:
            write_all(self._file, data)
        except OSError as error:
            raise write_error(self._path, error) from error
        self.size += len(data)

    def finish(self) -> None:
        """Writes bad rows behind the last valid one, when a pass ends."""
        self.advance(math.inf, [])

    def sync(self) -> None:
        """Before a checkpoint that knows the size of the file."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise write_error(self._path, error) from error

    def __enter__(self) -> BadRows:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Writes what is left, also when the run has failed: a row may be the reason."""
        with self._file:
            if not isinstance(error, OSError):
                self.finish()
