"""All exceptions, as a tree. The command line turns each branch into an exit code.

PqrError                    1
├── HyperError              2   a setting out of its range
│   └── SettingsConflict    2   settings that cannot be used together
├── DataError               3   input that cannot be used: an empty file, a broken archive
│   └── RowError            3   one row of it, with file, line and byte where they are known
│       └── RefusedRow      3   a valid row with too large values or too many pairs for the model
├── MissingExtra            1   an optional dependency that is not installed
└── ModelFileError          4   a file that cannot be used as a model or separation
    ├── NotAModel               not written by pqrlearn
    ├── WrongVersion            a newer format, or one too old to be read
    └── Corrupt                 truncated, damaged, or parts that contradict each other
"""

from __future__ import annotations

import re
from typing import Any, Final


class PqrError(Exception):
    """Base class of all exceptions that pqrlearn raises.

    >>> from pqrlearn import LR
    >>> try:
    ...     LR().learn_one({"age": float("inf")}, 1)
    ... except PqrError as error:
    ...     print(error)
    feature 'age': value inf is not a finite 32-bit float
    """

    exit_code = 1
    case: tuple[str, ...] = ()
    """The kind of problem and its subjects, for advice of the caller: see cli.WAYS_OUT."""

    def located(self, where: str) -> PqrError:
        """The same error, with a file or a column in front.

        >>> str(HyperError("no label is 'yes'").located("clicks.csv"))
        "clicks.csv: no label is 'yes'"
        """
        found = type(self)(f"{where}: {getattr(self, 'template', self)}")
        found.case = self.case
        return found


class HyperError(PqrError, ValueError):
    """A setting out of its range."""

    exit_code = 2


class SettingsConflict(HyperError):
    """Settings that cannot be used together.

    In `template`, `{name}` stands for a setting: the command shows it as an option.

    >>> str(SettingsConflict("{min_count} needs {model} pqr"))
    'min_count needs model pqr'
    """

    def __init__(self, template: str) -> None:
        self.template = template
        super().__init__(re.sub(r"\{(\w+)\}", r"\1", template))

    def __reduce__(self) -> tuple[object, ...]:
        return (SettingsConflict, (self.template,))


class DataError(PqrError, ValueError):
    """Input that cannot be used."""

    exit_code = 3


ROW: Final = ": row"
"""The end of the path of rows that are no lines: `file: row 5`, not `file:5`."""


class RowError(DataError):
    """One bad row. `str()` gives `file:line:byte: message`, as far as these are known.

    >>> for path in ("a.csv", "a.csv: row"):
    ...     print(RowError("no label", path=path, line=5))
    a.csv:5: no label
    a.csv: row 5: no label
    """

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
        if path is not None and path.endswith(ROW):
            where = path.removesuffix(ROW) if line is None else f"{path} {line}"
        super().__init__(f"{where}: {message}" if where else message)

    def __reduce__(self) -> tuple[object, ...]:
        where = {"path": self.path, "line": self.line, "byte": self.byte}
        return (_row_error, (self.message, where))


class RefusedRow(RowError):
    """A row that a model cannot learn or predict; those before it in the batch are done.

    `row` is its position in the batch and `alone` a Batch that holds only this row; `margins` are
    those of the rows before it. `number` is its position in a pass of a Loop.
    """

    row: int
    number: int
    alone: Any
    margins: Any


def _row_error(message: str, where: dict[str, object]) -> RowError:
    return RowError(message, **where)  # type: ignore[arg-type]


class MissingExtra(PqrError, ImportError):
    """An optional dependency that is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        self.what, self.extra = what, extra
        super().__init__(f'{what} need an extra: pip install "pqrlearn[{extra}]"')

    def __reduce__(self) -> tuple[object, ...]:
        return (MissingExtra, (self.what, self.extra))


class ModelFileError(PqrError, ValueError):
    """A file that cannot be used as a model or separation."""

    exit_code = 4


class NotAModel(ModelFileError):
    """A file that was not written by pqrlearn."""


class WrongVersion(ModelFileError):
    """A file of a newer format than this version of pqrlearn reads, or of one too old."""


class Corrupt(ModelFileError):
    """Truncated, damaged, or with parts that contradict each other."""
