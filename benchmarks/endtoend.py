"""One workload: every contender in turn, round after round."""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.contenders import Contender, Reading, contenders
from benchmarks.machine import circumstances
from benchmarks.measure import tell
from benchmarks.results import Result, comparisons, summary
from benchmarks.workloads import SHAPES, Workload


def chosen_of(everyone: list[Contender], only: tuple[str, ...]) -> list[Contender]:
    """All contenders, or those named; of them, those that are installed."""
    unknown = set(only) - {contender.key for contender in everyone}
    if unknown:
        names = ", ".join(contender.key for contender in everyone)
        raise click.UsageError(f"--only {', '.join(sorted(unknown))}: the contenders are {names}")
    chosen = [contender for contender in everyone if not only or contender.key in only]
    for contender in chosen:
        if not contender.is_there():
            tell(f"{contender.title} is left out: it is not installed")
    return [contender for contender in chosen if contender.is_there()]


def compare(
    name: str, rows: int | None, repeats: int, only: tuple[str, ...], cache: Path
) -> Result:
    """Runs everyone once per round, so that what disturbs the machine disturbs them all."""
    chosen = chosen_of(contenders(SHAPES[name].order), only)
    workload = Workload(name, rows or SHAPES[name].rows, cache)
    tell(f"{workload.rows:,} rows like {workload.name}")
    about = workload.prepare()
    for contender in chosen:
        contender.prepare(workload)
    before = circumstances()
    readings: dict[Contender, list[Reading]] = {contender: [] for contender in chosen}
    for number in range(1, repeats + 1):
        for contender in chosen:
            reading = contender.run(workload)
            readings[contender].append(reading)
            tell(f"round {number}/{repeats}  {contender.title}: {reading.seconds:.2f} s")
    return {
        "part": name,
        **before,
        "workload": about,
        "rows": workload.rows,
        "repeats": repeats,
        "contenders": [summary(each, workload, found) for each, found in readings.items()],
        "comparisons": comparisons(readings),
    }
