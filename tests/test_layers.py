"""The arrows of the C++ core: includes point down, and nanobind stays at the border."""

from __future__ import annotations

import re
from pathlib import Path

CSRC = Path(__file__).parent.parent / "csrc"

# Each file may include what is named here, and the standard library without I/O.
ALLOWED = {
    "avx2": set(),
    "auto": {"auto", "experts", "mixture", "order", "pairs", "rise", "row", "table"},
    "elementary": {"avx2", "lanes"},
    "experts": {"avx2", "lanes", "mixture"},
    "mixture": {"avx2", "elementary", "lanes", "loss"},
    "rise": set(),
    "order": {"avx2"},
    "row": {"memory", "order"},
    "number": set(),
    "packed": {"memory"},
    "hash": {"memory"},
    "table": {"hash", "memory", "packed"},
    "pairs": {"avx2", "hash", "memory"},
    "loss": set(),
    "lanes": {"avx2"},
    "optim": {"avx2", "lanes"},
    "names": {"memory", "table"},
    "ones": {"avx2", "number"},
    "parse": {"loss", "row", "number", "ones", "parse"},
    "separation": {"memory", "row", "table"},
    "split": {"avx2", "order", "row", "separation"},
    "expand": {"avx2", "lanes", "pairs", "row", "separation", "split"},
    "coordinates": {"avx2", "lanes", "optim"},
    "kernel": {"avx2", "coordinates", "lanes", "memory", "optim"},
    "memory": set(),
    "frozen": {"avx2", "coordinates", "expand", "lanes", "memory", "pairs", "row", "separation"},
    "model": {
        "coordinates",
        "expand",
        "frozen",
        "kernel",
        "loss",
        "memory",
        "model",
        "optim",
        "pairs",
        "row",
        "separation",
        "table",
    },
    "model_state": {"model"},
    "descent": set(),
    "digest": set(),
    "difacto": {
        "coordinates",
        "descent",
        "difacto",
        "factors",
        "kernel",
        "loss",
        "optim",
        "row",
        "table",
    },
    "factors": {"avx2", "descent", "lanes", "row"},
    "fm": {"descent", "factors", "fm", "lanes", "loss", "row", "table"},
    "score": {"loss"},
    "shared": {"row"},
}
BIND = {
    "auto": {"../auto", "arrays", "named", "rows"},
    "arrays": set(),
    "rows": {"arrays", "../loss", "../row", "../shared"},
    "scores": {"arrays", "rows", "../loss", "../score"},
    "digest": {"arrays", "../digest"},
    "dicts": {"arrays", "../names", "../row"},
    "named": {
        "../memory",
        "arrays",
        "dicts",
        "rows",
        "../model",
        "../names",
        "../separation",
        "../shared",
    },
    "embedded": {
        "arrays",
        "named",
        "rows",
        "../descent",
        "../difacto",
        "../factors",
        "../fm",
        "../optim",
    },
    "reader": {"arrays", "dicts", "rows", "../names", "../row"},
    "module": {
        "arrays",
        "auto",
        "dicts",
        "digest",
        "embedded",
        "named",
        "reader",
        "rows",
        "scores",
        "../names",
        "../parse",
    },
}
FORBIDDEN = {"iostream", "fstream", "cstdio", "stdio.h", "Python.h", "random"}
THREADS = {"thread", "future"}


def includes(path: Path) -> list[tuple[str, str]]:
    return re.findall(r'#include ([<"])([^>"]+)', path.read_text())


CORE = [path for path in CSRC.iterdir() if path.is_file()]
BORDER = list((CSRC / "bind").iterdir())


def test_every_file_of_the_core_has_its_place() -> None:
    assert {path.stem for path in CORE} == set(ALLOWED)
    assert {path.stem for path in BORDER} == set(BIND)


def test_includes_point_down() -> None:
    for paths, allowed in ((CORE, ALLOWED), (BORDER, BIND)):
        for path in paths:
            own = {name.removesuffix(".hpp") for kind, name in includes(path) if kind == '"'}
            assert own <= allowed[path.stem], f"{path.name}: {own - allowed[path.stem]}"


def test_the_core_does_no_input_or_output() -> None:
    for path in CORE + BORDER:
        system = {name for kind, name in includes(path) if kind == "<"}
        assert not system & FORBIDDEN, path.name


def test_threads_are_started_in_three_places() -> None:
    """For predictions of many rows, to copy a large state, and to make large pages."""
    found = {path.name for path in CORE + BORDER for _, name in includes(path) if name in THREADS}
    assert found == {"shared.hpp", "model_state.cpp", "memory.hpp"}


def test_only_the_border_knows_python() -> None:
    for path in CORE:
        assert not any("nanobind" in name for _, name in includes(path)), path.name
        assert "PyObject" not in path.read_text(), path.name
