"""How many threads the native core starts, and what bounds them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import pqrlearn
from command import run
from pqrlearn import PQR, Batch, Separation
from pqrlearn.errors import HyperError
from pqrlearn.threads import VARIABLE, from_environment
from strategies import random_batch

TASKS = Path("/proc/self/task")


@pytest.fixture(autouse=True)
def _bound_is_put_back() -> Iterator[None]:
    yield
    pqrlearn.set_threads(from_environment())


def many_rows() -> Batch:
    """Five parts of the size that one thread takes at a time."""
    some = random_batch(seed=3)
    return some.take(np.arange(5 * 8192) % len(some))


def most_threads(model: PQR, batch: Batch, calls: int, enough: int) -> int:
    """The most threads seen beside those of the test while it predicts, over some calls."""
    done = threading.Event()
    seen: list[int] = []

    def watch() -> None:
        while not done.is_set():
            seen.append(len(os.listdir(TASKS)))

    before = len(os.listdir(TASKS)) + 1  # the one that watches
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(calls):
            model.predict_many(batch)
            if max(seen, default=0) - before >= enough:
                break
    finally:
        done.set()
        watcher.join()
    return max(seen) - before


@pytest.mark.skipif(not TASKS.exists(), reason="needs /proc/self/task, which Linux has")
def test_no_more_threads_are_started_than_the_bound_allows() -> None:
    batch = many_rows()
    model = PQR(Separation.top_k(batch, order=20), "squared")
    model.learn_many(batch.part(0, 1000))
    pqrlearn.set_threads(1)
    assert most_threads(model, batch, calls=20, enough=1) == 0
    pqrlearn.set_threads(3)
    assert 1 <= most_threads(model, batch, calls=500, enough=1) <= 2


def test_results_do_not_depend_on_the_bound() -> None:
    batch = many_rows()
    found = []
    for bound in (1, 2, 7, None):
        pqrlearn.set_threads(bound)
        model = PQR(Separation.top_k(batch, order=400), "squared")
        model.learn_many(batch.part(0, 3000))
        found.append((model.predict_many(batch).tobytes(), model.to_bytes()))
    assert found.count(found[0]) == 4


@pytest.mark.parametrize("bound", [0, -1, 1.5, True, "2", 65537])
def test_a_bound_that_is_no_number_of_threads_is_refused(bound: object) -> None:
    with pytest.raises(HyperError, match=r"threads=.* must be a whole number from 1 to 65536"):
        pqrlearn.set_threads(bound)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "bound"), [("", None), (" ", None), ("3", 3)])
def test_the_environment_sets_the_bound(
    monkeypatch: pytest.MonkeyPatch, text: str, bound: int | None
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    assert from_environment() == bound


@pytest.mark.parametrize("text", ["0", "all", "-2", "1.5"])
def test_commands_refuse_an_environment_that_is_no_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, text: str, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    rows = tmp_path / "rows.svm"
    rows.write_text("1 0:1\n0 1:1\n")
    result = run("train", rows, "--model", "lr", "-o", tmp_path / "m.pqr")
    assert result.code == 2
    assert f"{VARIABLE}=" in result.err
    assert "must be a whole number from 1 to 65536" in result.err


def test_commands_take_a_bound(tmp_path: Path) -> None:
    rows = tmp_path / "rows.svm"
    rows.write_text("1 0:1\n0 1:1\n" * 10_000)
    models = [tmp_path / "one.pqr", tmp_path / "two.pqr"]
    for threads, model in zip((1, 2), models, strict=True):
        trained = run("--threads", threads, "train", rows, "--model", "lr", "-o", model)
        assert trained.code == 0, trained.err
    assert models[0].read_bytes() == models[1].read_bytes()
    outputs = [run("--threads", n, "predict", rows, "-m", models[0]).out for n in (1, 2)]
    assert outputs[0] == outputs[1] != ""
    assert run("--threads", 0, "predict", rows, "-m", models[0]).code == 2
