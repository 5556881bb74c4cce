"""pqr schema: what the columns of a table are."""

from __future__ import annotations

from typing import Any

import click

from pqrlearn.cli import options, page, show
from pqrlearn.errors import DataError
from pqrlearn.files import check_no_input, check_writable
from pqrlearn.readers import read_inputs


@click.command(
    cls=page.Command, short_help="Say what the columns of a table are, in a file to edit."
)
@options.files
@options.output("Write to FILE instead of stdout (-).")
@options.schema
@page.config
@options.as_json
def schema(files: tuple[str, ...], output: str | None, as_json: bool, **rest: Any) -> None:
    """Guess from the first rows of FILEs what their columns are, and print that as TOML.

    Edit it and give it to pqr train --schema.
    """
    output = None if output == "-" else output
    if output:
        check_no_input(output, files)
        check_writable(output)
    found = read_inputs(files, options.take_reading(rest), labelled=False).schema
    if found is None or not found.columns:
        raise DataError(f"{', '.join(files)}: the format has no columns")
    if output:
        found.write(output)
    elif as_json:
        show.print_json(found.to_json())
    else:
        print(found.to_toml(), end="")
