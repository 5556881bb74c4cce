"""Kills while rows time out: each row has one outcome, the one that the client was told."""

from __future__ import annotations

import struct
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random

import httpx

import pqrlearn
from command import SECONDS
from serve_kills import OPTIONS
from serving import Running, label, records, replay, row

LABEL, TIMEOUT = 2, 4
WINDOW = 0.3


class Client(threading.Thread):
    """Sends labels that may come too late, until the service is gone."""

    def __init__(self, url: str, seed: float, told: dict[str, int]) -> None:
        super().__init__(daemon=True)
        self._url, self._random, self._told = url, Random(seed), told
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with httpx.Client(base_url=self._url, timeout=SECONDS) as client:
                while True:
                    self._ask(client)
        except httpx.TransportError:
            pass
        except BaseException as error:
            self.failure = error

    def _ask(self, client: httpx.Client) -> None:
        rows = {f"{self._random.getrandbits(64):x}": row(self._random) for _ in range(10)}
        asked = [{"id": id, "features": features} for id, features in rows.items()]
        found = client.post("/v1/predict:batch", json={"rows": asked})
        assert found.status_code == 200, found.text
        time.sleep(self._random.uniform(0, 2 * WINDOW))
        for id, features in rows.items():
            y = label(features, self._random)
            found = client.post("/v1/learn", json={"id": id, "label": y})
            assert found.status_code in (200, 410), found.text
            if found.status_code == 200 and found.json()["learned"]:
                self._told[id] = LABEL
            else:
                self._told[id] = TIMEOUT  # too late, or the same as the negative


def windows(folder: Path, seed: int, kills: int) -> Counter[str]:
    random, told = Random(seed), dict[str, int]()
    log = folder / "log"
    options = (*OPTIONS, "--label-window", f"{WINDOW}s")
    for _ in range(kills):
        with Running(log, *options) as running:
            clients = [Client(running.url, random.random(), told) for _ in range(4)]
            for client in clients:
                client.start()
            time.sleep(random.uniform(0.5, 3))
            running.kill()
            for client in clients:
                client.join(SECONDS)
                assert client.failure is None, client.failure
    with Running(log, *options) as running:
        deadline = time.monotonic() + SECONDS
        while running.get("/v1/status")["ids"]["waiting"]:
            assert time.monotonic() < deadline, "rows wait for ever"
            time.sleep(0.05)
        running.stop()
    return _check(log, told, kills)


def _check(log: Path, told: dict[str, int], kills: int) -> Counter[str]:
    outcomes: dict[str, list[int]] = {}
    for _, kind, payload in records(log):
        if kind in (LABEL, TIMEOUT):
            size = struct.unpack_from("<QddH", payload)[3]
            outcomes.setdefault(payload[26 : 26 + size].decode(), []).append(kind)
    assert all(len(kinds) == 1 for kinds in outcomes.values()), "a row was learned twice"
    assert all(outcomes[id] == [kind] for id, kind in told.items()), "not what a client was told"
    last = sorted((log / "snapshots").iterdir())[-1]
    model = pqrlearn.load(last / "model.pqr")
    assert model.rows == len(outcomes)
    assert model.to_bytes() == replay(log)
    kinds = Counter(kind for (kind,) in outcomes.values())
    return Counter(kills=kills, labels=kinds[LABEL], timeouts=kinds[TIMEOUT])
