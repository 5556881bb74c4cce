"""The command `pqr`: one small module per command, imported when it is called.

Only results go to stdout. Errors become exit codes here and nowhere else:
0 success, 2 wrong usage, 3 bad data, 4 bad model file, 1 anything else.
"""

from __future__ import annotations

import gc
import io
import os
import re
import sys
from collections.abc import Container
from importlib import import_module

import click

from pqrlearn.cli.renamed import renewed
from pqrlearn.cli.text import printable
from pqrlearn.errors import HyperError, PqrError, SettingsConflict

COMMANDS = {
    "schema": "Say what the columns of a table are, in a file to edit.",
    "separate": "Count features and save which are frequent.",
    "train": "Learn a model from files, one row at a time.",
    "predict": "Print one prediction per row.",
    "evaluate": "Measure a model on rows with labels.",
    "compare": "Train several models on the same rows; say which wins.",
    "tune": "Find settings for a model on a validation part of the rows.",
    "merge": "Make one model of several that learned different rows.",
    "inspect": "Show a model's settings, sizes and strongest weights.",
    "explain": "Show what the prediction of a row comes from.",
    "report": "Draw a model on rows with labels, as one page.",
    "export": "Write all weights as a table, or a frozen model for serving.",
    "serve": "Serve a model that learns from late labels.",
    "log": "Print, check or export the log of a service.",
    "data": "List, download, convert, describe and simulate data sets.",
    "paper": "Regenerate the paper's tables and figures.",
    "demo": "Train on a simulated click stream and show what was found.",
}


WAYS_OUT = {
    "bad row": "--on-bad-row skip skips such rows",
    "unfit label": "--loss squared accepts any number",
    "text label": "--positive says which counts as 1",
    "encoding": "--encoding names another, such as latin-1",
    "missing data": "pqr data get {} downloads it or says how",
    "not a separation": "pqr separate writes one",
    "no label": "give --label NAME",
    "no header": "if that line is data, name the columns with --columns",
    "other columns": "--other-columns accept takes such tables",
    "stale cache": "make it again with pqr data convert {} --to cache -o {}",
}
"""What a command advises about an error of the library, by its `case`."""
_OPTION = re.compile(r"\{(\w+)\}")  # in the template of a SettingsConflict
_SETTING = re.compile(r"^(\w+)(?==)")  # that an error begins with, as in memory=10
_OPTIONS = {
    "bad row": "on_bad_row",
    "unfit label": "loss",
    "text label": "positive",
    "encoding": "encoding",
    "no label": "label",
    "no header": "columns",
    "other columns": "other_columns",
}  # that the advice mentions


class _Commands(click.Group):
    """Imports the module of a command when it is called, so that `pqr --version` stays fast."""

    called: click.Command | None = None

    def invoke(self, context: click.Context) -> None:
        try:
            super().invoke(context)
        except KeyboardInterrupt:  # click would print an empty line first
            raise click.Abort from None

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(context, args)
        except click.NoSuchCommand as error:  # click knows no command that is not imported
            known = click.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=context)
            raise known from None

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"pqrlearn.cli.{name}"), name)
        gc.freeze()
        gc.enable()
        self.called = command
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, wanted: _print_version(context) if wanted else None,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Most threads to predict and save with. Default: PQRLEARN_THREADS, or all cores.",
)
def pqr(debug: bool, threads: int | None) -> None:
    """Projective Quadratic Regression: online learning of feature interactions."""
    if threads is not None:
        from pqrlearn.threads import set_threads  # lazy: loads the native core

        set_threads(threads)


def _print_version(context: click.Context) -> None:
    from importlib.metadata import version  # lazy: costs 40 ms

    click.echo(f"pqr {version('pqrlearn')}")
    context.exit()


def main() -> None:
    gc.disable()  # while modules are imported: nothing would be freed
    # NumPy would start a thread per core for linear algebra that no command needs.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # pyarrow's own allocator returns memory at once, and the kernel clears it again for each block.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]  # in any position
    debug = len(arguments) < len(sys.argv) - 1
    arguments = renewed(arguments, lambda text: print(f"pqr: {printable(text)}", file=sys.stderr))
    if sys.stdout is None:
        _fail("standard output is closed", 1, debug)
    if isinstance(sys.stdout, io.TextIOWrapper):  # escapes names that the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        pqr.main(arguments, standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _fail(_usage(error), error.exit_code, debug)
    except BrokenPipeError:
        _fail("broken pipe: the results were not read", 1, debug)
    except click.Abort:
        _fail("interrupted", 1, debug)
    except PqrError as error:
        _fail(_with_advice(error), error.exit_code, debug)
    except MemoryError:
        _fail("out of memory", 1, debug)
    except OSError as error:
        _fail(f"{error.filename or 'output'}: {error.strerror or error}", 1, debug)
    except Exception as error:
        _fail(f"unexpected {type(error).__name__}: {error} (pqr --debug shows where)", 1, debug)


def _usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    message = error.format_message().rstrip(".")
    return f"{message} (see {context.command_path} --help)" if context else message


def _with_advice(error: PqrError) -> str:
    """The message and, unless it has one already, the advice of this command."""
    case, *of = error.case or ("",)
    command = pqr.called if isinstance(pqr, _Commands) else None
    if isinstance(error, SettingsConflict):
        return _OPTION.sub(lambda name: _option(name[1], {name[1]}), error.template)
    options = {option.name for option in command.params} if command else set()
    if isinstance(error, HyperError):
        error.args = (_SETTING.sub(lambda name: _option(name[1], options), str(error)),)
    if case == "unfit label" and "loss" not in options:
        case = "bad row"  # the loss is the model's
    if case not in WAYS_OUT or _OPTIONS.get(case, "") not in {"", *options}:
        return str(error)
    if case == "bad row" and ";" in str(error):
        return str(error)
    return f"{error}; {WAYS_OUT[case].format(*of)}"


def _option(setting: str, options: Container[str | None]) -> str:
    """A setting by the name of its option, where there is one."""
    return "--" + setting.replace("_", "-") if setting in options else setting


def _fail(message: str, code: int, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exc()
    print(f"pqr: {printable(message)}", file=sys.stderr)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # otherwise Python fails again at exit, with its own message
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
