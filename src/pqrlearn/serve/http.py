"""The endpoints that are asked often as plain ASGI, in front of an app for all others."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

from pqrlearn.serve.api import JSON, Answer
from pqrlearn.serve.errors import Refused, Unavailable
from pqrlearn.serve.guard import ADMIN, OPEN, READ, Guard
from pqrlearn.serve.messages import Failed, encode
from pqrlearn.serve.settings import Settings

Handler = Callable[[bytes, bytes], Awaitable[Answer]]
Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
access = logging.getLogger("pqrlearn.serve.access")
errors = logging.getLogger("pqrlearn.serve")


class Route(NamedTuple):
    role: str
    handler: Handler


class TooLarge(Refused):
    """More bytes than the service takes."""

    status = 413


class Crowded(Unavailable):
    """The bodies of other requests fill the memory that there is for them."""


class Bodies:
    """Bytes of all requests that are coming in or being answered, up to a limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.size = 0

    def take(self, size: int) -> None:
        if self.size + size > self._most:
            raise Crowded("other requests are too large: try again in a second")
        self.size += size


class WrongEncoding(Refused):
    """A body that would have to be decoded first."""

    status = 415


class WrongMethod(Refused):
    """The endpoint does something else."""

    status = 405


class Gone(Exception):
    """The client has hung up."""


class Front:
    """Guards all endpoints, and answers those of `routes` itself."""

    def __init__(
        self, guard: Guard, routes: dict[str, Route], rest: App, settings: Settings
    ) -> None:
        self._guard, self._routes, self._rest = guard, routes, rest
        self._max_body, self._bodies = settings.max_body, Bodies(settings.all_bodies)
        self.answered: dict[tuple[str, int], int] = {}
        """How often each route was answered with each status."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._rest(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        path = scope["path"]
        route = self._routes.get(path)
        status = 500
        try:
            headers = dict(scope["headers"])
            host = headers.get(b"host", b"")
            self._guard.check_host(host)
            if b"origin" in headers:
                self._guard.check_origin(headers[b"origin"], host)
            if route is None:
                status = await self._pass_on(scope, headers, receive, send)
            else:
                status = await self._answer(route, scope["method"], headers, receive, send)
        except Refused as error:
            status = error.status
            await refuse(send, error)
        except Gone:
            status = 499
        except Exception:
            errors.exception("a request to %s failed", path if route else "an endpoint")
            await refuse(send, Broken("the service has made an error; its own log says which"))
        finally:
            self._note(path if route else _place(path), status, scope["method"], started)

    async def _answer(
        self, route: Route, method: str, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> int:
        if method != "POST":
            raise WrongMethod("this endpoint takes POST")
        self._guard.check_token(route.role, headers.get(b"authorization", b""))
        body = await read_body(headers, receive, self._max_body, self._bodies)
        try:
            found = await route.handler(body, headers.get(b"content-type", b""))
        finally:
            self._bodies.size -= len(body)
        await reply(send, 200, found.body, found.kind)
        return 200

    async def _pass_on(
        self, scope: Message, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> int:
        """To the app for all other endpoints, which is given the whole body."""
        role = role_of(scope["method"], scope["path"])
        self._guard.check_token(role, headers.get(b"authorization", b""))
        body = await read_body(headers, receive, self._max_body, self._bodies)
        status, begun = 500, False

        async def given() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def noted(message: Message) -> None:
            nonlocal status, begun
            status, begun = message.get("status", status), True
            await send(message)

        try:
            await self._rest(scope, given, noted)
        except Exception:
            if not begun:
                raise
            errors.exception("a request failed")
        finally:
            self._bodies.size -= len(body)
        return status

    def _note(self, path: str, status: int, method: str, started: float) -> None:
        key = (path, status)
        self.answered[key] = self.answered.get(key, 0) + 1
        if access.isEnabledFor(logging.INFO):
            milliseconds = 1000 * (time.perf_counter() - started)
            access.info("%s %s %d %.1f ms", method, path, status, milliseconds)


class Broken(Refused):
    """A bug, which clients are told nothing about."""

    status = 500


KNOWN = ("/", "/healthz", "/readyz", "/metrics", "/openapi.json")


def role_of(method: str, path: str) -> str:
    """Who may ask the endpoints that are asked seldom."""
    if path == "/v1/explain":
        return "predict"
    if path.startswith("/v1/") or path == "/metrics":
        return READ if method in ("GET", "HEAD") else ADMIN
    return OPEN


def _place(path: str) -> str:
    """A path for the access log and for figures: without ids, and of a bounded number."""
    if path.startswith("/v1/rows/"):
        return "/v1/rows/{id}"
    known = ("/v1/explain", "/v1/model", "/v1/snapshot", "/v1/status", "/v1/weights", *KNOWN)
    return path if path in known else "other"


async def read_body(
    headers: dict[bytes, bytes], receive: Receive, most: int, bodies: Bodies
) -> bytes:
    """All of a body, counted while it comes in; who has it says when it is done with it."""
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise WrongEncoding("Content-Encoding is not supported: send the body as it is")
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > most:
        raise TooLarge(f"a body of more than {most:,} bytes")
    parts, size, more = list[bytes](), 0, True
    try:
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            part, more = message.get("body", b""), bool(message.get("more_body"))
            bodies.take(len(part))
            parts.append(part)
            size += len(part)
            if size > most:
                raise TooLarge(f"a body of more than {most:,} bytes")
    except BaseException:
        bodies.size -= size
        raise
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def reply(
    send: Send, status: int, body: bytes, kind: bytes = JSON, *more: tuple[bytes, bytes]
) -> None:
    length = (b"content-length", str(len(body)).encode())
    headers = [(b"content-type", kind), length, (b"x-content-type-options", b"nosniff"), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, error: Refused) -> None:
    more: list[tuple[bytes, bytes]] = []
    if isinstance(error, Unavailable):
        more.append((b"retry-after", b"1"))
    if error.status == 401:
        more.append((b"www-authenticate", b"Bearer"))
    if error.status == 405:
        more.append((b"allow", b"POST"))
    if error.status == 413 or isinstance(error, Crowded):  # the rest of the body is not read
        more.append((b"connection", b"close"))
    await reply(send, error.status, encode(Failed(str(error), error.status)), JSON, *more)
