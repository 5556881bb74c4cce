"""python -m benchmarks: part after part; medians, ratios, targets, a page."""

from __future__ import annotations

from compileall import compile_dir
from pathlib import Path

import click

from benchmarks import endtoend, kdd, memory, tables
from benchmarks.measure import ROOT, BenchmarkError
from benchmarks.page import SECTIONS, save
from benchmarks.results import Result
from benchmarks.targets import targets_table

BUILD = ROOT / "build" / "bench"
USUAL = [part for part in SECTIONS if part != "kdd"]
"""All but the one that takes as long as the others together."""


@click.command()
@click.option(
    "--part",
    "parts",
    multiple=True,
    type=click.Choice(list(SECTIONS)),
    default=USUAL,
    show_default=True,
    help="Part to measure (repeatable).",
)
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    help="Rows in each part, instead of the numbers in benchmarks/README.md.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Rounds of each part but kdd, which has three.",
)
@click.option("--only", multiple=True, metavar="NAME", help="Run this contender only (repeatable).")
@click.option("--cache", type=click.Path(path_type=Path), default=BUILD, help="Folder of the rows.")
@click.option(
    "--output", type=click.Path(path_type=Path), default=BUILD, help="Folder of the results."
)
def main(
    parts: tuple[str, ...],
    rows: int | None,
    repeats: int,
    only: tuple[str, ...],
    cache: Path,
    output: Path,
) -> None:
    """Compares our learners with their peers, and the readings with the targets."""
    compile_dir(ROOT / "src", quiet=1)  # as pip does with the peers, but not with what is editable
    for part in parts:
        try:
            result = run(part, rows, repeats, only, cache)
        except BenchmarkError as error:
            raise click.ClickException(str(error)) from None
        known = save(result, output)
        print(SECTIONS[part](known[part]))
    print(targets_table(known))
    print(f"saved in {output}")


def run(part: str, rows: int | None, repeats: int, only: tuple[str, ...], cache: Path) -> Result:
    if part == "kdd":
        return kdd.compare(rows)
    if part == "memory":
        return memory.compare(rows, repeats, cache)
    if part == "tables":
        return tables.compare(rows, repeats, only, cache)
    return endtoend.compare(part, rows, repeats, only, cache)


if __name__ == "__main__":
    main()
