"""Batches: every way to send the same rows gives the same answers, log and model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pqrlearn import FM, LR, PQR, Auto, Column, Learner, Schema, Separation
from pqrlearn.serve import arrow, batches, columns
from pqrlearn.serve.api import JSON, Api
from pqrlearn.serve.committer import Committer
from pqrlearn.serve.messages import Learn, Predict, Score
from pqrlearn.serve.service import Service
from pqrlearn.serve.settings import Settings
from serving import label, records, replay, row, start, start_lr

LIMITS = Settings()


def stream(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def trained(model: Learner) -> Learner:
    random = Random(1)
    for _ in range(200):
        features = row(random) | {
            "a": random.choice(["", "x", 'quo"te', "back\\slash", "é\n", "1.0"])
        }
        model.learn_one(features | {"n": random.random()}, label(features, random))
    return model


def by_schema() -> Learner:
    model = LR()
    kinds = {"a": "category", "b": "category", "n": "number", "k": "category", "t": "category"}
    model.schema = Schema(tuple(Column(name, kind) for name, kind in kinds.items()))
    random = Random(2)
    for _ in range(100):
        cells: dict[str, Any] = {"a": random.choice("xy"), "n": random.random(), "k": 7, "t": True}
        model.learn_one(cells, random.randrange(2))
    return model


MAKE: dict[str, Callable[[], Learner]] = {
    "lr": lambda: trained(LR()),
    "pqr": lambda: trained(PQR(Separation.top_k([{"site": "news", "hour": "9"}], 2))),
    "fm": lambda: trained(FM()),
    "auto": lambda: trained(Auto()),
    "by schema": by_schema,
}
_models: dict[str, Learner] = {}


def model_of(kind: str) -> Learner:
    return _models.setdefault(kind, MAKE[kind]())


texts = st.none() | st.sampled_from(["", "x", "news", "1.0", "True", "nan"]) | st.text(max_size=5)
numbers = st.none() | st.floats(-1e6, 1e6) | st.just(float("nan"))
tables = st.integers(1, 6).flatmap(
    lambda size: st.fixed_dictionaries(
        {
            "a": st.lists(texts, min_size=size, max_size=size),
            "b": st.lists(st.text(max_size=3), min_size=size, max_size=size),
            "n": st.lists(numbers, min_size=size, max_size=size),
            "k": st.lists(st.none() | st.integers(-5, 900), min_size=size, max_size=size),
            "t": st.lists(st.none() | st.booleans(), min_size=size, max_size=size),
        }
    )
)
TYPES = {"a": pa.string(), "b": pa.string(), "n": pa.float64(), "k": pa.int64(), "t": pa.bool_()}


def without_nulls(text: bytes | None) -> dict[str, Any]:
    return {name: value for name, value in json.loads(text or b"").items() if value is not None}


@pytest.mark.parametrize("kind", MAKE)
@settings(max_examples=60)
@given(table=tables, coded=st.booleans())
def test_columns_say_what_their_rows_say_one_by_one(kind: str, table: Any, coded: bool) -> None:
    whole = pa.table({name: pa.array(cells, TYPES[name]) for name, cells in table.items()})
    if coded:
        short = whole["a"].combine_chunks().dictionary_encode()
        whole = whole.drop_columns("a").append_column("a", short)
    model = model_of(kind)
    one_by_one = batches.scored(model, [r.features for r in arrow.requests(whole, Score)], LIMITS)
    at_once = columns.scored(model, whole, LIMITS)
    if at_once is None:
        assert kind == "fm", "only FM has weights for names that it has never seen"
        return
    assert at_once.margins == one_by_one.margins
    assert not one_by_one.refused
    pairs = zip(at_once.texts, one_by_one.texts, strict=True)
    assert all(without_nulls(mine) == without_nulls(other) for mine, other in pairs)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.0, float("inf")]),
        pa.array([1e300, 0.0]),
        pa.array([["a"], ["b"]]),
        pa.array([0, 1], pa.timestamp("s")),
    ],
    ids=["infinite", "too large", "a list", "a time"],
)
def test_columns_that_need_a_look_at_each_cell_are_left_to_others(column: Any) -> None:
    assert columns.scored(model_of("lr"), pa.table({"a": column}), LIMITS) is None


def test_a_row_of_columns_that_are_all_missing_is_empty() -> None:
    table = pa.table({"a": pa.nulls(2, pa.string()), "b": pa.array([None, "x"])})
    found = columns.scored(model_of("lr"), table, LIMITS)
    assert found is not None
    assert found.texts == [b"{}", b'{"b":"x"}']


def asked(service: Service, path: str, *bodies: tuple[bytes, bytes]) -> list[Any]:
    """What the endpoints answer."""

    async def ask() -> list[Any]:
        committer = Committer(service)
        api = Api(service, committer)
        found = [await getattr(api, path)(body, kind) for body, kind in bodies]
        await committer.stop()
        service.synced()
        return found

    answers = asyncio.run(ask())
    return [
        pa.ipc.open_stream(one.body).read_all().to_pylist()
        if arrow.is_arrow(one.kind)
        else json.loads(one.body)["rows"]
        for one in answers
    ]


def sent(rows: list[dict[str, Any]], way: str) -> tuple[bytes, bytes]:
    """A batch, in JSON or as an Arrow stream."""
    if way == "json":
        return json.dumps({"rows": rows}).encode(), JSON
    flat = [
        {k: v for k, v in one.items() if k != "features"} | one.get("features", {}) for one in rows
    ]
    return stream(pa.Table.from_pylist(flat)), arrow.MEDIA_TYPE


@pytest.mark.parametrize("make", [LR, Auto])
@pytest.mark.parametrize("way", ["json", "arrow"])
def test_a_batch_is_logged_and_learned_like_its_rows(
    tmp_path: Path, way: str, make: type[Learner]
) -> None:
    random = Random(5)
    rows = [{"id": f"r{n}", "features": row(random)} for n in range(300)]
    labels = [{"id": one["id"], "label": float(n % 2)} for n, one in enumerate(rows[:200])]
    both = [{"id": f"b{n}", "label": float(n % 3 == 0), "features": row(random)} for n in range(90)]
    alone = start(tmp_path / "alone", model=make().to_bytes())
    margins = [alone.predict(one["features"], one["id"]).margin for one in rows]
    alone.commit()
    for one in (*labels, *both):
        assert alone.learn(**one)
    alone.commit()
    service = start(tmp_path / "batch", model=make().to_bytes())
    [found] = asked(service, "predict_batch", sent(rows, way))
    assert [one["margin"] for one in found] == margins
    assert [one["id"] for one in found] == [one["id"] for one in rows]
    [learned] = asked(service, "learn_batch", sent(labels, way))
    assert all(one["learned"] for one in learned)
    asked(service, "learn_batch", sent(both, way))
    assert service.model.to_bytes() == alone.model.to_bytes() == replay(tmp_path / "batch")
    assert service.ids.frozen()[0].keys() == alone.ids.frozen()[0].keys()
    kinds = [[kind for _, kind, _ in records(tmp_path / name)] for name in ("alone", "batch")]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("way", ["json", "arrow"])
def test_rows_of_a_batch_are_answered_each_on_its_own(tmp_path: Path, way: str) -> None:
    service = start_lr(tmp_path / "log")
    a, b = {"site": "news"}, {"site": "shop"}
    rows = [("x", a), ("x", a), ("x", b), ("y" * 300, a), ("z", a)]
    predicts = [{"id": id, "features": features} for id, features in rows]
    if way == "json":
        predicts[3]["id"] = "y" * 150 + "\n"
    [found] = asked(service, "predict_batch", sent(predicts, way))
    assert [one.get("error") for one in found] == [
        None,
        None,
        "the id 'x' belongs to a row with other features",
        "an id must have 1 to 200 bytes of printable text",
        None,
    ]
    learns = [("x", 1), ("x", 1), ("x", 0), ("nobody", 1), ("z", 7), ("z", 0)]
    [found] = asked(service, "learn_batch", sent([{"id": id, "label": y} for id, y in learns], way))
    assert [one.get("learned") for one in found] == [True, False, None, None, None, True]
    said = [one.get("error") for one in found]
    assert said[2] == "the row of 'x' has the label 1, not 0"
    assert said[3] == "no row is known by the id 'nobody'"
    assert said[4].startswith("label 7 ")
    assert replay(tmp_path / "log") == service.model.to_bytes()


@pytest.mark.parametrize("way", ["json", "arrow"])
def test_a_batch_may_bring_rows_again_with_their_labels(tmp_path: Path, way: str) -> None:
    service = start_lr(tmp_path / "log")
    a, b = {"site": "news", "hour": "9"}, {"site": "shop", "hour": "9"}
    asked(
        service,
        "predict_batch",
        sent([{"id": "x", "features": a}, {"id": "y", "features": a}], way),
    )
    learns = [
        {"id": "x", "label": 1, "features": a},
        {"id": "y", "label": 1, "features": b},
        {"id": "new", "label": 0, "features": b},
        {"id": "new", "label": 0, "features": b},
    ]
    [found] = asked(service, "learn_batch", sent(learns, way))
    assert [one.get("learned") for one in found] == [True, None, True, False]
    assert [kind for _, kind, _ in records(tmp_path / "log")] == [6, 1, 1, 2, 3]


def test_a_row_that_was_predicted_is_learned_though_the_model_would_refuse_it_now(
    tmp_path: Path,
) -> None:
    service = start_lr(tmp_path / "log")
    features = {f"f{n}": "x" for n in range(20)}
    asked(service, "predict_batch", sent([{"id": "x", "features": features}], "json"))
    service.settings = Settings(max_features=10)
    again = {"id": "x", "features": features}
    [found] = asked(service, "predict_batch", sent([again], "json"))
    assert found[0]["margin"] == 0.0
    [found] = asked(service, "learn_batch", sent([again | {"label": 1}], "json"))
    assert found == [{"learned": True}]


def test_many_rows_are_read_from_the_log_whatever_their_order(tmp_path: Path) -> None:
    service, random = start_lr(tmp_path / "log", segment_bytes=20_000), Random(6)
    places = []
    for n in range(400):
        long = {f"f{k}": "x" * 50 for k in range(random.choice([1, 3, 200]))}
        service.predict(long | {"n": n}, f"r{n}")
        places.append(service.ids.waiting[f"r{n}".encode()])
        if n % 7 == 0:
            service.commit()
    service.commit()
    for order in (places, places[::-1], random.sample(places, 300)):
        found = service.log.rows_at(order)
        whole = [service.log.at(position) for position in order]
        assert [time for time, _, _ in found] == [record.time for record in whole]
        assert all(
            record.payload.endswith(text) and np.isfinite(margin)
            for record, (_, margin, text) in zip(whole, found, strict=True)
        )


def test_an_infinite_number_of_a_stream_is_refused() -> None:
    table = pa.table({"id": ["a", "b"], "x": [1.0, float("-inf")]})
    with pytest.raises(Exception, match="row 1: column 'x': -inf is not finite"):
        arrow.requests(table, Predict)


def test_long_names_of_columns_count_for_each_row() -> None:
    table = pa.table({"x" * 1000: pa.nulls(1000, pa.string())})
    with pytest.raises(Exception, match="rows are more than 500,000 bytes"):
        arrow.table_in(stream(table), 10_000, 500_000)


def test_labels_of_other_types_are_looked_at_one_by_one() -> None:
    assert arrow.own(pa.table({"id": ["a"], "label": ["1"]}), Learn) is None
    assert [
        one.label for one in arrow.requests(pa.table({"id": ["a"], "label": ["1"]}), Learn)
    ] == [1.0]
