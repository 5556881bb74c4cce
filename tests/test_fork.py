"""fork() while threads learn: the child has every model between two rows, and no locks."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from pqrlearn import (
    CCFM,
    CFM,
    FM,
    LR,
    PQR,
    QR,
    Auto,
    DiFacto,
    Mixture,
    NuclearBall,
    Separation,
)
from pqrlearn.learners import Learner
from storm import Readers
from strategies import as_dicts, random_batch

SECONDS = 60
FORKS = 25
ROWS = random_batch(seed=5, rows=400, features=20)
BALL = NuclearBall(block_rows=4)
MAKE: dict[str, Callable[[], Learner]] = {
    "auto": Auto,
    "lr": LR,
    "qr": lambda: QR("squared"),
    "pqr": lambda: PQR(Separation.top_k(ROWS, 8)),
    "fm": lambda: FM("squared"),
    "difacto": lambda: DiFacto("squared"),
    "cfm": lambda: CFM("squared", ball=BALL),
    "ccfm": lambda: CCFM("squared", BALL),
    "mixture": lambda: Mixture([LR("squared"), CFM("squared", ball=BALL)]),
}

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


@contextmanager
def learning(model: Learner) -> Iterator[None]:
    """A thread teaches it batches and single rows, others predict and save."""
    stop = threading.Event()
    rows = list(zip(as_dicts(ROWS), ROWS.labels.tolist(), strict=True))

    def learn() -> None:
        while not stop.is_set():
            model.learn_many(ROWS)
            for x, y in rows[:20]:
                model.learn_one(x, y)

    thread = threading.Thread(target=learn)
    thread.start()
    try:
        with Readers(1, lambda: model.predict_many(ROWS)[-1]), Readers(1, model.to_bytes):
            yield
    finally:
        stop.set()
        thread.join(SECONDS)
        assert not thread.is_alive()


def exit_code(child: int) -> int:
    """What a child process says; it is killed when it hangs."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def put_to_work(model: Learner) -> bool:
    """Whether it is the model of some number of rows, and goes on from there as its copy does."""
    twin = type(model).from_bytes(model.to_bytes())
    if not np.array_equal(twin.predict_many(ROWS), model.predict_many(ROWS)):
        return False
    for one in (model, twin):
        one.learn_many(ROWS.part(0, 50))
        one.learn_one({1: 1.0}, 1.0)
    return twin.to_bytes() == model.to_bytes()


@pytest.mark.parametrize("kind", MAKE)
def test_a_child_can_use_a_model_that_was_being_taught(kind: str) -> None:
    model, codes = MAKE[kind](), []
    with learning(model):
        for _ in range(FORKS):
            child = os.fork()
            if child == 0:
                try:
                    os._exit(0 if put_to_work(model) else 3)
                finally:
                    os._exit(4)
            codes.append(exit_code(child))
            if codes[-1] == -1:
                break
    assert codes == [0] * FORKS
    assert put_to_work(model)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("kind", ["auto", "cfm"])
def test_other_processes_predict_while_a_model_learns(method: str, kind: str) -> None:
    model = MAKE[kind]()
    with learning(model), multiprocessing.get_context(method).Pool(2) as pool:
        done = [pool.apply_async(model.predict_many, (ROWS.part(0, 9),)) for _ in range(10)]
        found = [one.get(SECONDS) for one in done]
    assert all(np.isfinite(one).all() and len(one) == 9 for one in found)


def test_threads_may_fork_at_the_same_time() -> None:
    model, codes = Mixture([LR("squared"), CFM("squared", ball=BALL)]), []

    def fork() -> None:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                os._exit(0 if put_to_work(model) else 3)
            codes.append(exit_code(child))

    with learning(model):
        threads = [threading.Thread(target=fork) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert codes == [0] * 20
