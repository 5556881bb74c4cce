"""What docs/serving.md says is run: curl, Python, nginx."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from command import PQR, SECONDS
from pqrlearn.logfile import Kind
from programs import needs_program
from serving import Running

PAGE = (Path(__file__).parent.parent / "docs" / "serving.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path / "clicks", "--host-name", "clicks.example") as running:
        yield running


def test_the_examples_of_curl_run(running: Running, tmp_path: Path) -> None:
    needs_program("curl", package="curl")
    script = "".join(block for block in blocks("sh") if "curl" in block)
    script = script.replace("localhost:8080", running.url.removeprefix("http://"))
    script = script.replace("curl -s", "curl -sf").replace("}'\n", "}'; echo\n")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert answers[0] == '{"id":"ad-17","prediction":0.5,"margin":0.0}'
    assert answers[1] == '{"learned":true}'
    assert len(answers) == script.count("curl")
    running.stop()
    commands = blocks("sh")[-1]
    environment = os.environ | {"PATH": f"{Path(PQR).parent}:{os.environ['PATH']}"}
    script = ["bash", "-euo", "pipefail", "-c", commands]
    done = subprocess.run(
        script, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again.pqr").exists()


def test_the_example_in_python_runs(running: Running) -> None:
    (snippet,) = blocks("python")
    exec(snippet.replace("http://localhost:8080", running.url), {})
    assert running.get("/v1/model")["rows"] == 3


def test_every_endpoint_is_on_the_page(running: Running) -> None:
    for path in running.get("/openapi.json")["paths"]:
        assert path.replace("{id}", "ID") in PAGE, path


def test_every_kind_of_record_is_on_the_page() -> None:
    rows = re.findall(r"^\| (\d) \|", PAGE, re.MULTILINE)
    assert [int(number) for number in rows] == [kind.value for kind in Kind]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def certificate(folder: Path) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=clicks.example", "-addext", "subjectAltName=DNS:clicks.example"]
    files = ["-keyout", str(folder / "clicks.key"), "-out", str(folder / "clicks.pem")]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)


@pytest.fixture
def proxy(running: Running, tmp_path: Path) -> Iterator[int]:
    """nginx as on the page, with other ports and files."""
    needs_program("nginx", package="nginx")
    needs_program("openssl", package="openssl")
    certificate(tmp_path)
    port = free_port()
    (server,) = blocks("nginx")
    server = server.replace("listen 443", f"listen 127.0.0.1:{port}")
    server = server.replace("http://127.0.0.1:8080", running.url)
    server = server.replace("/etc/ssl/", f"{tmp_path}/")
    rooms = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{room}_temp_path {tmp_path}/{room};\n" for room in rooms)
    text = f"pid {tmp_path}/pid;\nerror_log {tmp_path}/error.log;\nevents {{}}\n"
    text += f"http {{\naccess_log off;\n{paths}{server}}}\n"
    (tmp_path / "nginx.conf").write_text(text)
    command = ["nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
    with subprocess.Popen([*command, "-g", "daemon off;"], stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(port)
            yield port
        finally:
            process.terminate()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        else:
            return


def test_the_example_of_nginx_runs(proxy: int, tmp_path: Path) -> None:
    trusted = ssl.create_default_context(cafile=str(tmp_path / "clicks.pem"))
    headers = {"host": "clicks.example"}
    more = {"sni_hostname": "clicks.example"}
    with httpx.Client(verify=trusted, headers=headers, timeout=SECONDS) as client:
        url = f"https://127.0.0.1:{proxy}"
        asked = {"id": "a", "features": {"site": "news"}}
        found = client.post(f"{url}/v1/predict", json=asked, extensions=more)
        assert found.json()["prediction"] == 0.5
        found = client.post(f"{url}/v1/learn", json={"id": "a", "label": 1}, extensions=more)
        assert found.json() == {"learned": True}
        assert client.get(f"{url}/", extensions=more).status_code == 200
