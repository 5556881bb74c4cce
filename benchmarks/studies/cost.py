"""What a row costs each of the seven models, against rank, order, non-zeros and features.

    make cost        # python -m benchmarks.studies.cost

In memory: a model learns the first rows of a stream, then the next ones are timed, in processor
seconds. Each round runs every model at every place of a sweep once, so that a machine that is slow
for a while is slow for all of them. Writes docs/cost.md, cost.json beside this file (medians) and
the figure build/cost.svg, in about five minutes on two quiet cores.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks.machine import commit, machine
from benchmarks.measure import ROOT
from benchmarks.results import as_json
from benchmarks.studies.cost_page import ROW_BY_ROW, figure, page
from pqrlearn import CCFM, CFM, FM, LR, PQR, QR, Batch, Counts, DiFacto, NuclearBall, plots
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.files import atomic_write
from pqrlearn.learners import Learner

FIELDS, FEATURES, RANK = 15, 100_000, 8
"""Of the stream and of FM where nothing else is said."""
ROWS = 2**15
BLOCKS = {"": 256, ROW_BY_ROW: 1}
"""Rows from one step of CFM and CCFM to the next."""

Make = Callable[[Batch], Learner]


@dataclass(frozen=True)
class Place:
    """One value of what is varied, and the models to compare there."""

    sweep: str
    x: int
    stream: ClickStream
    models: dict[str, Make]
    learned: int = ROWS
    """Rows before the clock runs, or a few more."""


@dataclass
class Reading:
    sweep: str
    x: int
    model: str
    weights: int
    bytes: int
    """Of the model file: the whole state, before the clock runs."""
    features: int
    pairs: int
    """Different ones, that have met in a row."""
    microseconds: list[float] = field(default_factory=list)
    """Per row, in each round."""

    def record(self) -> dict[str, Any]:
        """With the median of the rounds."""
        return {**asdict(self), "microseconds": median(self.microseconds)}


def lr(batch: Batch) -> Learner:
    return LR()


def qr(batch: Batch) -> Learner:
    return QR()


def pqr(order: int) -> Make:
    return lambda batch: PQR(Counts.of(batch).separate(order=order))


def fm(rank: int) -> Make:
    return lambda batch: FM(rank=rank)


def difacto(rank: int) -> Make:
    """Full rank from the 100th row on, not the 1000th: there are few rows here."""
    ranks = sorted({max(1, rank // 4), max(1, rank // 2), rank})
    tiers = list(zip((1, 10, 100)[-len(ranks) :], ranks, strict=True))
    return lambda batch: DiFacto(tiers=tiers)


def convex(kind: type[CFM] | type[CCFM]) -> Make:
    """With ever fewer steps, so that many rows are learned quickly."""
    return lambda batch: kind(ball=NuclearBall(block_rows=2**40))


CONVEX = {"CFM": convex(CFM), "CCFM": convex(CCFM)}


def everyone(features: int) -> dict[str, Make]:
    factors = {"FM": fm(RANK), "DiFacto": difacto(RANK)}
    return {"LR": lr, **factors, "PQR": pqr(round(features**0.5)), "QR": qr, **CONVEX}


def stream_of(fields: int = FIELDS, features: int = FEATURES, exponent: float = 1.1) -> ClickStream:
    return ClickStream(fields, features, click_rate=0.2, exponent=exponent, interactions=0)


def places() -> Iterator[Place]:
    for rank in (2, 8, 32, 128, 512):
        models = {"LR": lr, "FM": fm(rank), "DiFacto": difacto(rank)}
        yield Place("rank", rank, stream_of(), models)
    for order in (30, 100, 300, 1000, 3000, 10_000):
        yield Place("order", order, stream_of(), {"LR": lr, "PQR": pqr(order)})
    for fields in (5, 10, 20, 40, 80):
        yield Place("nonzeros", fields, stream_of(fields, 1000), everyone(1000))
    for features in (1000, 10_000, 100_000, 1_000_000):
        yield Place("features", features, stream_of(features=features), everyone(features))
    for rows in map(_up_to_a_step, (2**11, 2**13, 2**15, 2**17)):
        yield Place("rows", rows, stream_of(features=1_000_000), CONVEX, rows)
    for features in (64, 128, 256, 512):  # alike frequent, so that all pairs meet
        stream = stream_of(10, features, exponent=0.0)
        yield Place("space", features, stream, everyone(features), 2**16)


def measure(sweep: Iterable[Place], rounds: int) -> list[Reading]:
    running = [Running(place) for place in sweep]
    for number in range(rounds):
        for place in running:
            place.take_turn(number)
    return [reading for place in running for reading in place.readings]


class Running:
    """A place whose models have learned the first rows."""

    def __init__(self, place: Place) -> None:
        print(f"cost: {place.sweep} {place.x:,}", file=sys.stderr, flush=True)
        self.stream = place.stream
        self.learned = _up_to_a_step(place.learned)
        batch = place.stream.batch(0, self.learned)
        self.models = [
            prepared
            for name, make in place.models.items()
            for prepared in _prepare(name, make, batch)
        ]
        self.readings = [_looked_at(place, name, model) for name, model, _ in self.models]

    def take_turn(self, number: int) -> None:
        following = self.stream.batch(self.learned + number * ROWS, ROWS)
        for reading, (_, model, rows) in zip(self.readings, self.models, strict=True):
            timed = following.part(0, rows)
            start = time.process_time()
            model.learn_many(timed)
            reading.microseconds.append((time.process_time() - start) * 1e6 / rows)


def _up_to_a_step(rows: int) -> int:
    """So many rows, and those that CFM and CCFM, told to hurry, then wait for."""
    learned = 0
    while learned < rows:
        learned += max(1, learned // 4)
    return learned


def _prepare(name: str, make: Make, batch: Batch) -> Iterator[tuple[str, Learner, int]]:
    """A name, a model that has learned the batch, and how many rows to time it with."""
    model = make(batch)
    model.learn_many(batch)
    if isinstance(model, CFM | CCFM):
        for said, rows in BLOCKS.items():
            yield name + said, _with_block(model, rows), rows
    else:
        yield name, model, ROWS


def _with_block(model: CFM | CCFM, rows: int) -> CFM | CCFM:
    """The same state, with a step every so many rows from here on."""
    settings = model.settings()
    ball = settings["ball"] | {"block_rows": rows}
    return type(model)._restored(settings | {"ball": ball}, model._tensors(), model.names)


def _looked_at(place: Place, name: str, model: Learner) -> Reading:
    met = "pair" in model.blocks
    return Reading(
        place.sweep,
        place.x,
        name,
        weights=sum(model.nonzeros().values()),
        bytes=len(model.to_bytes()),
        features=len(model.weights("linear")[0]),
        pairs=len(model.weights("pair")[0]) if met else 0,
    )


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option(
    "--only",
    multiple=True,
    help="Sweep to measure: rank, order, nonzeros, features, rows or space (repeatable).",
)
@click.option(
    "--output", type=click.Path(path_type=Path), default=ROOT, help="Folder to write below."
)
def main(rounds: int, only: tuple[str, ...], output: Path) -> None:
    """Measures what a row costs each model, and writes the page about it."""
    result: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(" ", "seconds"),
        "command": shlex.join(sys.orig_argv),
        "commit": commit(),
        "machine": machine(),
        "rounds": rounds,
    }
    readings: list[Reading] = []
    for sweep, some in groupby(places(), key=lambda place: place.sweep):
        if not only or sweep in only:
            readings += measure(some, rounds)
    result["readings"] = [reading.record() for reading in readings]
    texts = {"benchmarks/studies/cost.json": as_json(result) + "\n", "docs/cost.md": page(result)}
    for name, text in texts.items():
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        atomic_write(output / name, text.encode())
    (output / "build").mkdir(exist_ok=True)
    plots.save(figure(result), output / "build" / "cost.svg")


if __name__ == "__main__":
    main()
