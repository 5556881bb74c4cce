"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

import click

from pqrlearn.cli.words import Bytes, Choice, Order, SampleRows, Tiers
from pqrlearn.guess import Choices
from pqrlearn.hyper import (
    DESCENTS,
    FACTOR_BETA,
    FACTOR_ETA,
    INIT,
    OPTIMIZERS,
    RANK,
    SAMPLE_ROWS,
    SCHEDULES,
    TIERS,
    AdaGrad,
    Ftrl,
    FtrlGeneral,
    NuclearBall,
    Ogd,
    Settings,
    Sgd,
)
from pqrlearn.learners import Learner
from pqrlearn.loss import LOSSES
from pqrlearn.readers import FORMATS, Reading

F = TypeVar("F", bound=Callable[..., Any])


def take_settings(options: dict[str, Any]) -> Settings:
    """Removes the model's settings from a command's options; those not given are left out."""
    taken = {name: options.pop(name) for name in Settings.__annotations__ if name in options}
    given = {name: value for name, value in taken.items() if value is not None}
    if given.get("interaction_scale") == "none":
        given["interaction_scale"] = None
    return cast(Settings, given)


files = click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
model_file = click.option(
    "-m",
    "--model-file",
    required=True,
    type=click.Path(),
    metavar="FILE",
    help="Model of pqr train.",
)


def output(help: str, *, required: bool = False) -> Callable[[F], F]:
    """-o: where the result goes."""
    return click.option(
        "-o", "--output", type=click.Path(), metavar="FILE", required=required, help=help
    )


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
quiet = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
loss = click.option(
    "--loss",
    type=Choice(LOSSES),
    metavar="NAME",
    help="logistic for clicks (labels 0/1 or -1/1; the default), squared for ratings, poisson for "
    "counts.",
)
_ORDER = "Number of high features. Default: ⌈√d⌉ of the d distinct features counted."
order = click.option(
    "--order",
    type=Order(),
    metavar="K|auto",
    help=f"{_ORDER} auto learns with several orders and mixes their predictions.",
)
single_order = click.option("--order", type=Order(), metavar="K", help=_ORDER)


def one_order(order: int | str | None, why: str) -> int | None:
    """The order, for commands that cannot mix several."""
    if isinstance(order, str):
        raise click.UsageError(f"--order {order} needs pqr train: {why}")
    return order


min_count = click.option(
    "--min-count",
    type=click.IntRange(min=1),
    metavar="C",
    help="Make all features high that occur in at least C rows, instead of --order.",
)
sample_rows = click.option(
    "--sample-rows",
    type=SampleRows(),
    default=SAMPLE_ROWS,
    show_default=True,
    metavar="N|all",
    help="Number of rows to count: spread over uncompressed files; the first rows of stdin and of "
    "compressed files.",
)
names = click.option(
    "--names",
    type=click.Path(),
    metavar="FILE",
    help="Names of numbered features: a file with an index and a name per line.",
)


memory = click.option(
    "--memory",
    type=Bytes(),
    help="auto: bound on the size of its tables. Default: any number of features (about 80 bytes "
    "each), 1,048,576 pairs (up to 128 bytes each).",
)


def optimizer(command: F) -> F:
    """--optimizer and the settings of all optimizers."""
    rates = [
        click.option(
            "--optimizer",
            type=Choice([*OPTIMIZERS, *DESCENTS]),
            metavar="NAME",
            help="ftrl is FTRL-Proximal (the default), ogd gradient descent, ftrl-general the "
            "paper's Algorithm 1; for fm: adagrad (the default) or sgd.",
        ),
        click.option("--alpha", type=float, help=f"ftrl: learning rate. Default: {Ftrl.alpha}."),
        click.option(
            "--beta",
            type=float,
            help=f"ftrl, adagrad: damps the first steps. Default: {Ftrl.beta}.",
        ),
        click.option("--l1", type=float, help="ftrl, adagrad, sgd: l1 regularisation. Default: 0."),
        click.option("--l2", type=float, help="ftrl, adagrad, sgd: l2 regularisation. Default: 0."),
        click.option(
            "--eta",
            type=float,
            help="ogd, ftrl-general, adagrad, sgd: step size. Default: "
            f"{Ogd.eta}, {FtrlGeneral.eta}, {AdaGrad.eta}, {Sgd.eta}. cfm, ccfm: learning rate of "
            f"the matrix. Default: {NuclearBall.eta}.",
        ),
        click.option(
            "--schedule",
            type=Choice(SCHEDULES),
            help="ogd, sgd: fixed step size, or divided by √t at row t. Default: "
            f"{Ogd.schedule}, {Sgd.schedule}.",
        ),
        click.option(
            "--radius",
            type=float,
            help="ogd, ftrl-general: bound on the l2 norm of all weights. Default: none. "
            f"cfm, ccfm: bound on the matrix's nuclear norm. Default: {NuclearBall.radius:g}.",
        ),
    ]
    for rate in reversed(rates):
        command = rate(command)
    return command


def embedding(command: F) -> F:
    """The settings of models with factors."""
    settings = [
        click.option(
            "--rank", type=int, metavar="M", help=f"fm: factors per feature. Default: {RANK}."
        ),
        click.option(
            "--tiers",
            type=Tiers(),
            help="difacto: a feature that was in C rows has M factors. Default: "
            f"{','.join(f'{count}:{rank}' for count, rank in TIERS)}.",
        ),
        click.option("--seed", type=int, help="fm, difacto: random seed. Default: 0."),
        click.option(
            "--init",
            type=float,
            help=f"fm, difacto: bound on initial factors. Default: {INIT}.",
        ),
        click.option(
            "--factor-eta",
            type=float,
            help="adagrad, sgd, difacto: step size of factors. Default: "
            f"{FACTOR_ETA}; for sgd that of --eta.",
        ),
        click.option(
            "--factor-beta",
            type=float,
            help=f"difacto: damps the first steps of factors. Default: {FACTOR_BETA}.",
        ),
        click.option(
            "--factor-l2",
            type=float,
            help="adagrad, sgd, difacto: l2 of factors. Default: that of --l2; for difacto 0.",
        ),
    ]
    for setting in reversed(settings):
        command = setting(command)
    return command


block_rows = click.option(
    "--block-rows",
    type=click.IntRange(min=1),
    metavar="B",
    help="cfm, ccfm: rows from one step of the matrix to the next. "
    f"Default: {NuclearBall.block_rows}.",
)


_TEXT_OPTIONS = [
    click.option(
        "--format",
        type=Choice(FORMATS),
        metavar="NAME",
        help=f"One of {', '.join(FORMATS)}. Default: told by the end of the name, or by the "
        "first bytes.",
    ),
    click.option(
        "--columns", metavar="NAME,...", help="The columns of text without a first line of names."
    ),
    click.option(
        "--delimiter",
        metavar="CHAR",
        help="Of cells in text. Default: told by its first line.",
    ),
    click.option("--encoding", metavar="NAME", help="Encoding of text. Default: utf-8."),
    click.option(
        "--other-columns",
        type=Choice(["stop", "accept"]),
        metavar="stop|accept",
        help="If a table lacks columns of the schema or has others: stop (the default), or accept "
        "it: cells that lack are missing, other columns are ignored.",
    ),
]
_CHOICES = [
    click.option(
        "--schema",
        type=click.Path(),
        metavar="FILE",
        help="What the columns are, from pqr schema.",
    ),
    click.option("--label", metavar="NAME", help="The column to predict."),
    click.option("--positive", metavar="VALUE", help="The label that counts as 1."),
    click.option("--weight", metavar="NAME", help="The column that says how much a row counts."),
    *(
        click.option(f"--{name}", metavar=metavar, help=f"{what}.")
        for name, metavar, what in (
            ("ignore", "NAME,...", "Columns to leave out"),
            ("categories", "NAME,...", "Columns whose values are features"),
            ("numbers", "NAME,...", "Columns of numbers, centred and scaled"),
            ("bins", "NAME,...", "Columns of numbers, cut at quantiles"),
            ("lists", "NAME,...", "Columns with several values at once, as in genres=|"),
            ("times", "NAME,...", "Columns of dates or times, as in hour=%y%m%d%H"),
            ("nulls", "TEXT,...", "What means a missing cell, besides an empty one"),
        )
    ),
    click.option(
        "--hash-bits",
        type=click.IntRange(1, 32),
        metavar="B",
        help="Number features by hash, 2^B of them at most; their names are not kept.",
    ),
    click.option(
        "--max-features",
        type=click.IntRange(min=1),
        metavar="N",
        help="Keep the names of N features; further values of a column count as column=*.",
    ),
]


def reading(command: F) -> F:
    """How files are read by a model that knows what their columns are."""
    for option in reversed(_TEXT_OPTIONS):
        command = option(command)
    return command


def schema(command: F) -> F:
    """How files are read, and what the columns of tables are."""
    for option in reversed(_CHOICES):
        command = option(command)
    return reading(command)


def take_reading(options: dict[str, Any]) -> Reading:
    """Removes what `reading` or `schema` have added to a command's options."""
    names = [
        *("format", "columns", "delimiter", "encoding", "schema", "carried"),
        *(field for field in Choices.__dataclass_fields__),
    ]
    given = {name: options.pop(name) for name in names if name in options}
    accept = options.pop("other_columns", None)
    return Reading.of(**given, accept=None if accept is None else accept == "accept")


def known_reading(options: dict[str, Any], learner: Learner) -> Reading:
    """The same, of a command that reads by the schema of a model."""
    return replace(take_reading(options), schema=learner.schema)


on_bad_row = click.option(
    "--on-bad-row",
    type=Choice(["stop", "skip"]),
    metavar="stop|skip",
    default="stop",
    show_default=True,
    help="Stop at the first bad row, or skip bad rows and report them.",
)
bad_rows = click.option(
    "--bad-rows",
    type=click.Path(),
    metavar="FILE",
    help="With --on-bad-row skip: write skipped rows to FILE.",
)
