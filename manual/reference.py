"""The reference: the help of every command, and the docstring of every public name."""

from __future__ import annotations

from collections.abc import Iterator

import click

import pqrlearn
from pqrlearn.cli import pqr

GROUPS = {
    "Learners": "Auto PQR LR QR FM DiFacto CFM CCFM Mixture Frozen Learner load from_bytes State",
    "Tables and rows": "train compare Comparison read Schema Column Batch",
    "The progressive loop": "learn evaluate Pass Metrics",
    "High and low features": "Separation Counts",
    "Settings of optimizers": "Ftrl Ogd FtrlGeneral AdaGrad Sgd NuclearBall",
    "Looking inside": "Explanation Term",
    "Several models, services, threads": "merge Client set_threads",
    "Errors": "PqrError",
}
"""Public names of the package by subject, in the order of the page."""
MODULES = ("batch", "datasets", "explain", "metrics", "plots", "progressive", "readers", "tune")
MORE = ("datasets.clicks", "datasets.ratings", "merging", "report", "sklearn", "river", "spark")
"""Modules that are imported by their own name."""


def pages() -> dict[str, str]:
    return {"reference/commands.md": _commands(), "reference/api.md": _api()}


def _commands() -> str:
    parts = [
        "# Every option\n",
        "What `pqr COMMAND --help` prints. [The command](../command.md) is shorter.\n",
    ]
    with click.Context(pqr, info_name="pqr") as context:
        for depth, each in _walked(pqr, context):
            text = each.command.get_help(each)
            parts.append(f"{'#' * depth} {each.command_path}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def _walked(
    command: click.Command, context: click.Context, depth: int = 2
) -> Iterator[tuple[int, click.Context]]:
    """A command and those below it."""
    yield depth, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            inner = click.Context(below, info_name=name, parent=context, terminal_width=80)
            yield from _walked(below, inner, min(depth + (context.parent is not None), 3))


def _api() -> str:
    listed = {name for names in GROUPS.values() for name in names.split()} | {*MODULES}
    missing = {*pqrlearn.__all__} ^ listed
    if missing:
        raise ValueError(f"manual/reference.py must list the public names: {sorted(missing)}")
    parts = [
        "# Every class and function\n",
        "From the docstrings. [The library](../library.md) is a tour.\n",
    ]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        parts += [f"::: pqrlearn.{name}\n" for name in names.split()]
    parts.append("## Modules\n")
    parts += [f"::: pqrlearn.{name}\n" for name in (*MODULES, *MORE)]
    return "\n".join(parts)
