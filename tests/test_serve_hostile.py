"""Clients that mean no good, or do not know what they say."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from command import SECONDS
from serving import Running


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("hostile") / "log"
    with Running(folder, "--request-time", "2s", "--max-body", 100_000) as running:
        yield running


def connected(running: Running) -> socket.socket:
    url = httpx.URL(running.url)
    connection = socket.create_connection((url.host, url.port or 0))
    connection.settimeout(SECONDS)
    return connection


HEAD = b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"


@pytest.mark.parametrize(
    "beginning",
    [b"", b"POST /v1/sc", b"POST / HTTP/1.1\r\nHost: localhost\r\nA: ", HEAD, HEAD + b'{"feat'],
    ids=["nothing", "a line", "a head", "no body", "some body"],
)
def test_a_request_that_never_ends_is_hung_up(running: Running, beginning: bytes) -> None:
    with connected(running) as connection:
        connection.sendall(beginning)
        with suppress(ConnectionResetError):
            assert connection.recv(1000) == b""
    assert running.client.get("/healthz").status_code == 200


def test_the_second_request_of_a_connection_is_watched_too(running: Running) -> None:
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(running) as connection:
        connection.sendall(whole + b"GET /hea")
        found = b""
        with suppress(ConnectionResetError):
            while part := connection.recv(1000):
                found += part
        assert found.count(b"HTTP/1.1 200") == 1


def test_many_slow_clients_do_not_keep_others_out(running: Running) -> None:
    slow = [connected(running) for _ in range(200)]
    for connection in slow:
        connection.sendall(b"POST /v1/score HTTP/1.1\r\nHost: local")
    assert running.client.post("/v1/score", json={"features": {}}).status_code == 200
    for connection in slow:
        connection.close()


def test_a_body_longer_than_announced_is_not_read(running: Running) -> None:
    with connected(running) as connection:
        head = b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"
        connection.sendall(head)
        assert b"413" in connection.recv(1000)


def test_chunks_are_counted_while_they_come_in(running: Running) -> None:
    head = b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with connected(running) as connection:
        connection.sendall(head)
        with suppress(ConnectionResetError, BrokenPipeError):
            for _ in range(1000):
                connection.sendall(chunk)
        with suppress(ConnectionResetError):
            assert b"413" in connection.recv(1000)
    assert running.client.get("/healthz").status_code == 200


def test_the_bodies_of_all_requests_have_a_limit(tmp_path: Path) -> None:
    limits = ("--max-body", 100_000, "--max-bodies", 250_000, "--request-time", "300s")
    head = b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99000\r\n\r\n"
    body = json.dumps({"features": {"a": "x" * 90_000}})
    with Running(tmp_path / "log", *limits) as running:
        assert running.client.post("/v1/score", content=body).status_code == 200
        slow = [connected(running) for _ in range(2)]
        for connection in slow:
            connection.sendall(head + b" " * 90_000)
        found = httpx.Response(200)
        deadline = time.monotonic() + SECONDS
        while found.status_code == 200 and time.monotonic() < deadline:  # until all of it is there
            found = running.client.post("/v1/score", content=body)
        assert found.status_code == 503, "both bodies have come in"
        assert found.headers["retry-after"] == "1"
        assert found.json()["error"] == "other requests are too large: try again in a second"
        for connection in slow:
            connection.close()
        while found.status_code == 503 and time.monotonic() < deadline:
            found = running.client.post("/v1/score", content=body)
        assert found.status_code == 200
        assert "Traceback" not in running.stop()


@pytest.mark.parametrize(
    "request_line", [b"\x16\x03\x01", b"GET", b"GET / HTTP/9.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\n"]
)
def test_what_is_not_http_is_refused(running: Running, request_line: bytes) -> None:
    with connected(running) as connection:
        connection.sendall(request_line + b"\r\n\r\n")
        with suppress(ConnectionResetError):
            assert not connection.recv(1000).startswith(b"HTTP/1.1 200")
    assert running.client.get("/healthz").status_code == 200


def test_the_service_does_as_its_document_says(tmp_path: Path) -> None:
    """Schemathesis makes requests from the OpenAPI document, and looks at the answers."""
    with Running(tmp_path / "log", "--request-time", "300s") as running:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{running.url}/openapi.json"]
        # Which rows and labels are good, only the model knows.
        excluded = ["--exclude-checks", "positive_data_acceptance"]
        patient = ["--request-timeout", "100"]
        done = subprocess.run(
            [*command, "--max-examples", "15", "--seed", "1", "--no-color", *excluded, *patient],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr
        assert running.client.get("/healthz").status_code == 200
        said = running.stop()
    assert "Traceback" not in said
    assert not re.search("error", said)
