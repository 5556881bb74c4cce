"""Reading ahead on a second thread, so that parsing and learning overlap."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Event, Thread
from typing import Generic, TypeVar

T = TypeVar("T")

_PATIENCE_SECONDS = 1.0  # a thread that waits for stdin cannot be woken


def ahead(items: Iterable[T], depth: int = 4) -> Generator[T, None, None]:
    """The same items in the same order, up to `depth` of them fetched in advance.

    An exception comes up where it would have without the thread. When the caller stops early, or
    is interrupted, the thread ends and `items` is closed.
    """
    worker = _Worker(items, depth)
    worker.start()
    try:
        while not isinstance(item := worker.queue.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        worker.stop()


@dataclass(frozen=True)
class _End:
    error: BaseException | None = None


class _Worker(Thread, Generic[T]):
    """Checks for the stop before every put, so after it at most one more item is put."""

    def __init__(self, items: Iterable[T], depth: int) -> None:
        super().__init__(name="ahead", daemon=True)
        self.queue: Queue[T | _End] = Queue(max(1, depth))
        self._items, self._stopped = items, Event()

    def run(self) -> None:
        end = _End()
        try:
            self._put_all()
        except BaseException as error:
            end = _End(error)
        if not self._stopped.is_set():
            self.queue.put(end)

    def _put_all(self) -> None:
        try:
            for item in self._items:
                if self._stopped.is_set():
                    return
                self.queue.put(item)
        finally:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()

    def stop(self) -> None:
        self._stopped.set()
        self._drain()  # makes room for that one item
        self.join(_PATIENCE_SECONDS)

    def _drain(self) -> None:
        try:
            while True:
                self.queue.get_nowait()
        except Empty:
            pass
