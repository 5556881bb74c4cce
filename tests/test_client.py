"""The client, against the real service."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pqrlearn import Client, PqrError
from serving import Running

A = {"site": "news", "price": 0.5}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("client") / "log") as running:
        yield running


@pytest.fixture
def client(running: Running) -> Iterator[Client]:
    with Client(running.url, batch_rows=10) as client:
        yield client


def test_it_predicts_and_learns(client: Client) -> None:
    found = client.predict(A)
    assert found.prediction == client.score(A)
    assert client.learn(found.id, 1)
    assert not client.learn(found.id, 1)
    assert client.learn("both", 1, 2.0, A)
    assert client.model()["rows"] == 2
    assert client.explain(A)["prediction"] == client.score(A)
    assert client.status()["ready"]


def test_many_rows_go_in_batches(client: Client) -> None:
    rows = [{"site": str(n % 3)} for n in range(35)]
    found = client.predict_many(rows)
    assert [one.prediction for one in found] == client.score_many(rows)
    assert client.learn_many([one.id for one in found], [n % 2 for n in range(35)]) == [True] * 35
    again = client.predict_many(rows, [one.id for one in found])
    assert again == found


def test_a_refusal_is_an_error_with_its_status(client: Client) -> None:
    with pytest.raises(PqrError, match="404: no row is known by the id 'nobody'") as caught:
        client.learn("nobody", 1)
    assert caught.value.status == 404  # type: ignore[attr-defined]
    with pytest.raises(PqrError, match="404: row 1: no row is known"):
        client.learn_many(["both", "nobody"], [1, 1])


def test_a_service_that_is_not_there_is_an_error() -> None:
    with (
        Client("http://127.0.0.1:1", retries=1, pause=0.001) as client,
        pytest.raises(PqrError, match="cannot be reached"),
    ):
        client.score(A)


def test_what_fails_on_its_way_is_sent_again_with_the_same_id() -> None:
    seen: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.rfile.read(int(self.headers["content-length"])))
            if len(seen) == 1:
                self.close_connection = True
                return  # hangs up without an answer
            body = b'{"id": "a", "prediction": 0.5, "margin": 0}'
            self.send_response(503 if len(seen) == 2 else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Client(f"http://127.0.0.1:{server.server_port}", pause=0.001) as client:
            assert client.predict(A).prediction == 0.5
        server.shutdown()
    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_it_survives_a_restart_of_the_service(tmp_path: Path) -> None:
    """The address stays; whatever was answered before is known after."""
    with Running(tmp_path / "log") as first:
        url = first.url
        with Client(url) as client:
            id = client.predict(A).id
        first.kill()
    port = url.rpartition(":")[2]
    with Client(url, retries=10) as client:
        answers: list[bool] = []
        asking = threading.Thread(target=lambda: answers.append(client.learn(id, 1)))
        asking.start()
        with Running(tmp_path / "log", "--port", port) as second:
            asking.join()
            assert second.url == url
    assert answers == [True]
