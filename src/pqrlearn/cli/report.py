"""pqr report: pictures of a model on your rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from pqrlearn import plots
from pqrlearn.cli import options, page, show, words
from pqrlearn.cli.judging import inputs_for
from pqrlearn.files import check_name, check_no_input, check_writable
from pqrlearn.learners import load
from pqrlearn.report import ROWS
from pqrlearn.report import report as look


@click.command(cls=page.Command, short_help="Draw a model on rows with labels, as one page.")
@options.model_file
@options.files
@options.output("Where the page goes, as in report.html.", required=True)
@click.option(
    "--figures", type=click.Path(), metavar="DIR", help="Write each figure as PNG and SVG, too."
)
@click.option("--dark", is_flag=True, help="Draw the files of --figures for dark pages.")
@click.option(
    "--rows",
    type=words.SampleRows(),
    default=ROWS,
    show_default=True,
    metavar="N|all",
    help="Use the first N rows.",
)
@options.reading
@options.on_bad_row
@page.config
@options.quiet
def report(
    model_file: str,
    files: tuple[str, ...],
    output: str,
    figures: str | None,
    dark: bool,
    rows: int | None,
    on_bad_row: str,
    quiet: bool,
    **rest: Any,
) -> None:
    """Draw a model on FILEs with labels: one page that needs no other file.

        pqr report -m clicks.pqr tomorrow.csv -o report.html

    Learning curve beside LR and the best constant, reliability, predictions, ROC and lift (or
    residuals), strongest weights and pairs, frequencies of features, and where the loss is worst.
    The model learns nothing; a new one of its kind learns the rows for the curve. Needs the extra
    plots: pip install "pqrlearn[plots]".
    """
    check_name(output)
    check_no_input(output, [model_file, *files])
    check_writable(output)
    if figures is not None:
        check_name(figures)
    if dark and figures is None:
        raise click.UsageError("--dark needs --figures: the page follows the reader's setting")
    plots.check()
    learner = load(model_file)
    bad: dict[str, Any] = {"on_bad_row": on_bad_row, "bad_rows": None}
    source = ", ".join(os.path.basename(path) if path != "-" else "stdin" for path in files)
    with (
        inputs_for(learner, files, rest, labelled=True, **bad) as (inputs, _),
        show.tally("reading", "rows", quiet=quiet) as watch,
    ):
        found = look(
            learner,
            inputs,
            source=source,
            rows=rows,
            watch=lambda done: watch(done, inputs.fraction()),
            skip_refused=on_bad_row == "skip",
        )
    show.note_bad_rows(inputs.bad_rows + found.found.refused, inputs.first_bad)
    with show.steps("drawing", quiet=quiet) as step:
        found.save(output, step)
    print(output)
    for path in [] if figures is None else found.save_figures(Path(figures), dark=dark):
        print(path)
