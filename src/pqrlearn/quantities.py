"""Cells of Arrow arrays as numbers and as times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn.errors import DataError
from pqrlearn.names import Coding, Texts, code_texts
from pqrlearn.schema import UNIX
from pqrlearn.values import (
    MOST_KEPT,
    Array,
    Codes,
    Mask,
    as_numpy,
    indices_of,
    is_text,
    no_text,
    plain,
    text_array,
    text_parts,
    texts_of,
    unpacked,
    ways,
)

NO_NUMBERS = (
    "NA",
    "N/A",
    "#N/A",
    "NaN",
    "nan",
    "NAN",
    "null",
    "NULL",
    "None",
    "\\N",
    "-",
    "?",
    ".",
)
"""Texts that mean a missing cell where a number or a time is expected, and only there."""


def numbers(array: Array, nulls: Sequence[str] = ()) -> tuple[npt.NDArray[np.float64], Mask | None]:
    """Each cell as a number, NaN where it is missing; and which cells are none, if any."""
    import pyarrow as pa

    array, types = plain(array), pa.types
    kind = array.type
    if types.is_dictionary(kind):
        return _taken(array, numbers(array.dictionary, nulls))
    if types.is_null(kind):
        return np.full(len(array), np.nan), None
    if is_text(kind):
        codes, different = code_texts(*text_parts(array))
        found, bad = _read_numbers(texts_of(unpacked(different), nulls))
        return np.append(found, np.nan)[codes], None if bad is None else np.append(bad, False)[
            codes
        ]
    if types.is_boolean(kind):
        array = array.cast(pa.int8())
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        array = array.cast(pa.float64(), safe=False)
    elif not types.is_floating(kind):
        raise DataError(f"cells of type {kind} are no numbers; {ways(kind)}")
    found = _floats(array.cast(pa.float64()))
    infinite = np.isinf(found)
    return found, infinite if infinite.any() else None


class Numbers:
    """The numbers of one column, block after block: of text, each different one is read once."""

    def __init__(self, nulls: Sequence[str]) -> None:
        self._nulls = nulls
        self._forget()

    def _forget(self) -> None:
        self._coding = Coding()
        self._values = np.full(1, np.nan)  # by code; the last is that of code -1
        self._bad = np.zeros(1, np.bool_)

    def read(self, array: Array) -> tuple[npt.NDArray[np.float64], Mask | None, Codes | None]:
        """Numbers, which of them are none, if any, and for each cell the code of its number.

        Without codes there is one for each cell; code -1 is the last one, which is NaN.
        """
        array = plain(array)
        if not is_text(array.type):
            return *numbers(array, self._nulls), None
        if len(self._coding) > MOST_KEPT:
            self._forget()
        base = len(self._coding)
        codes = self._coding.code(*text_parts(array))
        if len(self._coding) > base:
            new: Any = self._coding.texts(base)
            values, bad = _read_numbers(texts_of(unpacked(Texts(*new)), self._nulls))
            none = np.zeros(len(values), np.bool_) if bad is None else bad
            self._values = np.concatenate([self._values[:-1], values, self._values[-1:]])
            self._bad = np.concatenate([self._bad[:-1], none, self._bad[-1:]])
        return self._values, self._bad if self._bad.any() else None, codes


def _taken(array: Array, of: tuple[npt.NDArray[Any], Mask | None]) -> tuple[Any, Mask | None]:
    """What holds for the values of a dictionary, for each cell."""
    values, bad = of
    codes = indices_of(array)
    wrong = None if bad is None else np.append(bad, False)[codes]
    return np.append(values, np.nan)[codes], wrong


def _floats(array: Array) -> npt.NDArray[np.float64]:
    """With NaN where a cell is missing."""
    import pyarrow as pa

    if not array.null_count:
        return as_numpy(array)
    values = pa.Array.from_buffers(
        array.type, len(array), [None, array.buffers()[1]], 0, array.offset
    )
    return np.where(as_numpy(array.is_valid()), as_numpy(values), np.nan)


def _read_numbers(texts: Array) -> tuple[npt.NDArray[np.float64], Mask | None]:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(texts)
    missing = pc.is_in(texts, text_array(["", *NO_NUMBERS]))
    texts = pc.if_else(missing, no_text(), texts)
    try:
        found = _floats(texts.cast(pa.float64()))
        if np.isfinite(found).sum() == len(texts) - texts.null_count:
            return found, None
    except pa.ArrowInvalid:
        pass
    read = [math.nan if text is None else number_in(text) for text in texts.to_pylist()]
    bad = np.array([n is None for n in read], bool)
    return np.array([math.nan if n is None else n for n in read]), bad if bad.any() else None


def number_in(text: str) -> float | None:
    """The finite number that a text spells; NaN where it means a missing one, None if neither.

    >>> number_in("1e3"), number_in(" +2"), number_in("NA"), number_in("1_0"), number_in("inf")
    (1000.0, 2.0, nan, None, None)
    """
    text = text.strip()
    if text in ("", *NO_NUMBERS):
        return math.nan
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None


# -- times ------------------------------------------------------------------------


def times(array: Array, form: str | None, nulls: Sequence[str] = ()) -> tuple[Array, Mask | None]:
    """Each cell as a moment by the clock on the wall, null where missing; and which are none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array, types = plain(array), pa.types
    kind = array.type
    if types.is_null(kind):
        return pa.nulls(len(array), pa.timestamp("us")), None
    if types.is_dictionary(kind):
        found, bad = times(array.dictionary, form, nulls)
        codes = indices_of(array)
        wrong = None if bad is None else np.append(bad, False)[codes]
        return found.take(array.indices), wrong
    if types.is_timestamp(kind):
        local = pc.local_timestamp(array) if kind.tz else array
        return local.cast(pa.timestamp("us"), safe=False), None
    if types.is_date(kind):
        return array.cast(pa.timestamp("ms")).cast(pa.timestamp("us")), None
    if types.is_time(kind):
        micro = array.cast(pa.time64("us"), safe=False)
        return micro.cast(pa.int64()).cast(pa.timestamp("us")), None
    if form in UNIX:
        return _unix_times(*numbers(array, nulls), UNIX[form])
    if is_text(kind):
        codes, different = code_texts(*text_parts(array))
        found, bad = _read_times(texts_of(unpacked(different), nulls), form)
        return found.take(_indices(codes)), None if bad is None else np.append(bad, False)[codes]
    if not types.is_integer(kind):
        raise DataError(f"cells of type {kind} are no times; {ways(kind)}")
    return _read_times(texts_of(array, nulls), form)


def _indices(codes: Codes) -> Array:
    import pyarrow as pa

    return pa.array(codes, mask=codes < 0)


def _unix_times(
    seconds: npt.NDArray[np.float64], bad: Mask | None, unit: str
) -> tuple[Array, Mask | None]:
    import pyarrow as pa

    with np.errstate(invalid="ignore"):
        wrong = np.abs(seconds) > (1e11 if unit == "s" else 1e14)  # beyond the year 5000
    bad = wrong if bad is None else bad | wrong
    known = np.isfinite(seconds) & ~bad
    whole = np.where(known, np.floor(seconds), 0).astype(np.int64)
    moments = pa.array(whole, mask=~known).cast(pa.timestamp(unit)).cast(pa.timestamp("us"))
    return moments, bad if bad.any() else None


def _read_times(texts: Array, form: str | None) -> tuple[Array, Mask | None]:
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = pc.is_in(texts, text_array(NO_NUMBERS))
    texts = pc.if_else(missing, no_text(), texts)
    if form is None:
        try:
            return texts.cast(pa.timestamp("us")), None
        except pa.ArrowInvalid:
            pass
    read = [None if text is None else time_in(text, form) for text in texts.to_pylist()]
    found = pa.array(read, pa.timestamp("us"))
    wrong = pc.and_(found.is_null(), texts.is_valid()).to_numpy(zero_copy_only=False)
    return found, wrong if wrong.any() else None


def time_in(text: str, form: str | None) -> datetime | None:
    """The moment that a text spells, by the clock on the wall; None if it spells none.

    >>> time_in("14102123", "%y%m%d%H"), time_in("2024-01-31T12:00:00+02:00", None)
    (datetime.datetime(2014, 10, 21, 23, 0), datetime.datetime(2024, 1, 31, 12, 0))
    """
    try:
        found = (
            datetime.fromisoformat(text.strip()) if form is None else datetime.strptime(text, form)
        )
    except ValueError:
        return None
    return found.replace(tzinfo=None)
