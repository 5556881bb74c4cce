"""docs/cost.md and its figure, from the medians in cost.json. No number is written here.

python -m benchmarks.studies.cost_page        # write the page again, without measuring
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT
from benchmarks.results import table
from pqrlearn import plots
from pqrlearn.files import atomic_write

Result = dict[str, Any]
Curve = dict[int, float]
"""What was measured, by what was varied."""

AVAZU_ROWS, AVAZU_FEATURES = 40_428_967, 1_000_000
ROW_BY_ROW = ", B = 1"

HEADINGS = {
    "rank": "The rank m of FM and DiFacto",
    "order": "The order k of PQR",
    "nonzeros": "The non-zeros s of a row, of 1,000 features",
    "features": "The features d of the stream",
    "rows": "The rows that CFM and CCFM have learned, of 1,000,000 features",
    "space": "Space, when nearly all pairs have been seen",
}
AXES = {
    "rank": ("rank m", "linear", "linear"),
    "order": ("order k", "log", "linear"),
    "nonzeros": ("non-zeros s of a row (d = 1,000)", "log", "log"),
    "features": ("features d", "log", "log"),
    "rows": ("rows learned (d = 1,000,000)", "log", "log"),
    "space": ("features d", "log", "log"),
}


def page(result: Result) -> str:
    """A section for each sweep measured; those that need several sweeps only if all are there."""
    measured = sweeps(result)
    whole = measured == list(HEADINGS)
    return PAGE.format(
        complexity=_complexity(result) if whole else "",
        impractical=_impractical(result) if whole else "",
        space=_space(result) if whole else "",
        tables="\n".join(_section(result, sweep) for sweep in measured),
        facts=_facts(result),
    )


def sweeps(result: Result) -> list[str]:
    """Those that were measured, in the order of the page."""
    return [sweep for sweep in HEADINGS if curves(result, sweep)]


def curves(result: Result, sweep: str, what: str = "microseconds") -> dict[str, Curve]:
    """By model. How often CFM and CCFM step changes the time only: other curves have them once."""
    found: dict[str, Curve] = {}
    for reading in result["readings"]:
        model = reading["model"]
        if reading["sweep"] == sweep and (what == "microseconds" or ROW_BY_ROW not in model):
            found.setdefault(model, {})[reading["x"]] = reading[what]
    return found


def growth(curve: Curve) -> float:
    """The exponent p of x^p over the upper half of the values.

    >>> growth({1: 5.0, 10: 7.0, 100: 700.0})
    2.0
    """
    points = list(curve.items())
    (x0, y0), (x1, y1) = points[(len(points) - 1) // 2], points[-1]
    return math.log(y1 / y0) / math.log(x1 / x0)


def figure(result: Result) -> Any:
    """One step per row would hide all else, so it is in the tables only."""
    panels = []
    for sweep in sweeps(result):
        label, x_axis, y_axis = AXES[sweep]
        found = curves(result, sweep, "weights" if sweep == "space" else "microseconds")
        lines = [
            plots.Line(name, list(curve), list(curve.values()))
            for name, curve in found.items()
            if not name.endswith(ROW_BY_ROW)
        ]
        unit = "non-zero weights" if sweep == "space" else "µs per row"
        ticks = list(lines[0].x) if x_axis == "log" else []
        panels.append(plots.Panel("", label, unit, lines, x_axis, y_axis, ticks))
    return plots.draw(panels, columns=2)


def _section(result: Result, sweep: str) -> str:
    label = AXES[sweep][0]
    parts = {"µs per row": "microseconds"}
    if sweep == "space":
        parts = {"non-zero weights": "weights", "bytes of the model file": "bytes"}
    if sweep == "rows":
        parts["distinct pairs of features seen"] = "pairs"
    tables = [f"{said}:\n\n{_table(curves(result, sweep, w), label)}" for said, w in parts.items()]
    return "\n".join([f"## {HEADINGS[sweep]}\n", *tables])


def _table(models: dict[str, Curve], label: str) -> str:
    places = list(next(iter(models.values())))
    columns = [label, *(f"{x:,}" for x in places), "growth"]
    rows = [
        [name, *(_short(y) for y in curve.values()), f"^{growth(curve):.2f}"]
        for name, curve in models.items()
    ]
    return table(columns, rows)


def _short(number: float) -> str:
    """Three digits that mean something.

    >>> [_short(n) for n in (0.4567, 12.34, 1234.5, 1234567)]
    ['0.457', '12.3', '1,230', '1,230,000']
    """
    if number <= 0:
        return "0"
    digits = 2 - math.floor(math.log10(number))
    return f"{round(number, digits):,.{max(0, digits)}f}"


def _complexity(result: Result) -> str:
    """The paper's table, and what was measured in its place."""

    def grown(model: str, **sweeps: str) -> str:
        found = {sweep: growth(curves(result, sweep)[model]) for sweep in sweeps}
        return ", ".join(f"{sweeps[sweep]}^{power:.2f}" for sweep, power in found.items())

    def space(model: str) -> str:
        return f"d^{growth(curves(result, 'space', 'weights')[model]):.2f}"

    both = {"nonzeros": "s", "features": "d"}
    rows = [
        ["linear (LR)", "O(nd)", grown("LR", **both), "O(d)", space("LR")],
        ["FM", "O(nmd)", grown("FM", **both, rank="m"), "O(md)", space("FM")],
        ["PQR", "O(nd + nk²)", grown("PQR", **both, order="k"), "O(d + k²)", space("PQR")],
        ["QR", "–", grown("QR", **both), "O(d²)", space("QR")],
    ]
    head = ["", "time, in the paper", "measured per row", "space, in the paper", "measured"]
    return table(head, rows)


def _space(result: Result) -> str:
    sizes = curves(result, "space", "bytes")["QR"]
    last = max(sizes)
    carried = sizes[last] * (AVAZU_FEATURES / last) ** 2
    return (
        f"{sizes[last] / 1e6:.1f} MB at d = {last}; *extrapolated* with d² to {AVAZU_FEATURES:,} "
        f"features, all pairs seen, {carried / 1e12:,.0f} TB"
    )


def _impractical(result: Result) -> str:
    """CFM and CCFM on the rows of Avazu: measured as far as possible, then extrapolated."""
    linear = curves(result, "features")["LR"][AVAZU_FEATURES]
    pairs = curves(result, "rows", "pairs")["CFM"]
    last = max(pairs)
    many = pairs[last] * (AVAZU_ROWS / last) ** growth(pairs)
    rows = [_burden(result, model, linear) for model in ("CFM", "CCFM")]
    head = ["", "a step", "a row, B = 1", "a row, B = 256", "growth", "a step", "one pass, B = 256"]
    return IMPRACTICAL.format(
        rows=last,
        features=AVAZU_FEATURES,
        pairs=pairs[last],
        all_rows=AVAZU_ROWS,
        gigabytes=many * 16 / 1e9,
        linear=linear * AVAZU_ROWS / 1e6,
        table=table(head, rows),
    )


def _burden(result: Result, model: str, linear: float) -> list[str]:
    times = curves(result, "rows")
    steps, blocks = times[model + ROW_BY_ROW], times[model]
    last, power = max(steps), growth(steps)
    at_the_end = steps[last] * (AVAZU_ROWS / last) ** power
    days = at_the_end / (1 + power) * AVAZU_ROWS / 256 / 1e6 / 86_400
    return [
        model,
        f"{steps[last] / 1e6:.2f} s",
        f"{steps[last] / linear:,.0f} × LR",
        f"{blocks[last] / linear:,.0f} × LR",
        f"rows^{power:.2f}",
        f"{at_the_end / 1e6:,.0f} s",
        f"{days:,.0f} days",
    ]


def _facts(result: Result) -> str:
    where = result["machine"]
    facts = {
        "command": f"`{result['command']}`",
        "date": result["date"],
        "commit": result["commit"],
        "machine": f"{where['cpu']}, {where['cores']} cores, {where['memory_gb']} GB",
        "system": f"{where['system']}; Python {where['python']}; {where['compiler']}",
        "load before": f"{where['load']:.2f}",
        "rounds": str(result["rounds"]),
    }
    return "".join(f"- {name}: {fact}\n" for name, fact in facts.items())


IMPRACTICAL = """\
They take one step every B rows; a step makes up to 48 passes over all pairs seen so far. Measured
after {rows:,} rows of a stream of {features:,} features, with {pairs:,} pairs seen; the last two
columns are *extrapolated*, at the growth measured, to the {all_rows:,} rows of Avazu:

{table}
The accumulated gradient, 16 bytes a pair, would then take {gigabytes:.1f} GB. LR makes that pass in
{linear:.0f} s.
"""

PAGE = """# What a row costs

Written by `make cost`, which also draws the curves as `build/cost.svg`. Processor microseconds per
row of `learn_many`, in memory and on one thread, medians: a model learns the first rows of a seeded
click stream (some 33,000 to 40,000), then the next rows are timed. Each round runs every model in
every column once. Where nothing else is said, rows have 15 features out of 100,000, PQR has order
√d, FM rank 8, DiFacto ranks up to 8, and CFM and CCFM take a step every 256 rows.

## The paper's table, and what was measured

The paper counts dense rows, with d non-zeros. Here rows are sparse: a row should cost LR O(s), FM
O(m·s), PQR O(s + h²) with h of its s features high, and QR O(s²). Exponents are fitted over the
upper half of the values measured.

{complexity}
- The cost of LR and of PQR at order √d hardly depends on d. What growth there is comes from memory
  that does not fit in a cache and, for PQR, from more features of a row being high.
- FM grows towards linear in m; at low m the fixed cost of a row dominates.
- PQR stops growing with k once all features of a row are high: h ≤ s.
- QR keeps every pair ever seen. Its file:
  {space}.

## How impractical CFM and CCFM are

{impractical}
{tables}
## Measured

{facts}"""


if __name__ == "__main__":
    medians = json.loads(Path(__file__).with_name("cost.json").read_text())
    atomic_write(ROOT / "docs/cost.md", page(medians).encode())
