"""SERVE.md, from serve.json. `python -m benchmarks.service.page` writes it again."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.measure import ROOT
from pqrlearn.files import atomic_write

TITLES = {"lr": "LR", "auto": "Auto", "vw": "VW's daemon"}
LOADS = (
    *("predict", "learn", "score"),
    *("predict:batch", "learn:batch", "learn:batch with rows", "score:batch"),
    *("predict:batch, Arrow", "learn:batch, Arrow", "learn:batch with rows, Arrow"),
    "score:batch, Arrow",
)
CPU_RATIO = 1.2
Result = dict[str, Any]

HEAD = """# What a service costs

Written by `make bench-serve`; [README.md](README.md#the-service) says how it measures. Predict and
learn are on disk before they are answered; score is not logged. Vowpal Wabbit's daemon keeps
nothing on disk.
"""


def page(result: Result) -> str:
    parts = [
        HEAD,
        _targets(result),
        _source(result),
        _loads(result),
        _syncs(result),
        _starts(result),
    ]
    return "\n".join(parts)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _source(result: Result) -> str:
    machine = result["machine"]
    text = f"Measured on {result['date']} at {result['commit']} by `{result['command']}`, on "
    text += f"{machine['cpu']}, {machine['cores']} cores, with a load of {machine['load']:.1f}; "
    text += f"{result['repeats']} rounds, medians. The client runs on the same machine.\n"
    return text


def _targets(result: Result) -> str:
    lr, again = result["loads"]["lr"], result["recovery"]["lr"]
    checks = [
        ("single predict, rows/s", lr["predict"]["rows_per_second"], 6_200, "at least"),
        ("single learn, rows/s", lr["learn"]["rows_per_second"], 6_800, "at least"),
        ("predict in batches, rows/s", lr["predict:batch"]["rows_per_second"], 66_000, "at least"),
        ("learn in batches, rows/s", lr["learn:batch"]["rows_per_second"], 98_000, "at least"),
        (f"recovery, {again['records']:,} records, s", again["replay_seconds"], 12, "at most"),
        ("recovery right after a snapshot, s", again["snapshot_seconds"], 2, "at most"),
        ("memory of a waiting id, bytes", result["memory"]["bytes_per_id"], 200, "at most"),
    ]
    if "vw" in result["loads"]:
        for load in ("predict:batch", "learn:batch"):
            theirs = result["loads"]["vw"][load]["cpu_us_per_row"]
            ratio = lr[f"{load}, Arrow"]["cpu_us_per_row"] / theirs
            what = f"CPU of a row, {load}, Arrow, by that of VW's"
            checks.append((what, ratio, CPU_RATIO, "at most"))
    rows = [
        [
            what,
            _number(found),
            f"{how} {_number(target)}",
            "yes" if _met(found, target, how) else "no",
        ]
        for what, found, target, how in checks
    ]
    return "## Targets, with LR\n\n" + _table(["", "found", "target", "met"], rows)


def _met(found: float, target: float, how: str) -> bool:
    return found >= target if how == "at least" else found <= target


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"


def _loads(result: Result) -> str:
    rows = []
    for name, loads in result["loads"].items():
        for load in LOADS:
            if (one := loads.get(load)) is not None:
                times = [_number(one[key]) if key in one else "–" for key in ("p50_ms", "p99_ms")]
                figures = [_number(one["rows_per_second"]), _number(one["cpu_us_per_row"]), *times]
                rows.append([TITLES[name], load, *figures])
    head = ["", "request", "rows/s", "CPU µs/row of the server", "p50 ms", "p99 ms"]
    return "## Requests\n\n" + _table(head, rows)


def _syncs(result: Result) -> str:
    rows = []
    for name, loads in result["loads"].items():
        for load in ("predict", "learn"):
            one = loads[load]
            if "sync_ms_p50" in one:
                keys = ("group_records_p50", "sync_ms_p50", "sync_ms_p99")
                rows.append([TITLES[name], load, *(_number(one[key]) for key in keys)])
    head = ["", "single requests", "records of a group, median", "write and sync p50 ms", "p99 ms"]
    return "## Groups and syncs\n\n" + _table(head, rows)


def _starts(result: Result) -> str:
    rows = [
        [
            TITLES[name],
            f"{one['records']:,}",
            _number(one["replay_seconds"]),
            _number(one["snapshot_seconds"]),
        ]
        for name, one in result["recovery"].items()
    ]
    head = ["", "records after the snapshot", "seconds to listen", "seconds right after a snapshot"]
    ids = result["memory"]
    text = f"\nA waiting id takes {ids['bytes_per_id']:.0f} bytes of memory ({ids['ids']:,} ids).\n"
    return "## Starting again after kill -9\n\n" + _table(head, rows) + text


def main() -> None:
    folder = ROOT / "benchmarks"
    result = json.loads((folder / "serve.json").read_text())
    atomic_write(folder / "SERVE.md", page(result).encode())


if __name__ == "__main__":
    main()
