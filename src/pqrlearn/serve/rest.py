"""The endpoints that are asked seldom, and the page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pqrlearn.errors import PqrError
from pqrlearn.explain import strongest
from pqrlearn.serve.errors import Refused, UnknownId
from pqrlearn.serve.messages import Explained, Failed, Score, Term, decoder, encode
from pqrlearn.serve.openapi import document
from pqrlearn.serve.replica import Replica
from pqrlearn.serve.scoring import check_size
from pqrlearn.serve.settings import Settings
from pqrlearn.serve.status import model_figures

PAGE = files("pqrlearn.serve") / "page"
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
Endpoint = Callable[[Request], Awaitable[Response]]
_row = decoder(Score)


class Shared:
    """What every process answers, readers too."""

    methods_of_model: tuple[str, ...] = ("GET",)

    def __init__(self, replica: Callable[[], Replica], settings: Settings) -> None:
        self._replica, self._settings = replica, settings
        self._one_at_a_time = asyncio.Lock()

    def routes(self) -> list[Route]:
        return [
            Route("/healthz", self.healthy),
            Route("/openapi.json", self.openapi),
            Route("/v1/model", self.model, methods=self.methods_of_model),
            Route("/v1/explain", self.explain, methods=["POST"]),
            Route("/v1/weights", self.weights),
        ]

    async def healthy(self, request: Request) -> Response:
        return Response("ok\n", media_type="text/plain")

    async def openapi(self, request: Request) -> Response:
        return as_json(document(self._settings))

    async def model(self, request: Request) -> Response:
        return as_json(await self._aside(lambda: model_figures(self._replica())))

    async def explain(self, request: Request) -> Response:
        features = _row(await request.body()).features
        model = self._replica().model
        check_size(model, features, self._settings)
        try:
            found = await self._aside(lambda: model.explain_one(features))
        except (PqrError, TypeError) as error:
            raise Refused(str(error)) from None
        terms = [
            Term(
                term.block,
                list(term.names),
                float(term.value),
                float(term.weight),
                float(term.contribution),
                term.count,
            )
            for term in found.strongest()
        ]
        return as_json(Explained(found.prediction, found.margin, terms))

    async def weights(self, request: Request) -> Response:
        """The strongest weights of each block; with `search`, of features whose name has it."""
        top = request.query_params.get("top", "20")
        if not top.isdigit() or not 0 < int(top) <= 1000:
            raise Refused("top must be a number from 1 to 1000")
        search, model = request.query_params.get("search", ""), self._replica().model
        found = await self._aside(
            lambda: {b: strongest(model, b, int(top), search) for b in model.blocks if b != "bias"}
        )
        return as_json({block: [one._asdict() for one in rows] for block, rows in found.items()})

    async def _aside(self, call: Callable[[], Any]) -> Any:
        """On another thread; requests are answered meanwhile, and learning waits."""
        return await asyncio.shield(asyncio.create_task(self._alone(call)))

    async def _alone(self, call: Callable[[], Any]) -> Any:
        async with self._one_at_a_time:
            replica = self._replica()
            replica.looked_at += 1
            try:
                return await asyncio.to_thread(call)
            finally:
                replica.looked_at -= 1
                self._go_on()

    def _go_on(self) -> None:
        """Learns what has waited."""


async def page(request: Request) -> Response:
    """The files of the page; there is nothing secret in them."""
    name = request.path_params.get("name", "index.html")
    found = PAGE / name
    kind = TYPES.get(f".{name.rpartition('.')[2]}")
    if kind is None or "/" in name or not found.is_file():
        raise UnknownId("there is no such page")
    headers = {"content-security-policy": POLICY, "x-content-type-options": "nosniff"}
    headers |= {"referrer-policy": "no-referrer", "cache-control": "no-cache"}
    return Response(found.read_bytes(), media_type=kind, headers=headers)


def as_json(value: Any, status: int = 200) -> Response:
    return Response(encode(value), status, media_type="application/json")


def application(routes: list[Route]) -> Starlette:
    async def refused(request: Request, error: Exception) -> Response:
        status = error.status if isinstance(error, Refused) else 500
        return as_json(Failed(str(error), status), status)

    async def http(request: Request, error: Exception) -> Response:
        code = error.status_code if isinstance(error, HTTPException) else 500
        said = {404: "there is no such endpoint", 405: "the endpoint takes another method"}
        found = as_json(Failed(said.get(code, "refused"), code), code)
        if isinstance(error, HTTPException) and error.headers:
            found.headers.update(error.headers)
        return found

    handlers: Any = {Refused: refused, HTTPException: http}
    return Starlette(routes=routes, exception_handlers=handlers)
