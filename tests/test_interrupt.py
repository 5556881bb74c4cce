"""Ctrl-C while the core works: it is seen during a call, and no row is half learned."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from pqrlearn import CCFM, CFM, FM, LR, PQR, Auto, Batch, Counts, Mixture, NuclearBall, Separation
from pqrlearn.learners.base import Learner
from pqrlearn.learners.turns import without_interrupts

FEATURES = 512  # 130,816 pairs, some tenths of a millisecond
SECONDS = 120


def dense(rows: int, features: int = FEATURES) -> Batch:
    random = np.random.default_rng(rows)
    matrix = scipy.sparse.csr_matrix(random.normal(size=(rows, features)).astype(np.float32))
    return Batch.from_csr(matrix, random.integers(0, 2, rows))


def pqr() -> PQR:
    return PQR(Separation.top_k(dense(3), FEATURES))


def mixture() -> Mixture:
    return Mixture([LR(), pqr()])


MAKE: dict[str, tuple[Callable[[], Learner], Callable[[], Batch]]] = {
    "pqr": (pqr, lambda: dense(6000)),
    "auto": (Auto, lambda: dense(2500)),
    "fm": (lambda: FM(rank=256), lambda: dense(10_000)),
    "mixture": (mixture, lambda: dense(6000)),
    "cfm": (lambda: CFM(ball=NuclearBall(block_rows=8)), lambda: dense(3000, 40)),
    "ccfm": (lambda: CCFM(ball=NuclearBall(block_rows=8)), lambda: dense(3000, 40)),
}


def learn_interrupted(model: Learner, batch: Batch) -> None:
    def wait_and_send() -> None:
        while model.rows == 0:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait_and_send)
    thread.start()
    try:
        model.learn_many(batch)
    finally:
        thread.join(SECONDS)


@pytest.mark.parametrize(("make", "rows"), MAKE.values(), ids=MAKE.keys())
def test_an_interrupted_batch_is_learned_up_to_a_row(make: Any, rows: Any) -> None:
    batch: Batch = rows()
    model, twin = make(), make()
    with pytest.raises(KeyboardInterrupt):
        learn_interrupted(model, batch)
    assert 0 < model.rows < len(batch)
    done, stop = model.rows, min(len(batch), model.rows + 100)
    model.learn_many(batch.part(done, stop))
    twin.learn_many(batch.part(0, stop))
    assert model.to_bytes() == twin.to_bytes()


@contextmanager
def counted_signals() -> Iterator[list[int]]:
    """The signals of a timer that are handled in the block."""
    handled: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: handled.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        yield handled
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_signals_are_handled_while_many_rows_are_predicted_or_learned() -> None:
    """Without asking for them, a call would handle one at its end, however many there were."""
    rows, model = dense(1500), Auto()
    model.learn_many(rows.part(0, 130))
    for work in (model._model.predict, model._model.margin):
        with counted_signals() as handled:
            work(rows.indptr, rows.indices, rows.values)
        assert len(handled) > 2
    with counted_signals() as handled:
        model._model.learn(rows.indptr, rows.indices, rows.values, rows.labels, rows.weights)
    assert len(handled) > 2


def test_signals_are_handled_while_rows_are_made_and_counted() -> None:
    random = np.random.default_rng(1)
    size, length = 3000, 2000
    indices = random.integers(0, 2**32, size * length)
    columns = np.arange(0, len(indices) + 1, length), indices, np.ones(len(indices))
    with counted_signals() as handled:
        rows = Batch._made(*columns, None, None)
    assert len(handled) > 2
    with counted_signals() as handled:
        Counts.of([rows])
    assert len(handled) > 2


def test_work_on_another_thread_does_not_ask() -> None:
    rows, model = dense(300), pqr()
    thread = threading.Thread(target=model.learn_many, args=[rows])
    with counted_signals():
        thread.start()
        thread.join(SECONDS)
    assert model.rows == len(rows)


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    steps, before = [], signal.getsignal(signal.SIGINT)

    def interrupted() -> None:
        with without_interrupts():
            with without_interrupts():
                os.kill(os.getpid(), signal.SIGINT)
                steps.append("inner")
            steps.append("outer")
        steps.append("never")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert steps == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is before
