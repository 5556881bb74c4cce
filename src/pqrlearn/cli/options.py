"""Options that several commands share, under one name and with one meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from pqrlearn.hyper import LOSSES, OPTIMIZERS, SAMPLE_ROWS, SCHEDULES, Ftrl, FtrlGeneral, Ogd

F = TypeVar("F", bound=Callable[..., Any])


class SampleRows(click.ParamType[int | None]):
    """A number of rows, or `all`."""

    name = "N|all"

    def convert(self, value: Any, param: Any, context: Any) -> int | None:
        if value is None or value == "all":
            return None
        if isinstance(value, int):
            return value
        try:
            rows = int(value)
        except ValueError:
            rows = 0
        if rows < 1:
            self.fail(f"{value!r} is neither 'all' nor a whole number from 1 on")
        return rows


class Scale(click.ParamType[float | str]):
    """A factor, or `none`."""

    name = "none|FACTOR"

    def convert(self, value: Any, param: Any, context: Any) -> float | str:
        if value == "none" or isinstance(value, float):
            return value  # type: ignore[no-any-return]
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither 'none' nor a number")


files = click.argument("files", nargs=-1, required=True, metavar="FILE...")
model = click.option(
    "-m", "--model", "model_path", required=True, metavar="MODEL", help="From pqr train."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
quiet = click.option("--quiet", is_flag=True, help="No progress line.")
loss = click.option(
    "--loss",
    type=click.Choice(LOSSES),
    help="logistic for clicks (labels 0/1 or -1/1; the default), squared for ratings.",
)
order = click.option(
    "--order",
    type=click.IntRange(min=0),
    metavar="K",
    help="How many features are high. Default: ⌈√d⌉ of the d distinct features counted.",
)
min_count = click.option(
    "--min-count",
    type=click.IntRange(min=1),
    metavar="C",
    help="Make every feature high that occurs in C rows or more, instead of --order.",
)
sample_rows = click.option(
    "--sample-rows",
    type=SampleRows(),
    default=SAMPLE_ROWS,
    show_default=True,
    help="How many rows to count: blocks spread over plain files; the first rows of stdin and "
    "of compressed files.",
)
names = click.option(
    "--names", metavar="FILE", help="Names of numbered features: an index and a name per line."
)


def optimizer(command: F) -> F:
    """--optimizer and the rates of each."""
    rates = [
        click.option(
            "--optimizer",
            type=click.Choice(list(OPTIMIZERS)),
            help="FTRL-Proximal (the default), gradient descent, or the paper's Algorithm 1.",
        ),
        click.option("--alpha", type=float, help=f"ftrl: learning rate. Default: {Ftrl.alpha}."),
        click.option(
            "--beta", type=float, help=f"ftrl: damps the first steps. Default: {Ftrl.beta}."
        ),
        click.option("--l1", type=float, help="ftrl: keeps weights at zero. Default: 0."),
        click.option("--l2", type=float, help="ftrl: pulls weights towards zero. Default: 0."),
        click.option(
            "--eta",
            type=float,
            help=f"ogd, ftrl-general: the step. Default: {Ogd.eta}, {FtrlGeneral.eta}.",
        ),
        click.option(
            "--schedule",
            type=click.Choice(SCHEDULES),
            help=f"ogd: a fixed step, or one divided by √t at row t. Default: {Ogd.schedule}.",
        ),
        click.option(
            "--radius",
            type=float,
            help="ogd, ftrl-general: bound on the l2 norm of all weights. Default: none.",
        ),
    ]
    for rate in reversed(rates):
        command = rate(command)
    return command


def bad_rows(command: F) -> F:
    """--on-bad-row and --bad-rows."""
    keep = click.option(
        "--bad-rows", metavar="FILE", help="With --on-bad-row skip: keep the bad rows here."
    )
    policy = click.option(
        "--on-bad-row",
        type=click.Choice(["stop", "skip"]),
        default="stop",
        show_default=True,
        help="Stop at the first bad row, or leave bad rows out and report them.",
    )
    return policy(keep(command))
