"""Without files: learn_one on dicts of named features, and predict_many against learn_many.

A model first learns some rows, so that it is not a new one that is timed; those that follow are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.contenders import PEERS, PEERS_PYTHON
from benchmarks.machine import circumstances
from benchmarks.measure import measure, near, tell
from benchmarks.peers.one_by_one import microseconds
from benchmarks.results import Result, table
from benchmarks.workloads import SHAPES
from pqrlearn import LR, PQR, Counts, Separation
from pqrlearn.datasets.clicks import ClickStream

DICTS, ORDER = 40_000, 1000
BATCH_ROWS = 500_000
"""Of each Batch that is learned and predicted, where nothing else is said."""

NOTE = """\
`learn_one`: {dicts:,} dicts of 39 named features with the value 1, in the shape of Criteo; the \
second half is timed, a hundred fresh dicts at a time. River runs its logistic regression with its \
default optimizer, plain SGD, in a process of its own, on the same dicts. `learn_many` and \
`predict_many`: Batches of {rows:,} rows, new ones in each round, after a first one; learning has \
one thread, predicting all cores. The logistic link is part of both.
"""


def compare(rows: int | None, repeats: int, cache: Path) -> Result:
    before = circumstances()
    batch_rows, dicts = rows or BATCH_ROWS, min(rows or DICTS, DICTS)
    one = learn_one(dicts, repeats, cache)
    many = {name: learn_and_predict(name, batch_rows, repeats) for name in SHAPES}
    sizes = {"rows": batch_rows, "dicts": dicts, "repeats": repeats}
    return {"part": "memory", **before, **sizes, "learn_one": one, "many": many}


def learn_one(dicts: int, repeats: int, cache: Path) -> dict[str, Result]:
    """Microseconds per row; a new model in each round, as River has a new process."""
    learned = dicts // 2
    rows = named_rows(ClickStream.criteo(), dicts)
    separation = Separation.top_k([x for x, _ in rows[:learned]], order=ORDER)
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / "dicts.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    del rows  # or new dicts would lie scattered between them
    contenders: dict[str, Callable[[], float]] = {
        "LR": lambda: microseconds(LR().learn_one, str(path), learned),
        f"PQR({ORDER})": lambda: microseconds(PQR(separation).learn_one, str(path), learned),
    }
    if PEERS_PYTHON.exists():
        contenders["River LR"] = lambda: _river(path, learned)
    readings: dict[str, list[float]] = {title: [] for title in contenders}
    for number in range(1, repeats + 1):
        for title, run in contenders.items():
            readings[title].append(run())
            tell(f"round {number}/{repeats}  learn_one {title}: {readings[title][-1]:.2f} µs")
    return {
        title: {"microseconds": median(found), "readings": found}
        for title, found in readings.items()
    }


def named_rows(stream: ClickStream, rows: int) -> list[tuple[dict[str, float], int]]:
    """The first rows of a stream with their labels: {"banner=1": 1.0, ...}, 1."""
    batch = stream.batch(0, rows)
    names = {feature: stream.name(feature) for feature in np.unique(batch.indices).tolist()}
    dicts = [{names[f]: 1.0 for f in row} for row in batch.indices.reshape(rows, -1).tolist()]
    return list(zip(dicts, batch.labels.astype(int).tolist(), strict=True))


def _river(path: Path, learned: int) -> float:
    script = near(PEERS / "river_one.py")
    outcome = measure([near(PEERS_PYTHON), script, near(path), str(learned)])
    return float(json.loads(outcome.stdout)["microseconds"])


def learn_and_predict(name: str, rows: int, repeats: int) -> dict[str, Result]:
    """Rows per second of each, in turn, on the same rows; their ratio is taken in each round."""
    stream, order = SHAPES[name].stream(), SHAPES[name].order
    first = stream.batch(0, rows)
    models = {"LR": LR(), f"PQR({order})": PQR(Counts.of(first).separate(order=order))}
    for model in models.values():
        model.learn_many(first)
    readings: dict[str, Any] = {title: {"learn": [], "predict": []} for title in models}
    for number in range(1, repeats + 1):
        batch = stream.batch(number * rows, rows)
        for title, model in models.items():
            learn, predict = _rate(model.learn_many, batch), _rate(model.predict_many, batch)
            readings[title]["learn"].append(learn)
            readings[title]["predict"].append(predict)
            rates = f"learn {learn:,.0f}, predict {predict:,.0f} rows/s"
            tell(f"round {number}/{repeats}  {name} {title}: {rates}")
    return {title: _rates(found) for title, found in readings.items()}


def _rate(call: Callable[[Any], Any], batch: Any) -> float:
    start = time.perf_counter()
    call(batch)
    return len(batch) / (time.perf_counter() - start)


def _rates(readings: Result) -> Result:
    learn, predict = median(readings["learn"]), median(readings["predict"])
    return {"learn": learn, "predict": predict, "ratio": predict / learn, "readings": readings}


def section(result: Result) -> str:
    one = [[title, f"{found['microseconds']:.2f}"] for title, found in result["learn_one"].items()]
    many = [
        [f"{title}, the shape of {name.capitalize()}", *_cells(rates)]
        for name, models in result["many"].items()
        for title, rates in models.items()
    ]
    columns = ["rows/s in memory", "learn_many", "predict_many", "times as fast"]
    return f"""## In memory

{NOTE.format(**result)}
{table(["learn_one", "µs"], one)}
{table(columns, many)}"""


def _cells(rates: Result) -> list[str]:
    return [f"{rates['learn']:,.0f}", f"{rates['predict']:,.0f}", f"{rates['ratio']:.2f}"]
