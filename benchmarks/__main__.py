"""python -m benchmarks: every contender in turn, round after round; medians, ratios, a page."""

from __future__ import annotations

import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from benchmarks.contenders import PEERS_PYTHON, Contender, Reading, contenders
from benchmarks.machine import commit, machine, versions
from benchmarks.measure import ROOT, BenchmarkError
from benchmarks.results import Result, comparisons, save, summary, tables
from benchmarks.workloads import SHAPES, Workload

BUILD = ROOT / "build" / "bench"


@click.command()
@click.option("--workload", type=click.Choice(list(SHAPES)), default="avazu", show_default=True)
@click.option("--rows", type=click.IntRange(min=1), default=3_000_000, show_default=True)
@click.option("--repeats", type=click.IntRange(min=1), default=5, show_default=True)
@click.option(
    "--only", multiple=True, metavar="NAME", help="Leave out all others; may be given again."
)
@click.option("--cache", type=click.Path(path_type=Path), default=BUILD, help="For the rows.")
@click.option("--output", type=click.Path(path_type=Path), default=BUILD, help="For the results.")
def main(
    workload: str, rows: int, repeats: int, only: tuple[str, ...], cache: Path, output: Path
) -> None:
    """Compares LR and PQR with Vowpal Wabbit, scikit-learn and River."""
    chosen = choose(only, SHAPES[workload].order)
    try:
        result = compare(Workload(workload, rows, cache), chosen, repeats)
    except BenchmarkError as error:
        raise click.ClickException(str(error)) from None
    save(result, output)
    print(tables(result))
    print(f"saved in {output}")


def choose(only: tuple[str, ...], order: int) -> list[Contender]:
    """All contenders, or those named."""
    everyone = contenders(order)
    unknown = set(only) - {contender.key for contender in everyone}
    if unknown:
        names = ", ".join(contender.key for contender in everyone)
        raise click.UsageError(f"--only {', '.join(sorted(unknown))}: the contenders are {names}")
    return [contender for contender in everyone if not only or contender.key in only]


def compare(workload: Workload, chosen: list[Contender], repeats: int) -> Result:
    """Runs everyone once per round, so that what disturbs the machine disturbs them all."""
    _tell(f"{workload.rows:,} rows like {workload.name}")
    about = workload.prepare()
    before = {"date": datetime.now(UTC).isoformat(" ", "seconds"), "machine": machine()}
    readings: dict[str, list[Reading]] = {contender.key: [] for contender in chosen}
    for number in range(1, repeats + 1):
        for contender in chosen:
            reading = contender.run(workload)
            readings[contender.key].append(reading)
            _tell(f"round {number}/{repeats}  {contender.title}: {reading.seconds:.2f} s")
    summaries = [summary(each, workload, readings[each.key]) for each in chosen]
    return {
        **before,
        "workload": about,
        "command": shlex.join(sys.orig_argv),
        "commit": commit(),
        "versions": versions(PEERS_PYTHON),
        "repeats": repeats,
        "contenders": summaries,
        "comparisons": comparisons(summaries),
    }


def _tell(message: str) -> None:
    print(f"bench: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
