"""Parquet columns that are read page by page are those that pyarrow reads."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pqrlearn
from pqrlearn.errors import DataError
from pqrlearn.readers import parquet_pages
from pqrlearn.readers.arrow import ParquetReader
from pqrlearn.readers.parquet_pages import coded_columns

CELLS = st.lists(st.sampled_from([None, "", "a", "né", "b" * 300, *map(str, range(40))]))


def write(path: Path, cells: Any, *, required: bool = False, **options: Any) -> pa.Table:
    """A table whose column `c` is as given, behind one of labels."""
    kinds = [pa.field("label", pa.int8()), pa.field("c", pa.string(), nullable=not required)]
    labels = [row % 2 for row in range(len(cells))]
    table = pa.table([pa.array(labels, pa.int8()), pa.array(cells, pa.string())], pa.schema(kinds))
    pq.write_table(table, path, **options)
    return table


def read(path: Path, size: int) -> list[Any] | None:
    """The cells of `c`, so many at a time; None if they are left to pyarrow."""
    cells: list[Any] = []
    with pq.ParquetFile(path) as file, path.open("rb") as source:
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            found = coded_columns(file, group, ["c"], source)
            if rows and not found:
                return None
            for at in range(0, rows, size):
                part = found["c"].read(min(size, rows - at))
                part.validate(full=True)
                cells += part.to_pylist()
    return cells


@given(
    CELLS,
    st.integers(1, 50),
    st.sampled_from(["none", "snappy", "zstd", "gzip"]),
    st.integers(1, 200),
)
def test_cells_are_those_that_pyarrow_reads(
    tmp_path_factory: pytest.TempPathFactory, cells: Any, size: int, compression: str, group: int
) -> None:
    path = tmp_path_factory.mktemp("pages") / "t.parquet"
    options: Any = {"compression": compression, "row_group_size": group, "data_page_size": 64}
    write(path, cells, write_batch_size=16, **options)
    assert read(path, size) == cells
    required = [cell or "" for cell in cells]
    write(path, required, required=True, **options)
    assert read(path, size) == required


def test_long_runs_and_many_texts_are_read(tmp_path: Path) -> None:
    draw = random.Random(1)
    cells: list[str | None] = ["same"] * 5000 + [None] * 3000
    cells += [f"text {draw.randrange(20_000)}" for _ in range(40_000)]
    write(tmp_path / "t.parquet", cells, row_group_size=30_000)
    assert read(tmp_path / "t.parquet", 4096) == cells


@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": False},
        {"data_page_version": "2.0"},
        {"compression": "lz4"},
        {"dictionary_pagesize_limit": 100, "data_page_size": 64, "write_batch_size": 16},
    ],
    ids=["plain", "version 2", "lz4", "dictionary too large"],
)
def test_other_pages_are_left_to_pyarrow(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "t.parquet"
    cells = [f"text {row % 500}" for row in range(2000)]
    write(path, cells, **options)
    assert read(path, 100) is None
    usual = tmp_path / "usual.parquet"
    write(usual, cells)
    assert _model(path) == _model(usual)


def _model(path: Path) -> bytes:
    return pqrlearn.train(path, label="label", model="lr").to_bytes()


def test_nested_and_repeated_columns_are_left_to_pyarrow(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    nested = pa.array([{"b": "x", "d": 1}, {"b": "y", "d": 2}])
    pq.write_table(pa.table({"c": ["x", "y"], "a": nested}), path)
    assert read(path, 10) is None
    pq.write_table(pa.table([["x"], ["y"]], names=["c", "c"]), path)
    assert read(path, 10) is None


def test_columns_of_categories_are_read_by_page(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    cells = pa.array(["x", None, "y", "x"]).dictionary_encode()
    pq.write_table(pa.table({"label": [1, 0, 1, 0], "c": cells}), path)
    assert read(path, 3) == ["x", None, "y", "x"]


@pytest.mark.parametrize("writer", ["duckdb", "pandas", "polars", "polars categories"])
def test_what_others_write_is_read_by_page(tmp_path: Path, writer: str) -> None:
    path, draw = tmp_path / "t.parquet", random.Random(4)
    cells = [None if draw.random() < 0.1 else f"v{draw.randrange(300)}" for _ in range(5000)]
    table = pa.table({"label": [1] * 5000, "c": cells})
    if writer == "duckdb":
        duckdb.from_arrow(table).write_parquet(str(path))
    elif writer == "pandas":
        table.to_pandas().to_parquet(path)
    else:
        kind = pl.Categorical() if writer == "polars categories" else pl.String()
        pl.DataFrame(table).with_columns(pl.col("c").cast(kind)).write_parquet(path)
    assert read(path, 777) == cells


def test_models_do_not_depend_on_who_reads_the_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, draw = tmp_path / "t.parquet", random.Random(2)
    values = [None, "", "NA", "1.0", "True", *(f"v{n}" for n in range(300))]
    columns = {name: draw.choices(values, k=3000) for name in ("site", "ad", "user")}
    labels = [draw.randrange(2) for _ in range(3000)]
    pq.write_table(pa.table({"label": labels, **columns}), path, row_group_size=700)
    by_page = _model(path)
    monkeypatch.setattr("pqrlearn.readers.arrow.coded_columns", lambda *_: {})
    assert _model(path) == by_page


def test_damaged_pages_are_errors_or_other_cells(tmp_path: Path) -> None:
    path, draw = tmp_path / "t.parquet", random.Random(3)
    write(path, [f"text {draw.randrange(50)}" for _ in range(2000)], compression="none")
    good = path.read_bytes()
    about = pq.ParquetFile(path).metadata.row_group(0).column(1)
    first, size = about.dictionary_page_offset, about.total_compressed_size
    refused: list[str] = []
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(draw.randint(1, 4)):
            bad[first + draw.randrange(size)] = draw.randrange(256)
        path.write_bytes(bytes(bad))
        try:
            for batch in pqrlearn.read(path, label="label"):
                assert len(batch)
        except DataError as error:
            refused.append(str(error))
    assert 0 < len(refused) < 300
    assert all(str(path) in error for error in refused)


def test_codes_without_texts_are_refused_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write(path, ["a", "b", "c"] * 100, compression="none")
    good = path.read_bytes()
    with pq.ParquetFile(path) as file, path.open("rb") as source:
        column = coded_columns(file, 0, ["c"], source)["c"]
        start = file.metadata.row_group(0).column(1).dictionary_page_offset
        *_, begin, end = column._pages[0]
    middle = start + (begin + end) // 2
    path.write_bytes(good[:middle] + b"\xff" + good[middle + 1 :])
    with pytest.raises(DataError, match=r"t\.parquet: cannot be read as Parquet: .*no text"):
        list(pqrlearn.read(path, label="label"))


def test_a_machine_that_counts_bytes_the_other_way_leaves_all_to_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "t.parquet", ["a", "b"])
    monkeypatch.setattr(parquet_pages, "byteorder", "big")
    assert read(tmp_path / "t.parquet", 2) is None


def test_a_part_of_a_file_is_read_by_page_too(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    cells = [str(row % 37) for row in range(1000)]
    write(path, cells, row_group_size=300)
    whole = ParquetReader(path)
    found = [c for piece in whole.part(250, 650)._pieces() for c in piece.table["c"].to_pylist()]
    assert found == cells[250:650]
