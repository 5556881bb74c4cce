"""What is public: names, commands, options, exit codes. Each exists, and each says what it is."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import pqrlearn
from command import ok, run
from pqrlearn import errors, hyper
from pqrlearn.cli import COMMANDS, pqr
from pqrlearn.cli.renamed import FORMS, SHOWN
from pqrlearn.learners import LEARNERS
from pqrlearn.loss import LOSSES
from pqrlearn.readers import FORMATS

MODULES = ["batch", "datasets", "explain", "metrics", "plots", "progressive", "readers", "tune"]
PUBLIC = [
    "AdaGrad",
    "Auto",
    "Batch",
    "CCFM",
    "CFM",
    "Client",
    "Column",
    "Comparison",
    "Counts",
    "DiFacto",
    "Explanation",
    "FM",
    "Frozen",
    "Ftrl",
    "FtrlGeneral",
    "LR",
    "Learner",
    "Metrics",
    "Mixture",
    "NuclearBall",
    "Ogd",
    "PQR",
    "Pass",
    "PqrError",
    "QR",
    "Schema",
    "Separation",
    "Sgd",
    "State",
    "Term",
    "compare",
    "evaluate",
    "from_bytes",
    "learn",
    "load",
    "merge",
    "read",
    "set_threads",
    "train",
]
LIBRARY = (Path(__file__).parent.parent / "docs" / "library.md").read_text()
CONTEXT = click.Context(pqr)
OPTIONS = [
    pytest.param(option, id=f"{name or 'pqr'} {option.opts[-1]}")
    for name in ("", *COMMANDS)
    for option in (pqr.get_command(CONTEXT, name) if name else pqr).params  # type: ignore[union-attr]
    if isinstance(option, click.Option)
]


# Names.


def test_the_public_names_are_these() -> None:
    assert sorted(pqrlearn.__all__) == sorted([*PUBLIC, *MODULES])
    assert dir(pqrlearn) == sorted(pqrlearn.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_every_public_module_is_documented(name: str) -> None:
    assert getattr(pqrlearn, name).__doc__
    assert f"pqrlearn.{name}" in LIBRARY


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_importable_and_documented(name: str) -> None:
    thing = getattr(pqrlearn, name)
    assert thing.__name__ == name
    assert thing.__doc__
    assert not thing.__doc__.startswith(f"{name}(")  # what a dataclass says of itself


@pytest.mark.parametrize(
    "name",
    ["Batch", "CCFM", "CFM", "Counts", "DiFacto", "FM", "LR", "Mixture", "PQR", "QR", "Separation"],
)
def test_every_public_method_is_typed(name: str) -> None:
    for method, function in inspect.getmembers(getattr(pqrlearn, name), inspect.isfunction):
        if not method.startswith("_"):
            assert "return" in function.__annotations__, f"{name}.{method}"


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'FFM'"):
        pqrlearn.FFM  # noqa: B018
    with pytest.raises(ImportError):
        from pqrlearn import FFM  # noqa: F401


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    script = "import sys, pqrlearn.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.decode().split()}
    assert not loaded & {"numpy", "scipy", "sklearn", "rich", "safetensors", "zstandard"}
    script = "import sys, pqrlearn.cli.train; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.decode().split()}
    assert not loaded & {"scipy", "sklearn", "rich", "zstandard", "pyarrow"}


def test_every_error_has_the_exit_code_drawn_beside_it() -> None:
    drawn = dict(re.findall(r"(\w+) +(\d)\b", errors.__doc__ or ""))
    assert {"PqrError", "HyperError", "DataError", "RowError", "ModelFileError"} <= drawn.keys()
    for name, code in drawn.items():
        assert getattr(errors, name).exit_code == int(code)
    for name in ("NotAModel", "WrongVersion", "Corrupt"):
        assert getattr(errors, name).exit_code == 4


# The command.


def test_the_version_is_that_of_the_package() -> None:
    assert ok("--version") == f"pqr {version('pqrlearn')}\n"


def test_the_package_can_be_run_as_a_module() -> None:
    command = [sys.executable, "-m", "pqrlearn", "--version"]
    assert subprocess.run(command, capture_output=True, text=True).stdout == ok("--version")


def test_help_names_every_command() -> None:
    out = ok("--help")
    for name, help_text in COMMANDS.items():
        assert f"  {name}" in out
        assert help_text in out


def test_no_command_is_a_question_for_help() -> None:
    result = run()
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Usage: pqr ")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    assert ok(name, "--help").startswith(f"Usage: pqr {name} ")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_does_in_one_sentence(name: str) -> None:
    command = pqr.get_command(CONTEXT, name)
    assert command is not None
    assert command.help
    assert command.short_help == COMMANDS[name]


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_is_described(option: click.Option) -> None:
    assert option.help
    words = {*LOSSES, *hyper.OPTIMIZERS, *hyper.DESCENTS, *LEARNERS, *FORMATS, *FORMS, *SHOWN}
    assert option.help[0].isupper() or option.help.split()[0].rstrip(",:") in words
    assert option.help.rstrip(")")[-1] in ".]" or option.show_default


def test_a_default_that_is_named_is_the_default() -> None:
    command = pqr.get_command(CONTEXT, "train")
    assert command is not None
    described = {o.name: o.help for o in command.params if isinstance(o, click.Option)}
    for name, value in {"alpha": hyper.Ftrl.alpha, "beta": hyper.Ftrl.beta}.items():
        assert f"Default: {value}." in str(described[name])
    assert f"Default: {hyper.INTERACTION_SCALE}." in str(described["interaction_scale"])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda names: names.name("x"), "a feature must be a whole number from .*, not 'x'"),
        (lambda names: names.name(-1), "a feature must be a whole number from .*, not -1"),
        (lambda names: names.name(2**32), "a feature must be a whole number from .*, not 429496"),
        (lambda names: names.name(1.5), r"a feature must be a whole number from .*, not 1\.5"),
        (lambda names: names.name(None), "a feature must be a whole number from .*, not None"),
        (lambda names: names.add(None, "x"), "a feature must be a whole number from .*, not None"),
        (lambda names: names.add(3, None), "a name must be a str, not None"),
        (lambda names: names.find(None), "a name must be a str, not None"),
        (lambda names: names.start_at(None), "next_feature must be a whole number .*, not None"),
        (lambda names: names.start_at(-1), "next_feature must be a whole number from 0 on, not -1"),
        (lambda names: names.start_at(1.5), r"next_feature must be a whole number .*, not 1\.5"),
        (lambda names: names.find(3), "a name must be a str, not 3"),
        (lambda names: names.add(3, 4), "a name must be a str, not 4"),
    ],
)
def test_names_say_what_they_take(call: Any, said: str) -> None:
    """Not how the native module is called."""
    model = pqrlearn.LR()
    model.learn_one({"site": "news"}, 1)
    assert model.names.name(np.uint32(0)) == "site=news"
    with pytest.raises(TypeError, match=f"^{said}"):
        call(model.names)


@pytest.mark.parametrize("name", [n for n in pqrlearn.__all__ if n[0].isupper()])
def test_no_method_shows_a_private_class(name: str) -> None:
    public = getattr(pqrlearn, name)
    for method in filter(None, (getattr(public, n, None) for n in dir(public) if n[0] != "_")):
        assert not str(getattr(method, "__qualname__", "")).startswith("_"), method
