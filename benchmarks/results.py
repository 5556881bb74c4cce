"""From readings to medians, ratios and tables. A result is plain data, as the JSON file has it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.contenders import Contender, Reading
from benchmarks.workloads import Workload

Result = dict[str, Any]

COMPARISONS = (
    ("lr", "vw"),
    ("lr-cache", "vw-cache"),
    ("lr-memory", "vw-cache"),
    ("pqr", "vw"),
    ("pqr", "vw-q"),
    ("pqr", "lr"),
    ("fm", "xlearn"),
    ("fm", "vw"),
    ("lr", "sklearn"),
    ("lr", "river"),
)
"""Who is how many times as fast as whom."""


def summary(contender: Contender, workload: Workload, readings: Sequence[Reading]) -> Result:
    """Medians of a contender's readings, and the least and the most seconds of a round."""
    return {
        "key": contender.key,
        "title": contender.title,
        "note": contender.note,
        "command": " ".join(contender.command(workload)),
        "rows": readings[0].rows,
        "seconds": median(r.seconds for r in readings),
        "least_seconds": min(r.seconds for r in readings),
        "most_seconds": max(r.seconds for r in readings),
        "rows_per_second": _rate(readings),
        "cpu_seconds": median(
            reading.user_seconds + reading.system_seconds for reading in readings
        ),
        "loss": median(r.loss for r in readings),
        "peak_bytes": median(r.peak_bytes for r in readings),
    }


def comparisons(
    readings: Mapping[Contender, Sequence[Reading]],
    pairs: Sequence[tuple[str, str]] = COMPARISONS,
) -> list[Result]:
    """Ratios of rows per second between those that took part."""
    titles = {contender.key: contender.title for contender in readings}
    found = {contender.key: mine for contender, mine in readings.items()}
    return [
        {"of": titles[of], "to": titles[to], **_ratios_of(found[of], found[to])}
        for of, to in pairs
        if of in found and to in found
    ]


def _ratios_of(of: Sequence[Reading], to: Sequence[Reading]) -> Result:
    """Two ways to say it: noise in a round affects both of its runs, so ratios are also paired."""
    ratios = [_rate([a]) / _rate([b]) for a, b in zip(of, to, strict=True)]
    return {
        "ratio_of_medians": _rate(of) / _rate(to),
        "median_of_ratios": median(ratios),
        "least": min(ratios),
        "most": max(ratios),
    }


def _rate(readings: Sequence[Reading]) -> float:
    """Rows per second, by the median of the seconds."""
    return readings[0].rows / median(reading.seconds for reading in readings)


def tables(result: Result) -> str:
    """The readings and the ratios, for a terminal and for Markdown alike."""
    return _readings(result) + ("\n" + _ratios(result) if result["comparisons"] else "")


def _readings(result: Result) -> str:
    times = ["seconds", "least – most", "CPU seconds", "rows/s"]
    rows = [
        [
            contender["title"] + _mark(contender, result),
            f"{contender['seconds']:.2f}",
            f"{contender['least_seconds']:.2f} – {contender['most_seconds']:.2f}",
            f"{contender['cpu_seconds']:.2f}",
            f"{contender['rows_per_second']:,.0f}",
            f"{contender['peak_bytes'] / 1e6:,.0f} MB",
        ]
        for contender in result["contenders"]
    ]
    marked = [
        f"{one['title']} {one['rows']:,}" for one in result["contenders"] if _mark(one, result)
    ]
    return table(["", *times, "peak memory"], rows) + (
        f"\n† on the first rows only: {', '.join(marked)}\n" if marked else ""
    )


def _mark(contender: Result, result: Result) -> str:
    return "" if contender["rows"] == result["workload"]["rows"] else " †"


def _ratios(result: Result) -> str:
    columns = ["times as fast", "ratio of medians", "median of ratios", "least – most"]
    rows = [
        [
            f"{ratio['of']} : {ratio['to']}",
            f"{ratio['ratio_of_medians']:.2f}",
            f"{ratio['median_of_ratios']:.2f}",
            f"{ratio['least']:.2f} – {ratio['most']:.2f}",
        ]
        for ratio in result["comparisons"]
    ]
    return table(columns, rows)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up: the first to the left, the others to the right.

    >>> print(table(["", "rows/s"], [["LR", "1,000"]]), end="")
    |    | rows/s |
    |:---|-------:|
    | LR |  1,000 |
    """
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    rule = [":" + "-" * (widths[0] + 1), *("-" * (width + 1) + ":" for width in widths[1:])]
    return "".join(
        [_line(columns, widths), f"|{'|'.join(rule)}|\n"] + [_line(r, widths) for r in rows]
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    shown = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return f"| {' | '.join(shown)} |\n"


def section(result: Result) -> str:
    """One workload as a section of the page."""
    workload, stream = result["workload"], result["workload"]["stream"]
    return f"""## The shape of {workload["name"].capitalize()}

{workload["rows"]:,} rows of {stream["fields"]} one-hot features out of {stream["features"]:,}, \
seed {stream["seed"]}; {workload["libsvm_bytes"] / 1e6:,.0f} MB as libsvm text, \
{workload["vw_bytes"] / 1e6:,.0f} MB as Vowpal Wabbit text. Medians of {result["repeats"]}, taken \
in turn. Every run is end to end, from the start of a process that reads a file to its end, when \
the model has been saved, but for LR in memory.

{tables(result)}"""


def notes(result: Result) -> str:
    """What to know of each contender before comparing, and its command."""
    return "".join(
        f"- **{contender['title']}**: {contender['note']}.\n  `{contender['command']}`\n"
        for contender in result["contenders"]
    )


def as_json(value: Any, indent: str = "") -> str:
    """JSON with one line for each record: small diffs that can still be read.

    >>> print(as_json({"rows": 2, "models": {"LR": {"loss": 0.5}, "FM": {"loss": 0.4}}}))
    {
     "rows": 2,
     "models": {
      "LR": {"loss": 0.5},
      "FM": {"loss": 0.4}
     }
    }
    """
    if isinstance(value, dict):
        brackets, members = "{}", [(f"{json.dumps(key)}: ", one) for key, one in value.items()]
    else:
        brackets, members = "[]", [("", one) for one in value] if isinstance(value, list) else []
    if not any(isinstance(one, dict | list) for _, one in members):
        return json.dumps(value, ensure_ascii=False)
    inner = indent + " "
    lines = [f"{inner}{name}{as_json(one, inner)}" for name, one in members]
    return "\n".join([brackets[0], ",\n".join(lines), indent + brackets[1]])
