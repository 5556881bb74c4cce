"""Names of features: the dictionary of names, and columns whose cells are names.

New names are numbered by first appearance, row by row, and within a row in the order of the
columns, so numbers do not depend on how rows are cut into blocks. The fields of a dict have no
order: learners number the new names of such a row alphabetically, when they learn it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from pqrlearn import _core
from pqrlearn._core import Coding, Lookup, Names
from pqrlearn.errors import RowError

__all__ = [
    "Coded",
    "Coding",
    "Lookup",
    "Names",
    "Numbered",
    "Texts",
    "code_texts",
    "copied",
    "number",
]

IntArray = npt.NDArray[np.int64]
_MOST = 1 << 32


class Texts(Sequence[str]):
    """Many strings in one array of UTF-8 bytes; a slice shares it.

    >>> texts = Texts.of(["a", "", "né"])
    >>> texts[2], list(texts[:2]), len(texts)
    ('né', ['a', ''], 3)
    """

    def __init__(self, offsets: IntArray, data: npt.NDArray[np.uint8]) -> None:
        self.offsets, self.data = offsets, data

    @staticmethod
    def of(texts: Sequence[str]) -> Texts:
        encoded = [text.encode() for text in texts]
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return Texts(offsets, np.frombuffer(b"".join(encoded), np.uint8))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Texts: ...
    def __getitem__(self, at: int | slice) -> str | Texts:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            if step != 1:
                raise ValueError("texts are taken in order")
            return Texts(self.offsets[start : max(start, stop) + 1], self.data)
        row = range(len(self))[at]
        return bytes(self.data[self.offsets[row] : self.offsets[row + 1]]).decode(errors="replace")


@dataclass(frozen=True, eq=False)
class Coded:
    """One column of a block of rows: for every row a code into `names`, or -1 where it is absent.

    A feature is called `prefix` and its name. Values are 1 unless given: one for each cell, or, as
    `values_of_codes`, one for each code from -1 on. A value of 0 is absent, and so is an empty
    name. With `first`, row r has the codes from first[r] to before first[r + 1].

    With a `lookup` codes mean the same in several blocks, and each name is looked up only once.
    `names` are then those of the codes from `base` on: blocks before had the others.
    """

    names: Sequence[str]
    codes: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32] | None = None
    first: IntArray | None = None
    prefix: str = ""
    base: int = 0
    lookup: Lookup | None = None
    values_of_codes: npt.NDArray[np.float32] | None = None

    def parts(self) -> tuple[Any, ...]:
        texts = self.names if isinstance(self.names, Texts) else Texts.of(self.names)
        by_code = self.values_of_codes is not None
        values = self.values_of_codes if by_code else self.values
        cells = self.codes, values, by_code, self.first
        return self.prefix, texts.offsets, texts.data, *cells, self.base, self.lookup


@dataclass(frozen=True, eq=False)
class Numbered:
    """Columns as canonical rows of numbered features.

    `new_names` are those that the dictionary did not have, with their numbers in `new_indices` and
    the rows where they first appear in `new_rows`; they were added to `store`. `replaced` cells had
    to share a name.
    """

    indptr: IntArray
    indices: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float32]
    new_indices: npt.NDArray[np.uint32]
    new_names: Texts
    new_rows: IntArray
    replaced: int
    store: Names


def copied(names: Names, next_feature: int = 0) -> Names:
    """A copy that can grow on its own; new names get numbers from `next_feature` on.

    >>> names = copied(Names(), 5)
    >>> number([Coded(["site=a"], np.zeros(1, np.int32))], 1, names).indices.tolist()
    [5]
    """
    copy = names.copy()
    copy.start_at(next_feature)
    return copy


def code_texts(
    offsets: Any, data: npt.NDArray[np.uint8], valid: npt.NDArray[np.bool_] | None = None
) -> tuple[npt.NDArray[np.int32], Texts]:
    """For each of many texts its code, -1 for an empty or missing one; and the different texts.

    >>> texts = Texts.of(["b", "a", "", "b"])
    >>> codes, different = code_texts(texts.offsets, texts.data)
    >>> codes.tolist(), list(different)
    ([0, 1, -1, 0], ['b', 'a'])
    """
    coding = Coding()
    codes = coding.code(offsets, data, valid)
    different: Any = coding.texts()
    return codes, Texts(*different)


def number(
    columns: Sequence[Coded],
    rows: int,
    names: Names,
    fresh: Names | None = None,
    *,
    hash_bits: int | None = None,
    most: int | None = None,
) -> Numbered:
    """Numbers a block of rows; new names are added to `names`, or to `fresh` if that is given.

    With `hash_bits` numbers are hashes of names, and none is added. When there are `most` names,
    the new ones of a column share the name `prefix*`; those of a column without a prefix `n=*`, as
    in `n=value`. A prefix without a text is always kept.

    >>> site = Coded(["a", "b"], np.array([1, 0, 1], np.int32), prefix="site=")
    >>> hour = Coded(["hour=9"], np.array([0, -1, 0], np.int32))
    >>> rows = number([site, hour], 3, Names())
    >>> list(rows.new_names), rows.indices.tolist(), rows.indptr.tolist()
    (['site=b', 'hour=9', 'site=a'], [0, 1, 2, 0, 1], [0, 2, 3, 5])
    """
    parts = [column.parts() for column in columns]
    added_to = names if fresh is None else fresh
    limits = hash_bits or 0, _MOST if most is None else most
    try:
        found: Any = _core.number_rows(parts, rows, names, added_to, *limits)
    except ValueError as error:
        raise RowError(str(error)) from None
    indptr, indices, values, new_indices, ends, data, new_rows, replaced = found
    new = new_indices, Texts(ends, data), new_rows
    return Numbered(indptr, indices, values, *new, replaced, added_to)
