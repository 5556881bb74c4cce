"""Who may ask the service what: tokens, hosts, origins, and what is logged about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from command import failure
from serving import Running

A = {"site": "news", "price": 0.5}
TOKENS = {"predict": "p" * 20, "learn": "l" * 20, "admin": "a" * 20}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("safety") / "log") as running:
        yield running


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "tokens.toml").write_text("".join(f'{k} = "{v}"\n' for k, v in TOKENS.items()))
    options = ("--tokens", tmp_path / "tokens.toml", "--host-name", "clicks.example")
    with Running(tmp_path / "log", *options) as running:
        yield running


def bearer(role: str) -> dict[str, str]:
    return {"authorization": f"Bearer {TOKENS[role]}"}


def test_each_token_is_for_its_own_endpoints(guarded: Running) -> None:
    predict, learn = {"features": A, "id": "a"}, {"id": "a", "label": 1}
    for path, body, good in (
        ("/v1/predict", predict, ("predict", "admin")),
        ("/v1/score", {"features": A}, ("predict", "admin")),
        ("/v1/explain", {"features": A}, ("predict", "admin")),
        ("/v1/learn", learn, ("learn", "admin")),
        ("/v1/snapshot", {}, ("admin",)),
    ):
        assert guarded.post(path, body).status_code == 401
        for role in TOKENS:
            status = guarded.post(path, body, headers=bearer(role)).status_code
            assert status == (200 if role in good else 401), (path, role)
    for path in ("/v1/model", "/v1/status", "/metrics"):
        assert guarded.client.get(path).status_code == 401
        assert guarded.client.get(path, headers=bearer("learn")).status_code == 200
    for path in ("/healthz", "/readyz", "/", "/openapi.json"):
        assert guarded.client.get(path).status_code == 200
    wrong = {"authorization": "Bearer nonsense"}
    assert guarded.post("/v1/predict", predict, headers=wrong).status_code == 401


def test_a_host_that_is_no_host_is_refused(server: Running) -> None:
    for host in ("[zzz", "[", "]", "a b", "127.0.0.1]", "[localhost"):
        found = server.client.get("/healthz", headers={"host": host})
        assert found.status_code == 421, host
    assert server.client.get("/healthz", headers={"host": "[::1]:80"}).status_code == 200


def test_a_host_must_be_a_name_of_the_service(guarded: Running) -> None:
    port = httpx.URL(guarded.url).port
    for host, status in (
        (f"localhost:{port}", 200),
        (f"127.0.0.1:{port}", 200),
        (f"[::1]:{port}", 200),
        ("clicks.example", 200),
        ("Clicks.Example:443", 200),
        ("evil.example", 421),
        (f"127.0.0.1.evil.example:{port}", 421),
        ("", 421),
    ):
        found = guarded.client.get("/healthz", headers={"host": host})
        assert found.status_code == status, host


def test_pages_of_other_sites_are_refused(server: Running) -> None:
    own = server.url
    for origin, status in ((own, 200), ("https://evil.example", 403), ("null", 403)):
        asked = server.post("/v1/score", {"features": A}, headers={"origin": origin})
        assert asked.status_code == status, origin
        assert server.client.get("/healthz", headers={"origin": origin}).status_code == status


def test_it_does_not_listen_to_others_without_a_token(tmp_path: Path) -> None:
    said = failure(2, "serve", tmp_path / "log", "--host", "0.0.0.0", "--port", 0)
    assert "give it --tokens FILE" in said
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no tokens"),
        ('root = "0123456789abcdef"', "'root' is no role"),
        ('admin = "short"', "must have 16"),
        ("admin", "not TOML"),
    ],
)
def test_bad_files_of_tokens_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "tokens").write_text(text)
    said = failure(3, "serve", tmp_path / "log", "--tokens", tmp_path / "tokens")
    assert message in said


def test_the_access_log_has_no_payloads(tmp_path: Path) -> None:
    with Running(tmp_path / "log", "--access-log") as running:
        running.ok("/v1/predict", {"id": "secret-id", "features": {"name": "secret-name"}})
        running.client.delete("/v1/rows/secret-id?why=secret-query")
        running.client.get("/secret-path")
        said = running.stop()
    assert "POST /v1/predict 200" in said
    assert "DELETE /v1/rows/{id} 200" in said
    assert "secret" not in said
