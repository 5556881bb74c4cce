"""pqr paper: measure the paper's tables, figures and regret again."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import Any, TypeVar

import click

from pqrlearn import plots
from pqrlearn.cli import options, show
from pqrlearn.files import check_name, check_writable
from pqrlearn.paper import complexity, tables
from pqrlearn.paper.everything import sections
from pqrlearn.paper.plan import FULL, QUICK, Plan
from pqrlearn.paper.printed import CLICKS, RATINGS
from pqrlearn.paper.report import Report, choices, made
from pqrlearn.paper.sources import Source
from pqrlearn.paper.study import study as order_study
from pqrlearn.paper.tables import Table
from pqrlearn.paper.work import Workspace

F = TypeVar("F", bound=Callable[..., Any])


class _Group(click.Group):
    """Also has `regret`, whose module is imported when it is called."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [*super().list_commands(context), "regret"]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name == "regret" and find_spec("pqrlearn.cli.regret"):
            command: click.Command = import_module("pqrlearn.cli.regret").regret
            return command
        return super().get_command(context, name)


@click.group(cls=_Group, short_help="Regenerate the paper's tables and figures.")
def paper() -> None:
    """Measure the paper's tables and figures again, and show them beside the printed ones."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much to measure, where to store results, and how to show them."""

    quick: bool
    splits: int | None
    repeats: int | None
    trials: int | None
    split_seed: int | None
    cache: str | None
    jobs: int
    finished: bool
    quiet: bool
    as_json: bool

    def plan(self) -> Plan:
        counts = {"splits": self.splits, "repeats": self.repeats, "trials": self.trials}
        counts["seed"] = self.split_seed
        changed = {name: count for name, count in counts.items() if count is not None}
        return replace(QUICK if self.quick else FULL, **changed)

    def choices(self) -> list[str]:
        return choices(self.plan(), quick=self.quick, finished=self.finished)

    @contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """With a progress line."""
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        cache = Path(self.cache or Path(home) / "pqrlearn" / "paper")
        with show.steps("paper", quiet=self.quiet or self.as_json) as step:
            yield Workspace(cache, self.jobs, step, self.finished)


def budget(command: F) -> F:
    """The options of a Budget."""
    settings = [
        click.option("--quick", is_flag=True, help="Fewer splits and repeats."),
        click.option(
            "--splits",
            type=click.IntRange(min=1),
            metavar="N",
            help="Number of random splits. Default: 5, for large data sets 3.",
        ),
        click.option(
            "--repeats",
            type=click.IntRange(min=1),
            metavar="N",
            help="Seeds per split, for FM and DiFacto. Default: 20, for large data sets 5.",
        ),
        click.option(
            "--trials",
            type=click.IntRange(min=1),
            metavar="N",
            help="Settings tried per cell. Default: what each model needs, as in pqr tune.",
        ),
        click.option(
            "--split-seed",
            type=click.IntRange(min=0),
            metavar="SEED",
            help="Random seed of the first split; the others follow. Default: 1.",
        ),
        click.option(
            "--cache",
            metavar="DIR",
            help="Store finished cells in DIR, and reuse them. Default: ~/.cache/pqrlearn/paper.",
        ),
        click.option(
            "--jobs",
            type=click.IntRange(min=1),
            default=os.cpu_count() or 1,
            metavar="N",
            help="Number of processes. Default: one per core.",
        ),
        click.option(
            "--finished", is_flag=True, help="Show finished cells; say which are not, measure none."
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
    help="Use this data set only; may be repeated. Default: all of the table.",
)


def simulation(command: F) -> F:
    """The options for simulated streams."""
    flag = click.option(
        "--simulated",
        is_flag=True,
        help="Fill the click columns with simulated streams of the same shape.",
    )
    share = click.option(
        "--fraction",
        type=click.FloatRange(0, 1, min_open=True),
        default=0.01,
        show_default=True,
        metavar="F",
        help="With --simulated: fraction of the paper's rows to simulate.",
    )
    return flag(share(command))


@paper.command(short_help="Fill one of the paper's tables.")
@click.argument("which", type=click.Choice(["rmse", "binary", "stats", "complexity"]))
@data_sets
@simulation
@budget
def table(which: str, data: tuple[str, ...], simulated: bool, fraction: float, **rest: Any) -> None:
    """Fill one of the paper's tables, and show it beside the printed one.

    rmse: ratings. binary: clicks. stats: statistics of the files. complexity: cost per row.
    """
    if simulated and which != "binary":
        raise click.UsageError("--simulated is for the table binary")
    budget, names = Budget(**rest), _names(which, data)
    with budget.workspace() as workspace:
        found = _tables(which, workspace, budget.plan(), names, fraction if simulated else None)
    _print(found, budget.choices() if which in ("rmse", "binary") else [], budget.as_json)


def _names(which: str, chosen: Sequence[str]) -> list[str]:
    """The data sets of a table, or the chosen ones among them."""
    known = {"rmse": RATINGS, "binary": CLICKS}.get(which, (*RATINGS, *CLICKS))
    for name in chosen:
        if name not in known:
            raise click.UsageError(f"--data {name}: choose from {', '.join(known)}")
    return list(chosen or known)


def _tables(
    which: str, workspace: Workspace, plan: Plan, names: Sequence[str], fraction: float | None
) -> list[Table]:
    if which == "rmse":
        return tables.rmse(workspace, plan, names)
    if which == "binary":
        return tables.binary(workspace, plan, names, fraction)
    return tables.stats(names) if which == "stats" else complexity.tables(workspace)


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


@paper.command(short_help="Show the effect of the order.")
@data_sets
@simulation
@click.option("--figure", metavar="PATH", help="Plot it, as PNG and SVG.")
@budget
def study(
    figure: str | None, data: tuple[str, ...], simulated: bool, fraction: float, **rest: Any
) -> None:
    """Show test loss, training time and size against the order, on each data set present."""
    if figure:
        plots.check()
        check_writable(Path(figure).with_suffix(".png"))
    budget, names = Budget(**rest), _names("binary" if simulated else "", data)
    sources = [Source(name, fraction if simulated else None) for name in names]
    with budget.workspace() as workspace:
        found, panels = order_study(workspace, budget.plan(), [s for s in sources if s.present()])
    _print(found, budget.choices(), budget.as_json)
    if figure and panels:
        for path in plots.save(plots.draw(panels), figure):
            show.note(f"drawn as {path}")


@paper.command("all", short_help="Fill all tables, draw all figures, write the report.")
@click.option(
    "-o",
    "--output",
    default="paper-report",
    show_default=True,
    metavar="DIR",
    help="Folder for the report.",
)
@data_sets
@simulation
@budget
def everything(
    output: str, data: tuple[str, ...], simulated: bool, fraction: float, **rest: Any
) -> None:
    """Fill all tables and draw all figures for which there is data.

    Writes report.html (self-contained), tables.md, results.json and the figures to DIR. If it is
    stopped and started again, it reuses the finished cells.
    """
    plots.check()
    check_name(output)
    Path(output).mkdir(parents=True, exist_ok=True)
    start, budget = time.monotonic(), Budget(**rest)
    share = fraction if simulated else None
    with budget.workspace() as workspace:
        found = sections(workspace, budget.plan(), _names("", data), share)
    seconds = time.monotonic() - start
    command = shlex.join(["pqr", *sys.argv[1:]])
    facts = made(command, seconds, workspace.reused, output)
    report = Report(found, budget.choices(), facts)
    paths = report.save(Path(output))
    if budget.as_json:
        show.print_json(report.data())
        return
    _print([table for section in found for table in section.tables], report.choices, False)
    for path in paths:
        print(path)
