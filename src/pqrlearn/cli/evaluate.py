"""pqr evaluate: metrics of a model on rows with labels."""

from __future__ import annotations

from typing import Any

import click

from pqrlearn.cli import options, page, show
from pqrlearn.cli.judging import inputs_for
from pqrlearn.learners import load
from pqrlearn.progressive import evaluate as run
from pqrlearn.progressive import finite


@click.command(cls=page.Command, short_help="Measure a model on rows with labels.")
@options.model_file
@options.files
@options.reading
@options.on_bad_row
@options.bad_rows
@page.config
@options.quiet
@options.as_json
def evaluate(
    model_file: str,
    files: tuple[str, ...],
    on_bad_row: str,
    bad_rows: str | None,
    quiet: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Measure a model on FILEs with labels; it learns nothing from them."""
    learner = load(model_file)
    bad: dict[str, Any] = {"on_bad_row": on_bad_row, "bad_rows": bad_rows}
    with inputs_for(learner, files, rest, labelled=True, **bad) as (inputs, refused):
        with show.progress("evaluating", inputs.fraction, quiet=quiet or as_json) as watch:
            result = run(learner, inputs, watch, skip_refused=on_bad_row == "skip")
        refused += result.refused
    skipped = inputs.bad_rows + len(refused)
    show.note_bad_rows(skipped, [*inputs.first_bad, *refused])
    if nothing := result.without_weight():
        show.note(f"warning: {nothing}")
    if as_json:
        figures = {**finite(result.metrics), "seconds": result.seconds}
        counts = {"bad_rows": skipped, "replaced_values": inputs.replaced}
        show.print_json({"model": learner.kind, **figures, **counts})
    else:
        replaced = show.replaced_cells(learner.schema, inputs.replaced)
        cells = [("rows", f"{result.rows:,}"), *show.figure_cells(result), *replaced]
        show.table("", ["", ""], cells, text_columns=2)
