"""Figures for Prometheus, in its text format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pqrlearn.serve.http import Front
from pqrlearn.serve.status import Status

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(status: Status, front: Front) -> str:
    return "".join(f"{line}\n" for line in _lines(status, front))


def _lines(status: Status, front: Front) -> Iterator[str]:
    found = status.summary()
    figures, log, ids = found["figures"], found["log"], found["ids"]
    yield from _one("rows_total", "counter", "Rows predicted.", figures["rows"])
    yield from _one("labels_total", "counter", "Labels learned.", figures["labels"])
    yield from _one("timeouts_total", "counter", "Rows learned as negatives.", figures["timeouts"])
    yield from _one("expired_total", "counter", "Rows that were forgotten.", figures["expired"])
    yield from _one(
        "refused_total", "counter", "Rows refused at learning.", found["model"]["refused"]
    )
    yield from _one("loss", "gauge", "Progressive loss of what was served.", figures["model"])
    yield from _one("constant_loss", "gauge", "Loss of the best constant.", figures["constant"])
    yield from _one("reference_loss", "gauge", "Loss of an LR beside it.", figures["reference"])
    yield from _one("mean_prediction", "gauge", "Of labelled rows.", figures["mean_prediction"])
    yield from _one("mean_label", "gauge", "Of labelled rows.", figures["mean_label"])
    yield from _one("waiting_ids", "gauge", "Rows that wait for a label.", ids["waiting"])
    yield from _one("oldest_seconds", "gauge", "Age of the oldest of them.", ids["oldest_seconds"])
    yield from _one("log_position", "counter", "Bytes of the log so far.", log["position"])
    yield from _one("log_records_total", "counter", "Records so far.", log["sequence"])
    yield from _one("log_bytes", "gauge", "Bytes of the log on disk.", log["bytes"])
    yield from _one("log_pending", "gauge", "Records not on disk yet.", log["pending"])
    yield from _one("log_failed", "gauge", "1 if the log failed.", int(log["failed"] is not None))
    yield from _one("disk_free_bytes", "gauge", "Free space.", found["disk"]["free_bytes"])
    since = found["snapshot"]["records_since"]
    yield from _one("snapshot_records_since", "gauge", "Records since the last snapshot.", since)
    yield from _one("ready", "gauge", "1 if the service takes requests.", int(found["ready"]))
    yield from _head("reader_lag_bytes", "gauge", "How far a reader is behind.")
    for reader in found["readers"]:
        yield f'pqr_reader_lag_bytes{{reader="{reader["reader"]}"}} {reader["lag_bytes"]}'
    yield from _head("requests_total", "counter", "Requests by endpoint and status.")
    for (path, code), count in sorted(front.answered.items()):
        yield f'pqr_requests_total{{path="{path}",status="{code}"}} {count}'


def _head(name: str, kind: str, help: str) -> Iterator[str]:
    yield f"# HELP pqr_{name} {help}"
    yield f"# TYPE pqr_{name} {kind}"


def _one(name: str, kind: str, help: str, value: Any) -> Iterator[str]:
    """Nothing, if the value is not known."""
    if value is not None:
        yield from _head(name, kind, help)
        yield f"pqr_{name} {value!r}"
