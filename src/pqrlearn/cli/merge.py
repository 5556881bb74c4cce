"""pqr merge: one model of several that learned different rows."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import click

from pqrlearn.cli import options, page, show
from pqrlearn.cli.judging import inputs_for
from pqrlearn.files import check_no_input, check_writable
from pqrlearn.learners import Learner, load
from pqrlearn.merging import Candidate, Merged, merged
from pqrlearn.rows import Batch


@click.command(
    cls=page.Command, short_help="Make one model of several that learned different rows."
)
@click.argument("models", nargs=-1, required=True, type=click.Path(), metavar="MODEL...")
@options.output("Where to save the merged model.", required=True)
@click.option(
    "--base",
    type=click.Path(),
    metavar="FILE",
    help="The model that all of them started from. Default: they started from nothing.",
)
@click.option(
    "--rows",
    type=click.Path(),
    metavar="FILE",
    help="Some thousand rows with labels that no model has learned, to choose the merge by. "
    "Default: it follows from the mean size of a row.",
)
@options.reading
@page.config
@options.as_json
def merge(
    models: tuple[str, ...],
    output: str,
    base: str | None,
    rows: str | None,
    as_json: bool,
    **rest: Any,
) -> None:
    """Make one model of MODELs that started from one model and learned different rows.

    They must be lr, pqr or qr with FTRL-Proximal, equal settings and one separation. The result
    goes on learning as any model does (docs/merging.md).
    """
    check_no_input(output, [*models, base, rows])
    check_writable(output)
    start = None if base is None else load(base)
    chosen_by = None if rows is None else lambda learner: _read(learner, rows, rest)
    found = merged(_loaded(models), start, rows=chosen_by, called=models)
    found.learner.save(output)
    if found.alone is not None:
        show.note(
            f"no merge predicts {rows} as well as {models[found.alone]} alone, which was saved: "
            "merge more often, or learn with smaller steps"
        )
    _report(found, models, as_json)


def _loaded(paths: tuple[str, ...]) -> list[Learner]:
    """The models of files; a file that is given twice is one model."""
    found: dict[str, Learner] = {}
    for path in paths:
        if (real := os.path.realpath(path)) not in found:
            found[real] = load(path)
    return [found[os.path.realpath(path)] for path in paths]


def _read(learner: Learner, rows: str, rest: dict[str, Any]) -> Iterable[Batch]:
    bad: dict[str, Any] = {"on_bad_row": "stop", "bad_rows": None}
    with inputs_for(learner, [rows], rest, labelled=True, **bad) as (inputs, _):
        yield from inputs


def _report(found: Merged, models: tuple[str, ...], as_json: bool) -> None:
    learner, alone = found.learner, found.alone
    if as_json:
        tried = [{"merge": _name(each, models), "loss": each.loss} for each in found.tried]
        m = None if found.m is None else f"{found.m:g}"
        about = {"alone": None if alone is None else models[alone], "tried": tried}
        show.print_json({"model": learner.kind, "rows": learner.rows, "m": m, **about})
        return
    cells = [("rows learned", f"{learner.rows:,}")]
    if found.m is not None:
        cells.append(("m", f"{found.m:g}"))
    show.table("", ["", ""], cells, text_columns=2)
    if found.tried:
        losses = [(_name(each, models), f"{each.loss:.5f}") for each in found.tried]
        show.table("\ntried on rows not learned", ["", "loss"], losses, text_columns=1)


def _name(tried: Candidate, models: tuple[str, ...]) -> str:
    return f"merge with m = {tried.m:g}" if tried.model is None else f"{models[tried.model]} alone"
