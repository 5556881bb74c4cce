"""A service under load that is killed and started again, and clients that remember its answers."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx

import pqrlearn
from command import SECONDS
from serving import Features, Running, label, outcome_ids, replay, row

OPTIONS = ("--keep-log", "--snapshot-records", 150, "--segment-bytes", 20_000)
"""Snapshots and new segments come often, so that kills meet them."""


@dataclass
class Memory:
    """What a client was answered, and what it has asked without an answer."""

    rows: dict[str, tuple[Features, dict[str, Any]]] = field(default_factory=dict)
    labels: dict[str, float] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)
    """Labels that were sent; those without an answer may be learned or not."""


class Client(threading.Thread):
    """Predicts and labels, one row or several at a time, until the service is gone."""

    def __init__(self, url: str, memory: Memory, seed: object) -> None:
        super().__init__(daemon=True)
        self._url, self._memory, self._random = url, memory, Random(repr(seed))
        self._prefix = f"{self._random.getrandbits(64):x}"
        self._count = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with httpx.Client(base_url=self._url, timeout=SECONDS) as client:
                while True:
                    self._predict(client)
                    self._label(client)
        except httpx.TransportError:
            pass
        except BaseException as error:
            self.failure = error

    def _predict(self, client: httpx.Client) -> None:
        rows = {}
        for _ in range(self._random.choice([1, 1, 1, 20])):
            self._count += 1
            rows[f"{self._prefix}-{self._count}"] = row(self._random)
        asked = [{"id": id, "features": features} for id, features in rows.items()]
        found = client.post("/v1/predict:batch", json={"rows": asked})
        assert found.status_code == 200, found.text
        for answer in found.json()["rows"]:
            self._memory.rows[answer["id"]] = (rows[answer["id"]], answer)

    def _label(self, client: httpx.Client) -> None:
        memory = self._memory
        open_ids = [id for id in memory.rows if id not in memory.asked]
        for id in self._random.sample(open_ids, min(len(open_ids), self._random.randrange(15))):
            y = memory.asked[id] = label(memory.rows[id][0], self._random)
            found = client.post("/v1/learn", json={"id": id, "label": y})
            assert found.json() == {"learned": True}, found.text
            memory.labels[id] = y


class Killed:
    """A service that is killed at random moments."""

    def __init__(self, folder: Path, seed: int, clients: int = 3, options: Any = OPTIONS) -> None:
        self.folder, self.random, self.options = folder, Random(seed), options
        self.memories = [Memory() for _ in range(clients)]
        self.kills = 0

    def kill(self, *, gently: bool = False) -> None:
        """Serves under load for a moment, and is killed; or gently told to stop."""
        with self.begin() as running:
            self.check(running)
            seeds = [self.random.random() for _ in self.memories]
            clients = [
                Client(running.url, memory, seed)
                for memory, seed in zip(self.memories, seeds, strict=True)
            ]
            for client in clients:
                client.start()
            self._wait_for_answers()
            self.disturb(running)
            if gently:
                running.stop()
            else:
                running.kill()
            for client in clients:
                client.join(SECONDS)
                assert client.failure is None, client.failure
        self.kills += 1

    def begin(self) -> Running:
        return Running(self.folder, *self.options)

    def disturb(self, running: Running) -> None:
        """What happens before the kill."""
        time.sleep(self.random.uniform(0, 0.5))

    def settle(self, running: Running) -> None:
        """What holds when all clients are gone."""

    def _wait_for_answers(self) -> None:
        before, deadline = self._answers(), time.monotonic() + SECONDS
        while self._answers() == before:
            assert time.monotonic() < deadline, "no client was answered"
            time.sleep(0.001)

    def _answers(self) -> int:
        return sum(len(memory.rows) for memory in self.memories)

    def check(self, running: Running) -> None:
        """Everything that was acknowledged is there."""
        for memory in self.memories:
            for id in self._some(memory.rows):
                features, answer = memory.rows[id]
                assert running.ok("/v1/predict", {"id": id, "features": features}) == answer
            for id in self._some(memory.labels):
                asked = {"id": id, "label": memory.labels[id]}
                assert running.ok("/v1/learn", asked) == {"learned": False}
            for id, y in memory.asked.items():
                if id not in memory.labels:  # it was killed before it had answered
                    running.ok("/v1/learn", {"id": id, "label": y})
                    memory.labels[id] = y

    def _some(self, known: dict[str, Any]) -> list[str]:
        return self.random.sample(list(known), min(len(known), 30))

    def finish(self) -> int:
        """All labels were learned once, by a model that equals a replay; how many there were."""
        with self.begin() as running:
            self.check(running)
            self.settle(running)
            running.stop()
        labels = {id: y for memory in self.memories for id, y in memory.labels.items()}
        learned = Counter(outcome_ids(self.folder))
        assert set(learned) == set(labels)
        assert set(learned.values()) <= {1}, "a label was learned twice"
        last = sorted((self.folder / "snapshots").iterdir())[-1]
        model = pqrlearn.load(last / "model.pqr")
        assert model.rows == len(labels)
        assert model.to_bytes() == replay(self.folder)
        return len(labels)
