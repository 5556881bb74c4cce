"""The lock of Learners in Python: who waits for whom."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest

from pqrlearn import CFM, Batch, NuclearBall
from pqrlearn.learners.turns import Turns

SECONDS = 60


def is_waiting(turn: Future[None]) -> bool:
    return not wait([turn], timeout=0.1).done


def test_readers_share_and_whoever_changes_is_alone() -> None:
    turns = Turns()

    def take(alone: bool) -> None:
        with turns.alone() if alone else turns.among():
            pass

    with ThreadPoolExecutor(3) as pool:
        with turns.among():
            pool.submit(take, False).result(SECONDS)
            writer = pool.submit(take, True)
            assert is_waiting(writer)
            late = pool.submit(take, False)
            assert is_waiting(late)  # behind the writer, which would wait forever otherwise
        writer.result(SECONDS)
        late.result(SECONDS)
        with turns.alone():
            assert is_waiting(pool.submit(take, False))


def test_a_thread_that_gives_up_waiting_leaves_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, interrupted = Turns(), threading.Event()

    def interrupt(*_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    def wait_in_vain() -> None:
        with pytest.raises(KeyboardInterrupt), turns.alone():
            pass

    with turns.among():
        monkeypatch.setattr(turns._changed, "wait_for", interrupt)
        thread = threading.Thread(target=wait_in_vain)
        thread.start()
        thread.join(SECONDS)
        monkeypatch.undo()
    assert interrupted.is_set()
    with turns.alone():
        pass


def test_readers_come_in_while_a_long_batch_is_learned() -> None:
    """Not only when all of its rows are learned."""
    rows = Batch.from_rows([([n % 50, 60 + n % 7], [1.0, 1.0]) for n in range(2000)])
    model = CFM("squared", ball=NuclearBall(block_rows=4))
    learner = threading.Thread(target=model.learn_many, args=(rows, [n % 3 for n in range(2000)]))
    seen = set()
    learner.start()
    while learner.is_alive():
        seen.add(CFM.from_bytes(model.to_bytes()).rows)
    learner.join()
    assert len(seen - {0, 2000}) > 3


def test_a_value_may_ask_the_model_that_learns_it() -> None:
    model, plain = CFM("squared"), CFM("squared")

    class Asking:
        def __float__(self) -> float:
            model.predict_one({"other": 1.0, "more": "words"})
            return 0.5

    for label in (1.0, 2.0):
        model.learn_one({"a": 1.0, "b": Asking(), "c": "d"}, label)
        plain.learn_one({"a": 1.0, "b": 0.5, "c": "d"}, label)
    assert model.to_bytes() == plain.to_bytes()
