"""pqr export: all weights as a table, or a frozen model for serving."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pqrlearn.cli import options, page, show
from pqrlearn.cli.judging import inputs_for
from pqrlearn.files import atomic_path, check_no_input, check_writable
from pqrlearn.learners import Frozen, Learner, load

FROZEN = ".pqr"


@click.command(
    cls=page.Command, short_help="Write all weights as a table, or a frozen model for serving."
)
@options.model_file
@options.output(
    "A table if it ends in .parquet, .csv or .json; a frozen model if in .pqr.", required=True
)
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    metavar="N",
    help="Only the N weights that matter most. Default: all.",
)
@click.option(
    "--data",
    type=click.Path(),
    metavar="FILE",
    help="Rows with labels, to measure the loss of a frozen model beside that of the model.",
)
@options.reading
@page.config
@options.as_json
def export(
    model_file: str,
    output: str,
    keep: int | None,
    data: str | None,
    as_json: bool,
    **rest: Any,
) -> None:
    """Write the weights of a model: name, other, block, weight, support.

    A frozen model has one weight for each feature and pair, predicts as any model, and does not
    learn. The experts of a self-tuning model are collapsed for it.
    """
    end = Path(output).suffix.lower()
    if end not in (*_TABLES, FROZEN):
        ends = ", ".join([*_TABLES, FROZEN])
        raise click.UsageError(f"-o {output}: its end must say what to write: one of {ends}")
    check_no_input(output, [model_file, data])
    check_writable(output)
    learner = load(model_file)
    if keep is not None or data is not None or end == FROZEN:
        learner = _frozen(learner, keep, data, rest)
    if end == FROZEN:
        learner.save(output)
        written = sum(learner.nonzeros().values())
    else:
        written = _write(learner, output, _TABLES[end])
    _report(learner, output, written, as_json)


def _frozen(learner: Learner, keep: int | None, data: str | None, rest: dict[str, Any]) -> Frozen:
    if data is None:
        return learner.frozen(keep)
    bad: dict[str, Any] = {"on_bad_row": "stop", "bad_rows": None}
    with inputs_for(learner, [data], rest, labelled=True, **bad) as (inputs, _):
        return learner.frozen(keep, inputs)


def _report(learner: Learner, output: str, written: int, as_json: bool) -> None:
    measured = learner.measured if isinstance(learner, Frozen) else None
    if as_json:
        show.print_json({"output": output, "weights": written, "measured": measured})
        return
    cells = [("weights", f"{written:,}")]
    if measured is not None:
        share = measured["difference"] / measured["loss"] if measured["loss"] else 0.0
        cells += [
            (f"{measured['figure']} of the model", f"{measured['loss']:.5f}"),
            (f"{measured['figure']} frozen", f"{measured['frozen']:.5f}  ({share:+.2%})"),
            ("measured on", f"{measured['rows']:,} rows"),
        ]
    show.table("", ["", ""], cells, text_columns=2)


def _write(learner: Learner, output: str, write: Callable[[Any, Path], None]) -> int:
    table = learner.to_frame()
    with atomic_path(output) as temporary:
        write(table, temporary)
    return int(table.num_rows)


def _write_parquet(table: Any, path: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(table, path)


def _write_csv(table: Any, path: Path) -> None:
    import pyarrow.csv

    pyarrow.csv.write_csv(table, path)


def _write_json(table: Any, path: Path) -> None:
    about = json.loads(table.schema.metadata[b"pqrlearn"])
    found = {**about, "weights": table.to_pylist()}
    path.write_text(json.dumps(found, ensure_ascii=False, indent=0), "utf-8")


_TABLES: dict[str, Callable[[Any, Path], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".json": _write_json,
}
