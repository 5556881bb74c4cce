"""What a service costs, beside Vowpal Wabbit's daemon: run by make bench-serve.

python -m benchmarks.serve --seconds 2 --repeats 1 --records 20000 --ids 20000     # a quick try
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks.machine import circumstances
from benchmarks.measure import ROOT, BenchmarkError, tell
from benchmarks.results import as_json
from benchmarks.service import page, recovery
from benchmarks.service import rows as texts
from benchmarks.service.load import batched, one_at_a_time, pipelined, singles
from benchmarks.service.process import Served, VwDaemon, has_vw
from pqrlearn import LR, Auto
from pqrlearn.files import atomic_write

BATCH = 1000
DISTINCT = 10_000
"""Rows that requests are made of."""
MOST_LEARNED = 20_000
"""Single labels a second for which there are rows enough."""
JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
MODELS = {"lr": LR, "auto": Auto}
Reading = dict[str, Any]


def measured(model: Path, seconds: float, batches: int) -> dict[str, Reading]:
    """One round: every kind of request, each on a service of its own."""
    given = texts.rows(DISTINCT)
    many = [given[number % DISTINCT] for number in range(BATCH * batches)]
    rows = [{"features": row} for row in many]
    found: dict[str, Reading] = {}
    with served(model) as service:
        found["predict"] = singles(service, "/v1/predict", texts.features(given), seconds)
        found["predict"]["log"] = service.get("/v1/status")["log"]
    with served(model) as service:
        ready = wait_for(service, given, int(seconds * MOST_LEARNED))
        found["learn"] = singles(service, "/v1/learn", texts.labels(0, ready), seconds)
        found["learn"]["log"] = service.get("/v1/status")["log"]
        found["score"] = singles(service, "/v1/score", texts.features(given), seconds)
    with served(model) as service:
        bodies = texts.batches(rows, BATCH)
        found["predict:batch"] = batched(service, "/v1/predict:batch", bodies, BATCH)
        found["score:batch"] = batched(service, "/v1/score:batch", bodies, BATCH)
    with served(model) as service:
        arrow = texts.arrow_batches(many, BATCH)
        batched(service, "/v1/score:batch", arrow[:1], BATCH, ARROW)  # imports pyarrow
        found["predict:batch, Arrow"] = batched(service, "/v1/predict:batch", arrow, BATCH, ARROW)
        found["score:batch, Arrow"] = batched(service, "/v1/score:batch", arrow, BATCH, ARROW)
    return found | measured_labels(model, many)


def measured_labels(model: Path, many: list[texts.Row]) -> dict[str, Reading]:
    """Batches of labels, for rows that wait and together with their rows."""
    labels = [texts.label_of(number) for number in range(len(many))]
    whole = [one | {"features": row} for one, row in zip(labels, many, strict=True)]
    flat = [one | row for one, row in zip(labels, many, strict=True)]
    found: dict[str, Reading] = {}
    for way, put, kind in (("", texts.batches, JSON), (", Arrow", texts.arrow_batches, ARROW)):
        for load, rows in (("learn:batch", labels), ("learn:batch with rows", whole)):
            with served(model) as service:
                batched(service, "/v1/score:batch", texts.arrow_batches(many[:1], 1), 1, ARROW)
                if rows is labels:
                    wait_for(service, many, len(many))
                bodies = put(rows if kind == JSON or rows is labels else flat, BATCH)
                found[load + way] = batched(service, "/v1/learn:batch", bodies, BATCH, kind)
    return found


@contextmanager
def served(model: Path) -> Iterator[Served]:
    folder = Path(tempfile.mkdtemp(prefix="bench-serve-", dir=ROOT / "build"))
    try:
        with Served(folder / "log", "-m", model) as service:
            yield service
    finally:
        shutil.rmtree(folder)


def wait_for(service: Served, given: list[texts.Row], count: int) -> int:
    """Predicts rows with known ids, which then wait for their labels."""
    rows = [
        {"id": texts.name_of(number), "features": given[number % len(given)]}
        for number in range(count)
    ]
    batched(service, "/v1/predict:batch", texts.batches(rows, BATCH), BATCH)
    return count


def measured_vw(seconds: float, batches: int) -> dict[str, Reading]:
    """Predict and learn of VW's daemon: nothing is durable there."""
    given = texts.rows(DISTINCT)
    repeats = max(1, BATCH * batches // DISTINCT)
    plain, labelled = (texts.vw_text(given, labelled=labelled) for labelled in (False, True))
    with VwDaemon() as daemon:
        return {
            "learn:batch": pipelined(daemon, labelled, repeats),
            "predict:batch": pipelined(daemon, plain, repeats),
            "predict": one_at_a_time(daemon, plain, seconds),
            "learn": one_at_a_time(daemon, labelled, seconds),
        }


def rounds(
    measure: Callable[[], dict[str, Reading]], repeats: int, what: str
) -> dict[str, Reading]:
    found = []
    for number in range(repeats):
        tell(f"{what}, round {number + 1} of {repeats}")
        found.append(measure())
    return {name: _median([one[name] for one in found]) for name in found[0]}


def _median(readings: list[Reading]) -> Reading:
    first = readings[0]
    kept = {key: median(one[key] for one in readings) for key in first if key != "log"}
    logs = [one["log"] for one in readings if "log" in one]
    keys = ("sync_ms_p50", "sync_ms_p99", "group_records_p50")
    return kept | ({key: median(log[key] for log in logs) for key in keys} if logs else {})


def started_again(folder: Path, records: int) -> dict[str, Any]:
    found = {}
    for name, kind in MODELS.items():
        tell(f"recovery of {name}, {records:,} records")
        found[name] = recovery.recovery(folder / name, kind().to_bytes(), records)
        shutil.rmtree(folder / name)
    return found


@click.command()
@click.option("--seconds", default=5.0, show_default=True, help="Of each load with single rows.")
@click.option("--batches", default=200, show_default=True, help="Batches of each load with many.")
@click.option("--repeats", default=3, show_default=True, help="Rounds, of which medians are shown.")
@click.option("--records", default=1_000_000, show_default=True, help="Records to recover.")
@click.option("--ids", default=1_000_000, show_default=True, help="Ids that wait.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=ROOT / "build" / "bench",
    help="Folder of the results.",
)
def main(seconds: float, batches: int, repeats: int, records: int, ids: int, output: Path) -> None:
    """Measures a service on loopback."""
    result: dict[str, Any] = circumstances()
    result |= {"seconds": seconds, "batches": batches, "repeats": repeats, "loads": {}}
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-serve-", dir=ROOT / "build") as scratch:
        try:
            for name, kind in MODELS.items():
                model = Path(scratch, f"{name}.pqr")
                kind().save(model)
                measure = lambda model=model: measured(model, seconds, batches)  # noqa: E731
                result["loads"][name] = rounds(measure, repeats, name)
            if has_vw():
                vw = lambda: measured_vw(seconds, batches)  # noqa: E731
                result["loads"]["vw"] = rounds(vw, repeats, "VW's daemon")
            result["recovery"] = started_again(Path(scratch), records)
            result["memory"] = recovery.memory(Path(scratch, "ids"), Path(scratch, "lr.pqr"), ids)
        except BenchmarkError as error:
            raise click.ClickException(str(error)) from None
    output.mkdir(parents=True, exist_ok=True)
    atomic_write(output / "serve.json", f"{as_json(result)}\n".encode())
    atomic_write(output / "SERVE.md", page.page(result).encode())
    print(page.page(result))


if __name__ == "__main__":
    main()
