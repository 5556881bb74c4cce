"""pqr train: from files to a model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

import click

from pqrlearn import hyper
from pqrlearn.cli import options, show
from pqrlearn.learners import LEARNERS, PQR, Auto, Learner, Mixture
from pqrlearn.progressive import OnBatch, Pass, finite, peak_memory
from pqrlearn.schema import Schema
from pqrlearn.separation import Separation
from pqrlearn.training import CHECKPOINT_ROWS, Monitor, TrainConfig, TrainResult
from pqrlearn.training import train as run


@click.command(short_help="Learn a model from files, one row at a time.")
@options.files
@click.option("-o", "--output", required=True, metavar="MODEL", help="Where to save the model.")
@options.schema
@click.option(
    "--model", type=click.Choice(list(LEARNERS)), help="Default: auto, which needs no settings."
)
@options.memory
@options.loss
@options.order
@options.min_count
@click.option("--separation", metavar="SEP", help="Use this separation of pqr separate.")
@options.sample_rows
@options.optimizer
@options.embedding
@options.block_rows
@click.option(
    "--interaction-scale",
    type=options.Scale(),
    metavar="FACTOR|none",
    help="pqr, qr: multiply the interactions of a row by FACTOR/√(their number), or do not scale "
    f"them (the paper). Default: {hyper.INTERACTION_SCALE}.",
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
    "--resume",
    metavar="MODEL",
    help="Continue with this model and its settings; from a checkpoint, after its last row.",
)
@click.option(
    "--checkpoint", metavar="FILE", help="Save the state of the run to FILE, for --resume."
)
@click.option(
    "--every",
    type=click.IntRange(min=1),
    metavar="ROWS",
    help=f"Rows from one checkpoint to the next. Default: {CHECKPOINT_ROWS:,}.",
)
@options.on_bad_row
@click.option(
    "--bad-rows", metavar="FILE", help="With --on-bad-row skip: write skipped rows to FILE."
)
@options.quiet
@options.as_json
def train(files: tuple[str, ...], quiet: bool, as_json: bool, **rest: Any) -> None:
    """Learn a model from FILEs: tables or rows of features (- is stdin).

    Tables are CSV, Parquet, Arrow and JSON lines, and need a --label or a --schema; what their
    columns are is guessed from the first rows and shown. Rows of features are libsvm and Vowpal
    Wabbit text. Compressed text is read as it is. Each row is predicted, scored and then learned,
    so the figures are those of rows that the model has not seen before.
    """
    settings, reading = options.take_settings(rest), options.take_reading(rest)
    config = TrainConfig(inputs=files, settings=settings, reading=reading, **rest)
    result = run(config, _Terminal(quiet=quiet or as_json))
    _print_notes(result, as_json=as_json)
    if as_json:
        show.print_json(_figures(result))
    elif result.first is not None:
        cells = _cells(result, result.first, str(config.output))
        show.table("", ["", ""], cells, text_columns=2)


class _Terminal(Monitor):
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
    warning = result.first.worse_than_constant()
    if warning:
        show.note(f"warning: {warning}{_smaller_rate(result)}")


def _smaller_rate(result: TrainResult) -> str:
    learner = result.learner
    if isinstance(learner, Auto):
        return ""
    chosen = learner.learners[0] if isinstance(learner, Mixture) else learner
    rate = "--alpha" if "alpha" in chosen.settings().get("optimizer", {}) else "--eta"
    return f"; try a smaller {rate}"


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
        "passes": [{**finite(p.figures), "seconds": p.seconds} for p in result.passes.values()],
    }
    if first is not None:
        figures |= {
            **finite(first.figures),
            "seconds": first.seconds,
            "rows_per_second": first.rows_per_second,
            "bad_rows": result.bad_rows,
            "replaced_values": result.replaced,
        }
    if isinstance(learner, PQR):
        figures["order"] = learner.separation.order
    if isinstance(learner, Auto):
        figures["auto"] = learner.summary()
    if isinstance(learner, Mixture):
        figures |= show.mixture_figures(learner)
    if result.counted is not None:
        figures["counted"] = asdict(result.counted)
    return figures


def _cells(result: TrainResult, first: Pass, output: str) -> list[tuple[str, str]]:
    """The same for people, as lines of a table."""
    learner, nonzeros = result.learner, result.learner.nonzeros()
    later = [(number, other) for number, other in result.passes.items() if other is not first]
    return [
        ("model", f"{learner.kind.upper()}, {learner.loss} loss"),
        *_model_cells(learner),
        ("rows", f"{first.rows:,}"),
        ("seconds", f"{first.seconds:.2f}  ({first.rows_per_second:,.0f} rows/s)"),
        *((f"progressive {name}", cell) for name, cell in show.figure_cells(first)),
        *(
            (f"pass {number}: {name}", cell)
            for number, other in later
            for name, cell in show.figure_cells(other)[:1]
        ),
        *show.replaced_cells(learner.schema, result.replaced),
        ("non-zero weights", f"{sum(nonzeros.values()):,}"),
        *((f"  {block}", f"{count:,}") for block, count in nonzeros.items()),
        ("peak memory", show.megabytes(peak_memory())),
        ("saved as", output),
    ]


def _model_cells(learner: Learner) -> list[tuple[str, str]]:
    """What is particular to the kind of the model."""
    if isinstance(learner, PQR):
        return [("order", f"{learner.separation.order:,}")]
    if isinstance(learner, Mixture):
        return show.mixture_cells(learner)
    return show.auto_cells(learner) if isinstance(learner, Auto) else []
