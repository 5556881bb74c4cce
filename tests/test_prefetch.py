"""Reading ahead changes when things happen, never what."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from pqrlearn.readers import prefetch


def running() -> bool:
    return any(thread.name == "ahead" for thread in threading.enumerate())


@pytest.mark.parametrize("depth", [1, 4, 100])
def test_the_same_items_come_in_the_same_order(depth: int) -> None:
    assert list(prefetch(iter(range(1000)), depth)) == list(range(1000))
    assert not running()


def test_nothing_stays_nothing() -> None:
    assert list(prefetch(iter(()))) == []


def test_an_exception_comes_up_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise KeyError("third")

    stream = prefetch(items())
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(KeyError, match="third"):
        next(stream)
    assert not running()


def test_an_exception_on_closing_is_not_lost() -> None:
    class Items:
        def __iter__(self) -> Iterator[int]:
            return iter([1])

        def close(self) -> None:
            raise OSError("cannot close")

    with pytest.raises(OSError, match="cannot close"):
        list(prefetch(Items()))


def test_it_reads_ahead_but_only_so_far() -> None:
    fetched = []

    def items() -> Iterator[int]:
        for i in range(100):
            fetched.append(i)
            yield i

    stream = prefetch(items(), depth=3)
    assert next(stream) == 0
    deadline = time.monotonic() + 300
    while len(fetched) < 5 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)
    assert len(fetched) == 5  # one taken, three in the queue, one in hand
    stream.close()


@pytest.mark.parametrize("taken", [1, 2, 7])
def test_stopping_early_ends_the_thread_and_closes_the_items(taken: int) -> None:
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            yield from range(10**9)
        finally:
            closed.set()

    stream = prefetch(items(), depth=2)
    assert [next(stream) for _ in range(taken)] == list(range(taken))
    stream.close()
    assert closed.is_set()
    assert not running()


def test_an_interrupt_in_the_loop_ends_the_thread() -> None:
    def interrupted() -> None:
        for item in prefetch(iter(range(10**9))):
            if item == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not running()


def test_no_thread_starts_before_the_first_item_is_asked_for() -> None:
    prefetch(iter(range(3)))
    assert not running()
