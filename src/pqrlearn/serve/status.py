"""How a service is doing: for the page, for GET /v1/model, and for Prometheus."""

from __future__ import annotations

import shutil
import time
from importlib.metadata import version
from statistics import median, quantiles
from typing import Any

from pqrlearn.learners import Auto, Learner
from pqrlearn.logfile import Record
from pqrlearn.serve.committer import Committer
from pqrlearn.serve.keeper import Keeper
from pqrlearn.serve.positions import Positions
from pqrlearn.serve.replica import Replica
from pqrlearn.serve.service import Service


def model_figures(replica: Replica) -> dict[str, Any]:
    """Settings, sizes and the position in the log. Takes time that grows with the model."""
    model = replica.model
    about: dict[str, Any] = {
        "kind": model.kind,
        "loss": model.loss,
        "rows": model.rows,
        "features": len(model.names),
        "nonzeros": model.nonzeros(),
        "settings": model.settings(),
        "schema": None if model.schema is None else model.schema.to_json(),
        "file": replica.swaps[-1][1] if replica.swaps else None,
        "position": replica.position,
        "sequence": replica.sequence,
        "refused": replica.refused,
    }
    return about | ({"auto": _plain(model)} if isinstance(model, Auto) else {})


def _plain(model: Auto) -> Any:
    return model.summary()


class Status:
    """Collects figures from all parts of a service."""

    def __init__(
        self, service: Service, committer: Committer, keeper: Keeper, positions: Positions
    ) -> None:
        self._service, self._committer, self._keeper = service, committer, keeper
        self._positions = positions
        self._started = time.monotonic()
        figures = service.replica.figures
        self._last = (self._started, figures.rows, figures.labels)
        self._rates = (0.0, 0.0)
        self.ready = False

    def tick(self) -> None:
        """To be called about once a second: measures rates."""
        now, figures = time.monotonic(), self._service.replica.figures
        before, rows, labels = self._last
        passed = max(now - before, 1e-9)
        self._rates = (figures.rows - rows) / passed, (figures.labels - labels) / passed
        self._last = now, figures.rows, figures.labels

    def summary(self) -> dict[str, Any]:
        """Everything that the page shows."""
        model, rates = self._service.model, self._rates
        return {
            "version": version("pqrlearn"),
            "time": self._service.now() / 1e6,
            "uptime_seconds": time.monotonic() - self._started,
            "ready": self.ready,
            "rates": {"rows_per_second": rates[0], "labels_per_second": rates[1]},
            "model": self.model(model),
            "ids": self.ids(),
            "figures": self._service.replica.figures.summary(),
            "log": self.log(),
            "disk": self.disk(),
            "snapshot": self.snapshot(),
            "readers": self.readers(),
        }

    def model(self, model: Learner) -> dict[str, Any]:
        """What costs nothing to know."""
        replica = self._service.replica
        about = {"kind": model.kind, "loss": model.loss, "rows": model.rows}
        return about | {"features": len(model.names), "refused": replica.refused}

    def ids(self) -> dict[str, Any]:
        ids = self._service.ids
        oldest = self._oldest()
        age = None if oldest is None else (self._service.now() - oldest.time) / 1e6
        return {"waiting": len(ids.waiting), "finished": ids.finished_count} | {
            "oldest_seconds": age,
            "window_seconds": self._service.settings.label_window,
        }

    def _oldest(self) -> Record | None:
        """The row that has waited longest, or about that."""
        service = self._service
        if not service.ids.waiting or service.oldest >= service.log.synced:
            return None
        return service.log.at(max(service.oldest, service.log.first))

    def log(self) -> dict[str, Any]:
        log, groups = self._service.log, list(self._committer.groups)
        milliseconds = [1000 * seconds for _, seconds in groups]
        return {
            "position": log.synced,
            "sequence": log.sequence,
            "first": log.first,
            "bytes": log.synced - log.first,
            "segments": len(log.segments),
            "pending": log.waiting,
            "failed": None if log.failed is None else str(log.failed.strerror or log.failed),
            "cut_bytes": log.cut,
            "replayed_records": self._service.recovered.records,
            "replayed_seconds": self._service.recovered.seconds,
            "sync_ms_p50": median(milliseconds) if groups else None,
            "sync_ms_p99": quantiles(milliseconds, n=100)[-1] if len(groups) > 1 else None,
            "group_records_p50": median([count for count, _ in groups]) if groups else None,
        }

    def disk(self) -> dict[str, Any]:
        usage = shutil.disk_usage(self._service.folder)
        return {"free_bytes": usage.free, "total_bytes": usage.total}

    def snapshot(self) -> dict[str, Any]:
        keeper, replica = self._keeper, self._service.replica
        behind = replica.sequence - keeper.sequence
        return {"sequence": keeper.sequence, "records_since": behind, "failed": keeper.failed}

    def readers(self) -> list[dict[str, Any]]:
        end = self._service.log.synced
        return [
            {"reader": number, "position": position, "lag_bytes": max(0, end - position)}
            | {"seen_seconds": seconds}
            for number, position, seconds in self._positions.readers()
        ]
