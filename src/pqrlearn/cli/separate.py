"""pqr separate: count features and save which are high."""

from __future__ import annotations

from typing import Any

import click

from pqrlearn.cli import options, page, show
from pqrlearn.errors import DataError
from pqrlearn.files import check_no_input, check_writable
from pqrlearn.readers import read_inputs, read_names
from pqrlearn.separation import Counts, Separation


@click.command(cls=page.Command, short_help="Count features and save which are frequent.")
@options.files
@options.output("Where to save the separation.", required=True)
@options.single_order
@options.min_count
@options.sample_rows
@options.schema
@options.names
@options.on_bad_row
@page.config
@options.as_json
def separate(
    files: tuple[str, ...],
    output: str,
    order: int | str | None,
    min_count: int | None,
    sample_rows: int | None,
    names: str | None,
    on_bad_row: str,
    as_json: bool,
    **rest: Any,
) -> None:
    """Count the features of FILEs and save which are high, for pqr train --separation."""
    one = options.one_order(order, "a separation has one order")
    check_no_input(output, [*files, rest["schema"], names])
    check_writable(output)
    inputs = read_inputs(files, options.take_reading(rest), on_bad_row=on_bad_row)
    counts = Counts.of_readers(inputs.readers, sample_rows)
    if not counts.rows:
        raise DataError(f"{', '.join(files)}: no rows")
    separation = counts.separate(order=one, min_count=min_count)
    if names:
        separation = separation.named(read_names(names))
    separation.save(output)
    if counts.bad_rows:
        show.note(f"{counts.bad_rows:,} bad rows were skipped")
    if as_json:
        show.print_json({"order": separation.order, **separation.settings()})
    else:
        print_separation(separation, top=10)


def print_separation(separation: Separation, top: int) -> None:
    """Prints the sizes and the most frequent features."""
    show.table(
        "",
        ["", ""],
        [
            ("rows counted", f"{separation.rows:,}"),
            ("distinct features", f"{separation.distinct:,}"),
            ("order (high features)", f"{separation.order:,}"),
        ],
        text_columns=2,
    )
    names = separation.high_names()[:top]
    rows = [
        (str(rank), name, f"{count:,}", f"{count / max(separation.rows, 1):.1%}")
        for rank, (name, count) in enumerate(zip(names, separation.counts.tolist(), strict=False))
    ]
    if rows:
        show.table("\nmost frequent", ["rank", "feature", "rows", "share"], rows, text_columns=2)
