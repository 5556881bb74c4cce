"""Rows and labels for a long time: memory and disk stay what they are after the first fifth."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from random import Random
from statistics import median

from serving import Running, label, row

BATCH = 200
OPTIONS = (
    *("--snapshot-records", 5_000, "--segment-bytes", 100_000),
    *("--max-finished", 2_000, "--max-waiting", 500),
)
ROOM, ROOM_MB = 1.1, 1.0
"""What is not growth: snapshots and segments come and go."""


def soak(folder: Path, seed: int, seconds: float) -> Counter[str]:
    random, log, rows = Random(seed), folder / "log", 0
    memory: list[float] = []
    disk: list[float] = []
    with Running(log, *OPTIONS) as running:
        begin = time.monotonic()
        while (passed := time.monotonic() - begin) < seconds:
            rows += _batch(running, random)
            if passed >= len(memory):
                memory.append(_resident(running.process.pid))
                disk.append(_size(log))
        status = running.get("/v1/status")
        assert status["log"]["failed"] is None, status
        running.stop()
    _check_flat("MB of memory", memory)
    _check_flat("MB on disk", disk)
    found = {"rows": rows, "seconds": round(seconds), "MB at the end": round(memory[-1])}
    return Counter(found)


def _batch(running: Running, random: Random) -> int:
    """A row in twenty never gets a label, and expires."""
    asked = [{"features": row(random)} for _ in range(BATCH)]
    found = running.ok("/v1/predict:batch", {"rows": asked})["rows"]
    labels = [
        {"id": answer["id"], "label": label(one["features"], random)}
        for answer, one in zip(found, asked, strict=True)
        if random.random() < 0.95
    ]
    answers = running.ok("/v1/learn:batch", {"rows": labels})["rows"]
    assert answers == [{"learned": True}] * len(labels)
    return BATCH


def _check_flat(what: str, readings: list[float]) -> None:
    fifth = max(1, len(readings) // 5)
    before, after = median(readings[fifth : 2 * fifth] or readings), median(readings[-fifth:])
    most = max(ROOM * before, before + ROOM_MB)
    assert after <= most, f"{what} grew from {before:.1f} to {after:.1f}: {readings}"


def _resident(process: int) -> float:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


def _size(folder: Path) -> float:
    found = 0
    for path, _, names in os.walk(folder):  # which passes over folders that are gone
        for name in names:
            try:
                found += Path(path, name).stat().st_size
            except FileNotFoundError:
                continue  # a snapshot that was replaced meanwhile
    return found / 1e6
