"""pqr paper: the paper's tables, figures and regret, measured again."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import Any, TypeVar

import click

from pqrlearn import plots
from pqrlearn.cli import options, show
from pqrlearn.files import check_writable
from pqrlearn.paper import complexity, tables
from pqrlearn.paper.everything import sections
from pqrlearn.paper.printed import CLICKS, RATINGS
from pqrlearn.paper.protocol import FULL, QUICK, Plan
from pqrlearn.paper.report import Report, choices, made
from pqrlearn.paper.sources import Source
from pqrlearn.paper.study import study as order_study
from pqrlearn.paper.tables import Table
from pqrlearn.paper.work import Desk

F = TypeVar("F", bound=Callable[..., Any])


class _Group(click.Group):
    """Also has `regret`, whose file is imported only when it is asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [*super().list_commands(context), "regret"]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name == "regret" and find_spec("pqrlearn.cli.regret"):
            command: click.Command = import_module("pqrlearn.cli.regret").regret
            return command
        return super().get_command(context, name)


@click.group(cls=_Group, short_help="Regenerate the paper's tables and figures.")
def paper() -> None:
    """Regenerate the paper's tables and figures, beside what it prints."""


def budget(command: F) -> F:
    """How much is done, and where results are kept."""
    settings = [
        click.option("--quick", is_flag=True, help="Fewer splits, repeats and trials."),
        click.option(
            "--splits", type=click.IntRange(min=1), metavar="N", help="Random splits. Default: 5."
        ),
        click.option(
            "--repeats",
            type=click.IntRange(min=1),
            metavar="N",
            help="Seeds of FM and DiFacto on every split. Default: 20.",
        ),
        click.option(
            "--trials",
            type=click.IntRange(min=1),
            metavar="N",
            help="Settings tried for a cell. Default: 81.",
        ),
        click.option(
            "--cache",
            metavar="DIR",
            help="Keep finished cells here, and go on from them. Default: ~/.cache/pqrlearn/paper.",
        ),
        click.option(
            "--jobs",
            type=click.IntRange(min=1),
            default=os.cpu_count() or 1,
            metavar="N",
            help="Processes that share the cells. Default: one per core.",
        ),
        options.quiet,
        options.as_json,
    ]
    for setting in reversed(settings):
        command = setting(command)
    return command


data_sets = click.option(
    "--data",
    "data",
    multiple=True,
    metavar="NAME",
    help="Only this data set; may be given several times. Default: all of the table's.",
)


def simulation(command: F) -> F:
    """Streams of the shape of the click data, where the data are not here."""
    flag = click.option(
        "--simulated",
        is_flag=True,
        help="Fill the click columns from simulated streams of the same shape.",
    )
    share = click.option(
        "--fraction",
        type=click.FloatRange(0, 1, min_open=True),
        default=0.01,
        show_default=True,
        metavar="F",
        help="With --simulated: how much of the paper's rows to make.",
    )
    return flag(share(command))


@paper.command(short_help="Fill one of the paper's tables.")
@click.argument("which", type=click.Choice(["rmse", "binary", "stats", "complexity"]))
@data_sets
@simulation
@budget
def table(which: str, **given: Any) -> None:
    """Fill one of the paper's tables, beside what the paper prints.

    rmse: ratings. binary: clicks. stats: what the files hold. complexity: measured cost per row.
    """
    if given["simulated"] and which != "binary":
        raise click.UsageError("--simulated is for the table binary")
    names = _names(which, given["data"])
    fraction = given["fraction"] if given["simulated"] else None
    with _desk(given) as desk:
        found = _tables(which, desk, _plan(given), names, fraction)
    _print(found, _choices(given) if which in ("rmse", "binary") else [], given["as_json"])


def _names(which: str, chosen: Sequence[str]) -> list[str]:
    """The data sets of a table, or those of them that were asked for."""
    known = {"rmse": RATINGS, "binary": CLICKS}.get(which, (*RATINGS, *CLICKS))
    for name in chosen:
        if name not in known:
            raise click.UsageError(f"--data {name}: choose from {', '.join(known)}")
    return list(chosen or known)


def _plan(given: dict[str, Any]) -> Plan:
    changed = {name: given[name] for name in ("splits", "repeats", "trials") if given[name]}
    return replace(QUICK if given["quick"] else FULL, **changed)


@contextmanager
def _desk(given: dict[str, Any]) -> Iterator[Desk]:
    """Where the work is done, with a progress line over it."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(given["cache"] or Path(home) / "pqrlearn" / "paper")
    with show.steps("paper", quiet=given["quiet"] or given["as_json"]) as step:
        yield Desk(cache, given["jobs"], step)


def _tables(
    which: str, desk: Desk, plan: Plan, names: Sequence[str], fraction: float | None
) -> list[Table]:
    if which == "rmse":
        return tables.rmse(desk, plan, names)
    if which == "binary":
        return tables.binary(desk, plan, names, fraction)
    return tables.stats(names) if which == "stats" else complexity.tables(desk)


def _choices(given: dict[str, Any]) -> list[str]:
    return choices(_plan(given), quick=given["quick"])


def _print(found: Sequence[Table], chosen: Sequence[str], as_json: bool) -> None:
    if as_json:
        data = {table.name: tables.as_data(table) for table in found}
        show.print_json({"choices": list(chosen), "tables": data})
        return
    for table in found:
        show.table(f"\n{table.title}\n", table.columns, table.rows, table.text_columns)
        for note in table.notes:
            print(f"  {note}")
    if chosen:
        print("\nHow it was measured\n")
        for choice in chosen:
            print(fill(choice, 100, initial_indent="- ", subsequent_indent="  "))


@paper.command(short_help="Show what the order changes.")
@data_sets
@simulation
@click.option("--figure", metavar="PATH", help="Draw it, as PNG and as SVG.")
@budget
def study(figure: str | None, **given: Any) -> None:
    """Show test loss, training time and size against the order, on each data set that is here."""
    if figure:
        plots.check()
        check_writable(Path(figure).with_suffix(".png"))
    fraction = given["fraction"] if given["simulated"] else None
    names = _names("binary" if given["simulated"] else "", given["data"])
    sources = [Source(name, fraction) for name in names]
    with _desk(given) as desk:
        found, panels = order_study(desk, _plan(given), [s for s in sources if s.present()])
    _print(found, _choices(given), given["as_json"])
    if figure:
        for path in plots.save(plots.draw(panels), figure):
            show.note(f"drawn as {path}")


@paper.command("all", short_help="Fill every table, draw every figure, write the report.")
@click.option(
    "-o", "--output", default="paper-report", show_default=True, metavar="DIR", help="Where to."
)
@data_sets
@simulation
@budget
def everything(output: str, **given: Any) -> None:
    """Fill every table and draw every figure that the data here allow.

    Writes report.html (one page that needs no other file), tables.md, results.json and the figures
    to DIR. Stopped and started again, it goes on from the finished cells.
    """
    plots.check()
    Path(output).mkdir(parents=True, exist_ok=True)
    start, plan = time.monotonic(), _plan(given)
    fraction = given["fraction"] if given["simulated"] else None
    with _desk(given) as desk:
        found = sections(desk, plan, _names("", given["data"]), fraction)
    seconds = time.monotonic() - start
    command = shlex.join(["pqr", *sys.argv[1:]])
    facts = made(command, seconds, desk.reused, output)
    report = Report(found, _choices(given), facts)
    paths = report.save(Path(output))
    if given["as_json"]:
        show.print_json(report.data())
        return
    _print([table for section in found for table in section.tables], report.choices, False)
    for path in paths:
        print(path)
