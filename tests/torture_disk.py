"""A disk that is full: nothing is acknowledged that is not on it, and room is all that it takes."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path
from random import Random

import pqrlearn
from serving import Features, Running, label, replay, row

OPTIONS = ("--keep-log", "--snapshot-records", 500, "--segment-bytes", 50_000)
Rows = dict[str, tuple[Features, float]]
"""What was acknowledged: features and margin of each id."""


def full_disk(folder: Path, seed: int) -> Counter[str]:
    if os.geteuid() != 0:
        return Counter({"skipped: needs root to mount a small disk": 1})
    disk, random = folder / "disk", Random(seed)
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    try:
        rows = _fill(disk / "log", random)
        _serve_full(disk / "log", rows)
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        labels = _go_on(disk / "log", rows, random)
    finally:
        subprocess.run(["umount", disk], check=True)
    return Counter({"rows acknowledged": len(rows), "labels": labels, "full disks": 1})


def _fill(log: Path, random: Random) -> Rows:
    rows: Rows = {}
    with Running(log, *OPTIONS) as running:
        for number in range(100_000):
            features = row(random) | {"text": "x" * random.randrange(2000)}
            found = running.post("/v1/predict", {"id": f"row-{number}", "features": features})
            if found.status_code == 503:
                break
            assert found.status_code == 200, found.text
            rows[f"row-{number}"] = (features, found.json()["margin"])
        assert "cannot be written" in found.json()["error"], found.text
        assert running.client.get("/readyz").status_code == 503
        assert running.client.get("/healthz").status_code == 200
        assert running.post("/v1/score", {"features": row(random)}).status_code == 200
        again = running.post("/v1/learn", {"id": "row-0", "label": 1})
        assert again.status_code == 503, "acknowledged after the log had failed"
        running.kill()
    return rows


def _serve_full(log: Path, rows: Rows) -> None:
    """Started again, it either says in a sentence what is wrong, or knows all rows."""
    running = Running(log, *OPTIONS)
    try:
        if not running.url:
            said = running.stderr()
            assert "No space left" in said, said
            assert "Traceback" not in said, said
        else:
            _check(running, rows)
            running.kill()
    finally:
        running.__exit__()


def _check(running: Running, rows: Rows) -> None:
    asked = [{"id": id, "features": features} for id, (features, _) in rows.items()]
    found = running.ok("/v1/predict:batch", {"rows": asked})["rows"]
    assert [one["margin"] for one in found] == [margin for _, margin in rows.values()]


def _go_on(log: Path, rows: Rows, random: Random) -> int:
    with Running(log, *OPTIONS) as running:
        _check(running, rows)
        asked = [{"id": id, "label": label(one, random)} for id, (one, _) in rows.items()]
        found = running.ok("/v1/learn:batch", {"rows": asked})["rows"]
        assert found == [{"learned": True}] * len(rows)
        running.stop()
    last = sorted((log / "snapshots").iterdir())[-1]
    model = pqrlearn.load(last / "model.pqr")
    assert model.rows == len(rows)
    assert model.to_bytes() == replay(log)
    return len(rows)
