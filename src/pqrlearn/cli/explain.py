"""pqr explain: why a row is predicted as it is."""

from __future__ import annotations

from typing import Any

import click

from pqrlearn.cli import options, page, show
from pqrlearn.cli.judging import inputs_for
from pqrlearn.errors import DataError
from pqrlearn.explain import explained
from pqrlearn.learners import Explanation, Term, load


@click.command(cls=page.Command, short_help="Show what the prediction of a row comes from.")
@options.model_file
@click.argument("file", type=click.Path(), metavar="FILE")
@click.option(
    "--row",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Which row of FILE to explain; the first one is 1.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=15,
    show_default=True,
    metavar="N",
    help="Number of terms to show; --json has all of them.",
)
@options.reading
@page.config
@options.as_json
def explain(model_file: str, file: str, row: int, top: int, as_json: bool, **rest: Any) -> None:
    """Show the terms of the prediction of one row of FILE, the largest contributions first.

    A term is a weight times a value: of the bias, a feature, a pair of features, or a feature with
    all low features (shared). Their sum is the margin; the prediction is link(margin).
    """
    learner = load(model_file)
    bad: dict[str, Any] = {"on_bad_row": "stop", "bad_rows": None}
    with inputs_for(learner, [file], rest, labelled=False, **bad) as (inputs, _):
        found = next(explained(learner, inputs, row - 1), None)
    if found is None:
        raise DataError(f"{file}: there is no row {row:,}: it has {inputs.rows:,}")
    if as_json:
        show.print_json({"model": learner.kind, "row": row, **_figures(found)})
    else:
        _print(found, row, top)


def _figures(found: Explanation) -> dict[str, Any]:
    terms = [
        {
            "block": term.block,
            "names": list(term.names),
            "value": term.value,
            "weight": term.weight,
            "contribution": term.contribution,
            "count": term.count,
        }
        for term in found.strongest()
    ]
    return {"margin": found.margin, "prediction": found.prediction, "terms": terms}


def _print(found: Explanation, row: int, top: int) -> None:
    lines = [
        ("row", f"{row:,}"),
        ("prediction", f"{found.prediction:.5g}"),
        ("margin", f"{found.margin:+.5f}, the sum of {len(found.terms):,} terms"),
    ]
    show.table("", ["", ""], lines, text_columns=2)
    strongest = found.strongest()
    cells = [_cells(term) for term in strongest[:top]]
    rest = strongest[top:]
    if rest:
        total = sum(term.contribution for term in rest)
        cells.append((f"{total:+.4f}", "", "", "", f"{len(rest):,} more terms together"))
    columns = ["contribution", "weight", "value", "seen", "of"]
    print()
    show.table("", columns, cells, text_columns=0, folded=4)


def _cells(term: Term) -> tuple[str, ...]:
    seen = "" if term.count is None else f"{term.count:,}"
    numbers = f"{term.contribution:+.4f}", f"{term.weight:+.4f}", f"{term.value:.4g}", seen
    return (*numbers, show.term_name(term.block, term.names))
