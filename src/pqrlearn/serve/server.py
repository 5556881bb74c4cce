"""Runs a service: sockets, signals, and what is due now and then."""

from __future__ import annotations

import asyncio
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
            why = os.strerror(error.errno) if error.errno else str(error)
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
    service: Service, listening: Listening, started: Callable[[str], None] = lambda url: None
) -> None:
    """Serves until SIGTERM or SIGINT; then answers what has come in, commits and ends."""
    listener, shared = listening.socket(listening.port), None
    try:
        if listening.readers:
            shared = listening.socket(listening.reader_port, shared=True)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_serve(service, listening, listener, shared, started))
    finally:
        listener.close()
        if shared is not None:
            shared.close()
        service.close()


def new_loop() -> asyncio.AbstractEventLoop:
    import uvloop

    found: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return found


async def _serve(
    service: Service,
    listening: Listening,
    listener: socket.socket,
    shared: socket.socket | None,
    started: Callable[[str], None],
) -> None:
    positions = Positions(service.folder, new=True)
    positions.put(0, service.log.synced)
    committer = Committer(service, lambda position: positions.put(0, position))
    keeper = Keeper(service)
    status = Status(service, committer, keeper, positions)
    admin = Admin(service, committer, keeper, status)
    front = Front(
        Guard(listening.tokens, listening.names),
        routes_of(Api(service, committer)),
        application(admin.routes()),
        service.settings.max_body,
    )
    admin.front = front
    server = server_of(front, listening.drain_seconds, listening.request_seconds)
    server.stopping = lambda: setattr(status, "ready", False)
    status.ready = True
    readers = _readers(service, listening, shared)
    chores = asyncio.create_task(_chores(service, committer, keeper, admin, status, readers))
    started(url_of(listener))
    if shared is not None:
        started(url_of(shared))
    await server.serve(sockets=[listener])
    chores.cancel()
    with suppress(asyncio.CancelledError):
        await chores
    await _finish(service, committer, admin)
    if readers is not None:
        readers.stop()


def _readers(
    service: Service, listening: Listening, shared: socket.socket | None
) -> Readers | None:
    if shared is None:
        return None
    tokens, names = listening.tokens, listening.names
    return Readers(service.folder, listening.readers, shared, service.settings, tokens, names)


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


async def _chores(
    service: Service,
    committer: Committer,
    keeper: Keeper,
    admin: Admin,
    status: Status,
    readers: Readers | None,
) -> None:
    """What is due now and then; an error in it is no reason to stop serving."""
    while True:
        more = False
        try:
            status.tick()
            if readers is not None:
                readers.look_after()
            more = expire(service)
            if service.log.synced < service.log.appended:
                committer.ask()
            if keeper.due:
                await admin.take_snapshot()
        except Unavailable as error:
            log.warning("%s", error)
        except Exception:
            log.exception("a chore has failed")
        await asyncio.sleep(0.01 if more else TICK_SECONDS)


async def _finish(service: Service, committer: Committer, admin: Admin) -> None:
    """Everything is answered: commits, says that this is the end, and takes a snapshot."""
    try:
        await admin.take_snapshot()
        service.append(Kind.END, b"")
        await committer.durable()
    finally:
        await committer.stop()


def read_model(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise PqrError(f"{path}: cannot be read: {error.strerror}") from None
