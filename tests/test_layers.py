"""The arrows of the C++ core: includes point down, and nanobind stays at the border."""

from __future__ import annotations

import re
from pathlib import Path

CSRC = Path(__file__).parent.parent / "csrc"

# Each file may include what is named here, and the standard library without I/O.
ALLOWED = {
    "row": set(),
    "number": set(),
    "table": set(),
    "loss": set(),
    "optim": set(),
    "names": {"table"},
    "parse": {"row", "number", "parse"},
    "separation": {"row", "table"},
    "expand": {"row", "separation"},
    "kernel": {"optim"},
    "coordinates": {"kernel", "optim"},
    "model": {
        "coordinates",
        "expand",
        "kernel",
        "loss",
        "model",
        "optim",
        "row",
        "separation",
        "table",
    },
    "shared": {"model", "row"},
    "bind": {"names", "parse", "row", "separation", "shared"},
}
FORBIDDEN = {"iostream", "fstream", "cstdio", "stdio.h", "Python.h", "thread", "random"}


def includes(path: Path) -> list[tuple[str, str]]:
    return re.findall(r'#include ([<"])([^>"]+)', path.read_text())


def test_every_file_of_the_core_has_its_place() -> None:
    assert {path.stem for path in CSRC.iterdir()} == set(ALLOWED)


def test_includes_point_down() -> None:
    for path in CSRC.iterdir():
        own = {name.removesuffix(".hpp") for kind, name in includes(path) if kind == '"'}
        assert own <= ALLOWED[path.stem], f"{path.name}: {own - ALLOWED[path.stem]}"


def test_the_core_does_no_input_or_output() -> None:
    for path in CSRC.iterdir():
        system = {name for kind, name in includes(path) if kind == "<"}
        assert not system & FORBIDDEN, path.name


def test_only_the_border_knows_python() -> None:
    for path in CSRC.iterdir():
        if path.stem != "bind":
            assert not any("nanobind" in name for _, name in includes(path)), path.name
            assert "PyObject" not in path.read_text(), path.name
