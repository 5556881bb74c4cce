"""Readers: processes that follow the log, with the same bits a moment later."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from command import SECONDS
from pqrlearn.serve.follow import Follower
from pqrlearn.serve.keeper import Keeper
from pqrlearn.serve.positions import Positions
from pqrlearn.serve.service import Service
from serving import Running, busy, children, label, row, start_lr


def caught_up(follower: Follower) -> bytes:
    while follower.follow() or follower.lag()["lag_bytes"]:
        pass
    return follower.replica.model.to_bytes()


def synced(service: Service, positions: Positions) -> None:
    positions.put(0, service.log.synced)


@pytest.mark.parametrize("segment_bytes", [3_000, 1_000_000])
def test_a_follower_has_the_bits_of_the_service(tmp_path: Path, segment_bytes: int) -> None:
    service, random = start_lr(tmp_path / "log", segment_bytes=segment_bytes), Random(1)
    positions = Positions(service.folder, new=True)
    follower = Follower(service.folder)
    for _ in range(5):
        busy(service, random, 60)
        synced(service, positions)
        assert caught_up(follower) == service.model.to_bytes()
    assert follower.lag()["lag_bytes"] == 0


def test_a_follower_reads_only_what_is_synced(tmp_path: Path) -> None:
    service, random = start_lr(tmp_path / "log"), Random(2)
    positions = Positions(service.folder, new=True)
    busy(service, random, 50)
    synced(service, positions)
    before = service.model.to_bytes()
    follower = Follower(service.folder)
    busy(service, random, 50)  # written, but nobody has said that it is synced
    assert caught_up(follower) == before


def test_a_follower_that_is_far_behind_begins_with_a_snapshot(tmp_path: Path) -> None:
    service, random = start_lr(tmp_path / "log", segment_bytes=2_000), Random(3)
    positions = Positions(service.folder, new=True)
    follower = Follower(service.folder)
    keeper = Keeper(service)
    for _ in range(4):
        for id in busy(service, random, 60):
            service.learn(id, 1.0)
        service.commit()
        service.oldest = service.log.synced  # nobody waits
        keeper.take()
        keeper.remove_needless()
    assert service.log.first > 0
    busy(service, random, 20)
    synced(service, positions)
    assert caught_up(follower) == service.model.to_bytes()


def test_a_follower_does_not_miss_what_was_erased(tmp_path: Path) -> None:
    service, random = start_lr(tmp_path / "log", keep_log=True), Random(4)
    positions = Positions(service.folder, new=True)
    follower = Follower(service.folder)
    service.learn("alice", 1.0, features={"site": "secret"})
    busy(service, random, 20)
    keeper = Keeper(service)
    keeper.forget("alice")
    keeper.take()
    keeper.erase("alice")
    service.log.close_files()
    busy(service, random, 20)
    synced(service, positions)
    assert caught_up(follower) == service.model.to_bytes()


# Processes.


def wait_for(ask: Any, wanted: Any) -> None:
    deadline = time.monotonic() + SECONDS
    while (found := ask()) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def reader_url(running: Running) -> str:
    assert running.process.stdout is not None
    return running.process.stdout.readline().strip()


def test_readers_converge_and_say_how_far_they_are_behind(tmp_path: Path) -> None:
    random = Random(5)
    options = ("--readers", 2, "--reader-port", 0)
    with Running(tmp_path / "log", *options) as running:
        reader = httpx.Client(base_url=reader_url(running), timeout=SECONDS)
        for n in range(100):
            features = row(random)
            running.ok("/v1/predict", {"id": str(n), "features": features})
            running.ok("/v1/learn", {"id": str(n), "label": label(features, random)})
        asked = {"features": {"site": "news", "hour": "9"}}
        expected = running.ok("/v1/score", asked)
        for _ in range(4):  # either of the two
            wait_for(lambda: reader.post("/v1/score", json=asked).json(), expected)
        assert reader.post("/v1/explain", json=asked).json()["margin"] == expected["margin"]
        assert reader.post("/v1/predict", json=asked).status_code == 404
        assert reader.get("/readyz").text == "ready\n"
        assert reader.get("/v1/model").json()["rows"] == 100
        wait_for(lambda: len(running.get("/v1/status")["readers"]), 2)
        wait_for(lambda: [one["lag_bytes"] for one in running.get("/v1/status")["readers"]], [0, 0])
        assert reader.get("/v1/status").json()["lag_bytes"] == 0
        reader.close()
        running.stop()


def test_no_reader_outlives_a_service_that_is_killed_at_once(tmp_path: Path) -> None:
    """While the readers are still being started."""
    for _ in range(3):
        with Running(tmp_path / "log", "--readers", 2, "--reader-port", 0) as running:
            readers = children(running.process.pid)
            running.kill()
            for reader in readers:
                wait_for(lambda reader=reader: Path(f"/proc/{reader}").exists(), False)


def test_a_reader_that_dies_is_started_again_and_none_outlives_the_service(tmp_path: Path) -> None:
    with Running(tmp_path / "log", "--readers", 1, "--reader-port", 0) as running:
        url = reader_url(running)
        wait_for(lambda: len(children(running.process.pid)), 1)
        (first,) = children(running.process.pid)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: [n for n in children(running.process.pid) if n != first] != [], True)
        (second,) = [n for n in children(running.process.pid) if n != first]
        assert httpx.get(f"{url}/healthz", timeout=SECONDS).text == "ok\n"
        running.kill()
        wait_for(lambda: Path(f"/proc/{second}").exists(), False)


def test_a_reader_ends_whose_service_was_gone_before_it_was_there(tmp_path: Path) -> None:
    service = start_lr(tmp_path / "log")
    Positions(service.folder, new=True)
    gone = subprocess.Popen(["true"])
    gone.wait()
    limits = {"max_features": 10, "max_pairs": 10, "max_rows": 10, "max_body": 1000}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        told = {"folder": str(service.folder), "number": 1, "file": listener.fileno()}
        told |= {"parent": gone.pid, "tokens": {}, "names": [], "limits": limits}
        command = [sys.executable, "-m", "pqrlearn.serve.follow"]
        reader = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
        try:
            reader.communicate(json.dumps(told).encode(), timeout=SECONDS)
        finally:
            reader.kill()
    assert reader.returncode == 0
