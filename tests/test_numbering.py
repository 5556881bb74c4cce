"""Coded columns as rows: all ways to write a column down give the same rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqrlearn import quantities
from pqrlearn.encoder import Encoder
from pqrlearn.errors import RowError
from pqrlearn.names import Coded, Lookup, Names, Numbered, number
from pqrlearn.schema import Column, Schema

TEXTS = ["a", "b", "", "c"]
VALUES = np.array([0, 2.5, 0, 1, -1e30], np.float32)  # of the codes from -1 on


def columns_of(codes: list[list[int]]) -> list[Coded]:
    """Columns with a prefix each, of which every second one has values."""
    return [
        Coded(
            TEXTS,
            np.array(cells, np.int32),
            prefix=f"{at // 2}" if at % 2 else f"{at}=",
            values_of_codes=VALUES if at % 2 else None,
        )
        for at, cells in enumerate(codes)
    ]


def arrays(rows: Numbered) -> list[list[Any]]:
    indptr, indices, values = rows.indptr.tolist(), rows.indices.tolist(), rows.values.tolist()
    return [indptr, indices, values, list(rows.new_names), rows.new_rows.tolist()]


@given(st.integers(1, 70).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, 2**32 - 1))))
def test_rows_do_not_depend_on_how_values_are_given(drawn: tuple[int, int]) -> None:
    width, seed = drawn
    rows = 70
    random = np.random.default_rng(seed)
    columns = columns_of(random.integers(-1, len(TEXTS), (width, rows)).tolist())
    expected = arrays(number(columns, rows, Names()))
    lists = [replace(column, first=np.arange(rows + 1)) for column in columns]  # row by row
    assert arrays(number(lists, rows, Names())) == expected
    by_cell = [
        replace(column, values=VALUES[column.codes + 1], values_of_codes=None)
        if column.values_of_codes is not None
        else column
        for column in columns
    ]
    assert arrays(number(by_cell, rows, Names())) == expected


def test_every_code_needs_a_value() -> None:
    column = Coded(["a", "b"], np.zeros(1, np.int32), values_of_codes=np.ones(2, np.float32))
    with pytest.raises(RowError, match="a code has no text, or no value"):
        number([column], 1, Names())
    with pytest.raises(RowError, match="values of codes are empty"):
        number([replace(column, values_of_codes=np.ones(0, np.float32))], 1, Names())


def test_a_value_of_zero_does_not_hide_the_codes_behind_it() -> None:
    names, lookup = Names(), Lookup()
    values = np.array([0, 0, 1, 2], np.float32)
    column = Coded(["a", "b", "c"], np.array([0, 1], np.int32), lookup=lookup)
    column = replace(column, values_of_codes=values)
    assert number([column], 2, names).values.tolist() == [1]
    later = replace(column, codes=np.array([2, 0, 1], np.int32))
    assert number([later], 3, names).values.tolist() == [2, 1]
    assert names.name(1) == "c"


CELLS = st.one_of(st.none(), st.sampled_from(["", "NA", "-", "-5", "1", "1.0", " 2", "3e1", "77"]))
BINS = Column("n", "bins", missing=True, edges=(0, 1, 30), place=True)


def batches_of(tables: list[Any], column: Column, **limits: Any) -> list[list[Any]]:
    encoder = Encoder(Schema((column,), nulls=("-",), **limits), labelled=False)
    names = Names()
    rows = [list(row) for table in tables for row in _rows(encoder.batch(table, names))]
    return [rows, [names.name(n) for n in range(len(names))], encoder.replaced]


def _rows(batch: Any) -> list[list[tuple[int, float]]]:
    pairs = list(zip(batch.indices.tolist(), batch.values.tolist(), strict=True))
    return [pairs[begin:end] for begin, end in pairwise(batch.indptr.tolist())]


@pytest.mark.parametrize("kept", [0, 2, 1000])
@pytest.mark.parametrize("column", [BINS, Column("n", "number", missing=True)])
@given(
    cells=st.lists(CELLS, min_size=1, max_size=12), cuts=st.lists(st.integers(0, 12), max_size=4)
)
def test_numbers_in_text_are_the_same_in_all_blocks(
    kept: int, column: Column, cells: list[str | None], cuts: list[int]
) -> None:
    bounds = [0, *sorted(min(cut, len(cells)) for cut in cuts), len(cells)]
    texts = pa.table({"n": pa.array(cells, pa.string())})
    known = [None if text in (None, "", "NA", "-") else float(text) for text in cells]
    floats = pa.table({"n": pa.array(known, pa.float64())})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantities, "MOST_KEPT", kept)
        parts = [texts.slice(begin, end - begin) for begin, end in pairwise(bounds)]
        for limits in ({}, {"max_features": 2}, {"hash_bits": 3}):
            expected = batches_of([floats], column, **limits)
            assert batches_of(parts, column, **limits) == expected


def test_a_text_that_is_no_number_is_told_in_every_block() -> None:
    encoder, names = Encoder(Schema((BINS,)), labelled=False), Names()
    good, bad = pa.table({"n": ["1", "2"]}), pa.table({"n": ["1", "x"]})
    encoder.batch(good, names)
    for _ in range(2):
        with pytest.raises(RowError, match=r"row 1: column 'n': 'x' is not a finite number"):
            encoder.batch(bad, names)
    encoder.batch(good, names)
