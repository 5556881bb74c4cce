"""pqr train: from files to a model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

import click

from pqrlearn import hyper
from pqrlearn.cli import options, page, show, words
from pqrlearn.errors import PqrError
from pqrlearn.files import check_no_input
from pqrlearn.learners import LEARNERS, PQR, Auto, Learner, Mixture
from pqrlearn.progressive import OnBatch, Pass, finite, rate_name
from pqrlearn.schema import Schema
from pqrlearn.separation import Separation
from pqrlearn.system import peak_memory
from pqrlearn.training import CHECKPOINT_ROWS, Monitor, TrainConfig, TrainResult
from pqrlearn.training import train as run


@click.command(cls=page.Command, short_help="Learn a model from files, one row at a time.")
@options.files
@options.output("Where to save the model. Without it the run only measures.")
@options.schema
@click.option(
    "--model",
    type=words.Choice(LEARNERS),
    metavar="KIND",
    help="auto (the default, which needs no settings), pqr, lr, qr, fm, difacto, cfm or ccfm.",
)
@options.memory
@options.loss
@options.order
@options.min_count
@click.option(
    "--separation",
    type=click.Path(),
    metavar="FILE",
    help="Use this separation of pqr separate.",
)
@options.sample_rows
@options.optimizer
@options.embedding
@options.block_rows
@click.option(
    "--interaction-scale",
    type=words.Scale(),
    metavar="F|none",
    help="pqr, qr: multiply the interactions of a row by F/√(their number), or do not scale "
    f"them (the paper). Default: {hyper.INTERACTION_SCALE}.",
)
@click.option(
    "--max-pairs-per-row",
    type=click.IntRange(min=1),
    metavar="N",
    help="pqr, qr: a row with more pairs of high features is a bad row; a pair takes up to 80 "
    f"bytes of memory. Default: {hyper.MAX_PAIRS_PER_ROW:,}.",
)
@click.option("--bias/--no-bias", default=None, help="Learn a constant term. Default: on.")
@options.names
@click.option(
    "--passes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of passes over the files; figures are of the first pass. Default: 1.",
)
@click.option(
    "--holdout",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Do not learn the last rows, but measure the finished model on them, as in 0.1.",
)
@click.option(
    "--resume",
    type=click.Path(),
    metavar="FILE",
    help="Continue with this model and its settings; from a checkpoint, after its last row.",
)
@click.option(
    "--checkpoint",
    type=click.Path(),
    metavar="FILE",
    help="Save the state of the run to FILE, for --resume.",
)
@click.option(
    "--every",
    type=click.IntRange(min=1),
    metavar="ROWS",
    help=f"Rows from one checkpoint to the next. Default: {CHECKPOINT_ROWS:,}.",
)
@options.on_bad_row
@options.bad_rows
@page.config
@options.quiet
@options.as_json
def train(files: tuple[str, ...], quiet: bool, as_json: bool, **rest: Any) -> None:
    """Learn a model from FILEs: tables or rows of features (- is stdin).

        pqr train clicks.csv --label click -o clicks.pqr

    Tables are CSV, Parquet, Arrow and JSON lines, and need a --label or a --schema; what their
    columns are is guessed from the first rows and shown. Rows of features are libsvm and Vowpal
    Wabbit text. Compressed text is read as it is. Each row is predicted, scored and then learned,
    so the figures are those of rows that the model has not seen before.
    """
    check_no_input(rest["output"] or "", [rest["schema"]])
    settings, reading = options.take_settings(rest), options.take_reading(rest)
    config = TrainConfig(inputs=files, settings=settings, reading=reading, **rest)
    try:
        result = run(config, Terminal(quiet=quiet or as_json))
    except PqrError as error:
        if config.resume is not None and error.case == ("unfit label",):
            error.case = ("bad row",)  # the loss is the model's
        raise
    _print_notes(result, as_json=as_json)
    if as_json:
        show.print_json({"output": config.output, **_figures(result)})
    elif result.first is not None:
        cells = _cells(result, result.first)
        saved = str(config.output) if config.output else "nothing: -o FILE saves the model"
        show.table("", ["", ""], [*cells, ("saved as", saved)], text_columns=2)


class Terminal(Monitor):
    """Shows a run to people at a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def guessed(self, schema: Schema, loss: str) -> None:
        if not self._quiet and schema.notes:
            show.schema(schema, loss)

    def counted(self, separation: Separation, seconds: float) -> None:
        if sys.stderr.isatty() and not self._quiet:
            show.note(
                f"order {separation.order:,}: of {separation.distinct:,} features in "
                f"{separation.rows:,} rows counted ({seconds:.1f} s)"
            )

    def progress(
        self, title: str, fraction: Callable[[], float | None]
    ) -> AbstractContextManager[OnBatch]:
        return show.progress(title, fraction, quiet=self._quiet)


def _print_notes(result: TrainResult, *, as_json: bool) -> None:
    if result.first is None:
        show.note("the checkpoint is of the last row: nothing left to learn")
        return
    start = result.start
    if start.rows and not as_json:
        where = f" of pass {start.done_passes + 1}" if start.passes > 1 else ""
        show.note(f"resumed after {start.rows:,} rows{where}; figures are of the rows since")
    show.note_bad_rows(result.bad_rows, result.first_bad)
    if nothing := result.first.without_weight():
        show.note(f"warning: {nothing}")
    warning = result.first.worse_than_constant()
    if warning:
        rate = rate_name(result.learner)
        show.note(f"warning: {warning}" + (f"; try a smaller --{rate}" if rate else ""))


def _figures(result: TrainResult) -> dict[str, Any]:
    """What --json prints."""
    learner, first = result.learner, result.first
    figures: dict[str, Any] = {
        "model": learner.kind,
        "settings": learner.settings(),
        "rows": 0,
        "nonzeros": learner.nonzeros(),
        "peak_memory_bytes": peak_memory(),
        "resumed_after_rows": result.start.rows,
        "passes": [{**finite(p.metrics), "seconds": p.seconds} for p in result.passes.values()],
    }
    if first is not None:
        figures |= {
            **finite(first.metrics),
            "seconds": first.seconds,
            "rows_per_second": first.rows_per_second,
            "bad_rows": result.bad_rows,
            "replaced_values": result.replaced,
        }
    if result.held_out is not None:
        figures["held_out"] = finite(result.held_out.metrics)
    if isinstance(learner, PQR):
        figures["order"] = learner.separation.order
    if isinstance(learner, Auto):
        figures["auto"] = learner.summary()
    if isinstance(learner, Mixture):
        figures |= show.mixture_figures(learner)
    if result.counted is not None:
        figures["counted"] = asdict(result.counted)
    return figures


def _cells(result: TrainResult, first: Pass) -> list[tuple[str, str]]:
    """The same for people, as lines of a table."""
    learner, nonzeros = result.learner, result.learner.nonzeros()
    later = [(number, other) for number, other in result.passes.items() if other is not first]
    return [
        ("model", f"{learner.kind.upper()}, {learner.loss} loss"),
        *_model_cells(learner),
        ("rows", f"{first.rows:,}{_held_out(result, 0)}"),
        ("seconds", f"{first.seconds:.2f}  ({first.rows_per_second:,.0f} rows/s)"),
        *(
            (_of_predictions(name), cell + _held_out(result, number))
            for number, (name, cell) in enumerate(show.figure_cells(first), 1)
        ),
        *(
            (f"pass {number}: {name}", cell)
            for number, other in later
            for name, cell in show.figure_cells(other)[:1]
        ),
        *show.replaced_cells(learner.schema, result.replaced),
        ("non-zero weights", f"{sum(nonzeros.values()):,}"),
        *((f"  {block}", f"{count:,}") for block, count in nonzeros.items()),
        ("peak memory", show.megabytes(peak_memory())),
    ]


def _of_predictions(name: str) -> str:
    """Says of figures like LogLoss and AUC that they are those of rows not seen before."""
    return name if name.startswith(("best", "mean")) else f"progressive {name}"


def _held_out(result: TrainResult, number: int) -> str:
    """The figure of the rows that were held out, to stand beside that of the others."""
    if result.held_out is None:
        return ""
    cells = [f"{result.held_out.rows:,}", *(cell for _, cell in show.figure_cells(result.held_out))]
    return f"  held out {cells[number]}"


def _model_cells(learner: Learner) -> list[tuple[str, str]]:
    """What is particular to the kind of the model."""
    if isinstance(learner, PQR):
        return [("order", f"{learner.separation.order:,}")]
    if isinstance(learner, Mixture):
        return show.mixture_cells(learner)
    return show.auto_cells(learner) if isinstance(learner, Auto) else []
