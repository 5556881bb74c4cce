"""What a row, a label and a replayed record cost the core of the service, in CPU time.

    python -m benchmarks.studies.service

An LR, rows of 20 features, groups of 1,000, in this process: no HTTP. Takes half a minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory

from pqrlearn import LR
from pqrlearn.serve.service import Service
from pqrlearn.serve.settings import Settings

ROWS, GROUP, ROUNDS = 20_000, 1_000, 5


def measured(folder: Path, rows: int = ROWS) -> dict[str, float]:
    """Microseconds of CPU time by what was done."""
    random = Random(1)
    service = Service(folder, Settings(), model=LR().to_bytes())
    given = [{f"c{n}": f"v{random.randrange(50)}" for n in range(20)} for _ in range(rows)]
    ids: list[str] = []
    found = {}

    def grouped(call: Callable[[int], object]) -> None:
        for number in range(rows):
            call(number)
            if number % GROUP == GROUP - 1:
                service.commit()

    started = time.process_time()
    grouped(lambda number: ids.append(service.predict(given[number]).id))
    found["predict"] = time.process_time() - started
    started = time.process_time()
    grouped(lambda number: service.learn(ids[number], 1.0))
    found["learn"] = time.process_time() - started
    service.commit()
    service.close()
    started = time.process_time()
    Service(folder, Settings()).close()
    found["replay"] = (time.process_time() - started) / 2  # a row has two records
    return {what: 1e6 * seconds / rows for what, seconds in found.items()}


def main() -> None:
    rounds = []
    for _ in range(ROUNDS):
        with TemporaryDirectory() as folder:
            rounds.append(measured(Path(folder, "log")))
    for what in rounds[0]:
        print(f"{what:8} {median(one[what] for one in rounds):5.1f} µs")


if __name__ == "__main__":
    main()
