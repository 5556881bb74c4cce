"""The arrows of the C++ core: includes point down, and nanobind stays at the border."""

from __future__ import annotations

import re
from pathlib import Path

CSRC = Path(__file__).parent.parent / "csrc"

# Each file may include what is named here, and the standard library without I/O.
ALLOWED = {
    "auto": {"auto", "experts", "mixture", "pages", "pairs", "row", "table"},
    "elementary": {"lanes"},
    "experts": {"lanes", "mixture"},
    "mixture": {"elementary", "lanes", "loss"},
    "auto_state": {"auto"},
    "prefetch": set(),
    "pages": set(),
    "lanes": set(),
    "packed": {"prefetch"},
    "seed": set(),
    "hash": {"prefetch", "seed"},
    "row": {"lanes", "prefetch"},
    "table": {"hash", "packed", "pages", "prefetch"},
    "pairs": {"hash", "lanes", "pages", "prefetch"},
    "number": {"platform/from_chars"},
    "platform/from_chars": set(),
    "ones": {"lanes", "number"},
    "loss": set(),
    "optim": {"lanes"},
    "descent": set(),
    "digest": {"lanes"},
    "names": {"lanes", "prefetch", "seed", "table"},
    "coding": {"prefetch", "seed"},
    "numbering": {"digest", "lanes", "names", "row"},
    "parquet": set(),
    "parse": {"loss", "row", "number", "ones", "parse"},
    "score": {"loss"},
    "separation": {"prefetch", "row", "table"},
    "split": {"lanes", "row", "separation"},
    "coordinates": {"lanes", "optim"},
    "expand": {"coordinates", "lanes", "pairs", "row", "separation", "split"},
    "kernel": {"coordinates", "lanes", "optim", "prefetch"},
    "frozen": {"expand", "lanes", "pages", "pairs", "prefetch", "row", "separation"},
    "model": {
        "expand",
        "frozen",
        "kernel",
        "loss",
        "model",
        "optim",
        "pairs",
        "row",
        "separation",
        "table",
    },
    "model_state": {"model", "parallel"},
    "factors": {"descent", "lanes", "row"},
    "factor_model": {
        "descent",
        "factor_model",
        "factors",
        "lanes",
        "loss",
        "optim",
        "row",
        "table",
    },
    "parallel": set(),
    "shared": {"frozen", "parallel", "row"},
    "vw": {"coding", "number", "vw"},
}
BIND = {
    "auto": {"../auto", "arrays", "named", "rows"},
    "arrays": set(),
    "signals": set(),
    "rows": {"arrays", "signals", "../loss", "../parallel", "../row"},
    "scores": {"arrays", "rows", "../loss", "../score"},
    "digest": {"arrays", "../digest"},
    "dicts": {"arrays", "../names", "../row"},
    "forks": set(),
    "messages": {"../model", "../parse", "../row"},
    "terms": {"arrays", "messages", "../model"},
    "named": {
        "arrays",
        "dicts",
        "forks",
        "messages",
        "rows",
        "signals",
        "../names",
        "../separation",
        "../shared",
    },
    "model": {"arrays", "messages", "named", "rows", "terms", "../model", "../separation"},
    "embedded": {
        "arrays",
        "named",
        "rows",
        "../descent",
        "../factor_model",
        "../factors",
        "../optim",
    },
    "numbering": {"arrays", "dicts", "../coding", "../names", "../numbering", "../row"},
    "parquet": {"arrays", "../parquet"},
    "vw": {"arrays", "../vw"},
    "reader": {"arrays", "dicts", "rows", "../names", "../row"},
    "module": {
        "arrays",
        "auto",
        "dicts",
        "digest",
        "embedded",
        "messages",
        "model",
        "named",
        "numbering",
        "parquet",
        "reader",
        "rows",
        "scores",
        "vw",
        "../names",
        "../parallel",
        "../parse",
    },
}
FORBIDDEN = {"iostream", "fstream", "cstdio", "stdio.h", "Python.h", "random"}
THREADS = {"thread", "future"}


def includes(path: Path) -> list[tuple[str, str]]:
    return re.findall(r'#include ([<"])([^>"]+)', path.read_text())


CORE = [*(path for path in CSRC.iterdir() if path.is_file()), *CSRC.glob("platform/*.hpp")]
BORDER = list((CSRC / "bind").iterdir())


def name_of(path: Path) -> str:
    """As files include it."""
    return path.relative_to(CSRC).with_suffix("").as_posix().removeprefix("bind/")


def test_every_file_of_the_core_has_its_place() -> None:
    assert {name_of(path) for path in CORE} == set(ALLOWED)
    assert {name_of(path) for path in BORDER} == set(BIND)


def test_includes_point_down() -> None:
    for paths, allowed in ((CORE, ALLOWED), (BORDER, BIND)):
        for path in paths:
            own = {name.removesuffix(".hpp") for kind, name in includes(path) if kind == '"'}
            strange = own - allowed[name_of(path)]
            assert not strange, f"{path.name}: {strange}"


def test_the_arrows_of_the_core_are_those_that_are_drawn() -> None:
    drawn = (CSRC.parent / "ARCHITECTURE.md").read_text().partition("nanobind ends here\n")[2]
    layers = [line.strip().split(" | ") for line in drawn.partition("\n\n")[0].splitlines()]
    depth = {name: at for at, layer in enumerate(layers) for name in layer}
    assert set(depth) == set(ALLOWED)
    for name, allowed in ALLOWED.items():
        for other in allowed - {name}:
            assert depth[other] > depth[name], f"{name} includes {other}"


def test_the_core_does_no_input_or_output() -> None:
    for path in CORE + BORDER:
        system = {name for kind, name in includes(path) if kind == "<"}
        allowed = {"random"} if path.stem == "seed" else set()
        assert not system & FORBIDDEN - allowed, path.name


def test_threads_are_started_in_one_place() -> None:
    found = {path.name for path in CORE + BORDER for _, name in includes(path) if name in THREADS}
    assert found == {"parallel.hpp"}


def test_only_the_border_knows_python() -> None:
    for path in CORE:
        assert not any("nanobind" in name for _, name in includes(path)), path.name
        assert "PyObject" not in path.read_text(), path.name
