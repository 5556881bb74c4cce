"""Commands with many options: help under headings, and options from a file."""

from __future__ import annotations

import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, Final

import click

HEADINGS: Final[dict[str, tuple[str, ...]]] = {
    "Table": (
        *("label", "weight", "ignore", "schema", "positive", "categories", "numbers", "bins"),
        *("lists", "times", "nulls", "hash_bits", "max_features"),
    ),
    "Model": (
        *("model", "models", "loss", "order", "min_count", "separation", "sample_rows"),
        *("interaction_scale", "max_pairs_per_row", "bias", "names", "memory"),
    ),
    "Run": (
        *(
            "model_file",
            "output",
            "figures",
            "dark",
            "shown",
            "form",
            "id_column",
            "resume",
            "holdout",
            "passes",
        ),
        *("checkpoint", "every", "on_bad_row", "bad_rows", "row", "top", "keep", "data"),
        *("base", "trials", "validation", "shuffle", "rows", "search_seed", "cache", "jobs"),
    ),
    "Optimizer": ("optimizer", "alpha", "beta", "l1", "l2", "eta", "schedule", "radius"),
    "Factors": (
        *("rank", "tiers", "seed", "init", "factor_eta", "factor_beta", "factor_l2", "block_rows"),
    ),
    "Files": ("format", "columns", "delimiter", "encoding", "other_columns"),
}
"""Options by heading, in the order of the help: the most used first."""

_RANGE = r"(?:[\d.]+<=?)?x(?:[<>]=?[\d.]+)?"  # as in x>=1, which the message of an error has


class Command(click.Command):
    """Shows its options under headings; those without one come last."""

    headings: ClassVar[dict[str, tuple[str, ...]]] = HEADINGS

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        params = self.get_params(context)
        left = {param.name: param for param in params if isinstance(param, click.Option)}
        for title, names in self.headings.items():
            _section(title, [left.pop(name) for name in names if name in left], context, formatter)
        _section("Options", list(left.values()), context, formatter)


def _section(
    title: str,
    params: list[click.Option],
    context: click.Context,
    formatter: click.HelpFormatter,
) -> None:
    records = [record for param in params if (record := param.get_help_record(context))]
    if records:
        with formatter.section(title):
            formatter.write_dl([(option, _without_range(text)) for option, text in records])


def _without_range(text: str) -> str:
    """Help without the range of a number.

    >>> _without_range("Passes.  [default: 1; x>=1]"), _without_range("A share.  [0<x<1]")
    ('Passes.  [default: 1]', 'A share.')
    """
    return re.sub(rf"  \[{_RANGE}\]$", "", re.sub(rf"; {_RANGE}\]$", "]", text))


def _use_file(context: click.Context, _: click.Parameter, path: str | None) -> None:
    if path is not None:
        context.default_map = {**(context.default_map or {}), **_options_in(path, context)}


config = click.option(
    "--config",
    type=click.Path(),
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_use_file,
    help='Options from a TOML file, as in alpha = 0.05 or ignore = ["id"]; those given win.',
)


def _options_in(path: str, context: click.Context) -> dict[str, Any]:
    """The options of this command in a file: all of it, or its table with the command's name."""
    try:
        found = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise click.UsageError(f"{path}: cannot be read: {error.strerror}", context) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: not TOML: {error}", context) from None
    root = context.find_root().command
    commands = root.list_commands(context) if isinstance(root, click.Group) else []
    plain = {name: value for name, value in found.items() if name not in commands}
    found = found.get(str(context.info_name), plain)
    known = {
        name.lstrip("-").replace("-", "_"): param
        for param in context.command.params
        for name in (param.opts if isinstance(param, click.Option) else [str(param.name)])
        if param.name != "config"
    }
    values: dict[str, Any] = {}
    for name, value in found.items():
        param = known.get(name.replace("-", "_"))
        if param is None:
            close = get_close_matches(name, [key.replace("_", "-") for key in known], n=1)
            advice = f"; did you mean {close[0]!r}?" if close else ""
            message = f"{path}: {context.command_path} has no option {name!r}{advice}"
            raise click.UsageError(message, context)
        values[str(param.name)] = _value(value, param)
    return values


def _value(value: Any, param: click.Parameter) -> Any:
    """As it would be given on a command line."""
    if isinstance(value, list):
        return [str(one) for one in value] if param.nargs != 1 else ",".join(map(str, value))
    return value if isinstance(value, bool) and getattr(param, "is_flag", False) else str(value)
