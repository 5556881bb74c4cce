"""The endpoints of the process that owns the log: health, models, snapshots, erasing."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pqrlearn.errors import PqrError
from pqrlearn.serve import metrics, models
from pqrlearn.serve.committer import Committer, unavailable
from pqrlearn.serve.errors import Refused, Unavailable, UnknownId
from pqrlearn.serve.http import Front
from pqrlearn.serve.keeper import Keeper
from pqrlearn.serve.rest import Shared, as_json, page
from pqrlearn.serve.service import Service
from pqrlearn.serve.status import Status


class Admin(Shared):
    """Also takes the snapshots that are due: one at a time."""

    methods_of_model = ("GET", "POST")
    front: Front

    def __init__(
        self, service: Service, committer: Committer, keeper: Keeper, status: Status
    ) -> None:
        super().__init__(lambda: service.replica, service.settings)
        self._service, self._committer = service, committer
        self._keeper, self._status = keeper, status
        self._snapshots = asyncio.Lock()

    def routes(self) -> list[Route]:
        return [
            *super().routes(),
            Route("/readyz", self.ready),
            Route("/metrics", self.metrics),
            Route("/v1/status", self.status),
            Route("/v1/snapshot", self.snapshot, methods=["POST"]),
            Route("/v1/rows/{id:path}", self.erase, methods=["DELETE"]),
            Route("/", page),
            Route("/page/{name}", page),
        ]

    def _go_on(self) -> None:
        self._committer.learn()

    async def ready(self, request: Request) -> Response:
        if self._service.log.failed is not None:
            return Response("the log has failed\n", 503, media_type="text/plain")
        if not self._status.ready:
            return Response("stopping\n", 503, media_type="text/plain")
        return Response("ready\n", media_type="text/plain")

    async def metrics(self, request: Request) -> Response:
        text = metrics.exposition(self._status, self.front)
        return Response(text, headers={"content-type": metrics.MEDIA_TYPE})

    async def status(self, request: Request) -> Response:
        return as_json(self._status.summary())

    async def model(self, request: Request) -> Response:
        return await (self.swap if request.method == "POST" else super().model)(request)

    async def swap(self, request: Request) -> Response:
        data, folder = await request.body(), self._service.folder
        async with self._snapshots:  # after which models are removed that no record names
            try:
                name = await asyncio.to_thread(models.keep, folder, data)
            except PqrError as error:
                raise Refused(str(error).replace("<bytes>", "the body")) from None
            swapped = self._service.take_over(name)
            await self._committer.durable()
        return as_json({"file": name, "swapped": swapped})

    async def snapshot(self, request: Request) -> Response:
        await self.take_snapshot()
        return as_json({"sequence": self._keeper.sequence})

    async def take_snapshot(self) -> None:
        """Requests are answered meanwhile; learning waits, and catches up.

        Who asks may be cancelled, but not the snapshot: learning must wait until it is written.
        """
        await asyncio.shield(asyncio.create_task(self._take_snapshot()))

    async def _take_snapshot(self) -> None:
        async with self._snapshots:
            self._keeper.begin()
            try:
                await self._committer.durable()
                while not self._keeper.ready:  # learning follows the answers
                    await asyncio.sleep(0.001)
                    if self._service.log.failed is not None:
                        raise unavailable(self._service)
                figures = self._service.replica.figures.to_bytes()  # here: GET /v1/status sums too
                await asyncio.to_thread(self._keeper.write, figures)
                self._keeper.failed = None
            except PqrError as error:
                self._keeper.failed = str(error)
                raise Unavailable(f"no snapshot: {error}") from None
            finally:
                self._keeper.end()
            self._keeper.remove_needless()

    async def erase(self, request: Request) -> Response:
        id = request.path_params["id"]
        known = self._keeper.forget(id)
        await self.take_snapshot()
        erased = await self._committer.run(lambda: self._keeper.erase(id))
        self._service.log.close_files()
        if not known and not erased:
            raise UnknownId(f"no row is known by the id {id!r}")
        return as_json({"erased": erased})
