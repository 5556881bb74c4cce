"""What the digest of files costs: its speed, and saving and loading with it and without, in turn.

A PQR model of some four million pairs, and a cache of a million rows; files stay in the memory of
the system. Without means a digest that does nothing, so that all else is the same code.

    python -m benchmarks.studies.digest
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import pqrlearn
from benchmarks.machine import commit, machine
from pqrlearn import LR, PQR, Batch, Counts, Separation, modelfile
from pqrlearn.readers import CacheReader, prefetch
from pqrlearn.readers.cache import kept

TURNS = 31
WIDTH = 20
REAL: Any = modelfile.Digest


class Nothing:
    """A digest that does nothing."""

    def update(self, data: object) -> None:
        pass

    def value(self) -> int:
        return 0


def rows(size: int, features: int) -> Batch:
    """Rows of 20 features, small indices more frequent than large ones."""
    random = np.random.default_rng(1)
    drawn = np.sort((features * random.random((size, WIDTH)) ** 3).astype(np.uint32), axis=1)
    ones = np.ones(size * WIDTH, np.float32)
    indices = (drawn + np.arange(WIDTH, dtype=np.uint32)).reshape(-1)  # rising in each row
    indptr = np.arange(0, size * WIDTH + 1, WIDTH)
    return Batch(indptr, indices, ones, random.integers(0, 2, size).astype(float), ones[:size])


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compared(title: str, work: Callable[[str], object]) -> str:
    """One line: medians of both, and of their difference in each turn."""
    took: dict[str, list[float]] = {"with": [], "without": []}
    for turn in range(TURNS):
        for which in sorted(took, reverse=bool(turn % 2)):
            modelfile.Digest = REAL if which == "with" else Nothing
            took[which].append(1e3 * seconds(lambda which=which: work(which)))
    modelfile.Digest = REAL
    more = median(a - b for a, b in zip(took["with"], took["without"], strict=True))
    without = median(took["without"])
    cells = (
        f"{median(took['with']):.1f} | {without:.1f} | {more:+.1f} | {100 * more / without:+.1f}"
    )
    return f"| {title} | {cells} |"


def learn(path: Path) -> None:
    model = LR()
    for batch in prefetch(CacheReader(path, loss="logistic").batches()):
        model.learn_many(batch)


def main() -> None:
    where, data = machine(), np.random.default_rng(1).bytes(1 << 28)
    speed = len(data) / median(seconds(lambda: modelfile.digest_of(data)) for _ in range(9)) / 1e9
    print(f"{where['cpu']}, {where['cores']} cores, load {where['load']:.1f}, {commit()}")
    print(f"XXH64: {speed:.1f} GB/s\n")
    batch, many = rows(200_000, 20_000), rows(1_000_000, 1_000_000)
    model = PQR(Separation.top_k(batch, 4000))
    model.learn_many(batch)
    print(
        f"{model.nonzeros()['pair']:,} pairs, {len(model.to_bytes()) / 1e6:.0f} MB; 96 MB of rows\n"
    )
    print("| | with, ms | without, ms | difference, ms | % |\n|---|---|---|---|---|")
    with TemporaryDirectory(dir=Path.cwd()) as room:
        at = Path(room)
        print(compared("save", lambda which: model.save(at / which)), flush=True)
        print(compared("load", lambda which: pqrlearn.load(at / which)), flush=True)
        for title, work in {
            "make a cache": lambda path: list(kept(path, [many])),
            "read a cache": lambda path: [
                len(b) for b in CacheReader(path, loss="logistic").batches()
            ],
            "count a tenth of it": lambda path: Counts.of_files([path], 100_000),
            "learn LR from it": learn,
        }.items():
            line = compared(title, lambda which, work=work: work(at / f"{which}.cache"))
            print(line, flush=True)


if __name__ == "__main__":
    main()
