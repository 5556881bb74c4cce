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

DICTS, FEATURES, ORDER = 40_000, 39, 1000
BATCH_ROWS = 500_000
"""Of each Batch that is learned and predicted, where nothing else is said."""

CALLS = 5
"""Of predict_many in each round: a model at rest has copied its weights before the last one."""

NOTE = """\
`learn_one`: {dicts:,} dicts of 39 named features; the second half is timed, a hundred fresh dicts \
at a time. Columns are 39 numbers under the same names in every row; clicks are 39 names with the \
value 1, in the shape of Criteo, where two in each row were never seen before. River runs its \
logistic regression with its default optimizer, plain SGD, in a process of its own, on the same \
dicts. `learn_many` and \
`predict_many`: Batches of {rows:,} rows, new ones in each round, after a first one; learning has \
one thread, predicting all cores. The logistic link is part of both. Each round learns its Batch \
once and then predicts it {calls} times: the first call is that of a model that has just learned, \
the last that of a model at rest, which predicts from a copy of its weights; targets are for that.
"""


def compare(rows: int | None, repeats: int, cache: Path) -> Result:
    before = circumstances()
    batch_rows, dicts = rows or BATCH_ROWS, min(rows or DICTS, DICTS)
    one = learn_one(dicts, repeats, cache)
    many = {name: learn_and_predict(name, batch_rows, repeats) for name in SHAPES}
    sizes = {"rows": batch_rows, "dicts": dicts, "repeats": repeats, "calls": CALLS}
    return {"part": "memory", **before, **sizes, "learn_one": one, "many": many}


def learn_one(dicts: int, repeats: int, cache: Path) -> dict[str, dict[str, Result]]:
    """Microseconds per row, by kind; a new model in each round, as River has a new process."""
    cache.mkdir(parents=True, exist_ok=True)
    learned = dicts // 2
    contenders: dict[tuple[str, str], Callable[[], float]] = {}
    for kind, make in KINDS.items():
        rows = make(dicts)
        separation = Separation.top_k([x for x, _ in rows[:learned]], order=ORDER)
        path = cache / f"{kind}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        contenders |= _on_dicts(kind, path, learned, separation)
        del rows  # or new dicts would lie scattered between them
    readings: dict[tuple[str, str], list[float]] = {who: [] for who in contenders}
    for number in range(1, repeats + 1):
        for who, run in contenders.items():
            readings[who].append(run())
            tell(f"round {number}/{repeats}  learn_one {' '.join(who)}: {readings[who][-1]:.2f} µs")
    found: dict[str, dict[str, Result]] = {kind: {} for kind in KINDS}
    for (kind, title), read in readings.items():
        found[kind][title] = {"microseconds": median(read)}
    return found


def _on_dicts(
    kind: str, path: Path, learned: int, separation: Separation
) -> dict[tuple[str, str], Callable[[], float]]:
    who: dict[tuple[str, str], Callable[[], float]] = {
        (kind, "LR"): lambda: microseconds(LR().learn_one, str(path), learned),
        (kind, f"PQR({ORDER})"): lambda: microseconds(
            PQR(separation).learn_one, str(path), learned
        ),
    }
    if PEERS_PYTHON.exists():
        who[kind, "River LR"] = lambda: _river(path, learned)
    return who


def column_rows(rows: int) -> list[tuple[dict[str, float], int]]:
    """Numbers and labels without any relation, as it does not matter here."""
    random = np.random.default_rng(1)
    values, labels = random.normal(size=(rows, FEATURES)).round(3), random.integers(2, size=rows)
    names = [f"column {n}" for n in range(1, FEATURES + 1)]
    dicts = [dict(zip(names, row, strict=True)) for row in values.tolist()]
    return list(zip(dicts, labels.tolist(), strict=True))


def click_rows(rows: int) -> list[tuple[dict[str, float], int]]:
    return named_rows(ClickStream.criteo(), rows)


def named_rows(stream: ClickStream, rows: int) -> list[tuple[dict[str, float], int]]:
    """The first rows of a stream with their labels: {"banner=1": 1.0, ...}, 1."""
    batch = stream.batch(0, rows)
    names = {feature: stream.name(feature) for feature in np.unique(batch.indices).tolist()}
    dicts = [{names[f]: 1.0 for f in row} for row in batch.indices.reshape(rows, -1).tolist()]
    return list(zip(dicts, batch.labels.astype(int).tolist(), strict=True))


KINDS = {"columns": column_rows, "clicks": click_rows}


def _river(path: Path, learned: int) -> float:
    script = near(PEERS / "river_one.py")
    outcome = measure([near(PEERS_PYTHON), script, near(path), str(learned)])
    return float(json.loads(outcome.stdout)["microseconds"])


def learn_and_predict(name: str, rows: int, repeats: int) -> dict[str, Result]:
    """Rows per second of each, in turn, on the same rows, and the ratio of their medians."""
    stream, order = SHAPES[name].stream(), SHAPES[name].order
    start = stream.batch(0, rows)
    models = {"LR": LR(), f"PQR({order})": PQR(Counts.of(start).separate(order=order))}
    for model in models.values():
        model.learn_many(start)
    readings: dict[str, Any] = {t: {"learn": [], "first": [], "predict": []} for t in models}
    for number in range(1, repeats + 1):
        batch = stream.batch(number * rows, rows)
        for title, model in models.items():
            learn = _rate(model.learn_many, batch)
            first, *_, predict = [_rate(model.predict_many, batch) for _ in range(CALLS)]
            for kind, rate in {"learn": learn, "first": first, "predict": predict}.items():
                readings[title][kind].append(rate)
            rates = f"learn {learn:,.0f}, predict {first:,.0f}, at rest {predict:,.0f} rows/s"
            tell(f"round {number}/{repeats}  {name} {title}: {rates}")
    return {title: _rates(found) for title, found in readings.items()}


def _rate(call: Callable[[Any], Any], batch: Any) -> float:
    start = time.perf_counter()
    call(batch)
    return len(batch) / (time.perf_counter() - start)


def _rates(readings: Result) -> Result:
    found = {kind: median(rates) for kind, rates in readings.items()}
    return {**found, "ratio": found["predict"] / found["learn"]}


def section(result: Result) -> str:
    kinds = result["learn_one"]
    one = [
        [title, *(f"{found[title]['microseconds']:.2f}" for found in kinds.values())]
        for title in kinds["columns"]
    ]
    many = [
        [f"{title}, the shape of {name.capitalize()}", *_cells(rates)]
        for name, models in result["many"].items()
        for title, rates in models.items()
    ]
    columns = ["rows/s in memory", "learn_many", "predict_many", "at rest", "times as fast"]
    return f"""## In memory

{NOTE.format(**result)}
{table(["µs of learn_one", *kinds], one)}
{table(columns, many)}"""


def _cells(rates: Result) -> list[str]:
    rows = [f"{rates[kind]:,.0f}" for kind in ("learn", "first", "predict")]
    return [*rows, f"{rates['ratio']:.2f}"]
