"""Services for tests: small folders, rows to learn from, and a replay that shares no code.

The replay knows the format of the log from docs/serving.md alone.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import httpx
from google_crc32c import value as crc32c

import pqrlearn
from command import PQR, SECONDS
from pqrlearn import LR
from pqrlearn.serve.service import Service
from pqrlearn.serve.settings import Settings

Features = dict[str, Any]
HEAD_BYTES, RECORD = 64, struct.Struct("<IIBQq")


def row(random: Random) -> Features:
    site = random.choice(["news", "shop", "mail"])
    return {"site": site, "hour": str(random.randrange(24)), "price": round(random.random(), 3)}


def label(features: Features, random: Random) -> float:
    chance = {"news": 0.7, "shop": 0.3, "mail": 0.1}[features["site"]]
    return float(random.random() < chance)


def start(folder: Path, *, model: bytes | None = None, **settings: Any) -> Service:
    return Service(folder, Settings(**settings), model=model)


def start_lr(folder: Path, **settings: Any) -> Service:
    new = not (folder / "pqr-log.json").exists()
    return start(folder, model=LR().to_bytes() if new else None, **settings)


def busy(service: Service, random: Random, rows: int, *, labelled: float = 0.7) -> list[str]:
    """Rows and labels in any order and in groups of any size; the ids that still wait."""
    waiting: dict[str, Features] = {}
    for _ in range(rows):
        features = row(random)
        waiting[service.predict(features).id] = features
        if waiting and random.random() < labelled:
            id = random.choice(list(waiting))
            assert service.learn(id, label(waiting.pop(id), random))
        if random.random() < 0.1:
            service.commit()
    service.commit()
    return list(waiting)


def records(folder: Path, *, torn: bool = False) -> list[tuple[int, int, bytes]]:
    """Position, kind and payload of all records, checked; up to one that is `torn`, if allowed."""
    found, sequence = [], 0
    for path in sorted((folder / "log").iterdir()):
        data = path.read_bytes()
        base, at = int(path.stem), HEAD_BYTES
        while at < len(data):
            if torn and at + RECORD.size > len(data):
                break
            length, checksum, kind, number, _ = RECORD.unpack_from(data, at)
            end = at + RECORD.size + length
            whole = crc32c(data[at : at + 4] + data[at + 8 : end]) == checksum
            if torn and not whole:
                break
            assert whole
            assert not sequence or number == sequence + 1
            sequence = number
            found.append((base + at - HEAD_BYTES, kind & 127, data[at + RECORD.size : end]))
            at = end
    return found


def replay(folder: Path, *, torn: bool = False) -> bytes:
    """The model that a whole log makes, from its first record on."""
    rows: dict[int, bytes] = {}
    model: Any = None
    for position, kind, payload in records(folder, torn=torn):
        if kind == 6:
            model = pqrlearn.load(folder / "models" / payload.decode())
        elif kind == 1:
            size = struct.unpack_from("<dH", payload)[1]
            rows[position] = payload[10 + size :]
        elif kind in (2, 4):
            at, y, weight, _ = struct.unpack_from("<QddH", payload)
            model.learn_one(json.loads(rows[at]), y, weight)
        elif kind == 3:
            _, y, weight, size = struct.unpack_from("<dddH", payload)
            model.learn_one(json.loads(payload[26 + size :]), y, weight)
    found: bytes = model.to_bytes()
    return found


# The real command.


class Running:
    """`pqr serve` in a process of its own, on a port that is free."""

    def __init__(
        self, folder: Path, *options: object, environment: dict[str, str] | None = None
    ) -> None:
        command = [PQR, "serve", str(folder), "--port", "0", "--quiet", *map(str, options)]
        self.folder = folder
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | (environment or {}),
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self.client = httpx.Client(base_url=self.url or "http://nowhere", timeout=SECONDS)

    def __enter__(self) -> Running:
        assert self.url, self.stderr()
        return self

    def __exit__(self, *error: object) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def stderr(self) -> str:
        return self.process.communicate(timeout=SECONDS)[1]

    def stop(self) -> str:
        """SIGTERM; what it has said."""
        self.process.terminate()
        said = self.stderr()
        assert self.process.returncode == 0, said
        return said

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def post(self, path: str, body: Any, **more: Any) -> httpx.Response:
        return self.client.post(path, json=body, **more)

    def ok(self, path: str, body: Any) -> Any:
        found = self.post(path, body)
        assert found.status_code == 200, found.text
        return found.json()

    def get(self, path: str) -> Any:
        found = self.client.get(path)
        assert found.status_code == 200, found.text
        return found.json()


def lr_file(path: Path) -> Path:
    LR().save(path)
    return path


def outcome_ids(folder: Path) -> list[str]:
    """The id of each label that was logged."""
    found = []
    for _, kind, payload in records(folder):
        if kind == 2:
            size = struct.unpack_from("<QddH", payload)[3]
            found.append(payload[26 : 26 + size].decode())
    return found


def children(process: int) -> list[int]:
    """The processes that a process has started, and that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found
