"""The service starts, stops and goes on: the real command, asked by a real client."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import httpx
import pytest

import pqrlearn
from command import SECONDS, failure
from pqrlearn import LR, Column, Schema
from serving import Running, label, lr_file, replay, row

A = {"site": "news", "price": 0.5}


def test_sigterm_leaves_a_snapshot_and_exits_with_0(tmp_path: Path) -> None:
    folder, random = tmp_path / "log", Random(1)
    with Running(folder) as running:
        for n in range(50):
            features = row(random)
            running.ok("/v1/predict", {"id": str(n), "features": features})
            running.ok("/v1/learn", {"id": str(n), "label": label(features, random)})
        assert running.get("/v1/model")["rows"] == 50
        running.stop()
    (saved,) = (folder / "snapshots").iterdir()
    assert pqrlearn.load(saved / "model.pqr").to_bytes() == replay(folder)
    with Running(folder) as running:
        found = running.get("/v1/status")
        assert found["log"]["replayed_records"] <= 1  # that it was the end
        assert found["model"]["rows"] == 50


def test_after_kill_everything_acknowledged_is_there(tmp_path: Path) -> None:
    folder, random = tmp_path / "log", Random(2)
    with Running(folder, "--keep-log") as running:
        for n in range(50):
            features = row(random)
            running.ok("/v1/predict", {"id": str(n), "features": features})
            if n % 2:
                running.ok("/v1/learn", {"id": str(n), "label": label(features, random)})
        running.kill()
    with Running(folder, "--keep-log") as running:
        found = running.get("/v1/status")
        assert (found["model"]["rows"], found["ids"]["waiting"]) == (25, 25)
        running.ok("/v1/snapshot", {})
        for n in range(0, 50, 2):
            assert running.ok("/v1/learn", {"id": str(n), "label": 1.0})["learned"]
        running.stop()
    saved = sorted((folder / "snapshots").iterdir())[-1]
    assert pqrlearn.load(saved / "model.pqr").to_bytes() == replay(folder)


def test_a_model_is_swapped_while_it_serves(tmp_path: Path) -> None:
    other = LR(alpha=0.5)
    other.learn_many([A] * 20, [1] * 20)
    with Running(tmp_path / "log") as running:
        running.ok("/v1/predict", {"id": "a", "features": A})
        asked = running.client.post("/v1/model", content=other.to_bytes())
        assert asked.json()["swapped"]
        assert not running.client.post("/v1/model", content=other.to_bytes()).json()["swapped"]
        assert running.ok("/v1/score", {"features": A})["margin"] == other.margin_one(A)
        assert running.get("/v1/model")["kind"] == "lr"
        assert running.ok("/v1/learn", {"id": "a", "label": 1})["learned"]
        assert running.client.post("/v1/model", content=b"nonsense").status_code == 422
        running.kill()
    with Running(tmp_path / "log") as running:
        assert running.get("/v1/model")["rows"] == 21


def test_an_id_is_erased(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    with Running(folder) as running:
        running.ok("/v1/predict", {"id": "alice", "features": {"site": "very-secret"}})
        running.ok("/v1/predict", {"id": "bob", "features": A})
        assert running.client.delete("/v1/rows/alice").json() == {"erased": 2}
        assert running.client.delete("/v1/rows/alice").status_code == 404
        assert running.post("/v1/learn", {"id": "alice", "label": 1}).status_code == 404
        assert running.ok("/v1/learn", {"id": "bob", "label": 1})["learned"]
        running.kill()
    assert b"very-secret" not in b"".join(path.read_bytes() for path in folder.glob("log/*"))
    with Running(folder) as running:
        assert running.get("/v1/model")["rows"] == 1


def test_windows_pass_while_nobody_asks(tmp_path: Path) -> None:
    with Running(tmp_path / "log", "--label-window", "0.2s") as running:
        running.ok("/v1/predict", {"id": "a", "features": A})
        while running.get("/v1/status")["figures"]["timeouts"] == 0:
            time.sleep(0.05)
        assert running.post("/v1/learn", {"id": "a", "label": 1}).status_code == 410
        assert running.get("/v1/model")["rows"] == 1


def test_a_schema_says_what_fields_are(tmp_path: Path) -> None:
    schema = Schema((Column("site", "category"), Column("hour", "number")))
    schema.write(tmp_path / "schema.toml")
    with Running(tmp_path / "log", "--schema", tmp_path / "schema.toml") as running:
        found = running.post("/v1/predict", {"features": {"color": "red"}})
        assert (found.status_code, found.json()["error"]) == (
            422,
            "field 'color' is not in the schema",
        )
        running.ok("/v1/learn", {"id": "a", "label": 1, "features": {"site": 7, "hour": "9"}})
        running.ok("/v1/predict", {"features": {"site": 7}})
        assert running.get("/v1/model")["features"] == 2


def test_a_model_has_its_own_schema(tmp_path: Path) -> None:
    Schema((Column("site", "category"),)).write(tmp_path / "schema.toml")
    given = ("--schema", tmp_path / "schema.toml", "-m", lr_file(tmp_path / "lr.pqr"))
    said = failure(2, "serve", tmp_path / "log", *given)
    assert said == "--schema is for a service without --model-file, which has its own"


def test_a_second_server_is_refused(tmp_path: Path) -> None:
    with Running(tmp_path / "log"):
        assert "in use by another" in failure(1, "serve", tmp_path / "log", "--port", 0)


def test_damage_is_exit_4_with_its_place(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    with Running(folder) as running:
        for _ in range(3):
            running.ok("/v1/predict", {"features": A})
        running.kill()
    (path,) = (folder / "log").iterdir()
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    assert "damaged at byte 64" in failure(4, "serve", folder, "--port", 0)


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pqr").touch()
    given = ("serve", tmp_path / "log", "--port", 0, "-m", tmp_path / "empty.pqr")
    assert f"{tmp_path}/empty.pqr: not a model of pqrlearn" in failure(4, *given)


def test_a_host_that_nobody_knows_is_an_error(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text('admin = "aaaaaaaaaaaaaaaaaaaa"\n')
    given = ("serve", tmp_path / "log", "--quiet", "--port", 0, "--host", "nowhere.invalid")
    assert "nowhere.invalid:0: cannot listen there: " in failure(1, *given, "--tokens", tokens)


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = failure(1, "serve", tmp_path / "log", "--quiet", "--port", port)
    assert said == f"127.0.0.1:{port}: cannot listen there: Address already in use"


# What is missing.


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("uvicorn", ("serve", "log")),
        ("google_crc32c", ("serve", "log")),
        ("google_crc32c", ("log", ".")),
        ("msgspec", ("serve", "log")),
    ],
)
def test_a_missing_extra_is_named(tmp_path: Path, module: str, arguments: tuple[str, ...]) -> None:
    script = (
        "import sys; sys.modules[sys.argv.pop(1)] = None; from pqrlearn.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, module, *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.endswith('need an extra: pip install "pqrlearn[serve]"\n'), done.stderr


def test_the_client_names_the_missing_extra() -> None:
    script = "import sys; sys.modules['httpx'] = None; from pqrlearn import Client"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert 'pip install "pqrlearn[serve]"' in done.stderr


def test_looking_inside_does_not_disturb_learning(tmp_path: Path) -> None:
    """Explanations, weights and sizes, while labels come in."""
    random, folder = Random(3), tmp_path / "log"
    with Running(folder, "--keep-log") as running:
        done = threading.Event()

        def look() -> None:
            with httpx.Client(base_url=running.url, timeout=SECONDS) as client:
                while not done.is_set():
                    assert client.post("/v1/explain", json={"features": A}).status_code == 200
                    assert client.get("/v1/weights").status_code == 200
                    assert client.get("/v1/model").status_code == 200

        with ThreadPoolExecutor(2) as threads:
            looking = [threads.submit(look) for _ in range(2)]
            for n in range(200):
                features = row(random)
                asked = {"id": str(n), "label": label(features, random), "features": features}
                running.ok("/v1/learn", asked)
            done.set()
            for one in looking:
                one.result()
        running.stop()
    (saved,) = (folder / "snapshots").iterdir()
    model = pqrlearn.load(saved / "model.pqr")
    assert model.rows == 200
    assert model.to_bytes() == replay(folder)
