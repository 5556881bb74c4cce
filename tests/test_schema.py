"""What columns are: kinds and options, TOML and JSON, and the rules by which they are guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqrlearn import Column, Schema
from pqrlearn.errors import DataError, HyperError
from pqrlearn.guess import Choices, guess, loss_of, quantiles

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
texts = st.text(st.characters(codec="utf-8"), max_size=5)
numbers = st.floats(-1e9, 1e9)


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    kind = draw(st.sampled_from(["category", "number", "bins", "list", "time", "ignored"]))
    missing = draw(st.booleans()) and kind != "ignored"
    options: dict[str, Any] = {}
    if kind == "number":
        options = {"center": draw(numbers), "scale": draw(st.floats(1e-3, 1e9))}
    elif kind == "bins":
        edges = draw(st.lists(numbers, min_size=1, max_size=4, unique=True))
        options = {"edges": tuple(sorted(edges)), "place": draw(st.booleans())}
    elif kind == "list":
        options = {"separator": draw(texts) or None}
    elif kind == "time":
        options = {"parts": draw(st.sampled_from([("hour",), ("year", "day")]))}
    return Column(name, kind, missing, **options)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    found = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    made = [Column(found[0], "label", positive=draw(texts) or None)]
    made += [draw(columns(name)) for name in found[1:]]
    limit = draw(st.sampled_from(["hash_bits", "max_features"]))
    limits: dict[str, Any] = {limit: draw(st.none() | st.integers(1, 32))}
    return Schema(
        tuple(made),
        header=draw(st.booleans()),
        nulls=tuple(draw(st.lists(texts, max_size=2))),
        **limits,
    )


@given(schemas())
def test_a_schema_is_the_same_after_toml_and_json(schema: Schema) -> None:
    assert Schema.from_toml(schema.to_toml()) == schema
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


def test_a_schema_reads_as_a_person_would_write_it(tmp_path: Path) -> None:
    schema = Schema(
        (
            Column("click", "label", positive="yes", negative="no"),
            Column("age", "bins", missing=True, edges=(18.0, 65.5)),
            Column("the site", "category"),
        ),
        nulls=("-",),
        notes={"age": "numbers\nthat differ"},
    )
    assert schema.to_toml() == (
        'nulls = ["-"]\n\n[columns]\n'
        'click = { kind = "label", positive = "yes", negative = "no" }\n'
        'age = { kind = "bins", missing = true, edges = [18.0, 65.5] }  # numbers that differ\n'
        '"the site" = "category"\n'
    )
    schema.write(tmp_path / "s.toml")
    assert Schema.read(tmp_path / "s.toml") == Schema.of(tmp_path / "s.toml") == schema


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("", r"a schema must have a table called \[columns\]"),
        ("columns = 3", r"a schema must have a table called \[columns\]"),
        ("x = [", "not TOML"),
        ("[columns]\na = 3", "column 'a': expected its kind"),
        ('[columns]\na = "text"', "kind='text' must be one of label"),
        ('[columns]\na = {kind = ["bins"]}', r"kind=\['bins'\] must be one of label"),
        ('[columns]\na = {kind = "time", parts = [["hour"]]}', "parts must be"),
        ('[columns]\na = {kind = "bins"}', "bins need 1 to"),
        ('[columns]\na = {kind = "bins", edges = [2, 1]}', "edges must be finite and rise"),
        ('[columns]\na = {kind = "bins", edges = ["x"]}', "edges must be numbers"),
        ('[columns]\na = {kind = "bins", edges = [nan]}', "edges must be finite and rise"),
        ('[columns]\na = {kind = "bins", edges = 4}', "edges must be numbers"),
        ('[columns]\na = {kind = "number", scale = 0}', "scale finite and positive"),
        ('[columns]\na = {kind = "number", center = true}', "center must be numbers"),
        ('[columns]\na = {kind = "category", edges = [1]}', "edges is not an option of category"),
        ('[columns]\na = {kind = "category", colour = 1}', "no option is called 'colour'"),
        ('[columns]\na = {kind = "category", missing = 1}', "missing is true or false"),
        ('[columns]\na = {kind = "bins", edges = [1], place = 1}', "place is true or false"),
        ('[columns]\na = {kind = "number", place = true}', "place is not an option of number"),
        ('[columns]\na = {kind = "time", parts = ["eon"]}', "parts must be some of hour"),
        ('[columns]\na = {kind = "list", separator = ""}', "separator must not be empty"),
        ('[columns]\na = {kind = "label", negative = "no"}', "negative needs a positive"),
        ('[columns]\na = "label"\nb = "label"', "at most one label"),
        ('[columns]\n"" = "label"', "a column must have a name"),
        ("nulls = [3]\n[columns]\n", "nulls are texts"),
        ("hash_bits = 99\n[columns]\n", "hash_bits=99 must be a whole number from 1 to 32"),
        ("hash_bits = 9\nmax_features = 9\n[columns]\n", "exclude each other"),
        ("speed = 3\n[columns]\n", "no setting of a schema is called 'speed'"),
    ],
)
def test_a_schema_that_makes_no_sense_is_refused(toml: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(HyperError, match=said):
        Schema.from_toml(toml)
    (tmp_path / "s.toml").write_text(toml)
    with pytest.raises(DataError, match=f"s.toml: .*{said}"):
        Schema.read(tmp_path / "s.toml")


@pytest.mark.parametrize("described", [None, 3, [], {"columns": {}}, {"columns": [3]}])
def test_json_that_is_no_schema_is_refused(described: Any) -> None:
    with pytest.raises(HyperError):
        Schema.from_json(described)


# Guessing.


def guessed(values: Any, *, typed: bool = True, **choices: Any) -> Column:
    table = pa.table({"x": values})
    return guess(table, Choices(**choices), typed=typed)["x"]


IDS = [n * 7919 % 20 for n in range(400)]
AGES = [n * 7919 % 50 for n in range(400)]
MANY_IDS = [n * 7919 % 401 for n in range(1200)]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a", "b"] * 100, "category"),
        (pa.array(["a", "b"] * 100).dictionary_encode(), "category"),
        ([True, False] * 100, "category"),
        (IDS, "category"),
        ([float(n) for n in IDS], "category"),  # as pandas has integers with a gap
        ([*IDS, None], "category"),
        (MANY_IDS, "category"),
        (AGES, "bins"),
        ([float(n) for n in AGES], "bins"),
        (AGES + [0] * 20_000, "category"),  # nearly all the same: one bin
        ([n * 3 for n in range(300)] + [0, 3] * 20, "bins"),
        ([n * 3 for n in range(900)] + [0, 3] * 20, "bins"),
        ([n / 7 for n in range(400)], "bins"),
        ([n * 3 for n in range(400)], "ignored"),
        ([f"id{n}" for n in range(400)], "ignored"),
        ([f"id{n}" for n in range(50)], "category"),  # too few to tell
        ([None] * 10, "ignored"),
        (pa.array(["", ""]), "ignored"),
        ([["a", "b"], ["a"]], "list"),
        ([[{"a": 1}], []], "ignored"),
        (pa.array([0, 10**9], pa.timestamp("s")), "time"),
        (pa.array([0, 1], pa.date32()), "time"),
        (pa.array([b"x", b"x"]), "category"),
        (pa.array([1, 2], pa.duration("s")), "ignored"),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), "ignored"),
    ],
)
def test_types_and_values_tell_what_a_column_is(values: Any, kind: str) -> None:
    assert guessed(values).kind == kind


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([str(n) for n in IDS], "category"),
        ([str(n) for n in AGES], "bins"),
        ([f"{n / 7}" for n in range(400)], "bins"),
        ([*(f"{n / 7}" for n in range(400)), "NA", "", "-", "\\N"], "bins"),
        ([f"{n:04}" for n in IDS], "category"),
        ([f"2024-01-{n % 28 + 1:02}" for n in IDS], "time"),
        ([f"2024-01-{n % 28 + 1:02}T{n % 24:02}:00:00Z" for n in IDS], "time"),
        (["2024-01-01", "soon"] * 9, "category"),
        (["a", "b"] * 9, "category"),
    ],
)
def test_text_without_types_tells_it_too(values: list[str], kind: str) -> None:
    assert guessed(values, typed=False).kind == kind


def test_numbers_are_cut_at_quantiles_of_the_sample() -> None:
    cells = np.random.default_rng(3).exponential(size=1000)
    column = guessed(cells)
    counts = np.bincount(np.searchsorted(column.edges, cells, side="right"))
    assert len(column.edges) == 19
    assert column.place
    assert counts.min() >= 45
    assert quantiles(np.array([0.0] * 90 + [1.0] * 10), 10) == (1.0,)


def test_a_missing_cell_is_a_feature_where_the_sample_has_one() -> None:
    assert guessed(["a", None] * 9).missing
    assert guessed(["a", ""] * 9).missing
    assert not guessed(["a", "b"] * 9).missing


def test_times_at_midnight_have_no_hour() -> None:
    assert guessed(pa.array([0, 1], pa.date32())).parts == ("weekday",)
    assert guessed(pa.array([0, 3700], pa.timestamp("s"))).parts == ("hour", "weekday")
    assert guessed(pa.array([0, 3700], pa.time32("s"))).parts == ("hour",)


def test_what_a_person_says_comes_first() -> None:
    table = pa.table(
        {
            "y": ["yes", "no"] * 60,
            "w": [1.0, 2.0] * 60,
            "id": range(120),
            "n": [1, 2] * 60,
            "m": [1.5, 2.5] * 60,
            "tags": ["a|b", "a"] * 60,
            "hour": [14102100, 14102123] * 60,
        }
    )
    schema = guess(
        table,
        Choices(
            label="y",
            positive="yes",
            weight="w",
            categories="id",
            numbers=["n"],
            bins="m",
            lists="tags=|",
            times=["hour=%y%m%d%H"],
        ),
    )
    assert schema["y"] == Column("y", "label", positive="yes", negative="no")
    assert schema["n"] == Column("n", "number", center=1.5, scale=0.5)
    assert schema["m"] == Column("m", "bins", edges=(2.5,), place=True)
    assert schema["tags"] == Column("tags", "list", separator="|")
    assert schema["hour"] == Column("hour", "time", format="%y%m%d%H")
    assert [c.kind for c in schema.columns[1:3]] == ["weight", "category"]


def test_choices_change_what_a_known_schema_says() -> None:
    """Its order stays, and so does all that they do not speak of."""
    table = pa.table({"y": ["yes", "no"] * 60, "n": [1.5, 2.5] * 60, "x": ["a", "b"] * 60})
    columns = (Column("x", "list", separator=";"), Column("n", "number"), Column("y", "category"))
    known = Schema(columns, nulls=("-",))
    schema = guess(table, Choices(label="y", positive="no", bins="n", hash_bits=9), known=known)
    assert schema == Schema(
        (
            columns[0],
            Column("n", "bins", edges=(2.5,), place=True),
            Column("y", "label", positive="no", negative="yes"),
        ),
        nulls=("-",),
        hash_bits=9,
    )


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"label": "z"}, "there is no column 'z'; the columns are 'y', 'x'"),
        ({"label": "y", "ignore": "y"}, "column 'y' is said to be two things"),
        ({"positive": "a"}, "positive needs a label"),
        ({"label": "x", "positive": "d"}, "no label is 'd' in the rows looked at: 'a', 'b', 'c'"),
        ({"label": "x", "positive": "a"}, "a label has two values, this one more: 'a', 'b', 'c'"),
        ({"label": "x"}, "the label is 'a', 'b', 'c': say which is positive"),
        ({"bins": "y"}, "bins need at least two different numbers"),
    ],
)
def test_what_cannot_be_meant_is_said(choices: dict[str, Any], said: str) -> None:
    table = pa.table({"y": [1, 1, 1], "x": ["a", "b", "c"]})
    with pytest.raises((HyperError, DataError), match=said):
        guess(table, Choices(**choices))


@pytest.mark.parametrize(
    ("labels", "loss"),
    [
        ([0, 1], "logistic"),
        ([-1.0, 1.0], "logistic"),
        ([True, False], "logistic"),
        (["true", "False"], "logistic"),
        ([1, 2, 3], "squared"),
        ([0.5, 4.5, 3.0, None], "squared"),
    ],
)
def test_labels_tell_which_loss_fits(labels: list[Any], loss: str) -> None:
    table = pa.table({"y": labels})
    assert loss_of(guess(table, Choices(label="y")), table) == loss


def test_two_numbers_that_are_no_click_need_a_word() -> None:
    table = pa.table({"y": [1, 2, 1]})
    with pytest.raises(HyperError, match="label 'y' is 1 or 2: say which of them is positive"):
        loss_of(guess(table, Choices(label="y")), table)
    schema = guess(table, Choices(label="y", positive="2"))
    assert loss_of(schema, table) == "logistic"


def test_two_columns_of_one_name_are_refused() -> None:
    table = pa.table([[1], [2]], names=["a", "a"])
    with pytest.raises(DataError, match="column 'a' occurs twice"):
        guess(table, Choices())
