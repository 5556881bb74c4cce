"""The part tables: the same rows from CSV, Parquet, frames and text, end to end or in memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.contenders import Contender, Reading
from benchmarks.endtoend import chosen_of
from benchmarks.machine import circumstances
from benchmarks.measure import measure, near, tell
from benchmarks.results import Result, comparisons, summary, table, tables
from benchmarks.table_contenders import FromTable, contenders
from benchmarks.table_rows import Sampled, Simulated, TableRows

ROWS, SAMPLE_ROWS = 5_000_000, 2_000_000
COMPARISONS = (
    ("csv", "vw"),
    ("csv", "vw-csv"),
    ("parquet", "svm"),
    ("pqr-parquet", "pqr-svm"),
    ("polars", "dftovw"),
    ("pandas", "dftovw"),
    ("polars", "onehot"),
    ("pandas", "onehot"),
)

NOTE = """\
Rows of categories as text, in each format: {sizes}. From files every run is end to end, from the \
start of a process to its end, when the model has been saved; of frames only learning is timed. \
FTRL-Proximal has the same rates everywhere but in scikit-learn. Medians of {repeats}, taken in \
turn.
"""


def compare(rows: int | None, repeats: int, only: tuple[str, ...], cache: Path) -> Result:
    chosen = chosen_of(contenders(), only)
    before = circumstances()
    found = _measured(Simulated(rows or ROWS, cache), chosen, repeats)
    if Sampled.source() is None:
        tell(f"{Sampled.title} is left out: PQRLEARN_DATA has no {Sampled.FILE}")
    else:
        found["sample"] = _measured(Sampled(rows or SAMPLE_ROWS, cache), chosen, repeats)
    return {"part": "tables", **before, "repeats": repeats, **found}


def _measured(workload: TableRows, chosen: Sequence[Contender], repeats: int) -> Result:
    tell(f"{workload.rows:,} rows: {workload.title}")
    about = workload.prepare()
    given: Any = workload  # contenders of this part read tables
    readings: dict[Contender, list[Reading]] = {contender: [] for contender in chosen}
    for number in range(1, repeats + 1):
        for contender in chosen:
            reading = contender.run(given)
            readings[contender].append(reading)
            tell(f"round {number}/{repeats}  {contender.title}: {reading.seconds:.2f} s")
    return {
        "workload": about,
        "rows": workload.rows,
        "contenders": [summary(each, given, found) for each, found in readings.items()],
        "comparisons": comparisons(readings, COMPARISONS),
        "memory": _memory(workload),
    }


def _memory(workload: TableRows) -> Result:
    """Peaks of LR from CSV with all rows, and with all rows twice; and what a name takes."""
    one = FromTable("csv", "csv", "lr").command(workload)
    twice = [*one, workload.path("csv")]
    peaks = {name: measure(each).peak_bytes for name, each in (("once", one), ("twice", twice))}
    script = [near(sys.executable), "-m", "benchmarks.dictionary", workload.model("csv")]
    names = json.loads(measure(script).stdout)
    return {**peaks, "growth": peaks["twice"] / peaks["once"], **names}


def section(result: Result) -> str:
    parts = [result, *([result["sample"]] if "sample" in result else [])]
    return "## Tables\n\n" + "\n".join(_set(part, result["repeats"]) for part in parts)


def _set(part: Result, repeats: int) -> str:
    about = part["workload"]
    sizes = ", ".join(f"{size / 1e6:,.0f} MB as .{name}" for name, size in about["bytes"].items())
    return f"""### {about["title"]}

{about["rows"]:,} rows of {about["columns"]} columns with {about["features"]:,} values. \
{NOTE.format(sizes=sizes, repeats=repeats)}
{tables(part)}
{_memory_table(part["memory"])}"""


def _memory_table(memory: Result) -> str:
    rows = [
        ["peak memory of LR from CSV", f"{memory['once'] / 1e6:,.0f} MB"],
        ["the same with all rows twice", f"{memory['twice'] / 1e6:,.0f} MB"],
        ["names of features", f"{memory['names']:,}"],
        ["bytes a name, beside its text", f"{memory['bytes_a_name']:.1f}"],
    ]
    return table(["memory", ""], rows)
