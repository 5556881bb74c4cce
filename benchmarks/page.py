"""RESULTS.md, from results.json: the targets, then a section for each part that was measured.

python -m benchmarks.page        # write the page again, without measuring
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from benchmarks import kdd, memory, results, tables
from benchmarks.measure import ROOT
from benchmarks.results import Result, as_json
from benchmarks.targets import Parts, targets_table
from pqrlearn.files import atomic_write

SECTIONS: dict[str, Callable[[Result], str]] = {
    "avazu": results.section,
    "criteo": results.section,
    "memory": memory.section,
    "tables": tables.section,
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
    """Replaces one part of the folder's results, and writes the page of all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {**known(folder), result["part"]: result}
    parts = {part: found[part] for part in SECTIONS if part in found}
    atomic_write(folder / "results.json", f"{as_json(parts)}\n".encode())
    atomic_write(folder / "RESULTS.md", page(parts).encode())
    return parts


def known(folder: Path) -> Parts:
    path = folder / "results.json"
    parts: Parts = json.loads(path.read_text()) if path.exists() else {}
    return parts


def page(parts: Parts) -> str:
    sections = [_section(part, result) for part, result in parts.items()]
    return "\n".join([HEAD, targets_table(parts), _sources(parts), *sections])


def _section(part: str, result: Result) -> str:
    text = f"{SECTIONS[part](result)}\n{_facts(result)}"
    return f"{text}\n{results.notes(result)}" if "contenders" in result else text


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


if __name__ == "__main__":
    atomic_write(ROOT / "benchmarks/RESULTS.md", page(known(ROOT / "benchmarks")).encode())
