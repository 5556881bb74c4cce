"""The service over HTTP: the real command, asked by a real client."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pyarrow as pa
import pytest

from serving import Running, lr_file

A = {"site": "news", "price": 0.5}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("serve")
    limits = ("--max-rows", 500, "--max-body", 300_000, "--max-features", 50, "--keep-log")
    with Running(folder / "log", "-m", lr_file(folder / "lr.pqr"), *limits) as running:
        yield running


# Endpoints.


def test_a_row_is_predicted_and_learned(server: Running) -> None:
    found = server.ok("/v1/predict", {"features": A})
    assert found.keys() == {"id", "prediction", "margin"}
    assert server.ok("/v1/learn", {"id": found["id"], "label": 1}) == {"learned": True}
    assert server.ok("/v1/learn", {"id": found["id"], "label": 1}) == {"learned": False}
    conflict = server.post("/v1/learn", {"id": found["id"], "label": 0})
    assert conflict.status_code == 409
    assert "has the label 1, not 0" in conflict.json()["error"]


def test_an_unknown_id_is_404(server: Running) -> None:
    found = server.post("/v1/learn", {"id": "nobody", "label": 1})
    assert (found.status_code, found.json()["error"]) == (404, "no row is known by the id 'nobody'")


def test_the_same_request_again_gets_the_same_answer(server: Running) -> None:
    first = server.ok("/v1/predict", {"id": "again", "features": A})
    assert server.ok("/v1/predict", {"id": "again", "features": A}) == first
    assert server.post("/v1/predict", {"id": "again", "features": {}}).status_code == 409


def test_a_score_is_not_remembered(server: Running) -> None:
    before = server.get("/v1/status")["log"]["sequence"]
    assert server.ok("/v1/score", {"features": A}).keys() == {"prediction", "margin"}
    assert server.get("/v1/status")["log"]["sequence"] == before


def test_batches_answer_each_row(server: Running) -> None:
    rows: list[Any] = [{"id": f"b{n}", "features": {"site": str(n % 3)}} for n in range(100)]
    rows[7]["features"] = {"site": {"nested": 1}}
    found = server.post("/v1/predict:batch", {"rows": rows})
    assert found.status_code == 422  # a row of another shape is a request of another shape
    rows[7]["features"] = {"price": [1, 2]}
    answers = server.ok("/v1/predict:batch", {"rows": rows})["rows"]
    assert len(answers) == 100
    assert answers[7]["status"] == 422
    assert "a list needs a model with a schema" in answers[7]["error"]
    assert answers[8]["id"] == "b8"
    labels = [{"id": f"b{n}", "label": n % 2} for n in range(100)]
    answers = server.ok("/v1/learn:batch", {"rows": labels})["rows"]
    assert [one.get("learned") for one in answers] == [True] * 7 + [None] + [True] * 92
    assert answers[7]["status"] == 404
    again = server.ok("/v1/learn:batch", {"rows": labels})["rows"]
    assert [one.get("learned") for one in again] == [False] * 7 + [None] + [False] * 92
    scored = server.ok("/v1/score:batch", {"rows": [{"features": A}] * 2})["rows"]
    assert scored[0] == scored[1] == server.ok("/v1/score", {"features": A})


def stream(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_batches_may_be_arrow_streams(server: Running) -> None:
    table = pa.table(
        {
            "id": ["x1", "x2", "x3"],
            "site": pa.array(["news", "shop", None]).dictionary_encode(),
            "price": [0.5, None, 2.0],
        }
    )
    asked = server.client.post("/v1/predict:batch", content=stream(table), headers=ARROW)
    assert asked.status_code == 200, asked.text
    found = pa.ipc.open_stream(asked.content).read_all()
    assert found["id"].to_pylist() == ["x1", "x2", "x3"]
    alone = server.ok("/v1/score", {"features": {"site": "news", "price": 0.5}})
    assert found["margin"][0].as_py() == alone["margin"]
    labels = pa.table({"id": ["x1", "x2", "nobody"], "label": [1, 0, 1]})
    asked = server.client.post("/v1/learn:batch", content=stream(labels), headers=ARROW)
    found = pa.ipc.open_stream(asked.content).read_all()
    assert found["learned"].to_pylist() == [True, True, None]
    assert found["error"].to_pylist() == [None, None, "no row is known by the id 'nobody'"]


def test_a_missing_id_of_an_arrow_stream_is_made_up(server: Running) -> None:
    table = pa.table({"id": ["given", None], "site": ["news", "shop"]})
    asked = server.client.post("/v1/predict:batch", content=stream(table), headers=ARROW)
    first, second = pa.ipc.open_stream(asked.content).read_all()["id"].to_pylist()
    assert first == "given"
    assert len(second) == 32
    table = pa.table({"id": ["given"], "label": [1], "weight": [2.0], "site": ["news"]})
    asked = server.client.post("/v1/learn:batch", content=stream(table), headers=ARROW)
    assert pa.ipc.open_stream(asked.content).read_all()["learned"].to_pylist() == [True]
    table = pa.table({"id": ["given"], "label": pa.nulls(1, pa.float64())})
    asked = server.client.post("/v1/learn:batch", content=stream(table), headers=ARROW)
    assert asked.status_code == 422
    assert "row 0: Object missing required field `label`" in asked.text


def test_a_list_needs_a_schema(server: Running) -> None:
    found = server.post("/v1/predict", {"features": {"a": ["x", "y"]}})
    assert found.status_code == 422
    assert found.json()["error"].startswith("a list needs a model with a schema")


def test_hostile_arrow_streams_are_refused(server: Running) -> None:
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 400, pa.int8()), ["x" * 10_000])
    zeros = pa.table({"a": pa.nulls(501, pa.string())})
    zipped = stream(
        pa.table({"a": ["x" * 1000] * 400}), options=pa.ipc.IpcWriteOptions(compression="zstd")
    )
    for body, status, message in (
        (b"", 400, "not an Arrow stream"),
        (b"\xff" * 100, 400, "not an Arrow stream"),
        (stream(pa.table({"a": [1]}))[:-20], 400, "not an Arrow stream"),
        (stream(pa.table({"a": long})), 422, "more than 300,000 bytes"),
        (stream(zeros), 422, "more than 500 rows"),
        (zipped, 422, "compressed"),
        (stream(pa.table({"a": [{"b": 1}]})), 422, "not accepted"),
    ):
        found = server.client.post("/v1/score:batch", content=body, headers=ARROW)
        assert found.status_code == status, found.text
        assert message in found.json()["error"]


def test_a_row_is_explained(server: Running) -> None:
    found = server.ok("/v1/explain", {"features": A})
    assert sum(term["contribution"] for term in found["terms"]) == pytest.approx(found["margin"])
    assert found["margin"] == server.ok("/v1/score", {"features": A})["margin"]
    assert server.post("/v1/explain", {"features": {"a": [1]}}).status_code == 422


def test_the_model_says_what_it_is(server: Running) -> None:
    server.ok("/v1/learn", {"id": "model", "label": 1, "features": {"site": "findme"}})
    found = server.get("/v1/model")
    assert (found["kind"], found["loss"]) == ("lr", "logistic")
    assert found["rows"] > 0
    weights = server.get("/v1/weights?search=findme&top=5")
    assert [one["names"] for one in weights["linear"]] == [["site=findme"]]
    assert server.client.get("/v1/weights?top=x").status_code == 422


def test_the_status_has_what_the_page_needs(server: Running) -> None:
    found = server.get("/v1/status")
    assert {
        "rates",
        "ids",
        "figures",
        "log",
        "disk",
        "snapshot",
        "readers",
        "model",
    } <= found.keys()
    assert {"model", "constant", "reference", "calibration", "history"} <= found["figures"].keys()
    assert found["log"]["failed"] is None
    assert found["ready"]


def test_prometheus_can_read_the_figures(server: Running) -> None:
    server.ok("/v1/predict", {"features": A})
    text = server.client.get("/metrics").text
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    for line in samples:
        name, value = line.rsplit(" ", 1)
        assert name.startswith("pqr_")
        float(value)
    assert any(line.startswith("pqr_rows_total ") for line in samples)
    assert 'pqr_requests_total{path="/v1/predict",status="200"}' in text


def test_health_and_the_page_are_there(server: Running) -> None:
    assert server.client.get("/healthz").text == "ok\n"
    assert server.client.get("/readyz").text == "ready\n"
    page = server.client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert server.client.get("/page/..%2fadmin.py").status_code == 404
    assert server.client.get("/page/nothing.html").status_code == 404
    assert server.client.get("/nothing").json()["status"] == 404


# Limits.


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "not JSON"),
        (b"{", 400, "not JSON"),
        (b"\xff\xfe", 400, "not JSON"),
        (b'{"features":' * 20_000, 422, "Expected"),
        (b"[]", 422, "Expected `object`"),
        (b"{}", 422, "missing required field `features`"),
        (b'{"features": 1}', 422, "Expected `object`"),
        (b'{"features": {"a": {}}}', 422, "$.features"),
        (b'{"features": {}, "lable": 1}', 422, "unknown field `lable`"),
        (b'{"features": {"a": 1e999}}', 422, "out of range"),
        (b'{"features": {"a": ' + b"9" * 5000 + b"}}", 422, ""),
        (b'{"features": {"a": "\\ud800"}}', 400, "not JSON"),
        (b'{"features": {}, "id": ""}', 422, "length >= 1"),
        (b'{"features": {}, "id": "a\\nb"}', 422, "printable"),
    ],
)
def test_a_bad_body_is_refused_and_says_why(
    server: Running, body: bytes, status: int, message: str
) -> None:
    found = server.client.post("/v1/predict", content=body)
    assert found.status_code == status, found.text
    assert message in found.json()["error"]
    assert "Traceback" not in found.text


def test_sizes_are_limited(server: Running) -> None:
    features = {str(n): 1 for n in range(51)}
    assert "51 features; at most 50" in server.post("/v1/score", {"features": features}).text
    rows = {"rows": [{"features": {}}] * 501}
    assert "at most 500" in server.post("/v1/score:batch", rows).text
    large = server.client.post("/v1/score", content=b" " * 300_001)
    assert (large.status_code, large.json()["error"]) == (413, "a body of more than 300,000 bytes")


def test_a_body_without_a_length_is_counted(server: Running) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(1000):
            yield b" " * 10_000

    with suppress(httpx.WriteError, httpx.ReadError):  # it may hang up before all was sent
        assert server.client.post("/v1/score", content=endless()).status_code == 413
    assert server.client.get("/healthz").status_code == 200


def test_encodings_are_refused(server: Running) -> None:
    found = server.client.post("/v1/score", content=b"x", headers={"content-encoding": "gzip"})
    assert found.status_code == 415


def test_other_methods_are_refused(server: Running) -> None:
    assert server.client.get("/v1/predict").status_code == 405
    assert server.client.put("/v1/model").status_code == 405


def raw(url: str, data: bytes) -> bytes:
    with socket.create_connection((httpx.URL(url).host, httpx.URL(url).port or 0)) as connection:
        connection.settimeout(60)
        connection.sendall(data)
        found = b""
        with suppress(ConnectionResetError):
            while part := connection.recv(65536):
                found += part
        return found


def test_an_endless_head_is_cut_off(server: Running) -> None:
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
    assert not raw(server.url, head + b"a: b\r\n" * 20_000)
    assert server.client.get("/healthz").status_code == 200


def test_the_document_names_every_endpoint(server: Running) -> None:
    found = server.get("/openapi.json")
    assert {"/v1/predict", "/v1/predict:batch", "/v1/learn:batch", "/metrics"} <= found[
        "paths"
    ].keys()
    text = json.dumps(found)
    for name in set(text.split("#/components/schemas/")[1:]):
        assert name.partition('"')[0] in found["components"]["schemas"]
