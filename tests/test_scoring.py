"""The query of docs/scoring.md, in SQLite, gives what `predict` gives."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from pqrlearn import LR, PQR, Auto, Separation

PAGE = (Path(__file__).parent.parent / "docs" / "scoring.md").read_text()
FOUND = re.search(r"```sql\n(.*?)```", PAGE, re.DOTALL)
assert FOUND
QUERY = FOUND[1]


def rows(count: int = 300) -> tuple[list[dict[str, Any]], list[int]]:
    random = np.random.default_rng(5)
    made: list[dict[str, Any]] = []
    for _ in range(count):
        row: dict[str, Any] = {"site": f"s{random.integers(4)}", "ad": f"a{random.integers(40)}"}
        if random.random() < 0.7:
            row |= {"hour": str(random.integers(3)), "price": float(random.normal())}
        made.append(row)
    labels = [int((row["site"] == "s1") ^ (row.get("hour") == "2")) for row in made]
    return made, labels


ROWS, LABELS = rows()


def learned(model: Any) -> Any:
    model.learn_many(ROWS, LABELS)
    return model


MODELS = {
    "lr": lambda: learned(LR()),
    "pqr": lambda: learned(PQR(Separation.top_k(ROWS, 9))),
    "pqr all high": lambda: learned(PQR(Separation.top_k(ROWS, 999), interaction_scale=0.5)),
    "pqr unscaled": lambda: learned(PQR(Separation.top_k(ROWS, 9), interaction_scale=None)),
    "auto, frozen": lambda: learned(Auto()).frozen(),
    "auto, pruned": lambda: learned(Auto()).frozen(keep=30),
    "pqr, pruned": lambda: learned(PQR(Separation.top_k(ROWS, 9))).frozen(keep=30),
}


def in_sqlite(weights: Any, features: list[Any], given: dict[str, Any]) -> list[Any]:
    with sqlite3.connect(":memory:") as database:
        database.create_function("SQRT", 1, np.sqrt)  # not in every build of SQLite
        database.create_function("EXP", 1, np.exp)
        database.execute("CREATE TABLE weights (name, other, block, weight, support, rank)")
        database.execute("CREATE TABLE features (row, name, value)")
        database.execute("CREATE INDEX by_name ON weights (block, name, other)")
        cells = [tuple(row.values()) for row in weights.to_pylist()]
        database.executemany("INSERT INTO weights VALUES (?, ?, ?, ?, ?, ?)", cells)
        database.executemany("INSERT INTO features VALUES (?, ?, ?)", features)
        found = database.execute(QUERY, given).fetchall()
    database.close()
    return found


def in_duckdb(weights: Any, features: list[Any], given: dict[str, Any]) -> list[Any]:
    with duckdb.connect() as database:
        database.register("weights", weights)
        columns = dict(zip(("row", "name", "value"), zip(*features, strict=True), strict=True))
        database.register(
            "features", pa.table({key: list(column) for key, column in columns.items()})
        )
        values = {key: "NULL" if value is None else str(value) for key, value in given.items()}
        query = re.sub(r":(scale|unseen)", lambda found: values[found[1]], QUERY)
        return database.execute(query).fetchall()


@pytest.mark.parametrize("database", [in_sqlite, in_duckdb])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_the_query_predicts_as_the_model_does(make: Any, database: Any) -> None:
    model = make()
    scored: list[dict[str, Any]] = [*ROWS[:60], {"new": 2.0, "site": "s1"}, {"site": "s0"}]
    scored += [{"site=s0": 1.0, "site=s1": 1.0, "site=s2": 2.0}]  # pairs that were never seen
    about = json.loads(model.to_frame().schema.metadata[b"pqrlearn"])
    given = {"scale": about["interaction_scale"], "unseen": int(about["shares_pairs"])}
    found = database(model.to_frame(), features(scored), given)
    assert [row for row, *_ in found] == list(range(len(scored)))
    margins = [margin for _, margin, _ in found]
    np.testing.assert_allclose(margins, model.margin_many(scored), rtol=1e-5, atol=1e-5)
    predictions = [prediction for *_, prediction in found]
    np.testing.assert_allclose(predictions, model.predict_many(scored), rtol=1e-5)
    assert np.std(margins) > 0.3


def features(scored: list[dict[str, Any]]) -> list[tuple[int, str, float]]:
    return [
        (at, f"{key}={value}", 1.0) if isinstance(value, str) else (at, key, value)
        for at, row in enumerate(scored)
        for key, value in row.items()
    ]


def test_the_query_has_about_thirty_lines() -> None:
    assert len(QUERY.splitlines()) <= 36
