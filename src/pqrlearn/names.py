"""What features are called: the dictionary of names, and columns whose cells are names.

New names are numbered by first appearance, row by row, and within a row in the order of the
columns. So numbers do not depend on how rows are cut into blocks. A dict has no order of fields:
learners number the new names of such a row in order of name, once it has taught them something.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn._core import Names
from pqrlearn.errors import RowError

__all__ = ["Column", "Names", "Numbered", "copied", "number"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Column:
    """One field of a block of rows: for every row a code into `names`, or -1 where it is absent.

    Values are 1 unless given. A value of 0 is absent, and so is an empty name.
    """

    names: Sequence[str]
    codes: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True, eq=False)
class Numbered:
    """Columns as rows of numbered features, in the order of the columns.

    `new_names` are those that the dictionary did not have, with their numbers in `new_indices` and
    the rows where they first appear in `new_rows`.
    """

    indptr: IntArray
    indices: IntArray
    values: npt.NDArray[np.float64]
    new_indices: npt.NDArray[np.uint32]
    new_names: list[str]
    new_rows: IntArray


def copied(names: Names, next_feature: int = 0) -> Names:
    """A dictionary that grows by itself; new names get numbers from `next_feature` on.

    >>> names = copied(Names(), 5)
    >>> number([Column(["site=a"], np.zeros(1, np.int32))], names).indices.tolist()
    [5]
    """
    copy = names.copy()
    copy.start_at(next_feature)
    return copy


def number(columns: Sequence[Column], names: Names) -> Numbered:
    """Numbers a block of rows; names that are new are added to the dictionary.

    A name is looked up once for each column, not for each row.

    >>> site = Column(["site=a", "site=b"], np.array([1, 0, 1], np.int32))
    >>> hour = Column(["hour=9"], np.array([0, -1, 0], np.int32))
    >>> rows = number([site, hour], Names())
    >>> rows.new_names, rows.indices.tolist(), rows.indptr.tolist()
    (['site=b', 'hour=9', 'site=a'], [0, 1, 2, 0, 1], [0, 2, 3, 5])
    """
    codes = [_present(column) for column in columns]
    found: list[IntArray] = []
    new: list[tuple[int, int, int]] = []
    for at, (column, present) in enumerate(zip(columns, codes, strict=True)):
        first = _first_rows(present, len(column.names))
        used = np.flatnonzero(first < len(present))
        indices = np.full(len(column.names) + 1, -1, np.int64)  # the last is that of code -1
        indices[used] = names.find_each([column.names[code] for code in used.tolist()])
        found.append(indices)
        unknown = used[indices[used] < 0]
        rows = first[unknown].tolist()
        new += [(row, at, code) for row, code in zip(rows, unknown.tolist(), strict=True)]
    added = _add(new, columns, found, names)
    return Numbered(*_as_rows(columns, codes, found), *added)


def _present(column: Column) -> npt.NDArray[np.int32]:
    """The codes, -1 also where the value is 0 or the name empty."""
    codes = column.codes
    if column.values is not None:
        codes = np.where(column.values == 0, np.int32(-1), codes)
    if "" in column.names:
        named = np.array([*map(bool, column.names), False])
        codes = np.where(named[codes], codes, np.int32(-1))
    return codes


def _first_rows(codes: npt.NDArray[np.int32], size: int) -> IntArray:
    """The row in which each code stands first; the number of rows where it does not."""
    first = np.full(size + 1, len(codes), np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last one assigned stays
    return first[:size]


def _add(
    new: list[tuple[int, int, int]],
    columns: Sequence[Column],
    found: list[IntArray],
    names: Names,
) -> tuple[npt.NDArray[np.uint32], list[str], IntArray]:
    """Numbers new names in order of row, then column; two columns may have the same one."""
    added: list[tuple[int, str, int]] = []
    for row, at, code in sorted(new):
        name = columns[at].names[code]
        index = names.find(name)
        if index is None:
            index = names.next_feature
            if index > 0xFFFFFFFF:
                raise RowError(f"no index below 2^32 is left for {name!a}")
            names.add(index, name)
            added.append((index, name, row))
        found[at][code] = index
    return (
        np.array([index for index, _, _ in added], np.uint32),
        [name for _, name, _ in added],
        np.array([row for _, _, row in added], np.int64),
    )


def _as_rows(
    columns: Sequence[Column], codes: list[npt.NDArray[np.int32]], found: list[IntArray]
) -> tuple[Any, Any, Any]:
    rows = len(codes[0]) if codes else 0
    matrix = np.empty((rows, len(columns)), np.int64)
    for at, indices in enumerate(found):
        matrix[:, at] = indices[codes[at]]
    present = matrix >= 0
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(present.sum(axis=1))])
    if all(column.values is None for column in columns):
        return indptr, matrix[present], np.ones(int(indptr[-1]))
    values = np.ones((rows, len(columns)))
    for at, column in enumerate(columns):
        if column.values is not None:
            values[:, at] = column.values
    return indptr, matrix[present], values[present]
