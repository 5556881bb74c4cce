"""A disk that is full: nothing more is acknowledged, and nothing that was is lost."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from command import PQR, SECONDS
from serving import children

MOUNT = """
mount -t tmpfs -o size=300k tmpfs "$DISK"
"$PQR" serve "$DISK/log" --quiet --port 0 || test $? = 1
cp -r "$DISK/log" "$KEPT"
"""


def environment(tmp_path: Path) -> dict[str, str]:
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir(exist_ok=True)
    return os.environ | {"DISK": str(disk), "KEPT": str(kept), "PQR": PQR}


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    tried = 'mount -t tmpfs -o size=64k tmpfs "$DISK"'
    command = ["unshare", "--mount", "sh", "-ec"]
    given = environment(tmp_path)
    done = subprocess.run([*command, tried], env=given, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("no file system can be mounted here: unshare and mount need to be root")
    return command


def test_a_full_disk_ends_acknowledging_and_loses_nothing(
    command: list[str], tmp_path: Path
) -> None:
    given, pipe = environment(tmp_path), subprocess.PIPE
    script = [*command, MOUNT]
    with subprocess.Popen(script, env=given, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        acknowledged, features = [], {"text": "x" * 5000}
        with httpx.Client(base_url=url, timeout=SECONDS) as client:
            for n in range(200):
                found = client.post("/v1/predict", json={"id": str(n), "features": features})
                if found.status_code != 200:
                    break
                acknowledged.append(found.json())
            assert found.status_code == 503
            assert "No space left on device" in found.json()["error"]
            assert found.headers["retry-after"] == "1"
            again = client.post("/v1/learn", json={"id": "0", "label": 1})
            assert again.status_code == 503  # for good, though this record is small
            assert client.get("/readyz").status_code == 503
            assert client.post("/v1/score", json={"features": {}}).status_code == 200
            assert "No space left" in client.get("/v1/status").json()["log"]["failed"]
        for child in children(process.pid):
            os.kill(child, signal.SIGTERM)
        said = process.communicate(timeout=SECONDS)[1]
        assert said.count("\n") == 1
        assert "the log cannot be written (No space left on device)" in said
    assert len(acknowledged) > 10
    kept = tmp_path / "kept"
    with subprocess.Popen(
        [PQR, "serve", str(kept), "--quiet", "--port", "0"], stdout=pipe, text=True
    ) as process:
        assert process.stdout is not None
        with httpx.Client(base_url=process.stdout.readline().strip(), timeout=SECONDS) as client:
            for answer in acknowledged:
                asked = {"id": answer["id"], "features": features}
                assert client.post("/v1/predict", json=asked).json() == answer
        process.terminate()
