"""Tables in memory: what frames may hold, what is said of those that cannot be read, and limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pqrlearn
from pqrlearn import LR, Column, Schema, read, train
from pqrlearn.errors import DataError
from pqrlearn.names import Coded, Names, number

SITES = pa.table({"y": [0, 1] * 60, "site": ["a", "b", "a", None] * 30, "n": [1.5, None] * 60})


def test_objects_of_several_types_are_text() -> None:
    """As pandas has them where a column of a large file is read in pieces."""
    mixed = pd.DataFrame({"y": [0, 1, 1], "c": pd.Series([1, "1", 2.0], dtype=object)})
    plain = pd.DataFrame({"y": [0, 1, 1], "c": ["1", "1", "2"]})
    made = [train(frame, label="y", categories="c", model="lr") for frame in (mixed, plain)]
    assert made[0].to_bytes() == made[1].to_bytes()


def test_what_pandas_has_in_place_of_none_is_missing() -> None:
    moments = pd.to_datetime(["2024-01-01 10:00", None] * 60)
    model = train(SITES.to_pandas().assign(at=moments), label="y")
    expected = model.predict_one({})
    assert model.predict_one({"site": pd.NA, "n": pd.NA, "at": pd.NaT}) == expected
    assert model.predict_one({"site": float("nan"), "n": float("nan"), "at": None}) == expected


def test_nan_in_a_dict_is_missing_with_a_schema_and_without() -> None:
    rows = [{"site": "a", "n": 1.5}, {"site": "b", "n": float("nan")}]
    gaps = [{"site": "a", "n": 1.5}, {"site": "b"}]
    for schema in (None, Schema((Column("site", "category"), Column("n", "number")))):
        models = [LR(), LR()]
        for model, given in zip(models, (rows, gaps), strict=True):
            model.schema = schema
            model.learn_many(given, [0, 1])
            model.learn_one({**given[1], "n": np.float32("nan")} if given is rows else given[1], 1)
        assert models[0].to_bytes() == models[1].to_bytes()
        assert models[0].predict_one(rows[1]) == models[0].predict_one(gaps[1])
    with pytest.raises(DataError, match="feature 'n': value inf is not a finite 32-bit float"):
        LR().predict_one({"n": float("inf")})


@pytest.mark.parametrize("index", [["site"], ["site", "n"]])
def test_an_index_is_not_a_column_even_if_it_has_a_name(index: list[str]) -> None:
    frame = SITES.to_pandas().assign(ad=["x", "y"] * 60)
    model = LR()
    model.learn_many(frame.drop(columns="y").set_index(index), frame["y"])
    assert model.schema is not None
    assert [c.name for c in model.schema.columns] == [
        n for n in ("site", "n", "ad") if n not in index
    ]
    assert model.predict_one({"ad": "y"}) > 0.5


def test_bins_are_named_once_for_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(column: Column) -> list[str]:
        calls.append(column.name)
        return ["low", "high"]

    monkeypatch.setattr(Column, "bin_names", counted)
    model = LR()
    model.schema = Schema((Column("age", "bins", edges=(18.0,)),))
    for age in range(40):
        model.learn_one({"age": age}, age % 2)
    assert calls == ["age"]
    assert [model.names.name(n) for n in range(2)] == ["age=low", "age=high"]


def test_columns_may_be_called_by_number() -> None:
    frame = pd.DataFrame({0: ["a", "b"] * 60}).assign(y=[0, 1] * 60)
    schema = train(frame, label="y").schema
    assert schema is not None
    assert schema.used() == ["0", "y"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pl.from_arrow(SITES).lazy(), "LazyFrame is neither a path nor a frame; call its collect"),  # type: ignore[union-attr]
        (3, "int is neither a path nor a frame"),
        (np.zeros((2, 2, 2)), "an array with 3 dimensions is no table; expected 2"),
        (pd.Series([1, 2]), "Series cannot be read as a table"),
        (pd.DataFrame([[1, 2]], columns=["y", "y"]), "Duplicate column names found"),
        (SITES.slice(0, 0), "<frame>: no rows"),
    ],
)
def test_what_is_no_table_is_said(data: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        train(data, label="y")


def test_a_damaged_stream_is_refused() -> None:
    """A code that has no text: reading on would be reading foreign memory."""
    codes, texts = pa.array([0, 10**6], pa.int32()), pa.array(["a"])
    bad = pa.DictionaryArray.from_arrays(codes, texts, safe=False)
    batch = pa.record_batch({"y": pa.array([1, 0]), "site": bad})
    for use in (lambda s: train(s, label="y"), lambda s: LR().learn_many(s, [1, 0])):
        stream = pa.RecordBatchReader.from_batches(batch.schema, [batch])
        with pytest.raises(DataError, match="the stream cannot be read as Arrow"):
            use(stream)


def test_bad_rows_and_values_without_room_are_counted() -> None:
    frame = SITES.to_pandas().assign(y=[0, 1, None] * 40)
    run: Any = train(frame, label="y", numbers="n", on_bad_row="skip", max_features=1).run
    assert (run.rows, run.bad_rows) == (80, 40)
    kept = frame[frame["y"].notna()]
    assert run.replaced == (kept["site"] != "a").sum() + kept["n"].isna().sum()


@pytest.mark.parametrize("cut", [1, 7, 120])
def test_a_full_dictionary_does_not_depend_on_how_rows_are_cut(cut: int) -> None:
    """New values share `column=*`; a number has one name, and keeps it."""
    columns = (Column("site", "category"), Column("day", "category"), Column("n", "number"))
    schema = Schema((Column("y", "label"), *columns), max_features=4)
    table = SITES.append_column("day", pa.array([f"d{n % 11}" for n in range(120)]))
    whole, parts = LR(), LR()
    whole.schema = parts.schema = schema
    whole.learn_many(table)
    for at in range(0, 120, cut):
        parts.learn_many(table.slice(at, cut))
    assert parts.to_bytes() == whole.to_bytes()
    names = [whole.names.name(n) for n in range(len(whole.names))]
    assert names == ["site=a", "day=d0", "n", "site=b", "day=*"]
    rows = table.to_pylist()
    dicts = LR()
    dicts.schema = schema
    dicts.learn_many([{k: r[k] for k in r if k != "y"} for r in rows], [r["y"] for r in rows])
    assert dicts.to_bytes() == whole.to_bytes()
    fresh = table.set_column(1, "site", pa.array(["new"] * 120))
    assert np.isfinite(whole.predict_many(fresh)).all()
    assert len(whole.names) == 5


def test_cells_that_share_a_name_are_counted_once_each() -> None:
    names = Names()
    many = Coded([f"{n}" for n in range(50_000)], np.arange(50_000, dtype=np.int32), prefix="ip=")
    found = number([many, many], 50_000, names, most=10)
    assert (len(names), found.replaced) == (11, 2 * (50_000 - 10))
    spaced = Coded(["a=1", "a=2", "b=1", "c"], np.arange(4, dtype=np.int32))
    found = number([spaced], 4, names, most=10)
    assert (list(found.new_names), found.replaced) == (["a=*", "b=*", "*"], 4)


def test_hashes_need_no_dictionary_and_agree_through_every_door() -> None:
    schema = Schema((Column("y", "label"), Column("site", "category")), hash_bits=10)
    model = LR()
    model.schema = schema
    table = SITES.select(["y", "site"])
    model.learn_many(table)
    assert len(model.names) == 0
    assert model.next_feature <= 1024
    again = pqrlearn.from_bytes(model.to_bytes())
    expected = model.predict_many(table)
    assert np.array_equal(again.predict_many(table.to_pandas()), expected)
    assert np.array_equal(again.predict_many(table.to_pylist()), expected)
    assert read(table, schema=schema).replaced == 0


def test_a_bad_row_of_a_frame_is_told_by_its_number() -> None:
    frame = pa.table({"y": [0, 1, 7], "site": ["a", "b", "c"]})
    with pytest.raises(DataError, match=r"^<frame>: row 2: label 'y': 7 is not a click"):
        train(frame, label="y", loss="logistic")
    schema = Schema((Column("y", "label"), Column("ad", "category")))
    with pytest.raises(DataError, match=r"^<frame>: there is no column 'ad'"):
        train(frame, schema=schema)
