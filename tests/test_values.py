"""The text of a category, numbers and times, whatever type a column has."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqrlearn.encoder import Encoder
from pqrlearn.errors import DataError, RowError
from pqrlearn.names import Names, Texts, code_texts
from pqrlearn.quantities import numbers, times
from pqrlearn.records import Records
from pqrlearn.schema import Column, Schema
from pqrlearn.values import coded, python_text


def texts(array: Any) -> list[str | None]:
    different, codes = coded(array)
    return [None if code < 0 else different[code] for code in codes.tolist()]


MOMENT = datetime(2024, 1, 31, 12, 30)
SAME: list[tuple[Any, list[str | None]]] = [
    (pa.array([1, -7, None], pa.int8()), ["1", "-7", None]),
    (pa.array([1, 2**64 - 1], pa.uint64()), ["1", "18446744073709551615"]),
    (pa.array([1.0, -0.0, 0.1, 1e300, math.nan, None]), ["1", "0", "0.1", "1e+300", None, None]),
    (pa.array([1.0, 0.1], pa.float32()), ["1", "0.1"]),
    (pa.array([math.inf, -math.inf]), ["inf", "-inf"]),
    (
        pa.array(["1", "007", "1.0", "-3.0", "01.0", "", None]),
        ["1", "007", "1", "-3", "01.0", None, None],
    ),
    (pa.array(["True", "FALSE", "true"]), ["true", "false", "true"]),
    (pa.array([True, False, None]), ["true", "false", None]),
    (pa.array([Decimal("1.50"), Decimal("1.00"), None]), ["1.5", "1", None]),
    (pa.array([date(2024, 1, 31)]), ["2024-01-31"]),
    (pa.array([datetime(2024, 1, 31), MOMENT]), ["2024-01-31", "2024-01-31 12:30:00"]),
    (pa.array([MOMENT], pa.timestamp("ns")), ["2024-01-31 12:30:00"]),
    (pa.array([time(12, 30)]), ["12:30:00"]),
    (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
    (pa.array([1.0, 2.0, None]).dictionary_encode(), ["1", "2", None]),
    (pa.array([b"x", None]), ["x", None]),
    (pa.array(["x", ""], pa.large_string()), ["x", None]),
    (pa.array(["a text of some length", None], pa.string_view()), ["a text of some length", None]),
    (pa.nulls(2), [None, None]),
    (pa.array(["", "x", "y"]).slice(1), ["x", "y"]),
    (pa.chunked_array([["x"], ["y", "x"]]), ["x", "y", "x"]),
    (pa.chunked_array([], pa.string()), []),
]


@pytest.mark.parametrize(("array", "expected"), SAME, ids=lambda v: str(getattr(v, "type", "")))
def test_the_text_of_a_value_does_not_depend_on_its_type(array: Any, expected: Any) -> None:
    assert texts(array) == expected
    if not str(array.type).startswith(("timestamp[ns]", "float")):
        assert [python_text(value) for value in array.to_pylist()] == expected


def test_a_time_with_a_zone_keeps_it() -> None:
    array = pa.array([MOMENT.replace(tzinfo=UTC)])
    assert texts(array) == ["2024-01-31 12:30:00+00:00"]


@pytest.mark.parametrize(
    "array", [pa.array([[1]]), pa.array([{"a": 1}]), pa.array([1], pa.duration("s"))]
)
def test_types_without_text_are_refused(array: Any) -> None:
    with pytest.raises(DataError, match=r"cells of type .* cannot be categories"):
        coded(array)


def test_binary_that_is_no_text_is_refused() -> None:
    with pytest.raises(DataError, match="not UTF-8"):
        coded(pa.array([b"\xff"]))


@given(st.lists(st.text(max_size=12), max_size=30))
def test_texts_are_coded_by_first_appearance(cells: list[str]) -> None:
    cells = [cell.replace("\ud800", "") for cell in cells]
    packed = Texts.of([cell.encode(errors="ignore").decode() for cell in cells])
    expected = list(dict.fromkeys(cell for cell in packed if cell))
    codes, different = code_texts(packed.offsets, packed.data)
    assert list(different) == expected
    assert codes.tolist() == [expected.index(cell) if cell else -1 for cell in packed]


def test_many_texts_are_coded() -> None:
    cells = [f"value {n % 5000}" for n in range(20_000)]
    codes, different = code_texts(*(lambda t: (t.offsets, t.data))(Texts.of(cells)))
    assert [different[code] for code in codes[::997].tolist()] == cells[::997]
    assert len(different) == 5000


@pytest.mark.parametrize("offsets", [[], [1, 0], [0, 99], [-1, 1]])
def test_offsets_that_leave_their_bytes_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match=r"offset|texts"):
        code_texts(np.array(offsets, np.int64), np.zeros(3, np.uint8))


# Numbers.

EAST = pa.timestamp("s", tz="+02:00")


@pytest.mark.parametrize(
    ("array", "expected", "bad"),
    [
        (pa.array([1, None], pa.int16()), [1, math.nan], []),
        (pa.array([True, False]), [1, 0], []),
        (pa.array([Decimal("1.5")]), [1.5], []),
        (pa.array([1.5, math.nan]), [1.5, math.nan], []),
        (pa.array([1.5, math.inf]), [1.5, math.inf], [1]),
        (
            pa.array(["1", " 2.5 ", "1e3", "+7", "", "NA", "\\N", "-"]),
            [1, 2.5, 1e3, 7, *[math.nan] * 4],
            [],
        ),
        (pa.array(["1", "x", "1_0", "inf"]), [1, *[math.nan] * 3], [1, 2, 3]),
        (pa.array(["1", "x", "1"]).dictionary_encode(), [1, math.nan, 1], [1]),
        (pa.nulls(1), [math.nan], []),
    ],
    ids=lambda v: str(getattr(v, "type", "")),
)
def test_cells_are_numbers_missing_or_bad(array: Any, expected: Any, bad: list[int]) -> None:
    found, wrong = numbers(array)
    good = np.array(expected, float)
    assert np.array_equal(found, good, equal_nan=True)
    assert bad == ([] if wrong is None else np.flatnonzero(wrong).tolist())


@pytest.mark.parametrize(
    ("array", "form", "expected", "bad"),
    [
        (pa.array([MOMENT, None]), None, [MOMENT, None], []),
        (pa.array([date(2024, 1, 31)]), None, [datetime(2024, 1, 31)], []),
        (pa.array([time(12, 30)]), None, [datetime(1970, 1, 1, 12, 30)], []),
        (
            pa.array([MOMENT], pa.timestamp("s", tz="+02:00")),
            None,
            [datetime(2024, 1, 31, 14, 30)],
            [],
        ),
        (pa.array(["2024-01-31 12:30:00", ""]), None, [MOMENT, None], []),
        (pa.array(["2024-01-31T12:30:00+02:00", "NA"]), None, [MOMENT, None], []),
        (pa.array(["2024-01-31", "soon"]), None, [datetime(2024, 1, 31), None], [1]),
        (pa.array([24013112, None]), "%y%m%d%H", [datetime(2024, 1, 31, 12), None], []),
        (pa.array(["24013112", "x"]), "%y%m%d%H", [datetime(2024, 1, 31, 12), None], [1]),
        (pa.array([1706704200, None]), "unix", [MOMENT, None], []),
        (pa.array([1706704200000.0, 1e300]), "unix-ms", [MOMENT, None], [1]),
        (pa.nulls(1), None, [None], []),
    ],
    ids=lambda v: str(getattr(v, "type", "")),
)
def test_cells_are_times_missing_or_bad(array: Any, form: Any, expected: Any, bad: Any) -> None:
    found, wrong = times(array, form)
    assert found.to_pylist() == expected
    assert bad == ([] if wrong is None else np.flatnonzero(wrong).tolist())


def test_types_that_are_no_numbers_or_times_are_refused() -> None:
    with pytest.raises(DataError, match=r"cells of type date32.* are no numbers"):
        numbers(pa.array([date(2024, 1, 1)]))
    with pytest.raises(DataError, match="cells of type double are no times"):
        times(pa.array([1.5]), None)


# A row alone is what it is in a table.

cells = {
    "category": st.none() | st.sampled_from(["a", "", "1.0", "True", "NA"]) | st.integers(-5, 5),
    "number": st.none() | st.floats(-10, 10) | st.just(math.nan),
    "bins": st.none() | st.integers(-10, 10),
    "placed": st.none() | st.integers(-10, 10) | st.just(math.nan),
    "list": st.none() | st.lists(st.sampled_from(["a", "b", ""]), max_size=3),
    "time": st.none() | st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1)),
}
EVERY = Schema(
    (
        Column("category", "category", missing=True),
        Column("number", "number", missing=True, center=1.0, scale=3.0),
        Column("bins", "bins", missing=True, edges=(-3.0, 0.0, 4.5)),
        Column("placed", "bins", missing=True, edges=(-3.0, 0.0, 2.0, 4.5), place=True),
        Column("list", "list", missing=True),
        Column("time", "time", missing=True, parts=("hour", "weekday", "day", "month", "year")),
    )
)


def content(batch: Any, names: Names, fresh: Names) -> dict[str, float]:
    called = [names.name(i) or fresh.name(i) for i in batch.indices.tolist()]
    return dict(zip(called, batch.values.tolist(), strict=True))


@given(st.fixed_dictionaries({}, optional=cells))
def test_a_record_has_the_features_of_a_table_with_one_row(row: dict[str, Any]) -> None:
    names, fresh, other = Names(), Names(), Names()
    alone = Records(EVERY).batch(row, names, fresh)
    table = pa.table({c.name: pa.array([row.get(c.name)]) for c in EVERY.columns})
    batch = Encoder(EVERY, labelled=False).batch(table, names, other)
    assert content(alone, names, fresh) == content(batch, names, other)
    assert alone.indices.tolist() == batch.indices.tolist()


def test_the_place_of_a_bin_goes_from_minus_1_to_1_and_is_absent_in_the_middle() -> None:
    def features(value: float) -> dict[str, float]:
        found = Records(EVERY).features({"placed": value})
        return {head + text: number for head, text, number in found if text != "∅"}

    assert [features(number) for number in (-9, 0, 1.5, 9, 1e30)] == [
        {"placed=..-3": 1, "placed": -1},
        {"placed=0..2": 1},
        {"placed=0..2": 1},
        {"placed=4.5..": 1, "placed": 1},
        {"placed=4.5..": 1, "placed": 1},
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"number": "x"}, "field 'number': 'x' is not a finite number"),
        ({"number": math.inf}, "field 'number': inf is not a finite number"),
        ({"number": 1e300}, "field 'number': 1e\\+300 is too large"),
        ({"time": "soon"}, "field 'time': 'soon' is not a time"),
        ({"colour": "red"}, "field 'colour' is not in the schema"),
        ({"category": {}}, "field 'category': a value of type dict cannot be a category"),
    ],
)
def test_a_bad_record_says_what_is_wrong(row: dict[str, Any], said: str) -> None:
    with pytest.raises(RowError, match=said):
        Records(EVERY).features(row)
