"""Readers: processes that follow the log of a service read-only, and answer /v1/score.

    python -m pqrlearn.serve.follow    # with its settings as JSON on stdin; `readers.py` starts it

The same records give the same bits. A reader looks for new ones every few milliseconds, and says
how far it is behind.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Page

from pqrlearn.errors import Corrupt, ModelFileError
from pqrlearn.learners import Auto
from pqrlearn.logfile import Log
from pqrlearn.serve import snapshots
from pqrlearn.serve.api import Scores
from pqrlearn.serve.guard import Guard
from pqrlearn.serve.http import Front, Route
from pqrlearn.serve.positions import Positions
from pqrlearn.serve.recovery import restored
from pqrlearn.serve.replica import Erased, Replica
from pqrlearn.serve.rest import Shared, application, as_json
from pqrlearn.serve.server import look_for_cycles_seldom, new_loop, server_of
from pqrlearn.serve.settings import Settings

POLL_SECONDS: Final = 0.01
AT_ONCE: Final = 1 << 16
"""Bytes of the log that are learned before requests are answered again."""


@dataclass(frozen=True)
class Reader:
    """What a reader is told on stdin."""

    folder: str
    parent: int
    """The process that has started it, and may be gone already."""
    number: int
    file: int
    """The descriptor of the socket that all readers share."""
    tokens: dict[str, str]
    names: list[str]
    limits: dict[str, Any]


class Follower:
    """A replica that learns what the service has synced."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._positions = folder, Positions(folder)
        self.caught_up = time.monotonic()
        self._begin()

    def _begin(self) -> None:
        """From the last snapshot; one that is removed meanwhile has a successor."""
        while True:
            saved = snapshots.saved(self._folder)
            try:
                self.log = Log(self._folder)
                self.replica = self._restored(saved[-1]) if saved else Replica(self.log, Auto())
            except (Corrupt, FileNotFoundError):
                if saved == snapshots.saved(self._folder):
                    raise
            else:
                return

    def _restored(self, path: Path) -> Replica:
        found = snapshots.restore(path, most_finished=1)
        return restored(self.log, found)

    def follow(self) -> bool:
        """Learns some of what is new; whether there is more."""
        end = self._positions.synced()
        if self.replica.looked_at:
            return False
        if self.replica.position >= end:
            self.caught_up = time.monotonic()
            return False
        try:
            self._learn(min(end, self.replica.position + AT_ONCE), end)
        except (Erased, KeyError, FileNotFoundError, ModelFileError):
            self.log.close_files()  # removed or erased, behind a snapshot
            self._begin()
            return False
        return True

    def _learn(self, enough: int, end: int) -> None:
        while self.replica.position < enough:
            before = self.replica.position
            self.replica.apply(list(self.log.following(before, min(end, before + AT_ONCE))))
            if self.replica.position == before:  # the end of a segment
                self.log.refresh()
                return

    def put(self, place: int) -> None:
        self._positions.put(place, self.replica.position)

    def lag(self) -> dict[str, Any]:
        behind = max(0, self._positions.synced() - self.replica.position)
        seconds = time.monotonic() - self.caught_up if behind else 0.0
        about = {"position": self.replica.position, "sequence": self.replica.sequence}
        return about | {"lag_bytes": behind, "lag_seconds": seconds}


class Pages(Shared):
    """The endpoints of a reader that are asked seldom."""

    def __init__(self, follower: Follower, settings: Settings) -> None:
        super().__init__(lambda: follower.replica, settings)
        self._follower = follower
        self.ready = False

    def routes(self) -> list[Page]:
        return [*super().routes(), Page("/readyz", self.is_ready), Page("/v1/status", self.status)]

    async def is_ready(self, request: Request) -> Response:
        said = "ready\n" if self.ready else "catching up\n"
        return Response(said, 200 if self.ready else 503, media_type="text/plain")

    async def status(self, request: Request) -> Response:
        return as_json(self._follower.lag() | {"ready": self.ready})


async def serve(told: Reader) -> None:
    settings = Settings(**told.limits)
    follower = Follower(Path(told.folder))
    pages = Pages(follower, settings)
    scores = Scores(lambda: follower.replica, settings)
    routes = {
        "/v1/score": Route("predict", scores.score),
        "/v1/score:batch": Route("predict", scores.score_batch),
    }
    guard = Guard(told.tokens, tuple(told.names))
    server = server_of(Front(guard, routes, application(pages.routes()), settings), 10)
    following = asyncio.create_task(_follow(follower, pages, told, server))
    await server.serve(sockets=[socket.socket(fileno=told.file)])
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following


async def _follow(follower: Follower, pages: Pages, told: Reader, server: Any) -> None:
    """Until the service that has started it is gone."""
    try:
        while os.getppid() == told.parent:
            more = follower.follow()
            follower.put(told.number)
            pages.ready = pages.ready or not more
            await asyncio.sleep(0 if more else POLL_SECONDS)
    finally:
        server.should_exit = True


def main() -> None:
    warnings.simplefilter("ignore")  # about rows, which are not ours to show
    told = Reader(**json.loads(sys.stdin.buffer.read()))
    look_for_cycles_seldom()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve(told))


if __name__ == "__main__":
    main()
