"""What commands share that give rows to a trained model: predict and evaluate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from pqrlearn.cli import options
from pqrlearn.errors import RefusedRow, SettingsConflict
from pqrlearn.files import check_name, check_no_input, write_all, write_error
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
    with _BadRows(bad_rows) as file:
        inputs.keep_bad(file)
        yield inputs, refused
        for error in refused:
            file.write(format_batch(error.alone))


class _BadRows:
    """A file whose errors say that it is this file that cannot be written."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        try:
            self._file = self._path.open("wb", buffering=0)
        except OSError as error:
            raise write_error(self._path, error) from error

    def write(self, row: bytes) -> int:
        try:
            write_all(self._file, row)
        except OSError as error:
            raise write_error(self._path, error) from error
        return len(row)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
