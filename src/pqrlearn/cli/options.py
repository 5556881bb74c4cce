"""Options that several commands share, under one name and with one meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import click

from pqrlearn.hyper import (
    DESCENTS,
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
    Sgd,
)
from pqrlearn.loss import LOSSES

F = TypeVar("F", bound=Callable[..., Any])
AUTO = "auto"
"""The --order of a mixture of orders."""


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


class Bytes(click.ParamType[int]):
    """A number of bytes, as in 500MB or 2GB."""

    name = "SIZE"
    _UNITS: ClassVar[dict[str, int]] = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}

    def convert(self, value: Any, param: Any, context: Any) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([KMG]?B?)", str(value), re.IGNORECASE)
        unit = match[2].upper() if match else ""
        if match is None or (unit and unit not in self._UNITS):
            self.fail(f"{value!r} is not a size, as in 500MB or 2GB")
        return int(float(match[1]) * self._UNITS[unit])


class Order(click.ParamType[int | str]):
    """A number of features, or `auto`."""

    name = "K|auto"

    def convert(self, value: Any, param: Any, context: Any) -> int | str:
        if value == AUTO or isinstance(value, int):
            return value  # type: ignore[no-any-return]
        try:
            order = int(value)
        except ValueError:
            order = -1
        if order < 0:
            self.fail(f"{value!r} is neither '{AUTO}' nor a whole number from 0 on")
        return order


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


class Tiers(click.ParamType[tuple[tuple[int, int], ...]]):
    """Counts and ranks, as in 10:4,100:8."""

    name = "C:M,..."

    def convert(self, value: Any, param: Any, context: Any) -> tuple[tuple[int, int], ...]:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        try:
            pairs = [pair.split(":") for pair in value.split(",")]
            return tuple((int(count), int(rank)) for count, rank in pairs)
        except ValueError:
            self.fail(f"{value!r} is not a list of counts and ranks, as in 10:4,100:8")


files = click.argument("files", nargs=-1, required=True, metavar="FILE...")
model = click.option(
    "-m", "--model", "model_path", required=True, metavar="MODEL", help="From pqr train."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
quiet = click.option("--quiet", is_flag=True, help="No progress line.")
loss = click.option(
    "--loss",
    type=click.Choice(list(LOSSES)),
    help="logistic for clicks (labels 0/1 or -1/1; the default), squared for ratings, poisson for "
    "counts.",
)
order = click.option(
    "--order",
    type=Order(),
    help="How many features are high. Default: ⌈√d⌉ of the d distinct features counted. auto, for "
    "pqr train: learn with several orders side by side and mix what they predict.",
)


def one_order(order: int | str | None, why: str) -> int | None:
    """The order of a command that has one."""
    if isinstance(order, str):
        raise click.UsageError(f"--order {order} needs pqr train: {why}")
    return order


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


memory = click.option(
    "--memory",
    type=Bytes(),
    help="auto: bound on the tables of features and pairs. Default: none for features (about 80 "
    "bytes each), 1,048,576 pairs (up to 128 bytes each).",
)


def optimizer(command: F) -> F:
    """--optimizer and the rates of each."""
    rates = [
        click.option(
            "--optimizer",
            type=click.Choice([*OPTIMIZERS, *DESCENTS]),
            help="FTRL-Proximal (the default), gradient descent, or the paper's Algorithm 1; for "
            "fm AdaGrad (the default) or gradient descent.",
        ),
        click.option("--alpha", type=float, help=f"ftrl: learning rate. Default: {Ftrl.alpha}."),
        click.option(
            "--beta",
            type=float,
            help=f"ftrl, adagrad: damps the first steps. Default: {Ftrl.beta}.",
        ),
        click.option(
            "--l1", type=float, help="ftrl, adagrad, sgd: keeps weights at zero. Default: 0."
        ),
        click.option(
            "--l2", type=float, help="ftrl, adagrad, sgd: pulls weights towards zero. Default: 0."
        ),
        click.option(
            "--eta",
            type=float,
            help=f"ogd, ftrl-general, adagrad, sgd: the step. Default: {Ogd.eta}, "
            f"{FtrlGeneral.eta}, {AdaGrad.eta}, {Sgd.eta}. cfm, ccfm: learning rate of the "
            f"matrix. Default: {NuclearBall.eta}.",
        ),
        click.option(
            "--schedule",
            type=click.Choice(SCHEDULES),
            help="ogd, sgd: a fixed step, or one divided by √t at row t. Default: "
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
    """What models with factors have besides."""
    settings = [
        click.option(
            "--rank", type=int, metavar="M", help=f"fm: factors of a feature. Default: {RANK}."
        ),
        click.option(
            "--tiers",
            type=Tiers(),
            help="difacto: features in C rows or more have M factors. Default: "
            f"{','.join(f'{count}:{rank}' for count, rank in TIERS)}.",
        ),
        click.option("--seed", type=int, help="fm, difacto: of the initial factors. Default: 0."),
        click.option(
            "--init",
            type=float,
            help=f"fm, difacto: bound on the initial factors. Default: {INIT}.",
        ),
        click.option(
            "--factor-eta",
            type=float,
            help=f"adagrad, difacto: the step of factors. Default: {FACTOR_ETA}; for sgd that of "
            "--eta.",
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
    help="For cfm, ccfm: rows from one step of the interactions to the next. "
    f"Default: {NuclearBall.block_rows}.",
)


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
