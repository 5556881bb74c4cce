"""From readings to medians, ratios and tables. A result is plain data, as the JSON file has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
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
    """A contender's readings and their medians."""
    return {
        "key": contender.key,
        "title": contender.title,
        "note": contender.note,
        "command": " ".join(contender.command(workload)),
        "rows": readings[0].rows,
        "seconds": (seconds := median(r.seconds for r in readings)),
        "rows_per_second": readings[0].rows / seconds,
        "cpu_seconds": median(
            reading.user_seconds + reading.system_seconds for reading in readings
        ),
        "loss": median(r.loss for r in readings),
        "peak_bytes": median(r.peak_bytes for r in readings),
        "readings": [asdict(reading) for reading in readings],
    }


def comparisons(contenders: Sequence[Result]) -> list[Result]:
    """Ratios of rows per second between those that took part."""
    found = {contender["key"]: contender for contender in contenders}
    pairs = [(of, to) for of, to in COMPARISONS if of in found and to in found]
    return [_compare(found[of], found[to]) for of, to in pairs]


def _compare(of: Result, to: Result) -> Result:
    """Two ways to say it: a round's noise strikes both of its runs, so ratios are also paired."""
    ratios = [a / b for a, b in zip(_rates(of), _rates(to), strict=True)]
    return {
        "of": of["title"],
        "to": to["title"],
        "ratio_of_medians": of["rows_per_second"] / to["rows_per_second"],
        "median_of_ratios": median(ratios),
        "least": min(ratios),
        "most": max(ratios),
    }


def _rates(contender: Result) -> list[float]:
    return [reading["rows"] / reading["seconds"] for reading in contender["readings"]]


def tables(result: Result) -> str:
    """The readings and the ratios, for a terminal and for Markdown alike."""
    return _readings(result) + ("\n" + _ratios(result) if result["comparisons"] else "")


def _readings(result: Result) -> str:
    times = ["seconds", "least – most", "CPU seconds", "rows/s"]
    rows = [
        [
            contender["title"] + _mark(contender, result),
            f"{contender['seconds']:.2f}",
            _range(reading["seconds"] for reading in contender["readings"]),
            f"{contender['cpu_seconds']:.2f}",
            f"{contender['rows_per_second']:,.0f}",
            f"{contender['loss']:.5f}",
            f"{contender['peak_bytes'] / 1e6:,.0f} MB",
        ]
        for contender in result["contenders"]
    ]
    marked = [
        f"{one['title']} {one['rows']:,}" for one in result["contenders"] if _mark(one, result)
    ]
    return table(["", *times, "progressive LogLoss", "peak memory"], rows) + (
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


def _range(numbers: Iterable[float]) -> str:
    ordered = sorted(numbers)
    return f"{ordered[0]:.2f} – {ordered[-1]:.2f}"


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
{workload["vw_bytes"] / 1e6:,.0f} MB as Vowpal Wabbit text. The best constant has a LogLoss of \
{workload["constant_logloss"]:.5f}, the truth that the clicks were drawn from \
{workload["true_logloss"]:.5f}. Medians of {result["repeats"]}, taken in turn. Every run is end \
to end, from the start of a process that reads a file to its end, when the model has been saved, \
but for LR in memory.

{tables(result)}"""


def notes(result: Result) -> str:
    """What to know of each contender before comparing, and its command."""
    return "".join(
        f"- **{contender['title']}**: {contender['note']}.\n  `{contender['command']}`\n"
        for contender in result["contenders"]
    )
