"""What commands share that give rows to a trained model: predict and evaluate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from pqrlearn.cli import options
from pqrlearn.errors import RefusedRow, SettingsConflict
from pqrlearn.files import check_name, check_no_input
from pqrlearn.learners import Learner
from pqrlearn.readers import Inputs, format_batch, read_inputs


@contextmanager
def inputs_for(
    learner: Learner,
    files: Sequence[str],
    rest: dict[str, Any],
    *,
    on_bad_row: str,
    bad_rows: str | None,
    labelled: bool,
) -> Iterator[tuple[Inputs, list[RefusedRow]]]:
    """The rows of files, numbered as the model does, and a list for those that it refuses.

    Rows that cannot be read, and then those of the list, are written to `bad_rows`.
    """
    if bad_rows is not None and on_bad_row != "skip":
        raise SettingsConflict("{bad_rows} needs {on_bad_row} skip")
    check_no_input(bad_rows or "", files)
    reading = options.known_reading(rest, learner)
    loss = learner.loss if labelled else None
    inputs = read_inputs(files, reading, loss=loss, on_bad_row=on_bad_row, labelled=labelled)
    inputs.use_names(learner.names, learner.next_feature)
    refused: list[RefusedRow] = []
    if bad_rows is None:
        yield inputs, refused
        return
    check_name(bad_rows)
    with open(bad_rows, "wb") as file:
        inputs.keep_bad(file)
        yield inputs, refused
        _write(refused, file)


def _write(refused: Sequence[RefusedRow], file: IO[bytes]) -> None:
    file.writelines(format_batch(error.alone) for error in refused)
