"""pqr inspect: show a model or a separation."""

from __future__ import annotations

import sys
from typing import Any

import click

from pqrlearn import modelfile
from pqrlearn.cli import options, show
from pqrlearn.cli.inside import figures, print_inside
from pqrlearn.cli.judging import inputs_for
from pqrlearn.cli.separate import print_separation
from pqrlearn.cli.text import printable
from pqrlearn.explain import Importance, count_low, importance
from pqrlearn.learners import Auto, Learner, Mixture, load
from pqrlearn.names import Names
from pqrlearn.separation import KIND, Separation


@click.command(short_help="Show a model's settings, sizes and strongest weights.")
@click.argument("path", type=click.Path(), required=False, metavar="FILE")
@click.option("-m", "--model-file", type=click.Path(), metavar="FILE", help="The same as FILE.")
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of strongest weights to show of each block.",
)
@click.option(
    "--names",
    "only_names",
    is_flag=True,
    help="Print the names of all features only: a number and a name per line, as train --names "
    "takes them.",
)
@click.option(
    "--data",
    type=click.Path(),
    metavar="FILE",
    help="Rows to measure the importance of fields and of pairs of fields on.",
)
@options.reading
@options.quiet
@options.as_json
def inspect(
    path: str | None,
    model_file: str | None,
    top: int,
    only_names: bool,
    data: str | None,
    quiet: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Show the settings and sizes of the model in FILE, and its strongest weights and pairs.

    The effect of a weight is what it adds to the margin of a typical row, where its features have
    the value 1: weights of features and of pairs can be compared by it. The importance of a field
    is the mean absolute contribution of its features to the margins of the rows of --data.
    """
    if (path is None) == (model_file is None):
        raise click.UsageError("give one FILE to inspect")
    file = str(path or model_file)
    separation = Separation.load(file) if modelfile.kind_of(file) == KIND else None
    if only_names:
        _print_names((separation or load(file)).names, as_json)
    elif separation is not None:
        _inspect_separation(separation, top, as_json)
    else:
        learner = load(file)
        found = None if data is None else _importance(learner, data, rest, quiet or as_json)
        _inspect_model(learner, top, as_json, found)


def _importance(learner: Learner, data: str, rest: dict[str, Any], quiet: bool) -> Importance:
    bad: dict[str, Any] = {"on_bad_row": "stop", "bad_rows": None}
    with (
        inputs_for(learner, [data], rest, labelled=False, **bad) as (inputs, _),
        show.tally("explaining", "rows", quiet=quiet) as watch,
    ):
        return importance(learner, inputs, lambda rows: watch(rows, inputs.fraction()))


def _print_names(names: Names, as_json: bool) -> None:
    numbers = names.arrays()[0].tolist()
    if as_json:
        show.print_json({"names": {str(names.name(number)): number for number in numbers}})
        return
    shown = printable if sys.stdout.isatty() else str  # elsewhere train --names reads them
    for number in numbers:
        print(number, shown(str(names.name(number))))


def _inspect_separation(separation: Separation, top: int, as_json: bool) -> None:
    if as_json:
        most = zip(separation.high_names()[:top], separation.counts.tolist(), strict=False)
        show.print_json(
            {"order": separation.order, **separation.settings(), "most_frequent": list(most)}
        )
    else:
        print_separation(separation, top)


def _inspect_model(learner: Learner, top: int, as_json: bool, found: Importance | None) -> None:
    if as_json:
        show.print_json(
            {
                "model": learner.kind,
                "settings": learner.settings(),
                **({} if learner.schema is None else {"schema": learner.schema.to_json()}),
                **({"auto": learner.summary()} if isinstance(learner, Auto) else {}),
                "nonzeros": learner.nonzeros(),
                "bias": _bias(learner),
                **figures(learner, top, found),
                **(show.mixture_figures(learner) if isinstance(learner, Mixture) else {}),
            }
        )
        return
    bias = _bias(learner)
    lines = [("model", learner.kind), *_flat(learner.settings()), *_schema_lines(learner)]
    if isinstance(learner, Auto):
        lines += show.auto_cells(learner)
    lines += show.mixture_cells(learner) if isinstance(learner, Mixture) else []
    lines += [] if bias is None else [("bias weight", f"{bias:+.4f}")]
    if "shared" in learner.blocks and hasattr(learner, "_high"):
        lines.append(("low features", f"{count_low(learner):,}"))
    lines += [(f"non-zero {b} weights", f"{count:,}") for b, count in learner.nonzeros().items()]
    show.table("", ["", ""], lines, text_columns=2)
    print_inside(learner, top, found)


def _bias(learner: Learner) -> float | None:
    return float(learner.weights("bias")[1][0]) if "bias" in learner.blocks else None


def _schema_lines(learner: Learner) -> list[tuple[str, str]]:
    """What it is a model of: the columns by kind, and how many names it keeps."""
    schema = learner.schema
    if schema is None:
        return []
    kinds: dict[str, list[str]] = {}
    for column in schema.columns:
        kinds.setdefault(column.kind, []).append(column.name)
    lines = [(f"columns: {kind}", ", ".join(names)) for kind, names in kinds.items()]
    if schema.hash_bits is not None:
        lines.append(
            ("names", f"none: features are hashed to {schema.hash_bits} bits, and may collide")
        )
    if schema.max_features is not None:
        full = len(learner.names) >= schema.max_features
        state = "full: new values count as column=*" if full else "not full"
        lines.append(("names", f"at most {schema.max_features:,} ({state})"))
    return lines


def _flat(settings: dict[str, Any], head: str = "") -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for name, value in settings.items():
        if name == "learners":
            value = {str(number): one for number, one in enumerate(value)}
        if isinstance(value, dict):
            lines += _flat(value, f"{head}{name}.")
        else:
            shown = "none" if value is None else f"{value:,}" if type(value) is int else str(value)
            lines.append((head + name, shown))
    return lines
