"""Prefetching on a second thread, so that reading and learning overlap."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Event, Thread
from typing import Generic, TypeVar

T = TypeVar("T")

_JOIN_SECONDS = 1.0  # a thread that waits for stdin cannot be interrupted


def prefetch(items: Iterable[T], depth: int = 4) -> Generator[T, None, None]:
    """The same items in the same order; a second thread prefetches up to `depth` of them.

    An exception is raised where it would be without the thread. If the caller stops early or is
    interrupted, the thread ends and `items` is closed.
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
    """Puts at most one more item after `stop`, because it checks before every put."""

    def __init__(self, items: Iterable[T], depth: int) -> None:
        super().__init__(name="prefetch", daemon=True)
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
        self._drain()  # so that a blocked put can return
        self.join(_JOIN_SECONDS)

    def _drain(self) -> None:
        try:
            while True:
                self.queue.get_nowait()
        except Empty:
            pass
