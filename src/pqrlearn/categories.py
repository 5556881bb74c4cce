"""Columns of categories, block after block: a value is read and looked up once, not in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pqrlearn.names import Coded, Coding, Lookup, Texts
from pqrlearn.values import (
    MOST_KEPT,
    Array,
    Codes,
    Mask,
    as_numpy,
    coded,
    indices_of,
    is_text,
    packed,
    plain,
    text_parts,
    texts_of,
    unpacked,
)

_NO_TEXTS = Texts.of([])


class Categories:
    """The cells of one column as codes, which keep their meaning from block to block."""

    def __init__(self, nulls: Sequence[str], prefix: str, *, keep: bool = True) -> None:
        self._nulls, self._prefix, self._keep = nulls, prefix, keep
        self._texts: _Texts | None = None
        self._values: _Values | None = None

    def code(self, array: Array) -> Coded:
        import pyarrow as pa

        array = plain(array)
        if not self._keep:
            return Coded(*coded(array, self._nulls), prefix=self._prefix)
        if is_text(array.type):
            if self._texts is None or len(self._texts) > MOST_KEPT:
                self._texts = _Texts(self._nulls, self._prefix)
            return self._texts.code(array)
        if pa.types.is_dictionary(array.type):
            if self._values is None or not self._values.are(array.dictionary):
                self._values = _Values(array.dictionary, self._nulls, self._prefix)
            return self._values.code(array)
        return Coded(*coded(array, self._nulls), prefix=self._prefix)


class _Texts:
    """Of columns of text: each text has the code that it had before."""

    def __init__(self, nulls: Sequence[str], prefix: str) -> None:
        self._nulls, self._prefix = nulls, prefix
        self._coding, self._lookup = Coding(), Lookup()
        self._named: Mask | None = None  # which codes have a name, if one has none

    def __len__(self) -> int:
        return len(self._coding)

    def code(self, array: Array) -> Coded:
        base = len(self)
        codes = self._coding.code(*text_parts(array))
        new = self._new(base) if len(self) > base else _NO_TEXTS
        if self._named is not None:
            codes = _without_missing(codes, self._named)
        return Coded(new, codes, prefix=self._prefix, base=base, lookup=self._lookup)

    def _new(self, base: int) -> Texts:
        """The texts of the codes from `base` on."""
        found: Any = self._coding.texts(base)
        texts = texts_of(unpacked(Texts(*found)), self._nulls)
        if texts.null_count or self._named is not None:
            before = np.ones(base, np.bool_) if self._named is None else self._named
            self._named = np.append(before, _is_named(texts))
        return packed(texts)


class _Values:
    """Of columns that are dictionaries, as long as they share one."""

    def __init__(self, dictionary: Array, nulls: Sequence[str], prefix: str) -> None:
        self._dictionary, self._prefix, self._lookup = dictionary, prefix, Lookup()
        texts = texts_of(plain(dictionary), nulls)
        self._texts = packed(texts)
        self._named = _is_named(texts) if texts.null_count else None

    def are(self, dictionary: Array) -> bool:
        """Whether it is the same: in memory, or a copy, as pyarrow makes one for each batch."""
        same = _place(dictionary) == _place(self._dictionary)
        return same or bool(dictionary.equals(self._dictionary))

    def code(self, array: Array) -> Coded:
        codes = indices_of(array)
        if self._named is not None:
            codes = _without_missing(codes, self._named)
        return Coded(self._texts, codes, prefix=self._prefix, lookup=self._lookup)


def _place(array: Array) -> tuple[Any, ...]:
    buffers = [None if buffer is None else buffer.address for buffer in array.buffers()]
    return array.type, array.offset, len(array), *buffers


def _is_named(texts: Array) -> Mask:
    mask: Mask = as_numpy(texts.is_valid())
    return mask


def _without_missing(codes: Codes, named: Mask) -> Codes:
    return np.where(np.append(named, False)[codes], codes, np.int32(-1))
