"""Hostile model files: every truncation, random damage and mutations, loaded and put to work.

    python fuzz/models.py [--runs N] [--seconds S] [--seed S] [--scratch FOLDER] [--core FOLDER]

A file must be refused with a ModelFileError, or be a model that predicts, learns, and saves what
loads again. A damaged file must be refused, or hold the same as before. The same seed gives the
same files. Those that failed stay in the scratch folder, like the one that was being loaded when
the process died.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from mutations import damages, mutations, truncations

import pqrlearn
from pqrlearn import LR, PQR, QR, Batch, Separation, modelfile
from pqrlearn.errors import ModelFileError, RowError
from pqrlearn.hyper import FtrlGeneral, NuclearBall, Ogd
from pqrlearn.learners import CCFM, CFM, Frozen, Learner

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
CORPUS = ROOT / "fuzz" / "corpus" / "models"
PATIENCE = 120.0  # seconds for one file

ROWS: list[dict[Any, Any]] = [
    {"site": "ä", "hour": "9", 1: 0.5},
    {"site": "b", "price": -2.0, "new": "word"},
    {2**32 - 1: 1.0, 0: 1e-3},
    {},
]
BATCH = Batch.from_rows(
    [([0, 1, 2, 3], [1.0, 2.0, -1.0, 0.5]), ([4, 5, 4097], [1.0, 1.0, 1.0]), ([3, 9], [1e3, 1.0])],
    labels=[1.0, 0.0, 1.0],
    weights=[1.0, 0.25, 2.0],
)


# Loading, and putting to work.


def seeds() -> list[bytes]:
    """The golden files, and a model for each kind and optimizer that they have not got."""
    models: list[Learner] = [
        CFM("squared", ball=NuclearBall(block_rows=2)),
        CCFM("squared", NuclearBall(block_rows=3)),
        LR("squared", Ogd(eta=0.5, radius=0.25)),
        QR("squared", Ogd(schedule="fixed")),
        PQR(Separation.top_k(ROWS, 3), "squared", FtrlGeneral(radius=0.5)),
    ]
    for model in models:
        model.learn_many(ROWS, [1.0] * len(ROWS))
    golden = [path.read_bytes() for path in sorted(GOLDEN.glob("*.pqr"))]
    return golden + [model.to_bytes() for model in models]


def check(good: bool, promise: str) -> None:
    if not good:
        raise AssertionError(promise)


def loaded(load: Callable[[], Any]) -> Any:
    """What the file holds; None if it was refused."""
    try:
        return load()
    except ModelFileError:
        return None


def predictions(model: Learner) -> list[float]:
    """What the model makes of each row; nan where it refuses one."""
    found = []
    for rows in [*([row] for row in ROWS), BATCH]:
        try:
            margins = model.margin_many(rows)
        except RowError:
            found.append(float("nan"))
            continue
        check(bool(np.isfinite(margins).all()), "a margin is finite")
        check(bool(np.isfinite(model.predict_many(rows)).all()), "a prediction is finite")
        found += margins.tolist()
    return found


def check_saved(model: Learner) -> None:
    saved = model.to_bytes()
    again = pqrlearn.from_bytes(saved)
    check(again.to_bytes() == saved, "what was saved is saved as it was")
    same = np.array_equal(predictions(again), predictions(model), equal_nan=True)
    check(same, "what was saved predicts as before")


def put_to_work(model: Learner) -> None:
    predictions(model)
    model.nonzeros()
    for feature in range(10):
        model.name_of(feature)
    check_saved(model)
    if isinstance(model, Frozen):
        for row in ROWS:
            with suppress(RowError):
                model.explain_one(row)
        return
    if model.rows >= 2**62:  # such a count is loaded, but nobody will learn up to its end
        return
    for row in ROWS:
        with suppress(RowError):
            model.learn_one(row, 1.0)
    with suppress(RowError):
        model.learn_many(BATCH)
    check_saved(model)


def try_file(data: bytes, path: Path, *, save: bool) -> bool:
    """Loads `data` in every way there is; true when it was a model or a separation."""
    path.write_bytes(data)
    kind = loaded(lambda: modelfile.kind_of(path))
    model = loaded(lambda: pqrlearn.from_bytes(data))
    same = loaded(lambda: pqrlearn.load(path))
    separation = loaded(lambda: Separation.load(path))
    check((model is None) == (same is None), "bytes and a file are the same to load")
    check(kind is not None or (model is None and separation is None), "what loads has a kind")
    if model is not None:
        check(model.to_bytes() == same.to_bytes(), "bytes and a file hold the same model")
        put_to_work(model)
    if separation is not None:
        put_to_work(PQR(separation, "squared"))
    good = separation if model is None else model
    if save and good is not None:
        good.save(path)
        check(type(good).load(path) is not None, "what was saved loads again")
    return good is not None


def try_damaged(data: bytes, path: Path, whole: set[bytes]) -> bool:
    """Loads a damaged file; true when it still holds what one of `whole` does."""
    good = loaded(lambda: pqrlearn.from_bytes(data))
    if good is None:
        path.write_bytes(data)
        good = loaded(lambda: Separation.load(path))
    if good is not None:
        good.save(path)
        check(path.read_bytes() in whole, "what is damaged is refused")
    return good is not None


@dataclass
class Tally:
    files: int = 0
    loaded: int = 0
    failures: dict[str, int] = field(default_factory=dict)

    def add(self, data: bytes, scratch: Path, whole: set[bytes] | None = None) -> None:
        """Tries a file; if it is damaged, `whole` are those that it may still be."""
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        self.files += 1
        path = scratch / f"last-{os.getpid()}.pqr"
        try:
            save = self.loaded % 16 == 0  # a file that is synced to the disk takes its time
            self.loaded += (
                try_file(data, path, save=save) if whole is None else try_damaged(data, path, whole)
            )
        except Exception as error:
            self._note(error, data, scratch)
        faulthandler.cancel_dump_traceback_later()

    def _note(self, error: Exception, data: bytes, scratch: Path) -> None:
        """Keeps and shows the first file of each kind of failure."""
        frames = traceback.extract_tb(error.__traceback__)
        what = f"{type(error).__name__} in {frames[-1].name}: {str(error)[:80]}"
        if what not in self.failures:
            kept = scratch / f"failed-{crc32(data):08x}.pqr"
            kept.write_bytes(data)
            print(f"{kept}:", *traceback.format_exception(error)[-4:], sep="\n", file=sys.stderr)
        self.failures[what] = self.failures.get(what, 0) + 1


def run(files: Iterable[bytes], scratch: Path, whole: set[bytes] | None = None) -> Tally:
    tally = Tally()
    for data in files:
        tally.add(data, scratch, whole)
    return tally


def limited(files: Iterator[bytes], runs: int | None, seconds: float | None) -> Iterator[bytes]:
    start = time.monotonic()
    for data in islice(files, runs):
        if seconds is not None and time.monotonic() - start >= seconds:
            return
        yield data


def check_core(folder: str) -> None:
    """That the native module is the one of `folder`, and a sanitized one."""
    core = sys.modules["pqrlearn._core"]
    check(Path(str(core.__file__)).is_relative_to(Path(folder).resolve()), f"core is in {folder}")
    check("libasan" in Path("/proc/self/maps").read_text(), "core is sanitized")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, help="how many mutations")
    parser.add_argument("--seconds", type=float, help="how long to go on mutating")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scratch", type=Path, default=ROOT / "build" / "fuzz" / "models")
    parser.add_argument("--core", help="the folder where the sanitized core must come from")
    given = parser.parse_args()
    warnings.simplefilter("error")
    if given.core:
        check_core(given.core)
    given.scratch.mkdir(parents=True, exist_ok=True)
    runs = 10_000 if given.runs is None and given.seconds is None else given.runs
    stages = {
        "of the corpus": (path.read_bytes() for path in sorted(CORPUS.glob("*.pqr"))),
        "truncated": truncations(seeds()),
        "damaged": islice(damages(given.seed, seeds()), 10_000),
        "mutated": limited(mutations(given.seed, seeds()), runs, given.seconds),
    }
    failed = False
    for name, files in stages.items():
        whole = set(seeds()) if name == "damaged" else None
        start, tally = time.monotonic(), run(files, given.scratch, whole)
        took = time.monotonic() - start
        print(f"{tally.files} files {name}, {tally.loaded} of which load, in {took:.0f} s")
        for what, count in tally.failures.items():
            print(f"FAILED {count} times: {what}")
        failed = failed or bool(tally.failures) or (name == "truncated" and tally.loaded > 0)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
