"""RESULTS.md: the targets, then a section for each part that has been measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from benchmarks import kdd, memory, results
from benchmarks.results import Result
from benchmarks.targets import Parts, targets_table
from pqrlearn.files import written_whole

SECTIONS: dict[str, Callable[[Result], str]] = {
    "avazu": results.section,
    "criteo": results.section,
    "memory": memory.section,
    "kdd": kdd.section,
}
"""The parts of the benchmark, in the order of the page."""

HEAD = """# Benchmark

Written by `make bench` and `make bench-kdd`; [README.md](README.md) says how they measure. What a
row costs against order, features, non-zeros and rows is in [docs/cost.md](../docs/cost.md).

## Targets

Ratios of speeds are of rows per second, between medians; – is not measured. FM is set against \
Vowpal Wabbit where xLearn does not install.
"""


def save(result: Result, folder: Path) -> Parts:
    """The JSON of one part, and the page of all that the folder has."""
    folder.mkdir(parents=True, exist_ok=True)
    with written_whole(_file(folder, result["part"])) as beside:
        beside.write_text(json.dumps(result, indent=1) + "\n")
    parts = known(folder)
    with written_whole(folder / "RESULTS.md") as beside:
        beside.write_text(page(parts), encoding="utf-8")
    return parts


def known(folder: Path) -> Parts:
    paths = {part: _file(folder, part) for part in SECTIONS}
    return {part: json.loads(path.read_text()) for part, path in paths.items() if path.exists()}


def page(parts: Parts) -> str:
    sections = [_section(part, result) for part, result in parts.items()]
    return "\n".join([HEAD, targets_table(parts), _sources(parts), *sections])


def _section(part: str, result: Result) -> str:
    text = f"{SECTIONS[part](result)}\n{_facts(result)}"
    return f"{text}\n{results.notes(result)}" if "contenders" in result else text


def _file(folder: Path, part: str) -> Path:
    return folder / f"results-{part}.json"


def _sources(parts: Parts) -> str:
    """What the targets were read from: a try with few rows must not pass for the real thing."""
    return "".join(
        f"- {part}: {found['rows']:,} rows, {found['repeats']} "
        f"{'rounds' if found['repeats'] > 1 else 'round'}, {found['date']}, {found['commit'][:7]}\n"
        for part, found in parts.items()
    )


def _facts(result: Result) -> str:
    machine = result["machine"]
    facts = {
        "command": f"`{result['command']}`",
        "date": result["date"],
        "commit": result["commit"],
        "machine": f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB",
        "system": f"{machine['system']}; Python {machine['python']}; {machine['compiler']}",
        "load before": f"{machine['load']:.2f}",
        "versions": ", ".join(f"{name} {number}" for name, number in result["versions"].items()),
    }
    return "".join(f"- {name}: {fact}\n" for name, fact in facts.items())
