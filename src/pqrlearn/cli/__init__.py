"""The command `pqr`: one small file per command, each imported only when it is called.

Results go to stdout and nothing else does. Errors become exit codes here and nowhere else:
0 done, 2 wrong usage, 3 bad data, 4 bad model file, 1 anything else.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from importlib import import_module

import click

from pqrlearn.errors import PqrError

COMMANDS = {
    "separate": "Count features and say which are frequent.",
    "train": "Learn a model from files, one row at a time.",
    "predict": "Print one prediction per row.",
    "evaluate": "Measure a model on rows with labels.",
    "tune": "Find settings for a model on a validation part of the rows.",
    "inspect": "Show a model's settings, sizes and strongest weights.",
    "data": "List, fetch, convert and describe data sets.",
    "paper": "Regenerate the paper's tables and figures.",
    "demo": "Train on a made-up click stream and show what was found.",
}


WAYS_OUT = {
    "bad row": "--on-bad-row skip leaves such rows out",
    "unfit label": "--loss squared takes any number",
    "missing data": "pqr data get {} fetches it or says how",
    "not a separation": "pqr separate writes one",
    "stale cache": "make it anew with pqr data convert {} --to cache -o {}",
}
"""What the command knows to do about an error of the library, by its `case`."""
_OPTIONS = {"bad row": "on_bad_row", "unfit label": "loss"}  # that a way out needs


class _Commands(click.Group):
    """Imports a command's module when it is asked for, so that `pqr --version` stays quick."""

    called: click.Command | None = None

    def invoke(self, context: click.Context) -> None:
        try:
            super().invoke(context)
        except KeyboardInterrupt:  # click would put an empty line before ours
            raise click.Abort from None

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
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, given: _print_version(context) if given else None,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def pqr(debug: bool) -> None:
    """Projective Quadratic Regression: online learning of feature interactions."""


def _print_version(context: click.Context) -> None:
    from importlib.metadata import version  # 40 ms that no other command needs

    click.echo(f"pqr {version('pqrlearn')}")
    context.exit()


def main() -> None:
    gc.disable()  # while modules are imported, which stay
    # NumPy would start a thread for each core, for linear algebra that no command needs.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]  # anywhere
    debug = len(arguments) < len(sys.argv) - 1
    if sys.stdout is None:
        _fail("standard output is closed: there is nowhere to print results", 1, debug)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name outside its letters is shown escaped
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
        _fail("the reader of the results has gone", 1, debug)
    except click.Abort:
        _fail("interrupted", 1, debug)
    except PqrError as error:
        _fail(_with_way_out(error), error.exit_code, debug)
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


def _with_way_out(error: PqrError) -> str:
    """The message, and what this command offers; a message may name its own way out."""
    case, *of = error.case or ("",)
    command = pqr.called if isinstance(pqr, _Commands) else None
    options = {option.name for option in command.params} if command else set()
    if case == "unfit label" and "loss" not in options:
        case = "bad row"  # the loss is that of a model
    if case not in WAYS_OUT or _OPTIONS.get(case, "") not in {"", *options}:
        return str(error)
    if case == "bad row" and ";" in str(error):
        return str(error)
    return f"{error}; {WAYS_OUT[case].format(*of)}"


def _fail(message: str, code: int, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exc()
    print(f"pqr: {message}", file=sys.stderr)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # else Python tries once more at exit, and adds a message and a code of its own
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
