"""pqr predict: one prediction per row, as soon as the row is there."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import click
import numpy as np

from pqrlearn.cli import options, page, show, words
from pqrlearn.cli.judging import inputs_for
from pqrlearn.cli.renamed import FORMS, SHOWN
from pqrlearn.errors import HyperError, RefusedRow
from pqrlearn.files import atomic_path, check_no_input
from pqrlearn.learners import Learner, load
from pqrlearn.readers import Inputs
from pqrlearn.rows import Batch, FloatArray, Tagged

Write = Callable[[Sequence[Any] | None, FloatArray], None]
"""Writes predictions, with the ids of their rows if there are any."""


@click.command(cls=page.Command, short_help="Print one prediction per row.")
@options.model_file
@options.files
@click.option(
    "--as",
    "shown",
    type=words.Choice(SHOWN),
    metavar="WHAT",
    help="Print probability, margin or label. Default: click probability, rating, or mean count.",
)
@options.output("Write to FILE instead of stdout (-), atomically.")
@click.option(
    "--to",
    "form",
    type=words.Choice(FORMS),
    metavar="FORM",
    default="lines",
    help="Print lines (one prediction per line, the default), csv or jsonl.",
)
@click.option(
    "--id",
    "id_column",
    metavar="COLUMN",
    help="Write this column of the table before each prediction.",
)
@options.reading
@options.on_bad_row
@options.bad_rows
@page.config
@options.quiet
def predict(
    model_file: str,
    files: tuple[str, ...],
    shown: str | None,
    form: str,
    id_column: str | None,
    output: str | None,
    on_bad_row: str,
    bad_rows: str | None,
    quiet: bool,
    **rest: Any,
) -> None:
    """Print one prediction per row of FILEs, in order. Labels are not used, and not needed.

    A model that has learned from a table reads other tables by the same schema, in any format. A
    row that comes through a pipe is answered when it comes.
    """
    check_no_input(output or "", [*files, model_file])
    learner = load(model_file)
    values = _values(learner, shown)
    rest["carried"] = id_column
    bad: dict[str, Any] = {"on_bad_row": on_bad_row, "bad_rows": bad_rows}
    with (
        _opened(output) as file,  # replaced last: when the bad rows are written, too
        inputs_for(learner, files, rest, labelled=False, **bad) as (inputs, refused),
        show.tally("predicting", "rows", quiet=quiet or _has_a_stream(inputs)) as watch,
    ):
        write = _writer(form, id_column, shown or "prediction", file)
        for batch in inputs:
            _answer(batch, values, write, refused if on_bad_row == "skip" else None)
            file.flush()  # whoever sent a row through a pipe may be waiting
            watch(inputs.rows, inputs.fraction())
    without = inputs.bad_rows + len(refused)
    if without:
        show.note(f"{without:,} bad row{'s have' if without > 1 else ' has'} no prediction")


def _has_a_stream(inputs: Inputs) -> bool:
    """Rows may come one by one, over days: there is nothing to be shown of that."""
    return any(reader.bytes is None for reader in inputs.readers)


@contextmanager
def _opened(path: str | None) -> Iterator[IO[str]]:
    if path and path != "-":
        with (
            atomic_path(path) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as file,
        ):
            yield file
    else:
        # Not sys.stdout: with PYTHONUNBUFFERED it ignores partial writes.
        with open(sys.stdout.fileno(), "w", closefd=False, newline="") as file:
            yield file


def _values(learner: Learner, shown: str | None) -> Callable[[Batch], FloatArray]:
    if shown == "margin":
        return learner.margin_many
    if shown is None:
        return learner.predict_many
    if learner.loss != "logistic":
        raise HyperError(
            f"--as {shown} needs a model with logistic loss; this one has {learner.loss}"
        )
    if shown == "probability":
        return learner.predict_many
    return lambda batch: np.where(learner.margin_many(batch) > 0, 1.0, 0.0)


def _answer(
    batch: Batch,
    values: Callable[[Batch], FloatArray],
    write: Write,
    refused: list[RefusedRow] | None,
) -> None:
    """Writes the predictions of a batch. Rows that the model refuses are listed, or an error."""
    while len(batch):
        done = len(batch)
        try:
            found = values(batch)
        except RefusedRow as error:
            if refused is None:
                raise
            refused.append(error)
            done = error.row + 1
            found = values(batch.part(0, error.row))
        write(batch.tags if isinstance(batch, Tagged) else None, found)
        batch = batch.part(done, len(batch))


def _writer(form: str, id_column: str | None, shown: str, file: IO[str]) -> Write:
    names = [shown] if id_column is None else [id_column, shown]
    if form == "csv":
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(names)
        return lambda ids, found: rows.writerows(
            _rows(ids, [f"{value:.9g}" for value in found.tolist()])
        )
    if form == "jsonl":
        return lambda ids, found: file.writelines(
            json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, default=str) + "\n"
            for row in _rows(ids, [float(f"{value:.9g}") for value in found.tolist()])
        )
    if id_column is None:
        return lambda _, found: print(end="%.9g\n" * len(found) % tuple(found.tolist()), file=file)
    return lambda ids, found: file.writelines(
        "\t".join(row) + "\n" for row in _rows(ids, [f"{value:.9g}" for value in found.tolist()])
    )


def _rows(ids: Sequence[Any] | None, found: list[Any]) -> Iterator[tuple[Any, ...]]:
    """One row per prediction; a refused row is the last of its ids and has none."""
    return zip(found, strict=True) if ids is None else zip(ids, found, strict=False)
