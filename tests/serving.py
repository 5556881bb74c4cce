"""Services for tests: small folders, rows to learn from, and a replay that shares no code.

The replay knows the format of the log from docs/serving.md alone.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from random import Random
from typing import Any

from google_crc32c import value as crc32c

import pqrlearn
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


def records(folder: Path) -> list[tuple[int, int, bytes]]:
    """Position, kind and payload of all records, checked."""
    found, sequence = [], 0
    for path in sorted((folder / "log").iterdir()):
        data = path.read_bytes()
        base, at = int(path.stem), HEAD_BYTES
        while at < len(data):
            length, checksum, kind, number, _ = RECORD.unpack_from(data, at)
            end = at + RECORD.size + length
            assert crc32c(data[at : at + 4] + data[at + 8 : end]) == checksum
            assert not sequence or number == sequence + 1
            sequence = number
            found.append((base + at - HEAD_BYTES, kind & 127, data[at + RECORD.size : end]))
            at = end
    return found


def replay(folder: Path) -> bytes:
    """The model that a whole log makes, from its first record on."""
    rows: dict[int, bytes] = {}
    model: Any = None
    for position, kind, payload in records(folder):
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
