"""Columns of categories keep their codes from block to block, and nobody can tell."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqrlearn import categories, read
from pqrlearn.encoder import Encoder
from pqrlearn.errors import RowError
from pqrlearn.guess import Choices, guess
from pqrlearn.names import Coded, Lookup, Names, number
from pqrlearn.readers import open_reader
from pqrlearn.readers.sample import Sample
from pqrlearn.readers.tables import TableOptions
from pqrlearn.schema import Column, Schema

COLUMNS = (Column("a", "category", True), Column("b", "category", False))
CELLS = st.one_of(st.none(), st.sampled_from(["", "-", "x", "1.0", "True", "a longer text", "né"]))


def rows_of(tables: list[Any], **limits: Any) -> list[list[str]]:
    """The rows of tables that one encoder reads, each as its names by number."""
    schema = Schema(COLUMNS, nulls=("-",), **limits)
    encoder, names = Encoder(schema, labelled=False), Names()
    found = []
    for table in tables:
        batch = encoder.batch(table, names)
        cuts = zip(batch.indptr[:-1], batch.indptr[1:], strict=True)
        found += [batch.indices[begin:end].tolist() for begin, end in cuts]
    return [[f"{n} {names.name(n)}" for n in row] for row in found]


def table_of(rows: list[tuple[Any, Any]], kind: str) -> Any:
    columns = {
        name: pa.array([row[at] for row in rows], pa.string()) for at, name in ((0, "a"), (1, "b"))
    }
    if kind != "text":
        columns = {name: column.dictionary_encode() for name, column in columns.items()}
    return pa.table(columns)


@pytest.mark.parametrize("kept", [0, 2, 1000])
@pytest.mark.parametrize("kind", ["text", "dictionary", "several dictionaries"])
@given(
    rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=12),
    cuts=st.lists(st.integers(0, 12), max_size=4),
)
def test_numbers_do_not_depend_on_how_a_table_is_cut(
    kept: int, kind: str, rows: list[tuple[Any, Any]], cuts: list[int]
) -> None:
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    pairs = list(pairwise(bounds))
    whole = table_of(rows, kind)
    parts = [whole.slice(begin, end - begin) for begin, end in pairs]
    if kind == "several dictionaries":
        parts = [table_of(rows[begin:end], kind) for begin, end in pairs]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(categories, "MOST_KEPT", kept)
        assert rows_of(parts) == rows_of([table_of(rows, "text")])
        assert rows_of(parts, max_features=3) == rows_of([table_of(rows, "text")], max_features=3)


def test_bad_rows_do_not_change_the_numbers_of_others(tmp_path: Path) -> None:
    good = [f"{n % 2},v{n % 7}" for n in range(300)]
    bad = [f"x,w{n}" if n % 50 == 3 else row for n, row in enumerate(good)]
    files = {"bad.csv": bad, "good.csv": [row for row in bad if row[0] != "x"]}
    found = []
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(["click,site", *lines]) + "\n")
        rows = read(tmp_path / name, label="click", loss="logistic", on_bad_row="skip")
        batches = list(rows)
        indices = np.concatenate([batch.indices for batch in batches]).tolist()
        found.append([rows.names.name(index) for index in indices])
    assert found[0] == found[1]


def test_a_name_of_two_columns_counts_twice() -> None:
    first = Coded(["x", "y"], np.array([0, 1], np.int32), prefix="a=")
    second = Coded(["x", "z"], np.array([0, 1], np.int32), prefix="a=")
    rows = number([first, second], 2, Names())
    assert rows.indptr.tolist() == [0, 1, 3]
    assert rows.values.tolist() == [2.0, 1.0, 1.0]


@pytest.mark.parametrize(("codes", "base"), [([1], 0), ([-2], 0), ([0], 1), ([1], 1)])
def test_codes_without_a_text_are_refused(codes: list[int], base: int) -> None:
    column = Coded(["x"], np.array(codes, np.int32), base=base, lookup=Lookup())
    with pytest.raises(RowError, match="a code has no text"):
        number([column], 1, Names())


def test_a_lookup_knows_the_codes_of_blocks_before() -> None:
    names, lookup = Names(), Lookup()
    number([Coded(["x"], np.array([0], np.int32), lookup=lookup)], 1, names)
    later = Coded(["y"], np.array([1, 0], np.int32), base=1, lookup=lookup)
    assert number([later], 2, names).indices.tolist() == [1, 0]
    assert len(lookup) == 2


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_reading_a_file_does_not_import_pandas(tmp_path: Path, name: str) -> None:
    rows = {"click": [str(n % 2) for n in range(200)], "site": [f"s{n % 9}" for n in range(200)]}
    table = pa.table(rows)
    pq.write_table(table, tmp_path / "rows.parquet")
    lines = [",".join(row) for row in zip(*rows.values(), strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["click,site", *lines]) + "\n")
    code = "import sys, pqrlearn; pqrlearn.train(sys.argv[1], label='click', model='lr');"
    code += "sys.exit('pandas' in sys.modules)"
    command = [sys.executable, "-c", code, str(tmp_path / name)]
    assert subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_ids_that_floats_cannot_tell_apart_are_ignored(kind: Any) -> None:
    ids = pa.array([10**18 + n for n in range(500)]).cast(kind)
    site = pa.array([f"s{n % 3}" for n in range(500)])
    schema = guess(pa.table({"id": ids, "site": site}), Choices(), typed=kind == pa.int64())
    assert [column.kind for column in schema.columns] == ["ignored", "category"]


def test_a_sample_of_parquet_begins_at_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    cells = {"y": [n % 2 for n in range(1000)], "group": [f"g{n // 100}" for n in range(1000)]}
    pq.write_table(pa.table(cells), path, row_group_size=100)
    schema = Schema((Column("y", "label"), Column("group", "category")))
    reader = open_reader(path, table=TableOptions(schema))
    batches = list(Sample([reader], 200).batches())
    assert [len(batch) for batch in batches] == [20] * 10
    assert len({index for batch in batches for index in batch.indices.tolist()}) == 10
