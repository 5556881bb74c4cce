"""pqr log: what the log of a service says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from pqrlearn.cli import options, show
from pqrlearn.files import check_writable


@click.command(short_help="Print, check or export the log of a service.")
@click.argument("folder", type=click.Path())
@click.option("--check", is_flag=True, help="Read everything, and print only what there is.")
@options.output("Write the rows that were learned to FILE: *.jsonl or *.parquet.")
@options.as_json
def log(folder: str, check: bool, output: str | None, as_json: bool) -> None:
    """Print the records of the log in FOLDER, one JSON object per line.

        pqr log clicks/ --check

    A service may be using it meanwhile.
    """
    from pqrlearn.serve import export  # lazy: needs an extra

    if check:
        _print(export.checked(Path(folder)), as_json)
    elif output is not None:
        check_writable(output)
        count = export.write_rows(Path(folder), Path(output))
        _print({"rows": count, "written": output}, as_json)
    else:
        for record in export.records(Path(folder)):
            print(json.dumps(record, ensure_ascii=False))


def _print(figures: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show.print_json(figures)
        return
    kinds = figures.pop("kinds", {})
    cells = [(name.replace("_", " "), _shown(value)) for name, value in figures.items()]
    cells[1:1] = [(f"  {name}", f"{count:,}") for name, count in kinds.items()]
    show.table("", ["", ""], cells, text_columns=2)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else "–" if value is None else str(value)
