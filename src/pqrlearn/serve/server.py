"""Runs a service: sockets, signals, and what is due now and then."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from pqrlearn.errors import PqrError
from pqrlearn.logfile import Kind
from pqrlearn.serve.admin import Admin
from pqrlearn.serve.api import Api
from pqrlearn.serve.committer import Committer
from pqrlearn.serve.errors import Unavailable
from pqrlearn.serve.guard import Guard, check_listening
from pqrlearn.serve.http import Front, Route
from pqrlearn.serve.keeper import Keeper
from pqrlearn.serve.positions import Positions
from pqrlearn.serve.protocol import REQUEST_SECONDS, Protocol
from pqrlearn.serve.readers import Readers
from pqrlearn.serve.rest import application
from pqrlearn.serve.service import Service
from pqrlearn.serve.status import Status
from pqrlearn.serve.windows import expire

TICK_SECONDS = 0.5
MOST_CONNECTIONS = 4096
log = logging.getLogger("pqrlearn.serve")


@dataclass(frozen=True)
class Listening:
    """Where a service listens, and to whom."""

    host: str = "127.0.0.1"
    port: int = 8080
    readers: int = 0
    reader_port: int = 8081
    tokens: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    """Names of the service that a Host may have, beside addresses and localhost."""
    request_seconds: float = REQUEST_SECONDS
    """How long a request may take to come in."""
    drain_seconds: float = 30.0
    """How long requests may take that are being answered when the service is stopped."""

    def socket(self, port: int, *, shared: bool = False) -> socket.socket:
        """A socket on this port. Readers of a killed service may still have a `shared` one."""
        check_listening(self.host, self.tokens)
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        where: Any = (self.host, port)
        try:
            return socket.create_server(where, family=family, backlog=1024, reuse_port=shared)
        except OSError as error:
            known = error.errno is not None and error.errno > 0  # not that of a name
            why = os.strerror(error.errno or 0) if known else error.strerror or str(error)
            raise PqrError(f"{self.host}:{port}: cannot listen there: {why}") from None


class Server(uvicorn.Server):
    """A server that ends with 0 when it is told to stop."""

    stopping: Callable[[], None] = staticmethod(lambda: None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.stopping()
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


def server_of(app: Any, drain_seconds: float, request_seconds: float = REQUEST_SECONDS) -> Server:
    config = uvicorn.Config(
        app,
        http=type("Protocol", (Protocol,), {"request_seconds": request_seconds}),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(drain_seconds),
        backlog=1024,
        limit_concurrency=MOST_CONNECTIONS,
    )
    return Server(config)


def run(
    service: Service,
    listening: Listening,
    started: Callable[[str], None] = lambda url: None,
    created: Callable[[Server], None] = lambda server: None,
) -> None:
    """Serves until SIGTERM or SIGINT; then answers what has come in, commits and ends.

    Once it listens, `started` is given each address. On a thread without signals, whoever has the
    server that `created` was given may set its `should_exit`.
    """
    listener, shared = listening.socket(listening.port), None
    try:
        if listening.readers:
            shared = listening.socket(listening.reader_port, shared=True)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_serve(service, listening, listener, shared, started, created))
    finally:
        listener.close()
        if shared is not None:
            shared.close()
        service.close()


def look_for_cycles_seldom() -> None:
    """For a process that does nothing but serve: rows are many and hold no cycles, and looking for
    them after every 700 objects is a fifth of the work of a batch."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def new_loop() -> asyncio.AbstractEventLoop:
    import uvloop

    found: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return found


class _Parts:
    """All that a service is made of, put together on its event loop."""

    def __init__(
        self, service: Service, listening: Listening, shared: socket.socket | None
    ) -> None:
        self.service = service
        self._positions = Positions(service.folder, new=True)
        self._positions.put(0, service.log.synced)
        self.committer = Committer(service, lambda position: self._positions.put(0, position))
        self.keeper = Keeper(service)
        self.status = Status(service, self.committer, self.keeper, self._positions)
        self.admin = Admin(service, self.committer, self.keeper, self.status)
        self.readers: Readers | None = None
        if shared is not None:
            self.readers = Readers(
                service.folder,
                listening.readers,
                shared,
                service.settings,
                listening.tokens,
                listening.names,
            )

    def front(self, listening: Listening) -> Front:
        """What clients meet."""
        routes = routes_of(Api(self.service, self.committer))
        guard = Guard(listening.tokens, listening.names)
        rest = application(self.admin.routes())
        self.admin.front = Front(guard, routes, rest, self.service.settings)
        return self.admin.front

    async def chores(self, stopping: asyncio.Event) -> None:
        """What is due now and then; an error in it is no reason to stop serving."""
        while not stopping.is_set():
            more = False
            try:
                more = await self._chore()
            except Unavailable as error:
                log.warning("%s", error)
            except Exception:
                log.exception("a chore has failed")
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), 0.01 if more else TICK_SECONDS)

    async def _chore(self) -> bool:
        """Whether there is more to do at once."""
        self.status.tick()
        if self.readers is not None:
            self.readers.look_after()
        more = expire(self.service)
        if self.service.log.synced < self.service.log.appended:
            self.committer.ask()
        if self.keeper.due:
            await self.admin.take_snapshot()
        return more

    async def finish(self) -> None:
        """Everything is answered: takes a snapshot, and says that this is the end."""
        try:
            await self.admin.take_snapshot()
            self.service.append(Kind.END, b"")
            await self.committer.durable()
        finally:
            await self.committer.stop()
            if self.readers is not None:
                self.readers.stop()


async def _serve(
    service: Service,
    listening: Listening,
    listener: socket.socket,
    shared: socket.socket | None,
    started: Callable[[str], None],
    created: Callable[[Server], None],
) -> None:
    parts, stopping = _Parts(service, listening, shared), asyncio.Event()
    front = parts.front(listening)
    server = server_of(front, listening.drain_seconds, listening.request_seconds)
    created(server)
    server.stopping = lambda: setattr(parts.status, "ready", False)
    parts.status.ready = True
    chores = asyncio.create_task(parts.chores(stopping))
    for one in (listener, shared):
        if one is not None:
            started(url_of(one))
    await server.serve(sockets=[listener])
    stopping.set()
    await chores  # not cancelled: it may be writing a snapshot
    await parts.finish()


def routes_of(api: Api) -> dict[str, Route]:
    return {
        "/v1/predict": Route("predict", api.predict),
        "/v1/predict:batch": Route("predict", api.predict_batch),
        "/v1/learn": Route("learn", api.learn),
        "/v1/learn:batch": Route("learn", api.learn_batch),
        "/v1/score": Route("predict", api.score),
        "/v1/score:batch": Route("predict", api.score_batch),
    }


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def read_model(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise PqrError(f"{path}: cannot be read: {error.strerror}") from None
