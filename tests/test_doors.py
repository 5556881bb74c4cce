"""The same rows through any door give the same model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import pqrlearn
from pqrlearn import FM, LR, PQR, Auto, Separation, read
from pqrlearn.learners import Learner
from pqrlearn.progressive import evaluate, learn
from pqrlearn.schema import MISSING, Column, Schema

ROWS = 600

SCHEMA = Schema(
    (
        Column("click", "label"),
        Column("site", "category", missing=True),
        Column("code", "category"),
        Column("price", "number", center=2.0, scale=4.0),
        Column("age", "bins", missing=True, edges=(20.0, 40.5, 60.0), place=True),
        Column("genres", "list", separator="|"),
        Column("seen", "time", parts=("hour", "weekday")),
        Column("new", "category"),
        Column("id", "ignored"),
    )
)


def table() -> pa.Table:
    """One column of each kind, with gaps, among them one that makes floats of integers."""
    chance = np.random.default_rng(5)

    def gaps(values: Any) -> list[Any]:
        hidden = chance.random(ROWS) < 0.1
        return [None if gap else v for gap, v in zip(hidden, values, strict=True)]

    genres = np.array(["Drama", "Comedy", "War", "Sci-Fi"])
    seen = np.datetime64("2024-02-27T00:00:00") + chance.integers(0, 10**6, ROWS)
    return pa.table(
        {
            "click": chance.integers(0, 2, ROWS),
            "site": gaps([f"s{n % 17}é" for n in chance.zipf(1.4, ROWS)]),
            "code": pa.array(gaps((chance.zipf(1.6, ROWS) % 10**6).tolist()), pa.int64()),
            "price": gaps((chance.integers(0, 80, ROWS) / 8).tolist()),
            "age": gaps(chance.integers(10, 90, ROWS).tolist()),
            "genres": ["|".join(genres[chance.random(4) < 0.4]) or None for _ in range(ROWS)],
            "seen": pa.array(seen.astype("datetime64[s]")),
            "new": chance.integers(0, 2, ROWS).astype(bool),
            "id": np.arange(ROWS),
        }
    )


TABLE = table()


def csv(folder: Path, rows: pa.Table) -> Path:
    pyarrow.csv.write_csv(rows, folder / "rows.csv")
    return folder / "rows.csv"


def plain_csv(folder: Path, rows: pa.Table) -> Path:
    """Without quotes, and with semicolons and a byte order mark, as spreadsheets write it."""
    text = csv(folder, rows).read_text().replace('"', "").replace(",", ";")
    (folder / "plain.csv").write_text("\ufeff" + text)
    return folder / "plain.csv"


def pandas_csv(folder: Path, rows: pa.Table) -> Path:
    """Where integers with a gap are written as floats."""
    rows.to_pandas().to_csv(folder / "pandas.csv.gz", index=False)
    return folder / "pandas.csv.gz"


def parquet(folder: Path, rows: pa.Table) -> Path:
    pyarrow.parquet.write_table(rows, folder / "rows.parquet", row_group_size=100)
    return folder / "rows.parquet"


def pandas_parquet(folder: Path, rows: pa.Table) -> Path:
    """Integers with a gap become floats, texts a dictionary."""
    frame = rows.to_pandas().astype({"site": "category", "new": object})
    frame.to_parquet(folder / "frame.parquet")
    return folder / "frame.parquet"


def parts(folder: Path, rows: pa.Table) -> Path:
    for part in range(3):
        (folder / "parts").mkdir(exist_ok=True)
        piece = rows.slice(part * ROWS // 3, ROWS // 3)
        pyarrow.parquet.write_table(piece, folder / "parts" / f"part-{part}.parquet")
    return folder / "parts"


def feather(folder: Path, rows: pa.Table) -> Path:
    pyarrow.feather.write_feather(rows, folder / "rows.feather", chunksize=70)
    return folder / "rows.feather"


def arrow_stream(folder: Path, rows: pa.Table) -> Path:
    with pa.ipc.new_stream(folder / "rows.arrows", rows.schema) as writer:
        writer.write_table(rows, max_chunksize=33)
    return folder / "rows.arrows"


def jsonl(folder: Path, rows: pa.Table) -> Path:
    lines = [json.dumps(row, default=str) + "\n" for row in rows.to_pylist()]
    (folder / "rows.jsonl").write_text("".join(lines))
    return folder / "rows.jsonl"


def polars_jsonl(folder: Path, rows: pa.Table) -> Path:
    frame: Any = pl.from_arrow(rows)
    frame.write_ndjson(folder / "polars.jsonl")
    return folder / "polars.jsonl"


FILES = [
    *(csv, plain_csv, pandas_csv, parquet, pandas_parquet, parts),
    *(feather, arrow_stream, jsonl, polars_jsonl),
]


def as_vw(row: dict[str, Any]) -> str:
    """What the schema makes of a row, written by hand."""
    found = [f"{'1' if row['click'] else '-1'} "]
    site = MISSING if row["site"] is None else row["site"]
    found.append(f"|site {site}")
    if row["code"] is not None:
        found.append(f"|code {row['code']}")
    if row["price"] is not None:
        found.append(f"|price :{(row['price'] - 2.0) / 4.0!r}")
    age = row["age"]
    bins = ["..20 :-1", f"20..40.5 :{-1 / 3!r}", f"40.5..60 :{1 / 3!r}", "60.. :1"]
    at = None if age is None else bins[(age >= 20) + (age >= 40.5) + (age >= 60)]
    found.append(f"|age {at or MISSING}")
    if row["genres"]:
        found.append(f"|genres {' '.join(row['genres'].split('|'))}")
    found.append(f"|seen.hour {row['seen'].hour} |seen.weekday {row['seen']:%a}")
    found.append(f"|new {'true' if row['new'] else 'false'}")
    return " ".join(found) + "\n"


FRAMES: dict[str, Callable[[], Any]] = {
    "pyarrow": lambda: TABLE,
    "stream": lambda: pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(50)),
    "pandas": lambda: TABLE.to_pandas(),
    "pandas with an index": lambda: TABLE.to_pandas().set_index(np.arange(ROWS) * 2),
    "pandas of objects": lambda: TABLE.to_pandas().astype(
        {"site": object, "code": object, "new": object}
    ),
    "categorical": lambda: TABLE.to_pandas().astype({"site": "category", "code": "category"}),
    "polars": lambda: pl.from_arrow(TABLE),
    "polars categorical": lambda: pl.from_arrow(TABLE).with_columns(  # type: ignore[union-attr]
        pl.col("site").cast(pl.Categorical)
    ),
    "duckdb": lambda: duckdb.from_arrow(TABLE),
    "structured array": lambda: TABLE.to_pandas().to_records(index=False),
}


def learners() -> dict[str, Callable[[], Learner]]:
    separation = Separation.top_k(TABLE, 20, SCHEMA)
    return {
        "auto": Auto,
        "lr": LR,
        "pqr": lambda: PQR(separation),
        "fm": lambda: FM(rank=2),
    }


def expected(make: Callable[[], Learner]) -> bytes:
    """Learned from the table in memory."""
    model = make()
    model.schema = SCHEMA
    model.learn_many(TABLE)
    return model.to_bytes()


def learned(make: Callable[[], Learner], rows: Any) -> Learner:
    """From an input, as a training run would."""
    model = make()
    model.schema = SCHEMA
    rows.use_names(model.names, model.next_feature)
    learn(model, rows)
    return model


@pytest.mark.parametrize("kind", learners())
@pytest.mark.parametrize("write", FILES)
def test_files_of_the_same_rows_give_the_same_bytes(write: Any, kind: str, tmp_path: Path) -> None:
    make = learners()[kind]
    rows = read(write(tmp_path, TABLE), schema=SCHEMA, loss="logistic")
    assert learned(make, rows).to_bytes() == expected(make)


@pytest.mark.parametrize("kind", learners())
@pytest.mark.parametrize("frame", FRAMES)
def test_frames_of_the_same_rows_give_the_same_bytes(frame: str, kind: str) -> None:
    make = learners()[kind]
    model = make()
    model.schema = SCHEMA
    predictions = model.learn_many(FRAMES[frame]())
    assert len(predictions) == ROWS
    assert model.to_bytes() == expected(make)
    twin = pqrlearn.from_bytes(expected(make))
    found = model.predict_many(FRAMES[frame]())
    assert np.array_equal(found, twin.predict_many(TABLE))
    assert model.to_bytes() == expected(make)  # prediction adds nothing


@pytest.mark.parametrize("kind", learners())
def test_dicts_of_the_same_rows_give_the_same_bytes(kind: str) -> None:
    """Whether the values are those of Arrow, of pandas or text."""
    make = learners()[kind]
    for rows in (
        TABLE.to_pylist(),
        TABLE.to_pandas().to_dict("records"),
        [{k: None if v is None else str(v) for k, v in row.items()} for row in TABLE.to_pylist()],
    ):
        model = make()
        model.schema = SCHEMA
        model.learn_many(rows, TABLE["click"].to_numpy())
        assert model.to_bytes() == expected(make)
        assert np.array_equal(model.predict_many(rows), model.predict_many(TABLE))


@pytest.mark.parametrize("kind", ["auto", "lr", "fm"])
def test_vowpal_wabbit_text_of_the_same_rows_gives_the_same_predictions(
    kind: str, tmp_path: Path
) -> None:
    (tmp_path / "rows.vw").write_text("".join(map(as_vw, TABLE.to_pylist())))
    make = learners()[kind]
    model, rows = make(), read(tmp_path / "rows.vw", loss="logistic")
    rows.use_names(model.names, model.next_feature)
    learn(model, rows)
    twin = pqrlearn.from_bytes(expected(make))
    rows = read(tmp_path / "rows.vw", loss="logistic")
    rows.use_names(model.names, model.next_feature)
    found = np.concatenate([model.predict_many(batch) for batch in rows])
    assert np.array_equal(found, twin.predict_many(TABLE))
    twin.schema = None
    assert model.to_bytes() == twin.to_bytes()


def test_figures_of_a_frame_are_those_of_a_file(tmp_path: Path) -> None:
    model: Any = pqrlearn.from_bytes(expected(LR))
    rows = read(csv(tmp_path, TABLE), schema=SCHEMA, loss="logistic")
    rows.use_names(model.names, model.next_feature)
    assert evaluate(model, TABLE).metrics == evaluate(model, rows).metrics


@pytest.mark.parametrize("rows", [1, 7, 100])
def test_how_a_stream_is_cut_does_not_matter(rows: int) -> None:
    model = LR()
    model.schema = SCHEMA
    model.learn_many(pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(rows)))
    assert model.to_bytes() == expected(LR)
