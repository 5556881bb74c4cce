"""Starting again after a kill, and what ids take that wait for labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.service import rows as texts
from benchmarks.service.load import batched
from benchmarks.service.process import Served
from pqrlearn.serve.service import Service
from pqrlearn.serve.settings import Settings

GROUP = 1000
FEW = 20_000


def recovery(folder: Path, model: bytes | None, records: int) -> dict[str, Any]:
    """With so many records after the last snapshot, half of them labels; and right after one."""
    begin = Service(folder, Settings(snapshot_records=10 * records), model=model)
    given = texts.rows(10_000, seed=3)
    for first in range(0, records // 2, GROUP):
        numbers = range(first, min(first + GROUP, records // 2))
        for number in numbers:
            begin.predict(given[number % len(given)], texts.name_of(number))
        begin.commit()
        for number in numbers:
            begin.learn(texts.name_of(number), texts.label(number))
        begin.commit()
    begin.close()
    with Served(folder) as served:
        found = {"records": served.get("/v1/status")["log"]["replayed_records"]}
        found["replay_seconds"] = served.ready_seconds
        served.post("/v1/snapshot")
    with Served(folder) as served:
        found["snapshot_seconds"] = served.ready_seconds
    return found


def memory(folder: Path, model: Path, ids: int) -> dict[str, Any]:
    """Bytes of memory that each waiting id takes, beside its row on disk."""
    given = [
        {"id": texts.name_of(number), "features": {"site": "news"}} for number in range(ids + FEW)
    ]
    with Served(folder, "-m", model, "--snapshot-records", 10 * ids) as served:
        batched(served, "/v1/predict:batch", texts.batches(given[:FEW], GROUP), GROUP)
        before = served.resident_bytes()
        batched(served, "/v1/predict:batch", texts.batches(given[FEW:], GROUP), GROUP)
        after = served.resident_bytes()
        waiting = served.get("/v1/status")["ids"]["waiting"]
    return {"ids": waiting, "bytes_per_id": (after - before) / (waiting - FEW)}
