"""pqr compare: several models on the same rows, in one read."""

from __future__ import annotations

from typing import Any

import click

from pqrlearn.cli import options, page, show
from pqrlearn.cli.train import Terminal
from pqrlearn.comparison import MODELS, CompareConfig, Compared, Comparison, run
from pqrlearn.files import check_no_input
from pqrlearn.learners import LEARNERS
from pqrlearn.progressive import finite


@click.command(
    cls=page.Command, short_help="Train several models on the same rows; say which wins."
)
@options.files
@click.option(
    "--models",
    metavar="KIND,...",
    help=f"Which models to compare, of {', '.join(LEARNERS)}. Default: {', '.join(MODELS)}.",
)
@options.output("Save the model that is advised.")
@options.schema
@options.loss
@options.single_order
@options.min_count
@options.sample_rows
@options.names
@options.on_bad_row
@page.config
@options.quiet
@options.as_json
def compare(
    files: tuple[str, ...],
    models: str | None,
    order: int | str | None,
    quiet: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Train several models on FILEs side by side, in one read, and say which to take.

        pqr compare clicks.csv --label click --models auto,lr,pqr,fm

    Each row is predicted by all models before they learn it. Beside a model is its loss beyond
    the best model's on the same rows, ± half of its 95 % interval, from the means of 30 long blocks
    of rows; the constant is the best one. All models have their default settings; pqr tune finds
    others.
    """
    check_no_input(rest["output"] or "", [rest["schema"]])
    reading = options.take_reading(rest)
    kinds = None
    if models is not None:
        kinds = tuple(kind.strip().lower() for kind in models.split(",") if kind.strip())
    why = "each model is compared by itself"
    config = CompareConfig(
        inputs=files, models=kinds, order=options.one_order(order, why), reading=reading, **rest
    )
    found = run(config, Terminal(quiet=quiet or as_json))
    show.note_bad_rows(found.bad_rows, found.first_bad)
    saved = config.output if found.advised is not None else None
    if as_json:
        show.print_json({**_figures(found), "output": saved})
    else:
        _print(found)
        if saved:
            print(f"saved as {saved}")


def _figures(found: Comparison) -> dict[str, Any]:
    key = found.measures.key
    return {
        "rows": found.rows,
        "bad_rows": found.bad_rows,
        "measure": key,
        **finite({f"constant_{key}": found.constant}),
        "models": [_one(one) for one in found.models],
        "best": found.best.kind,
        "take": None if found.advised is None else found.advised.kind,
        "advice": found.advice,
    }


def _one(one: Compared) -> dict[str, Any]:
    beyond = one.beyond_best
    return {
        "model": one.kind,
        **finite(one.metrics),
        "beyond_best": None
        if beyond is None
        else finite({"difference": beyond.difference, "low": beyond.low, "high": beyond.high}),
        "seconds": one.seconds,
        "nonzeros": one.nonzeros,
        "bytes": one.size,
    }


def _print(found: Comparison) -> None:
    title = found.measures.title
    columns = ["", title]
    columns += ["AUC"] if found.measures.ranks else []
    columns += ["beyond the best", "seconds", "weights", "size"]
    lines = [_line(one, ranks=found.measures.ranks) for one in found.models]
    blank = [""] * (len(columns) - 2)
    lines.append(["constant", f"{found.constant:.5f}", *blank])
    show.table(f"progressive figures of {found.rows:,} rows\n", columns, lines)
    print(f"\n{found.advice}")


def _line(one: Compared, *, ranks: bool) -> list[str]:
    beyond, difference = one.beyond_best, "best"
    if beyond is not None:
        error = f"{(beyond.high - beyond.low) / 2:.5f}" if beyond.is_known else "unknown"
        difference = f"{beyond.difference:+.5f} ± {error}"
    return [
        one.kind,
        f"{one.loss:.5f}",
        *([f"{one.metrics['auc']:.5f}"] if ranks else []),
        difference,
        f"{one.seconds:.2f}",
        f"{one.nonzeros:,}",
        show.size(one.size),
    ]
