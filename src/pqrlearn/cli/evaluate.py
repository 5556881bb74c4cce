"""pqr evaluate: how good a model is on rows with labels."""

from __future__ import annotations

import click

from pqrlearn.cli import options, show
from pqrlearn.learners import load
from pqrlearn.progressive import evaluate as run
from pqrlearn.progressive import finite
from pqrlearn.readers import read


@click.command(short_help="Measure a model on rows with labels.")
@options.model
@options.files
@options.bad_rows
@options.quiet
@options.as_json
def evaluate(
    model_path: str,
    files: tuple[str, ...],
    on_bad_row: str,
    bad_rows: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Measure a model on libsvm FILEs; it learns nothing from them."""
    if bad_rows:
        raise click.UsageError("--bad-rows belongs to pqr train")
    learner = load(model_path)
    inputs = read(files, loss=learner.loss, on_bad_row=on_bad_row)
    inputs.use_names(learner.names, learner.next_feature)
    with show.progress("evaluating", inputs.fraction, quiet=quiet or as_json) as watch:
        result = run(learner, inputs, watch, skip_refused=on_bad_row == "skip")
    show.note_bad_rows(inputs, result)
    if as_json:
        figures = {**finite(result.figures), "seconds": result.seconds}
        bad = inputs.bad_rows + len(result.refused)
        show.print_json({"model": learner.kind, **figures, "bad_rows": bad})
    else:
        cells = [("rows", f"{result.rows:,}"), *show.figure_cells(result)]
        show.table("", ["", ""], cells, text_columns=2)
