"""pqr evaluate: metrics of a model on rows with labels."""

from __future__ import annotations

from typing import Any

import click

from pqrlearn.cli import options, show
from pqrlearn.learners import load
from pqrlearn.progressive import evaluate as run
from pqrlearn.progressive import finite
from pqrlearn.readers import read_inputs


@click.command(short_help="Measure a model on rows with labels.")
@options.model
@options.files
@options.reading
@options.on_bad_row
@options.quiet
@options.as_json
def evaluate(
    model_path: str,
    files: tuple[str, ...],
    on_bad_row: str,
    quiet: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Measure a model on FILEs with labels; it learns nothing from them."""
    learner = load(model_path)
    reading = options.known_reading(rest, learner)
    inputs = read_inputs(files, reading, loss=learner.loss, on_bad_row=on_bad_row)
    inputs.use_names(learner.names, learner.next_feature)
    with show.progress("evaluating", inputs.fraction, quiet=quiet or as_json) as watch:
        result = run(learner, inputs, watch, skip_refused=on_bad_row == "skip")
    bad = inputs.bad_rows + len(result.refused)
    show.note_bad_rows(bad, [*inputs.first_bad, *result.refused])
    if as_json:
        figures = {**finite(result.figures), "seconds": result.seconds}
        counts = {"bad_rows": bad, "replaced_values": inputs.replaced}
        show.print_json({"model": learner.kind, **figures, **counts})
    else:
        replaced = show.replaced_cells(learner.schema, inputs.replaced)
        cells = [("rows", f"{result.rows:,}"), *show.figure_cells(result), *replaced]
        show.table("", ["", ""], cells, text_columns=2)
