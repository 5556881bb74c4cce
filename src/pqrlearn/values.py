"""Cells of Arrow arrays as texts: the one place that says what a value is called.

The text of a category does not depend on how a table stores it: 1, 1.0 and "1" are `1`; true and
false are written small; a decimal has no zeros at its end; a date is `2024-01-31`, a time of day
`12:30:00`, a moment `2024-01-31 12:30:00` or, at midnight, its date. Text stays as it is, `007` for
example; only the zero of `1.0` is dropped, and `True` is `true`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pqrlearn.errors import DataError
from pqrlearn.names import Texts, code_texts
from pqrlearn.schema import number_text

Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Array = Any
"""An array of pyarrow, which has no types that mypy could check."""
MOST_KEPT: Final = 1 << 16
"""Different texts of a column that are remembered from block to block; with more it begins anew."""

_WHOLE = r"-?(0|[1-9][0-9]*)\.0"  # as programs write that took whole numbers for floats
_TRUTHS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}


def plain(array: Array) -> Array:
    """One array of a type that the functions below know, dictionaries among them."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # of no chunks, or too long for one
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array.type, pa.BaseExtensionType):
        return plain(array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return plain(array.cast(array.type.value_type))
    return array


def is_text(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    views = types.is_string_view(kind) or types.is_binary_view(kind)
    strings = types.is_string(kind) or types.is_large_string(kind) or views
    return bool(strings or types.is_binary(kind) or types.is_large_binary(kind))


def coded(array: Array, nulls: Sequence[str] = ()) -> tuple[Texts, Codes]:
    """The different values as texts, and for each cell the code of its own; -1 where missing."""
    import pyarrow as pa

    array = plain(array)
    if pa.types.is_null(array.type):
        return Texts.of([]), np.full(len(array), -1, np.int32)
    if is_text(array.type):
        codes, different = code_texts(*text_parts(array))
        texts = texts_of(unpacked(different), nulls)
    else:
        if pa.types.is_nested(array.type):
            raise _no_category(array.type)
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        texts = texts_of(plain(array.dictionary), nulls)
        codes = indices_of(array)
    if texts.null_count:
        named = np.append(as_numpy(texts.is_valid()), False)
        codes = np.where(named[codes], codes, np.int32(-1))
    return packed(texts), np.ascontiguousarray(codes, np.int32)


def indices_of(array: Array) -> Codes:
    """Which value of its dictionary each cell has; -1 where it is missing. Copied if need be."""
    import pyarrow as pa

    indices = array.indices.cast(pa.int32())
    if indices.null_count:
        indices = indices.fill_null(-1)
    codes: Codes = as_numpy(indices)
    return codes


def as_numpy(array: Array) -> npt.NDArray[Any]:
    """Cells without gaps. Array.to_numpy would import pandas, which takes a tenth of a second.

    >>> import pyarrow as pa
    >>> as_numpy(pa.array([1, 2])), as_numpy(pa.array([True, False])).tolist()
    (array([1, 2]), [True, False])
    """
    import pyarrow as pa

    if not len(array):
        return np.zeros(0, array.type.to_pandas_dtype())
    if pa.types.is_boolean(array.type):
        return np.from_dlpack(array.cast(pa.uint8())).view(np.bool_)
    return np.from_dlpack(array)


def text_parts(array: Array) -> tuple[Any, Any, Any]:
    """Offsets, bytes, and which cells have a value; not copied where that can be."""
    import pyarrow as pa

    types = pa.types
    if types.is_string_view(array.type) or types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    wide = types.is_large_string(array.type) or types.is_large_binary(array.type)
    valid = as_numpy(array.is_valid()) if array.null_count else None
    _, offsets, data = array.buffers()
    if not len(array) or offsets is None:
        return np.zeros(1, np.int64), np.zeros(0, np.uint8), None
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)
    return ends[array.offset : array.offset + len(array) + 1], _bytes(data), valid


def _bytes(data: Any) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8) if data and data.size else np.zeros(0, np.uint8)


def unpacked(texts: Texts, kind: Any = None) -> Array:
    """The same as an array of large_binary, not copied; or of another type with 64-bit offsets."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(texts.offsets), pa.py_buffer(texts.data)]
    return pa.Array.from_buffers(kind or pa.large_binary(), len(texts), buffers)


def text_array(texts: Sequence[str]) -> Array:
    """An array of large_string. pyarrow.array would import pandas, which takes a tenth of a second.

    >>> text_array(["a", ""]).to_pylist()
    ['a', '']
    """
    import pyarrow as pa

    return unpacked(Texts.of(texts), pa.large_string())


def no_text() -> Any:
    """A missing text, for functions of pyarrow that take one."""
    import pyarrow as pa

    return pa.nulls(1, pa.large_string())[0]


def packed(texts: Array) -> Texts:
    """An array of large_string, not copied."""
    _, offsets, data = texts.buffers()
    if offsets is None or not len(texts):
        return Texts.of([""] * len(texts))
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return Texts(ends, _bytes(data))


def texts_of(values: Array, nulls: Sequence[str] = ()) -> Array:
    """The texts of values as an array of large_string; null where a value is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = values.type, pa.types
    if is_text(kind):
        return _clean(values, nulls)
    if types.is_integer(kind):
        return values.cast(pa.large_string())
    if types.is_boolean(kind):
        return pc.if_else(values, "true", "false").cast(pa.large_string())
    if types.is_floating(kind):
        return _float_texts(values)
    write = _writer(kind)
    if write is None:
        raise _no_category(kind)
    texts = [None if value is None else write(value) for value in _python(values)]
    return pa.array(texts, pa.large_string())


def _no_category(kind: Any) -> DataError:
    return DataError(f"cells of type {kind} cannot be categories; {ways(kind)}")


def _clean(values: Array, nulls: Sequence[str]) -> Array:
    """Text as it is, but for what is missing, for true and false, and for whole numbers as 1.0."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        texts = values.cast(pa.large_string())
    except pa.ArrowInvalid as error:
        raise DataError(f"text that is not UTF-8 ({error})") from None
    if pc.any(pc.ends_with(texts, ".0")).as_py():
        whole = pc.match_substring_regex(texts, f"^{_WHOLE}$")
        texts = pc.if_else(whole, pc.utf8_slice_codeunits(texts, 0, -2), texts)
    found = pc.is_in(texts, text_array(["", *nulls, *_TRUTHS]))
    if not pc.any(found).as_py():
        return texts
    missing = pc.is_in(texts, text_array(["", *nulls]))
    texts = pc.if_else(missing, no_text(), texts)
    truth = pc.index_in(texts, text_array(list(_TRUTHS)))
    written = text_array(list(_TRUTHS.values())).take(truth)
    return pc.coalesce(written, texts)


def _float_texts(values: Array) -> Array:
    """Whole ones as integers, others by the fewest digits that give the same number back."""
    import pyarrow as pa

    narrow = values.type != pa.float64()
    numbers = values.to_numpy(zero_copy_only=False)
    text = (lambda n: number_text(float(str(n)))) if narrow else number_text
    texts = [text(n) if math.isfinite(n) else _not_finite(n) for n in numbers]
    return pa.array(texts, pa.large_string())


def _not_finite(number: float) -> str | None:
    return None if math.isnan(number) else "inf" if number > 0 else "-inf"


def _writer(kind: Any) -> Callable[[Any], str] | None:
    import pyarrow as pa

    types = pa.types
    if types.is_decimal(kind):
        return decimal_text
    known = types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind)
    return moment_text if known else None


def _python(values: Array) -> list[Any]:
    """As Python has them; without what is finer than a microsecond, which it has not."""
    import pyarrow as pa

    if getattr(values.type, "unit", "") == "ns":
        us = pa.time64 if pa.types.is_time(values.type) else pa.timestamp
        tz = {"tz": values.type.tz} if pa.types.is_timestamp(values.type) else {}
        values = values.cast(us("us", **tz), safe=False)
    try:
        found: list[Any] = values.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException) as error:  # beyond the year 9999
        raise DataError(f"a time that no calendar has: {error}") from None
    return found


def decimal_text(value: Decimal) -> str:
    """
    >>> decimal_text(Decimal("1.50")), decimal_text(Decimal("100")), decimal_text(Decimal("-0.0"))
    ('1.5', '100', '0')
    """
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def moment_text(value: date | time | datetime) -> str:
    """
    >>> moment_text(datetime(2024, 1, 31)), moment_text(datetime(2024, 1, 31, 12, 30))
    ('2024-01-31', '2024-01-31 12:30:00')
    """
    if isinstance(value, datetime):
        midnight = value.tzinfo is None and value.time() == time()
        return value.date().isoformat() if midnight else value.isoformat(" ")
    return value.isoformat()


def python_text(value: Any) -> str | None:
    """The text of one Python value, as a column of such values would have it; None if missing.

    >>> python_text(1.0), python_text(True), python_text("007"), python_text(float("nan"))
    ('1', 'true', '007', None)
    """
    value = value.item() if isinstance(value, np.generic) else value
    if is_null(value) or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        whole = value.endswith(".0") and re.fullmatch(_WHOLE, value)
        return value[:-2] if whole else _TRUTHS.get(value, value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value) if math.isfinite(value) else _not_finite(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, date | time):
        return moment_text(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    raise DataError(f"a value of type {type(value).__name__} cannot be a category")


def is_null(value: Any) -> bool:
    """None, and what pandas has in its place: NA and NaT, which cannot be compared."""
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def ways(kind: Any) -> str:
    """What to do about cells of a type that has no texts, numbers or times."""
    import pyarrow as pa

    nested = pa.types.is_nested(kind)
    return "make it a list in the schema, or ignore it" if nested else "convert it, or ignore it"
