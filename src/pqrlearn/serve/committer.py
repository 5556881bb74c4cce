"""The thread that writes and syncs the log, while the event loop answers requests.

There is no timer: whatever has come in while one group was synced is the next group.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

from pqrlearn.serve.errors import Unavailable
from pqrlearn.serve.service import Service

Job = Callable[[], Any]
_RECENT = 512
log = logging.getLogger("pqrlearn.serve")


class Committer:
    """Commits what a service has in line. To be used on the event loop it was made on."""

    def __init__(self, service: Service, synced: Callable[[int], None] = lambda position: None):
        self._service, self._synced = service, synced
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Job, asyncio.Future[Any]] | None] = SimpleQueue()
        self._asked = False
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.groups: deque[tuple[int, float]] = deque(maxlen=_RECENT)
        """Records and seconds of the last groups."""
        self._thread = threading.Thread(target=self._run, name="commit", daemon=True)
        self._thread.start()

    async def durable(self) -> None:
        """Waits until everything that is in line now is on disk; Unavailable if that failed."""
        log = self._service.log
        if log.failed is not None:
            raise unavailable(self._service)
        if log.synced >= log.appended:
            return
        future = self._loop.create_future()
        self._waiting.append((log.appended, future))
        self.ask()
        await future

    def ask(self) -> None:
        """Lets the thread commit soon."""
        if not self._asked:
            self._asked = True
            self._jobs.put(None)

    async def run(self, job: Job) -> Any:
        """Runs a job on the thread, while nothing is committed."""
        future = self._loop.create_future()
        self._jobs.put((job, future))
        return await future

    async def stop(self) -> None:
        """Ends the thread."""
        await self.run(lambda: None)
        self._jobs.put((_end, self._loop.create_future()))
        await asyncio.to_thread(self._thread.join)

    # -- the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        while (job := self._jobs.get()) is None or job[0] is not _end:
            if job is None:
                self._asked = False  # before the group is taken: who comes later asks again
                self._commit()
            else:
                self._work(*job)

    def _commit(self) -> None:
        started = time.perf_counter()
        try:
            count = self._service.log.commit()
        except Unavailable:
            count = 0
        if count:
            self.groups.append((count, time.perf_counter() - started))
        self._tell(self._done)

    def _work(self, job: Job, future: asyncio.Future[Any]) -> None:
        try:
            result = job()
        except Exception as error:
            self._tell(partial(_settle, future, None, error))
        else:
            self._tell(partial(_settle, future, result, None))

    def _tell(self, what: Callable[[], Any]) -> None:
        self._loop.call_soon_threadsafe(what)

    # -- the event loop ----------------------------------------------------------------------

    def _done(self) -> None:
        """Lets answers go out, and then learns."""
        log = self._service.log
        while self._waiting and (log.failed is not None or self._waiting[0][0] <= log.synced):
            future = self._waiting.popleft()[1]
            failed = None if log.failed is None else unavailable(self._service)
            _settle(future, None, failed)
        if log.failed is None:
            self._synced(log.synced)
            self._loop.call_soon(self.learn)

    def learn(self) -> None:
        """A record that cannot be learned is a bug, or a disk that cannot be read: the model would
        not be what the log says, so nothing more is accepted."""
        try:
            self._service.synced()
        except Exception as error:
            log.exception("what was logged cannot be learned")
            self._service.log.failed = OSError(errno.EIO, f"learning failed: {error}")


def unavailable(service: Service) -> Unavailable:
    error = service.log.failed
    return Unavailable(
        f"the log cannot be written ({error.strerror if error else 'unknown'}): nothing is "
        "accepted until the service is started again"
    )


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():  # nobody waits for it any more
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _end() -> None:
    """Marks the end of the thread."""
