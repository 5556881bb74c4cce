"""Tables in files: CSV, Parquet, Arrow, JSON lines and Vowpal Wabbit text; bad rows, and columns
that change."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

import pqrlearn
from pqrlearn import LR, Batch, Column, Schema, read
from pqrlearn.errors import DataError, HyperError, RowError
from pqrlearn.readers import csv as csv_module

SCHEMA = Schema((Column("y", "label"), Column("a", "category"), Column("n", "number")))


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows_of(
    path: Any, schema: Any = SCHEMA, **options: Any
) -> list[tuple[float, dict[str, float]]]:
    """Labels and features by name."""
    rows = read(path, schema=schema, **options)
    batch = Batch.joined(rows)
    found = []
    for row in range(len(batch)):
        part = batch.part(row, row + 1)
        called = [rows.names.name(i) or str(i) for i in part.indices.tolist()]
        found.append((float(part.labels[0]), dict(zip(called, part.values.tolist(), strict=True))))
    return found


EXPECTED = [(1.0, {"a=x": 1.0, "n": 2.0}), (0.0, {"a=y": 1.0, "n": 0.5})]


@pytest.mark.parametrize(
    "text",
    [
        "y,a,n\n1,x,2\n0,y,0.5\n",
        "y,a,n\n1,x,2\n0,y,0.5",
        "y,a,n\r\n1,x,2\r\n0,y,0.5\r\n",
        "\ufeffy,a,n\n1,x,2\n0,y,0.5\n",
        "y;a;n\n1;x;2\n0;y;0.5\n",
        "y\ta\tn\n1\tx\t2\n0\ty\t0.5\n",
        "y|a|n\n1|x|2\n0|y|0.5\n",
        "n,y,a\n2,1,x\n0.5,0,y\n",
        '"y","a","n"\n1,x,2\n0,y,0.5\n',
        '"y","a","n"\n1,"x",2\n0,"y","0.5"\n',
        "y,a,n\n\n1,x,2\n\n0,y,0.5\n\n",
        "y,a,n\n1,x, 2 \n0,y,+0.5\n",
    ],
)
def test_however_a_csv_is_written_the_rows_are_the_same(text: str, tmp_path: Path) -> None:
    assert rows_of(write(tmp_path / "t.csv", text)) == EXPECTED


@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("t.csv.gz", gzip.compress),
        ("t.csv.bz2", bz2.compress),
        ("t.csv.xz", lzma.compress),
        ("t.csv.zst", zstandard.compress),
    ],
)
def test_compressed_text_is_read_as_it_is(name: str, compress: Any, tmp_path: Path) -> None:
    assert rows_of(write(tmp_path / name, compress(b"y,a,n\n1,x,2\n0,y,0.5\n"))) == EXPECTED


def test_cells_in_quotes_may_hold_anything(tmp_path: Path) -> None:
    text = 'y,a,n\n1,"x, ""the"" first\nof two",2\n0,y,0.5\n'
    assert rows_of(write(tmp_path / "t.csv", text))[0][1] == {'a=x, "the" first\nof two': 1, "n": 2}


def test_a_quote_in_the_middle_of_a_file_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_module, "CHUNK_BYTES", 64)
    plain = "y,a,n\n" + "1,x,2\n0,y,0.5\n" * 20
    quoted = plain.replace("1,x,2\n", '1,"x",2\n').replace('"x"', "x", 10)
    path = write(tmp_path / "t.csv", quoted)
    assert rows_of(path) == EXPECTED * 20
    bad = write(tmp_path / "bad.csv", quoted + "1,x\n")
    with pytest.raises(RowError, match=r"bad.csv: row 41: expected 3 cells, found 2"):
        rows_of(bad)


def test_bad_rows_among_those_that_a_schema_is_guessed_from_count_too(tmp_path: Path) -> None:
    """They are read before a pass begins, and belong to it all the same."""
    for name, text, bad in (
        ("t.csv", "y,a\n1,x\n0\n0,y\n", "0\n"),
        ("q.csv", 'y,a\n1,"x"\n0\n0,y\n', "0\n"),
        ("t.jsonl", '{"y": 1, "a": "x"}\nno\n{"y": 0, "a": "y"}\n', "no\n"),
    ):
        rows = read(write(tmp_path / name, text), label="y", on_bad_row="skip")
        kept = io.BytesIO()
        rows.keep_bad(kept)
        assert len(Batch.joined(rows)) == 2
        assert (rows.bad_rows, len(rows.first_bad)) == (1, 1)
        assert kept.getvalue().decode() == bad


def test_a_quote_that_stays_open_is_an_error(tmp_path: Path) -> None:
    """It would make one cell of all that is left."""
    for text in ('y,a,n\n0,y,2\n1,x,"2\n0,y,0.5\n', 'y,a,n\n0,y,2\n"1,x,2\n'):
        path = write(tmp_path / "t.csv", text)
        with pytest.raises(DataError, match=r"t.csv: row 2( or later: a quote is|: expected 3)"):
            rows_of(path)
        with pytest.raises(DataError, match=r"t.csv: row [12] or later: a quote is not closed"):
            rows_of(path, on_bad_row="skip")
    inside = write(tmp_path / "i.csv", 'y,a,n\n1,5" disk,2\n')
    assert rows_of(inside) == [(1.0, {'a=5" disk': 1.0, "n": 2.0})]


def test_a_column_may_have_a_line_end_in_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", 'y,"a\nb"\n1,x\n')
    assert rows_of(path, None, label="y") == [(1.0, {"a\nb=x": 1.0})]


def test_lines_that_end_in_carriage_returns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"t.csv: lines end in CR alone"):
        rows_of(write(tmp_path / "t.csv", "y,a,n\r1,x,2\r"))


def test_a_delimiter_is_one_character(tmp_path: Path) -> None:
    path = write(tmp_path / "t.txt", "y\ta,b\tn\n1\tx\t2\n")
    schema = Schema((Column("y", "label"), Column("a,b", "category"), Column("n", "number")))
    expected = [(1.0, {"a,b=x": 1.0, "n": 2.0})]
    assert rows_of(path, schema, delimiter="\\t") == rows_of(path, schema, format="tsv") == expected
    for wrong in ("::", "", '"', "\n"):
        with pytest.raises(HyperError, match="must be one ASCII character"):
            rows_of(path, schema, delimiter=wrong)


def test_text_whose_format_is_not_told_is_csv_if_columns_are_spoken_of(tmp_path: Path) -> None:
    path = write(tmp_path / "rows", "y,a,n\n1,x,2\n0,y,0.5\n")
    assert rows_of(path) == EXPECTED
    assert rows_of(path, None, label="y", numbers="n")[0][0] == 1.0
    with pytest.raises(RowError, match="rows:1:2: the ',' looks like CSV"):
        list(read(path))


def test_text_without_names_takes_those_given(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "1,x,2\n0,y,0.5\n")
    assert rows_of(path, columns="y,a,n") == EXPECTED
    rows = read(path, label="y", columns=["y", "a", "n"])
    assert rows.schema is not None
    assert not rows.schema.header
    kept = Schema(SCHEMA.columns, header=False)
    assert rows_of(path, kept) == EXPECTED
    unlabelled = write(tmp_path / "u.csv", "x,2\ny,0.5\n")
    found = rows_of(unlabelled, kept, labelled=False)
    assert [features for _, features in found] == [features for _, features in EXPECTED]
    with pytest.raises(RowError, match=r"u.csv:1: expected 3 cells, found 2"):
        rows_of(unlabelled, kept)


def test_latin_1_is_read_when_it_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "y,a,n\n1,né,2\n".encode("latin-1"))
    with pytest.raises(RowError, match=r"t.csv:2: byte 0xe9 is not UTF-8 text"):
        rows_of(path)
    assert rows_of(path, encoding="latin-1") == [(1.0, {"a=né": 1.0, "n": 2.0})]
    with pytest.raises(DataError, match="unknown encoding: klingon"):
        rows_of(path, encoding="klingon")
    with pytest.raises(DataError, match=r"t.csv: utf-16 text; convert it to UTF-8 first"):
        rows_of(path, encoding="utf-16")
    wide = write(tmp_path / "w.csv", "y,a,n\n1,x,2\n".encode("utf-16"))
    with pytest.raises(DataError, match="UTF-16 text; convert it to UTF-8 first"):
        rows_of(wide)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y,a,a\n1,x,2\n", "t.csv:1: column 'a' occurs twice in the first line"),
        ("y,,n\n1,x,2\n", "t.csv:1: column 2 has no name in the first line"),
        ("y,a\n1,x\n", "there is no column 'n'; the table has columns 'y', 'a'"),
        ("y,a,n,m,o\n1,x,2,3,4\n", "columns 'm', 'o' not in the schema"),
        ("y,a,n\n1,x\n", "t.csv:2: expected 3 cells, found 2"),
        ("y,a,n\n1,x,2\n0,y,0.5,9\n", "t.csv:3: expected 3 cells, found 4"),
        ("y,a,n\n1,x,two\n", "t.csv:2: column 'n': 'two' is not a finite number"),
        ("y,a,n\n1,x,inf\n", "t.csv:2: column 'n': 'inf' is not a finite number"),
        ("y,a,n\n1,x,1e39\n", "t.csv:2: column 'n': '1e39' is too large"),
        ("y,a,n\n,x,2\n", "t.csv:2: label 'y': '' is missing"),
        ("y,a,n\nyes,x,2\n", "t.csv:2: label 'y': 'yes' is not a finite number"),
        ("y,a,n\n\n\n2,x,2\n", "t.csv:4: label 'y': '2' "),
        ("y,a,n\n", "no rows"),
        ("", "no rows"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_where_it_is(
    text: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=said.replace("(", "\\(")):
        rows_of(write(tmp_path / "t.csv", text), loss="logistic")


def test_columns_that_lack_or_are_new_can_be_accepted(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "y,a,new\n1,x,7\n")
    assert rows_of(path, accept=True) == [(1.0, {"a=x": 1.0})]


GOOD = "1,x,2\n0,y,0.5\n"
BAD = ["1,x\n", "1,x,two\n", "maybe,x,2\n", "1,\xff,2,3\n"]


@pytest.mark.parametrize("quote", [False, True])
def test_bad_rows_are_skipped_counted_and_kept(quote: bool, tmp_path: Path) -> None:
    text = "y,a,n\n" + GOOD + BAD[0] + GOOD + BAD[1] + BAD[2] + GOOD
    if quote:
        text = text.replace(",x,", ',"x",')
    path = write(tmp_path / "t.csv", text)
    rows = read(path, schema=SCHEMA, loss="logistic", on_bad_row="skip")
    kept = io.BytesIO()
    rows.keep_bad(kept)
    assert len(Batch.joined(rows)) == 6
    assert (rows.rows, rows.bad_rows) == (6, 3)
    places = [4, 7, 8] if not quote else [3, 6, 7]
    assert sorted(error.line or 0 for error in rows.first_bad) == places
    if not quote:
        assert kept.getvalue().decode() == BAD[0] + BAD[1] + BAD[2]
    else:
        found = kept.getvalue().decode().splitlines()
        assert [json.loads(row)["y"] for row in found if row[0] == "{"] == ["1", "maybe"]
        assert "1,x" in found


def test_rows_before_a_bad_one_are_read_first(tmp_path: Path) -> None:
    for bad in BAD:
        path = write(tmp_path / "t.csv", ("y,a,n\n" + GOOD).encode() + bad.encode("latin-1"))
        rows = read(path, schema=SCHEMA, loss="logistic")
        batches = iter(rows)
        assert len(next(batches)) == 2
        with pytest.raises(RowError, match=r"t\.csv:4: "):
            next(batches)


# Labels and weights.


def test_a_label_may_be_any_two_values(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "y,a\n" + "yes,x\nno,y\n" * 3)
    rows = read(path, label="y", positive="yes", loss="logistic")
    assert Batch.joined(rows).labels.tolist() == [1.0, 0.0] * 3
    with pytest.raises(HyperError, match="the label is 'yes', 'no': say which is positive"):
        read(path, label="y")
    other = write(tmp_path / "u.csv", "y,a\nyes,x\nperhaps,y\n")
    assert rows.schema is not None
    with pytest.raises(RowError, match=r"u\.csv:3: label 'y': 'perhaps' is neither 'yes' nor 'no'"):
        rows_of(other, rows.schema, loss="logistic")


@pytest.mark.parametrize(
    ("weight", "said"),
    [("-1", "must be finite and not negative"), ("", "is missing"), ("x", "is not")],
)
def test_weights_are_checked(weight: str, said: str, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", f"y,w,a\n1,2.5,x\n0,{weight},y\n")
    schema = Schema((Column("y", "label"), Column("w", "weight"), Column("a", "category")))
    rows = iter(read(path, schema=schema))
    assert next(rows).weights.tolist() == [2.5]
    with pytest.raises(RowError, match=f"t.csv:3: weight 'w': .*{said}"):
        next(rows)


def test_labels_that_are_a_column_of_the_table_too_are_warned_of() -> None:
    table = pd.DataFrame({"a": ["x", "y"] * 3, "y": [1, 0] * 3})
    with pytest.warns(UserWarning, match="the labels are called 'y', and so is a column"):
        LR().learn_many(table, table["y"])
    LR().learn_many(table[["a"]], table["y"])


def test_failing_for_want_of_labels_leaves_no_schema() -> None:
    model = LR()
    with pytest.raises(RowError, match="there are no labels"):
        model.learn_many(pa.table({"a": ["x"]}))
    assert model.schema is None


@pytest.mark.parametrize("rows", [{"a": "x", "y": 1}, [{"a": "x", "y": 1}]])
def test_dicts_are_no_table(rows: Any) -> None:
    with pytest.raises(DataError, match=r"neither a path nor a frame|dicts are no table"):
        pqrlearn.train(rows, label="y")


def test_a_table_without_a_label_asks_for_one(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "y,a\n1,x\n")
    with pytest.raises(HyperError, match="which column is the label\\? There are 'y', 'a'"):
        read(path)
    unlabelled = Schema((Column("y", "category"), Column("a", "category")))
    with pytest.raises(HyperError, match=r"t.csv: the schema has no label"):
        read(path, schema=unlabelled)
    assert rows_of(path, unlabelled, label="y") == [(1.0, {"a=x": 1.0})]
    with pytest.raises(HyperError, match=r"label: only tables have columns, and t.svm is none"):
        read("t.svm", label="y")
    with pytest.raises(HyperError, match="colour: reading has no such option"):
        read(path, colour="red")


# Null tokens.


def test_null_tokens_are_missing_where_numbers_are_expected(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "y,a,n\n1,NA,NA\n1,\\N,\\N\n1,-,-\n1,,\n")
    assert [row for _, row in rows_of(path)] == [{"a=NA": 1}, {"a=\\N": 1}, {"a=-": 1}, {}]
    nulls = Schema(SCHEMA.columns, nulls=("NA", "-"))
    assert [row for _, row in rows_of(path, nulls)] == [{}, {"a=\\N": 1}, {}, {}]


# Changes between learning and predicting.


FLOATS = pa.array([0.5, 1, 2], pa.float32())


def trained(tmp_path: Path) -> Any:
    chance = np.random.default_rng(2)
    rows = [(n % 2, f"{chance.integers(9)}", chance.integers(9) / 4) for n in range(200)]
    text = "y,a,n\n" + "".join(f"{y},{a},{n}\n" for y, a, n in rows)
    return pqrlearn.train(
        write(tmp_path / "train.csv", text), label="y", categories="a", numbers="n"
    )


@pytest.mark.parametrize(
    "cells",
    [
        {"a": [3, 4, 100], "n": [0.5, 1.0, 2.0]},
        {"a": [3.0, 4.0, 100.0], "n": [0.5, 1.0, 2.0]},
        {"a": ["3", "4", "100"], "n": ["0.5", "1", "2.0"]},
        {
            "a": pa.array(["3", "4", "100"]).dictionary_encode(),
            "n": pa.array([0.5, 1, 2], pa.float32()),
        },
        {"n": [0.5, 1.0, 2.0], "a": [b"3", b"4", b"100"]},
    ],
)
def test_a_type_that_changed_changes_no_prediction(cells: Any, tmp_path: Path) -> None:
    """A value never seen is welcome."""
    model = trained(tmp_path)
    expected = model.predict_many([{"a": a, "n": n} for a, n in ((3, 0.5), (4, 1), (100, 2))])
    assert np.array_equal(model.predict_many(pa.table(cells)), expected)
    pa.parquet.write_table(pa.table(cells), tmp_path / "t.parquet")
    rows = read(tmp_path / "t.parquet", schema=model.schema, labelled=False)
    rows.use_names(model.names, model.next_feature)
    assert np.array_equal(model.predict_many(Batch.joined(rows)), expected)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"a": ["x"]}, "there is no column 'n'; the table has column 'a'"),
        ({"a": ["x"], "n": [1.0], "m": [1]}, "column 'm' not in the schema"),
        ({"a": ["x"], "n": ["two"]}, "row 0: column 'n': 'two' is not a finite number"),
        ({"a": [["x"]], "n": [1.0]}, "column 'a': cells of type list<.*> cannot be categories"),
        ({"a": ["x"], "n": pa.array([0], pa.date32())}, "column 'n': cells of type date32"),
    ],
)
def test_columns_that_changed_are_said(cells: Any, said: str, tmp_path: Path) -> None:
    model = trained(tmp_path)
    with pytest.raises(DataError, match=said):
        model.predict_many(pa.table(cells))


def test_a_model_without_a_schema_reads_no_table() -> None:
    model = LR()
    model.learn_many([{"a": "x"}], [1])
    with pytest.raises(HyperError, match="the model does not know the columns of a table yet"):
        model.predict_many(pa.table({"a": ["x"]}))


# Parquet and Arrow.


def test_errors_in_parquet_give_row_group_and_row(tmp_path: Path) -> None:
    table = pa.table(
        {"y": [1.0] * 10, "a": ["x"] * 10, "n": [1.0] * 7 + [float("inf")] + [1.0] * 2}
    )
    pa.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=5)
    with pytest.raises(RowError, match=r"t\.parquet:2:3: column 'n': inf is not a finite number"):
        rows_of(tmp_path / "t.parquet")


def test_folders_of_parquet_parts_are_one_table(tmp_path: Path) -> None:
    for day, part in (
        ("2024-01-01", 0),
        ("2024-01-01", 1),
        ("a%2Fb", 0),
        ("__HIVE_DEFAULT_PARTITION__", 0),
    ):
        folder = tmp_path / "t" / f"day={day}"
        folder.mkdir(parents=True, exist_ok=True)
        pa.parquet.write_table(pa.table({"y": [part]}), folder / f"part-{part}.parquet")
    write(tmp_path / "t" / "_SUCCESS.parquet", "")
    schema = Schema((Column("y", "label"), Column("day", "category")))
    assert rows_of(tmp_path / "t", schema) == [
        (0.0, {"day=2024-01-01": 1.0}),
        (1.0, {"day=2024-01-01": 1.0}),
        (0.0, {}),
        (0.0, {"day=a/b": 1.0}),
    ]
    guessed = read(tmp_path / "t", label="y").schema
    assert guessed is not None
    assert guessed["day"] == Column("day", "category", missing=True)
    assert guessed.notes["day"] == "a partition: 2 values"
    given = read(tmp_path / "t", label="y", ignore="day").schema
    assert given is not None
    assert given["day"] == Column("day", "ignored")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="a folder without Parquet parts"):
        read(tmp_path / "empty")


def test_patterns_name_several_files(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write(tmp_path / f"{name}.csv", f"y,a,n\n1,{name},2\n")
    assert [row for _, row in rows_of(tmp_path / "*.csv")] == [
        {"a=a": 1, "n": 2},
        {"a=b": 1, "n": 2},
    ]
    with pytest.raises(DataError, match="no file has such a name"):
        read(tmp_path / "*.tsv", schema=SCHEMA)


@pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
def test_foreign_bytes_are_refused(name: str, tmp_path: Path) -> None:
    for data in (b"", b"PAR1", b"ARROW1\0\0", b"y,a,n\n1,x,2\n", bytes(1000)):
        with pytest.raises(DataError, match=r"cannot be read as (Parquet|Arrow)|no rows"):
            rows_of(write(tmp_path / name, data))


def test_nested_columns_are_called_by_their_path(tmp_path: Path) -> None:
    table = pa.table({"y": [1], "user": [{"age": 30, "home": {"city": "Rome"}}]})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    write(tmp_path / "t.jsonl", json.dumps(table.to_pylist()[0]) + "\n")
    schema = Schema(
        (Column("y", "label"), Column("user.age", "number"), Column("user.home.city", "category"))
    )
    for name in ("t.parquet", "t.jsonl"):
        found = rows_of(tmp_path / name, schema)
        assert found == [(1.0, {"user.age": 30.0, "user.home.city=Rome": 1.0})]


# JSON lines.


def test_json_lines_of_mixed_types_are_read(tmp_path: Path) -> None:
    lines = ['{"y": 1, "a": 3, "n": 2}', "", '{"n": "0.5", "a": "y", "y": 0}', '{"y": 1, "a": 3.0}']
    path = write(tmp_path / "t.jsonl", "\n".join(lines))
    assert rows_of(path) == [(1, {"a=3": 1, "n": 2}), (0, {"a=y": 1, "n": 0.5}), (1, {"a=3": 1})]


def test_texts_in_json_that_look_like_times_stay_texts(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", '{"y": 1, "a": "2024-01-31T00:00:00", "n": 1}\n')
    assert rows_of(path) == [(1.0, {"a=2024-01-31T00:00:00": 1.0, "n": 1.0})]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"y": 1,', "not JSON"),
        ("[1]", "expected an object, found list"),
        ('{"a.b": 1, "a": {"b": 2}}', "two fields have the same name"),
        ("[" * 100_000, "not JSON"),
        ('{"y": 1, "a": "x", "n": "two"}', "column 'n': 'two' is not a finite number"),
    ],
)
def test_bad_lines_of_json_are_found(line: str, said: str, tmp_path: Path) -> None:
    good = '{"y": 1, "a": "x", "n": 2}\n'
    path = write(tmp_path / "t.jsonl", good + line + "\n" + good)
    with pytest.raises(RowError, match=rf"t\.jsonl:2: {said}"):
        rows_of(path)
    rows = read(path, schema=SCHEMA, on_bad_row="skip")
    kept = io.BytesIO()
    rows.keep_bad(kept)
    assert (len(Batch.joined(rows)), rows.bad_rows) == (2, 1)
    assert kept.getvalue().decode() == line + "\n"


@pytest.mark.parametrize("text", ["null", "null\n", 'null{"y": 0', 'null\n{"y": 1, "a": "x"}\n'])
def test_a_first_line_of_json_that_is_null_is_a_bad_row(text: str, tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", text)  # which crashes pyarrow
    with pytest.raises(RowError, match=r"t\.jsonl:1: (expected an object|not JSON)"):
        rows_of(path, Schema((Column("y", "label"), Column("a", "category"))))


# Vowpal Wabbit text.


def test_vowpal_wabbit_text_is_read_by_name(tmp_path: Path) -> None:
    text = "1 2.5 'tag|a x |n:2 :1 m:0.5 | free\n-1 |a y\n\n0 tag|a x\n"
    rows = read(write(tmp_path / "t.vw", text), loss="logistic")
    batch = Batch.joined(rows)
    names = [rows.names.name(i) for i in batch.indices.tolist()]
    assert names == ["a=x", "n", "n=m", "free", "a=y", "a=x"]
    assert batch.values.tolist() == [1, 2, 1, 1, 1, 1]
    assert (batch.labels.tolist(), batch.weights.tolist()) == ([1, 0, 0], [2.5, 1, 1])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1 a b", "2:1: expected '|' before the features"),
        ("x |a b", "2:1: label 'x' is not a finite number"),
        ("1 -2 |a b", "2:3: importance '-2' is not a finite number from 0 on"),
        ("1 1 0.5 |a b", "2:5: expected a tag or '|', found '0.5': initial predictions"),
        ("1 |a:x b", "2:6: scale 'x' of a namespace"),
        ("1 |a b:x", "2:8: value 'x' is not a finite"),
        ("1 |a:1e38 b:1e38", "2:11: the value of 'b:1e38' and the scale"),
        ("1 | :2", "2:5: expected a name before ':2'"),
        ("1 |a \x01b", r"2:6: control byte in '\x01b'"),
        ("|a b", "2:1: there is no label; a word that touches '|' is a tag"),
        ("7 |a b", "2:1: label 7 "),
    ],
)
def test_bad_lines_of_vowpal_wabbit_text_are_found(line: str, said: str, tmp_path: Path) -> None:
    path = write(tmp_path / "t.vw", f"1 |a x\n{line}\n0 |a y\n")
    rows = read(path, loss="logistic")
    batches = iter(rows)
    assert len(next(batches)) == 1
    with pytest.raises(RowError) as error:
        next(batches)
    assert str(error.value).removeprefix(f"{path}:").startswith(said)
    skipped = read(path, loss="logistic", on_bad_row="skip")
    kept = io.BytesIO()
    skipped.keep_bad(kept)
    assert (len(Batch.joined(skipped)), skipped.bad_rows) == (2, 1)
    assert kept.getvalue().decode() == line + "\n"
    assert skipped.names.find("a=b") is None


def test_vowpal_wabbit_text_needs_no_label_to_be_predicted(tmp_path: Path) -> None:
    rows = read(write(tmp_path / "t.vw", "|a b\n1 |a c\n"), labelled=False)
    assert len(Batch.joined(rows)) == 2


# Names at scale.


def many(tmp_path: Path) -> Path:
    lines = [f"{n % 2},{n % 40},{n % 3}\n" for n in range(400)]
    return write(tmp_path / "many.csv", "y,a,b\n" + "".join(lines))


def test_a_bound_on_names_shares_one_for_each_column(tmp_path: Path) -> None:
    given = {"label": "y", "categories": "a", "model": "lr"}
    model = pqrlearn.train(many(tmp_path), **given, max_features=10)
    names = {model.names.name(i) for i in range(20)} - {None}
    assert names == {"a=*", *(f"a={n}" for n in range(7)), *(f"b={n}" for n in range(3))}
    shared = model.predict_one({"a": 30, "b": 1})
    assert shared == model.predict_one({"a": 12345, "b": 1})  # all that found no room
    twin = pqrlearn.from_bytes(model.to_bytes())
    assert twin.predict_many(pa.table({"a": ["30"], "b": [1]})).tolist() == [shared]


def test_hashed_features_have_no_names_and_the_same_numbers_everywhere(tmp_path: Path) -> None:
    model = pqrlearn.train(many(tmp_path), label="y", model="lr", hash_bits=12)
    assert len(model.names) == 0
    assert max(model.weights("linear")[0]) < 2**12
    other = pqrlearn.train(many(tmp_path), label="y", model="lr")
    rows = [{"a": a, "b": b} for a in range(5) for b in range(3)]
    assert np.allclose(model.predict_many(rows), other.predict_many(rows), atol=1e-6)
    found = model.predict_many(pa.table({"a": [r["a"] for r in rows], "b": [r["b"] for r in rows]}))
    assert np.array_equal(found, model.predict_many(rows))


def test_vowpal_wabbit_text_can_be_hashed_and_bounded(tmp_path: Path) -> None:
    path = write(tmp_path / "t.vw", "1 |a x y z\n0 |a u v w\n")
    rows = read(path, hash_bits=8)
    assert Batch.joined(rows).indices.max() < 256
    assert len(rows.names) == 0
    bounded = read(path, max_features=2)
    Batch.joined(bounded)
    assert (bounded.names.find("a=*"), bounded.replaced) == (2, 4)
    with pytest.raises(HyperError, match="hash_bits: this format has no names"):
        read(write(tmp_path / "t.svm", "1 1:1\n"), hash_bits=8)


# Streams.


def test_a_sample_of_a_stream_is_learned_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read to guess the schema is not lost."""
    from pqrlearn.readers import tables

    monkeypatch.setattr(tables, "SAMPLE_ROWS", 10)
    monkeypatch.setattr(csv_module, "CHUNK_BYTES", 256)
    text = many(tmp_path).read_bytes()
    expected = pqrlearn.train(many(tmp_path), label="y", model="lr", categories="a,b")

    class Stdin:
        buffer = io.BytesIO(text)

    monkeypatch.setattr("sys.stdin", Stdin)
    model = pqrlearn.train("-", label="y", model="lr", format="csv", categories="a,b")
    assert model.to_bytes() == expected.to_bytes()
    assert model.run.rows == 400


def test_a_stream_of_record_batches_can_be_read_once() -> None:
    table = pa.table({"y": [0, 1] * 50, "a": ["x", "y"] * 50})
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(10))
    rows = read(stream, label="y")
    assert len(Batch.joined(rows)) == 100
    with pytest.raises(DataError, match="a stream can be read only once"):
        list(rows)


def test_times_in_json_lines_are_told_by_their_text(tmp_path: Path) -> None:
    """JSON has no type for them; numbers in quotes stay text."""
    moments = [f"2024-01-{n % 28 + 1:02}T{n % 24:02}:30:00" for n in range(200)]
    rows = [{"y": n % 2, "at": at, "n": str(n % 9)} for n, at in enumerate(moments)]
    lines = write(tmp_path / "t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    cells = "".join(f"{row['y']},{row['at']},{row['n']}\n" for row in rows)
    table = write(tmp_path / "t.csv", "y,at,n\n" + cells)
    schemas = [read(path, label="y").schema for path in (lines, table)]
    assert schemas[0] == schemas[1]
    assert schemas[0] is not None
    assert [column.kind for column in schemas[0].columns] == ["label", "time", "category"]


def test_a_count_of_one_is_no_plural(tmp_path: Path) -> None:
    schema = read(write(tmp_path / "t.csv", "y,a,b\n" + "1,x,0\n0,x,1\n" * 2), label="y").schema
    assert schema is not None
    assert (schema.notes["a"], schema.notes["b"]) == (
        "text: 1 value",
        "whole numbers that repeat: 2 values",
    )
