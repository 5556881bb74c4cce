"""One thread learns while others predict or save: what readers see, and that nothing races.

The native core runs under ThreadSanitizer in a program of its own, tests/native/threads.cpp; the
same program without the lock must be caught, which shows that the sanitizer sees what it should.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pqrlearn import FM, LR, PQR, QR, Auto, Batch, DiFacto, Ftrl, Ogd, Separation
from pqrlearn.learners.base import Learner
from programs import COMPILER, needs_compiler
from storm import Readers
from strategies import as_dicts, random_batch

ROOT = Path(__file__).parent.parent
FLAGS = ["-std=c++17", "-O1", "-g", "-fsanitize=thread", "-pthread", f"-I{ROOT / 'csrc'}"]
SECONDS = 120

# Under ThreadSanitizer.


def compiled(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [COMPILER, *FLAGS, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The core as an object file, if the compiler can watch threads at all."""
    folder = tmp_path_factory.mktemp("native")
    needs_compiler(folder, *FLAGS)
    sources = [ROOT / "csrc/model.cpp", ROOT / "csrc/model_state.cpp"]
    built = compiled("-r", "-nostdlib", *sources, "-o", folder / "core.o")
    assert built.returncode == 0, built.stderr
    return folder / "core.o"


def watched(core: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Runs the program of threads; addresses are fixed where the sanitizer asks for it."""
    program = core.parent / "threads"
    built = compiled(*flags, ROOT / "tests/native/threads.cpp", core, "-o", program)
    assert built.returncode == 0, built.stderr
    environment = os.environ | {"TSAN_OPTIONS": "halt_on_error=1 exitcode=66"}
    for command in ([str(program)], ["setarch", "-R", str(program)]):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment
        )
        if "unexpected memory mapping" not in done.stderr:
            break
    return done


def test_learning_and_predicting_at_once_is_no_race(core: Path) -> None:
    done = watched(core)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_the_lock_the_race_is_reported(core: Path) -> None:
    done = watched(core, "-DPQR_NO_LOCK")
    assert done.returncode == 66
    assert "WARNING: ThreadSanitizer: data race" in done.stderr


# What readers see.

ROWS = random_batch(seed=61, rows=8000, features=30)
PROBES = ROWS.part(0, 3)


def history(model: Learner, question: Callable[[], Any]) -> set[Any]:
    """Every answer that there is between two rows."""
    answers = {question()}
    for row in zip(as_dicts(ROWS), ROWS.labels.tolist(), ROWS.weights.tolist(), strict=True):
        model.learn_one(*row)
        answers.add(question())
    return answers


def learn_in_pieces(model: Learner, readers: Readers) -> None:
    """Pieces shorter and longer than those in which the core lets readers in."""
    start = 0
    for size in [1, 10, 500, 1500, 3, 700, 2500, 40, len(ROWS)]:
        piece = ROWS.part(start, min(start + size, len(ROWS)))
        model.learn_many(piece)
        start += len(piece)
        readers.wait()


MAKE: dict[str, Callable[[], Learner]] = {
    "auto": Auto,
    "pqr": lambda: PQR(Separation.top_k(ROWS, 8), "logistic", Ftrl(alpha=0.5)),
    "pqr, rescaled": lambda: PQR(Separation.top_k(ROWS, 8), "squared", Ogd(2.0, "fixed", 0.01)),
    "qr": lambda: QR("squared", Ftrl(alpha=0.05)),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE.keys())
@pytest.mark.parametrize("how", ["many", "one"])
def test_a_prediction_sees_the_model_between_two_rows(make: Any, how: str) -> None:
    """Three rows asked for at once are answered by one and the same model."""

    def question(model: Learner) -> Callable[[], Any]:
        first = as_dicts(PROBES)[0]
        if how == "one":
            return lambda: model.predict_one(first)
        return lambda: tuple(model.predict_many(PROBES).tolist())

    model, twin = make(), make()
    with Readers(3, question(model)) as readers:
        learn_in_pieces(model, readers)
    assert readers.errors == []
    assert readers.seen <= history(twin, question(twin))
    assert len(readers.seen) > 3
    assert model.to_bytes() == twin.to_bytes()


def repeated(batch: Batch, times: int) -> Batch:
    size = batch.indptr[-1]
    starts = np.concatenate([batch.indptr[:-1] + size * n for n in range(times)])
    columns = (batch.indices, batch.values, batch.labels, batch.weights)
    return Batch(np.append(starts, times * size), *(np.tile(column, times) for column in columns))


SAVED = MAKE | {
    "fm": lambda: FM("squared", rank=2),
    "difacto": lambda: DiFacto("squared"),
}


@pytest.mark.parametrize("make", SAVED.values(), ids=SAVED.keys())
@pytest.mark.parametrize("how", ["file", "bytes"])
def test_what_is_saved_is_the_model_between_two_rows(make: Any, how: str, tmp_path: Path) -> None:
    """As many rows, learned by another model, make the same bytes."""
    model, twin = make(), make()
    ones = np.ones_like(ROWS.weights)  # or `rows` would not count all of them
    many = repeated(replace(ROWS, weights=ones), 8)

    def saved() -> bytes:
        if how == "bytes":
            return model.to_bytes()
        path = tmp_path / f"{threading.get_ident()}.model"
        model.save(path)
        return path.read_bytes()

    with Readers(2, saved) as readers:
        for _ in range(4):
            model.learn_many(many)
            readers.wait()
    assert readers.errors == []
    assert len(readers.seen) > 3
    for rows, data in sorted((type(model).from_bytes(data).rows, data) for data in readers.seen):
        while twin.rows < rows:
            first = twin.rows % len(many)
            twin.learn_many(many.part(first, min(len(many), first + rows - twin.rows)))
        assert twin.to_bytes() == data


def test_a_model_may_be_saved_while_names_are_learned() -> None:
    model, twin = LR("squared"), LR("squared")
    rows = [{"site": str(i % 7), "price": i % 3, "user": f"u{i}"} for i in range(600)]
    with Readers(1, model.to_bytes) as readers:
        for n, x in enumerate(rows):
            model.learn_one(x, 1.0)
            if n % 50 == 0:
                readers.wait()
    assert readers.errors == []
    assert len(readers.seen) > 3
    for count, data in sorted((LR.from_bytes(data).rows, data) for data in readers.seen):
        for x in rows[twin.rows : count]:
            twin.learn_one(x, 1.0)
        assert twin.to_bytes() == data


def test_no_name_is_lost_when_two_threads_learn_while_a_third_saves() -> None:
    model = LR("squared")

    def learn(who: str) -> None:
        for n in range(300):
            model.learn_one({f"{who} {n}": 1.0}, 1.0)
            if n % 20 == 0:
                time.sleep(0.001)

    threads = [threading.Thread(target=learn, args=(who,)) for who in ("one", "other")]
    with Readers(1, model.to_bytes) as readers:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
    assert readers.errors == []
    expected = {f"{who} {n}" for who in ("one", "other") for n in range(300)}
    assert {model.name_of(feature) for feature in range(600)} == expected
    assert model.rows == 600


def test_names_may_be_learned_while_others_are_read() -> None:
    model, twin = LR("squared"), LR("squared")
    probe = {"site": "0", "price": 2.0, "never": "seen"}
    rows = [{"site": str(i), "price": i % 3, "user": f"u{i}"} for i in range(2000)]
    with Readers(3, lambda: model.predict_one(probe)) as readers:
        for x in rows:
            model.learn_one(x, 1.0)
        readers.wait()
    answers = {twin.predict_one(probe)}
    for x in rows:
        twin.learn_one(x, 1.0)
        answers.add(twin.predict_one(probe))
    assert readers.errors == []
    assert readers.seen <= answers
    assert len(readers.seen) > 1


def test_a_value_that_is_computed_in_python_does_not_disturb_other_rows() -> None:
    """Its __float__ may ask the model itself, or give way to another thread that does."""
    model = LR("squared")
    for _ in range(20):
        model.learn_one({0: 1.0, 1: 0.5, 2: -1.0}, 3.0)

    class Asking:
        def __float__(self) -> float:
            model.predict_one({2: 1.0, 7: 1.0})
            return 0.25

    for x in ({0: 1.0, 1: 0.25}, {1: 0.25, 0: 1.0}, {0: 0.25, 2: 0.25}):
        asked: dict[Any, Any] = {i: Asking() if v == 0.25 else v for i, v in x.items()}
        assert model.predict_one(asked) == model.predict_one(x)


def test_names_outlive_the_keys_that_a_value_takes_away() -> None:
    """A name is read from its key; a value's __float__ may end the key before it is looked up."""
    model = LR("squared")

    class Clearing:
        def __init__(self, row: dict[str, Any]) -> None:
            self.row = row

        def __float__(self) -> float:
            self.row.clear()
            self.taken = [f"{'x' * 12}{n}" for n in range(2000)]  # the memory of the keys
            return 2.0

    for n in range(20):
        row: dict[str, Any] = {f"row {n}, name {k}": 1.0 for k in range(30)}
        row[f"row {n}, the one that clears"] = Clearing(row)
        model.learn_one(row, 1.0)
    names = [*(f"name {k}" for k in range(30)), "the one that clears"]
    expected = [f"row {n}, {name}" for n in range(20) for name in names]
    assert sorted(model.name_of(i) for i in range(len(expected))) == sorted(expected)


def test_readers_do_not_keep_the_learner_waiting() -> None:
    """Each comes in about once before the next 1,024 rows are learned. Readers that could pass a
    waiting learner would come in about ten times."""
    model, many = PQR(Separation.top_k(ROWS, 8)), repeated(ROWS, 50)
    few = ROWS.part(0, 1000)  # more would be read from a copy

    def asked_meanwhile() -> int:
        with Readers(4, lambda: model.predict_many(few)[-1]) as readers:
            model.learn_many(many)
            asked = max(readers.asked)
        assert readers.errors == []
        return asked

    fewest = min(asked_meanwhile() for _ in range(3))  # a busy machine may stop the learner
    assert fewest < 5 * len(many) / 1024


def test_weights_of_pairs_are_read_while_nothing_is_learned() -> None:
    """They are counted, then copied: who does so holds the model, and waits for others who do."""
    rows = random_batch(seed=6)
    model = PQR(Separation.top_k(rows, 3))
    model.learn_many(rows)
    with ThreadPoolExecutor(1) as pool:
        with model._paused():
            read = pool.submit(model.weights, "pair")
            assert not wait([read], timeout=0.2).done
        assert len(read.result(timeout=60)[1]) == model.nonzeros()["pair"]
