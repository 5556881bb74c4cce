"""What can go wrong, as a tree. The command line turns each branch into an exit code.

PqrError                    1
├── HyperError              2   a setting out of its range, or two that contradict each other
├── DataError               3   input that cannot be used: an empty file, a broken archive
│   └── RowError            3   one row of it, with file, line and byte where they are known
│       └── RefusedRow      3   a good row whose values are too large for the model
├── MissingExtra            1   a library that only some need, and that is not installed
└── ModelFileError          4   a file that is not a usable model or separation
    ├── NotAModel               foreign bytes
    ├── WrongVersion            of a newer format, or one too old to be read
    └── Corrupt                 truncated, damaged, or parts that contradict each other
"""

from __future__ import annotations

from typing import Any


class PqrError(Exception):
    """The root: everything that pqrlearn raises on purpose."""

    exit_code = 1
    case: tuple[str, ...] = ()
    """What it is a case of, and of what, where a caller may know the way out: see cli.WAYS_OUT."""


class HyperError(PqrError, ValueError):
    """A setting out of its range, or two settings that contradict each other."""

    exit_code = 2


class DataError(PqrError, ValueError):
    """Input that cannot be used."""

    exit_code = 3


class RowError(DataError):
    """One bad row. `str()` gives `file:line:byte: message` as far as they are known."""

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        line: int | None = None,
        byte: int | None = None,
    ) -> None:
        self.message, self.path, self.line, self.byte = message, path, line, byte
        where = ":".join(str(part) for part in (path, line, byte) if part is not None)
        super().__init__(f"{where}: {message}" if where else message)

    def __reduce__(self) -> tuple[object, ...]:
        where = {"path": self.path, "line": self.line, "byte": self.byte}
        return (_row_error, (self.message, where))


class RefusedRow(RowError):
    """A row that a model cannot take; the rows before it in its batch have been.

    `row` is its place in the batch, `alone` a Batch of it; `margins` are those of the rows before.
    """

    row: int
    alone: Any
    margins: Any


def _row_error(message: str, where: dict[str, object]) -> RowError:
    return RowError(message, **where)  # type: ignore[arg-type]


class MissingExtra(PqrError, ImportError):
    """A library that only some need, and that is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        self.what, self.extra = what, extra
        super().__init__(f'{what} need an extra: pip install "pqrlearn[{extra}]"')

    def __reduce__(self) -> tuple[object, ...]:
        return (MissingExtra, (self.what, self.extra))


class ModelFileError(PqrError, ValueError):
    """A file that is not a usable model or separation."""

    exit_code = 4


class NotAModel(ModelFileError):
    """Foreign bytes."""


class WrongVersion(ModelFileError):
    """Of a newer format than this version of pqrlearn reads, or of an older one."""


class Corrupt(ModelFileError):
    """Truncated, damaged, or with parts that contradict each other."""
