"""Where the time of a row goes, in instructions and memory; writes docs/profile.md.

    make profile        # python -m benchmarks.studies.profile

The loop runs without Python (profile.cpp): a PQR at order 8,000 learns rows of the Avazu shape
twice, and the second pass counts. callgrind counts its instructions by source file, and the cache
lines that caches of this machine's sizes would miss; then the same loop is timed. Needs g++ and
valgrind; takes about five minutes.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.machine import circumstances
from benchmarks.measure import ROOT
from benchmarks.results import table
from pqrlearn import Counts
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.files import atomic_write

FOLDER = ROOT / "build" / "profile"
ORDER, ROWS, ROUNDS = 8000, 300_000, 7
FLAGS = ["-std=c++17", "-O3", "-DNDEBUG", "-g", "-ffp-contract=off", "-fno-math-errno"]
FLAGS += ["-fno-trapping-math", "-Wno-psabi"]  # those of CMakeLists.txt
LINE = 64
L2, L3 = "1048576,8,64", "33554432,16,64"
FILES = {
    "load slots, weigh, sum, step, store slots": ("kernel.hpp", "lanes.hpp", "optim.hpp"),
    "coordinates: slot numbers and values; the loop": (
        "coordinates.hpp",
        "expand.hpp",
        "model.cpp",
    ),
    "look up and sort ranks": ("row.hpp", "separation.hpp", "split.hpp"),
    "table look-ups": ("hash.hpp", "packed.hpp", "pairs.hpp", "table.hpp"),
    "prefetches": ("prefetch.hpp",),
}
"""Of csrc/, by what the loop does in them."""
PARTS = {file: part for part, files in FILES.items() for file in files}
OTHER = "the rest: loss, bias, std::vector"

PAGE = """# A profile of the hot loop

Written by `make profile`: PQR at order {order:,} learns {rows:,} rows of the Avazu shape, in memory
and without Python; the second pass is measured. A row has {coordinates:.0f} coordinates on average.

## Instructions

Counted by callgrind: {per_row:,.0f} a row, {per_coordinate:.0f} a coordinate.

{parts}
## Memory

Cache misses in callgrind's simulation of caches of this machine's sizes (32 kB, 1 MB, 32 MB):

{memory}
Lines that miss L2, read and written back, are {moved:,.0f} bytes a row: {moved_time:.0f} ns at
{streamed:.1f} GB/s, which is what one core reads sequentially here. A line from a random address in
512 MB takes {random:.1f} ns when the addresses are known in advance; if all L2 misses went there,
they would take {random_time:.0f} ns.

## Distance from the machine's limit

A row takes {time:.0f} ns (median of {rounds}; {least:.0f} to {most:.0f}), which at
{gigahertz:.2f} GHz is {ipc:.1f} instructions a cycle. With all data in L1, at four instructions a
cycle, it would take {ideal:.0f} ns: {share:.0%} of the time is waiting. The limit is not bandwidth
but L2 misses, which are prefetched and overlap in part. The L3 of a shared machine is
smaller in effect than its nominal size, which the simulation does not model.

{command}, {date}, commit {commit}, {cpu}.
"""


def main() -> None:
    before = circumstances()
    coordinates = _prepare()
    program = _build()
    print("profile: callgrind, twice", flush=True)
    with ThreadPoolExecutor(2) as pool:
        near, far = pool.map(lambda size: _counted(program, size), (L2, L3))
    print("profile: the clock", flush=True)
    times = [_run(program, "learn", FOLDER, ORDER, ROWS, 2)[1] for _ in range(ROUNDS)]
    machine = [_run(program, "machine") for _ in range(ROUNDS)]
    can = {key: median(one[key] for one in machine) for key in machine[0]}
    page = _page(before, coordinates, near, far, times, can)
    atomic_write(ROOT / "docs" / "profile.md", page.encode())
    print(page)


def _prepare() -> float:
    """Writes the rows for the loop; returns how many coordinates they have, on average."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    batch = ClickStream.avazu().batch(0, ROWS)
    separation = Counts.of(batch).separate(order=ORDER)
    for name, array in (
        ("indices", batch.indices),
        ("labels", batch.labels),
        ("high", separation.features),
    ):
        np.ascontiguousarray(array).tofile(FOLDER / name)
    fields = len(batch.indices) // ROWS
    high = np.isin(batch.indices, separation.features).reshape(ROWS, fields).sum(axis=1)
    return float((fields + high * (high - 1) / 2 + high * (high < fields)).mean())


def _build() -> Path:
    program = FOLDER / "profile"
    sources = [Path(__file__).with_suffix(".cpp"), ROOT / "csrc" / "model.cpp"]
    command = ["g++", *FLAGS, f"-I{ROOT / 'csrc'}", *map(str, sources), "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def _run(program: Path, *arguments: object) -> Any:
    command = [str(program), *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def _counted(program: Path, last_level: str) -> dict[str, Counter[str]]:
    """Events of the second pass by part of the loop."""
    out = FOLDER / f"callgrind.{last_level.split(',')[0]}"
    command = [
        "valgrind",
        "--tool=callgrind",
        f"--callgrind-out-file={out}",
        "--toggle-collect=*measured*",
        "--cache-sim=yes",
        "--D1=32768,8,64",
        f"--LL={last_level}",
        *map(str, (program, "learn", FOLDER, ORDER, ROWS, 2)),
    ]
    subprocess.run(command, check=True, capture_output=True)
    annotate = ["callgrind_annotate", "--threshold=100", "--auto=no", str(out)]
    text = subprocess.run(annotate, check=True, capture_output=True, text=True).stdout
    return _by_part(text)


def _by_part(text: str) -> dict[str, Counter[str]]:
    """From the lines of callgrind_annotate: a count for every event, then file:function."""
    found = re.search(r"^Events shown: +(.+)$", text, re.MULTILINE)
    events = found.group(1).split() if found else []
    one = r"\s*([\d,]+|\.)(?: \( *[\d.]+%\))?\s+"
    row = re.compile(one * len(events) + r"([^\s:]+):\S")
    parts: dict[str, Counter[str]] = {}
    for line in text.splitlines():
        if match := row.match(line):
            *counts, path = match.groups()
            numbers = (0 if count == "." else int(count.replace(",", "")) for count in counts)
            part = parts.setdefault(PARTS.get(Path(path).name, OTHER), Counter())
            part.update(dict(zip(events, numbers, strict=True)))
    return parts


def _page(
    before: dict[str, Any],
    coordinates: float,
    near: dict[str, Counter[str]],
    far: dict[str, Counter[str]],
    times: list[float],
    can: dict[str, float],
) -> str:
    def a_row(counted: dict[str, Counter[str]], *events: str) -> float:
        return sum(counts[event] for counts in counted.values() for event in events) / ROWS

    per_row = a_row(near, "Ir")
    beyond_l1, beyond_l2 = a_row(near, "D1mr", "D1mw"), a_row(near, "DLmr", "DLmw")
    beyond_l3 = a_row(far, "DLmr", "DLmw")
    order = sorted(near, key=lambda part: (part == OTHER, -near[part]["Ir"]))
    parts = [
        [part, f"{near[part]['Ir'] / ROWS:,.0f}", f"{near[part]['Ir'] / ROWS / coordinates:.1f}"]
        for part in order
    ]
    memory = [
        [name, f"{lines:.1f}", f"{lines * LINE:,.0f}"]
        for name, lines in (("L1", beyond_l1), ("L2", beyond_l2), ("L3", beyond_l3))
    ]
    time, moved = median(times), 2 * beyond_l2 * LINE
    ideal = per_row / 4 / can["gigahertz"]
    return PAGE.format(
        order=ORDER,
        rows=ROWS,
        coordinates=coordinates,
        per_row=per_row,
        per_coordinate=per_row / coordinates,
        parts=table(["instructions", "a row", "a coordinate"], parts),
        memory=table(["not in", "lines a row", "bytes a row"], memory),
        moved=moved,
        streamed=can["streamed"],
        moved_time=moved / can["streamed"],
        random=can["random"],
        random_time=beyond_l2 * can["random"],
        time=time,
        rounds=ROUNDS,
        least=min(times),
        most=max(times),
        gigahertz=can["gigahertz"],
        ipc=per_row / time / can["gigahertz"],
        ideal=ideal,
        share=max(0.0, 1 - ideal / time),
        command=f"`{before['command']}`",
        date=before["date"],
        commit=before["commit"],
        cpu=f"{before['machine']['cpu']}, {before['machine']['cores']} cores",
    )


if __name__ == "__main__":
    main()
