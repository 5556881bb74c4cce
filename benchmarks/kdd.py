"""The shape of KDD2012: 149 million rows of 54.7 million features, straight from the generator.

Each model has a process of its own, kdd_pass.py.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.kdd_pass import COUNTED, TITLES
from benchmarks.machine import circumstances
from benchmarks.measure import ROOT, BenchmarkError, near, tell
from benchmarks.results import Result, table
from pqrlearn.cli import show
from pqrlearn.datasets.clicks import ClickStream

ROWS = 149_009_105
ROUNDS = 3
"""In each, every model makes one pass; a round takes five minutes."""

NOTE = """\
{rows:,} rows of {stream[fields]} one-hot features out of {stream[features]:,}, seed \
{stream[seed]}; Batches come from the generator on a second thread, without a file, and every row \
is predicted and then learned once. Each model runs in its own process in each round; shown are \
the round of median time and the largest peak of all rounds. Learning is the time inside the \
learner, by the wall clock and by its thread's clock, which stops while the generator has the core \
or the interpreter. PQR's separation counts the first {counted:,} rows, which are generated a \
second time. The state is 8 bytes for each coordinate learned and 4 for each rank; the peak is \
that of the whole process, with interpreter, libraries and Batches in flight.
"""


def compare(rows: int | None, rounds: int = ROUNDS) -> Result:
    """Passes of LR and PQR in turn."""
    before, wanted, stream = circumstances(), rows or ROWS, ClickStream.kdd2012()
    passes: dict[str, list[Result]] = {name: [] for name in TITLES}
    for number in range(1, rounds + 1):
        for name, title in TITLES.items():
            tell(f"round {number}/{rounds}  {wanted:,} rows like KDD2012: {title}")
            passes[name].append(_process(name, wanted))
    models = {name: _median(found) for name, found in passes.items()}
    return {
        "part": "kdd",
        **before,
        "rows": wanted,
        "repeats": rounds,
        "counted": min(wanted, COUNTED),
        "stream": {name: getattr(stream, name) for name in ("fields", "features", "seed")},
        "models": models,
        "time_ratio": _ratio(models, "cpu_seconds"),
        "wall_ratio": _ratio(models, "seconds"),
    }


def _median(passes: list[Result]) -> Result:
    """The one of median time, with the most memory of all."""
    by_time = sorted(passes, key=lambda one: one["learn_cpu_seconds"])
    most = {key: max(one[key] for one in passes) for key in ("peak_bytes", "peak_to_state")}
    ends = {"least_seconds": by_time[0], "most_seconds": by_time[-1]}
    times = {key: one["learn_cpu_seconds"] for key, one in ends.items()}
    return {**by_time[len(passes) // 2], **most, **times}


def _ratio(models: dict[str, Result], clock: str) -> float:
    """PQR's learning and counting against LR's learning."""
    times = {n: one[f"learn_{clock}"] + one[f"count_{clock}"] for n, one in models.items()}
    return float(times["pqr"] / times["lr"])


def _process(name: str, rows: int) -> Result:
    """Its progress line goes where ours would."""
    command = [near(sys.executable), "-m", "benchmarks.kdd_pass", name, str(rows)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE)
    if done.returncode:
        raise BenchmarkError(f"{' '.join(command)}: exit code {done.returncode}")
    found: Result = json.loads(done.stdout)
    return found


def _range(one: Result) -> str:
    return f"{one['least_seconds']:.1f} – {one['most_seconds']:.1f}"


def section(result: Result) -> str:
    columns = ["", *(TITLES[name] for name in result["models"])]
    found = list(result["models"].values())
    lines = [
        ["rows learned", *(f"{one['rows']:,}" for one in found)],
        ["learning, seconds", *(f"{one['learn_seconds']:.1f}" for one in found)],
        ["– by its thread's clock", *(f"{one['learn_cpu_seconds']:.1f}" for one in found)],
        ["– least – most", *(_range(one) for one in found)],
        ["counting, seconds", *(f"{one['count_seconds']:.1f}" for one in found)],
        ["– by its thread's clock", *(f"{one['count_cpu_seconds']:.1f}" for one in found)],
        ["with the generator, seconds", *(f"{one['total_seconds']:.1f}" for one in found)],
        ["mean label", *(f"{one['mean_label']:.6f}" for one in found)],
        ["mean prediction", *(f"{one['mean_prediction']:.6f}" for one in found)],
        ["peak memory", *(show.megabytes(one["peak_bytes"]) for one in found)],
        ["state", *(show.megabytes(one["state_bytes"]) for one in found)],
    ]
    return f"""## The shape of KDD2012

{NOTE.format(**result)}
{table(columns, lines)}
Learning and counting take PQR {result["time_ratio"]:.2f} times as long as LR by the thread's \
clock, {result["wall_ratio"]:.2f} times by the wall clock.
"""
