"""pqr predict: one prediction per row."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import click
import numpy as np

from pqrlearn.cli import options, show
from pqrlearn.errors import HyperError, RefusedRow
from pqrlearn.files import atomic_path
from pqrlearn.learners import Learner, load
from pqrlearn.readers import Inputs, read_inputs
from pqrlearn.rows import Batch, FloatArray


@click.command(short_help="Print one prediction per row.")
@options.model
@options.files
@click.option(
    "--output",
    type=click.Choice(["probability", "margin", "label"]),
    help="What to print. Default: click probability, rating, or mean count.",
)
@click.option("-o", "--to", metavar="FILE", help="Write to FILE instead of stdout (-), atomically.")
@options.reading
@options.on_bad_row
@options.quiet
def predict(
    model_path: str,
    files: tuple[str, ...],
    output: str | None,
    to: str | None,
    on_bad_row: str,
    quiet: bool,
    **rest: Any,
) -> None:
    """Print one prediction per row of FILEs, in order. Labels are not used, and not needed.

    A model that has learned from a table reads other tables by the same schema, in any format.
    """
    learner = load(model_path)
    values = _values(learner, output)
    reading = options.known_reading(rest, learner)
    inputs = read_inputs(files, reading, on_bad_row=on_bad_row, labelled=False)
    inputs.use_names(learner.names, learner.next_feature)
    with _opened(to) as file:
        refused = _write(inputs, values, file, skip_refused=on_bad_row == "skip")
    without = inputs.bad_rows + refused
    if without:
        show.note(f"{without:,} bad row{'s have' if without > 1 else ' has'} no prediction")


@contextmanager
def _opened(to: str | None) -> Iterator[IO[str]]:
    if to and to != "-":
        with atomic_path(to) as temporary, temporary.open("w") as file:
            yield file
    else:
        # Not sys.stdout: with PYTHONUNBUFFERED it ignores partial writes.
        with open(sys.stdout.fileno(), "w", closefd=False) as file:
            yield file


def _values(learner: Learner, output: str | None) -> Callable[[Batch], FloatArray]:
    if output == "margin":
        return learner.margin_many
    if output is None:
        return learner.predict_many
    if learner.loss != "logistic":
        raise HyperError(
            f"--output {output} needs a model with logistic loss; this one has {learner.loss}"
        )
    if output == "probability":
        return learner.predict_many
    return lambda batch: np.where(learner.margin_many(batch) > 0, 1.0, 0.0)


def _write(
    inputs: Inputs, values: Callable[[Batch], FloatArray], file: IO[str], *, skip_refused: bool
) -> int:
    """Writes one line per row; returns how many rows the model refused."""
    refused = 0
    for whole in inputs:
        batch = whole
        while len(batch):
            try:
                done = len(batch)
                found = values(batch)
            except RefusedRow as error:
                if not skip_refused:
                    raise
                refused, done = refused + 1, error.row + 1
                found = values(batch.part(0, error.row))
            file.write("%.9g\n" * len(found) % tuple(found.tolist()))
            batch = batch.part(done, len(batch))
    return refused
