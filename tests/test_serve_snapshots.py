"""Snapshots of a service that is busy, or about to stop."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from command import SECONDS
from pqrlearn.serve.admin import Admin
from pqrlearn.serve.committer import Committer
from pqrlearn.serve.keeper import Keeper
from pqrlearn.serve.positions import Positions
from pqrlearn.serve.status import Status
from serving import busy, replay, start_lr


class Slow:
    """Lets the first snapshot wait in its thread, and counts those that are written at a time."""

    def __init__(self, keeper: Keeper) -> None:
        self._write = keeper.write
        self.entered, self.go_on = threading.Event(), threading.Event()
        self.writing = self.most = 0

    def __call__(self, figures: bytes) -> Path:
        self.writing += 1
        self.most = max(self.most, self.writing)
        self.entered.set()
        assert self.go_on.wait(SECONDS)
        try:
            return self._write(figures)
        finally:
            self.writing -= 1


def test_a_snapshot_goes_on_when_who_waits_for_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stop_meanwhile() -> Slow:
        service = start_lr(tmp_path, keep_log=True)
        busy(service, Random(1), 50)
        committer, keeper = Committer(service), Keeper(service)
        status = Status(service, committer, keeper, Positions(tmp_path, new=True))
        admin, slow = Admin(service, committer, keeper, status), Slow(keeper)
        monkeypatch.setattr(keeper, "write", slow)
        chore = asyncio.create_task(admin.take_snapshot())
        assert await asyncio.to_thread(slow.entered.wait, SECONDS)
        chore.cancel()
        with suppress(asyncio.CancelledError):
            await chore
        service.learn("late", 1, features={"site": "news"})
        last = asyncio.create_task(admin.take_snapshot())
        await committer.durable()
        assert service.barrier is not None, "the model learns while it is written"
        slow.go_on.set()
        await last
        await committer.stop()
        service.close()
        return slow

    assert asyncio.run(stop_meanwhile()).most == 1
    again = start_lr(tmp_path)
    assert again.recovered.records == 0
    assert again.model.to_bytes() == replay(tmp_path)
    again.close()
