"""Where a frozen Auto loses to FTRL tuned in hindsight: by how much, and why?

    PQRLEARN_DATA=... python -m benchmarks.studies.held_out

For each set on which auto.json has Auto behind, learns the first 80 % of the rows again and
compares losses on the others row by row: Auto's, those of the best of 102 settings on these very
rows, and those of the setting that was best on the rows before, which is what can be chosen without
hindsight. Beside them stand linear Bayesian experts like Auto's own, with other prior variances,
each alone: is the prior to blame? Prints Markdown.
"""

from __future__ import annotations

import json

import numpy as np

from benchmarks.machine import circumstances
from benchmarks.studies.auto import OUTPUT
from benchmarks.studies.rivals import LEARNERS, SHARE, Margins, Rival, grid
from benchmarks.studies.sets import STUDIES, rows_of
from pqrlearn import Batch
from pqrlearn.loss import LOSSES

VARIANCES = (0.05, 0.15, 0.5, 1.5, 10.0)
"""Of a row's margin; Auto's linear experts have the last two."""


def behind() -> list[str]:
    """The sets on which a frozen Auto was behind the best of 102."""
    found = []
    for study, one in json.loads(OUTPUT.read_text())["sets"].items():
        ours, best = one["frozen"]["auto"], one["frozen"]["best of 102"]
        if ours[one["figure"]] > best[one["figure"]]:
            found.append(study)
    return found


def split(study: str) -> tuple[Batch, Batch]:
    batch = rows_of(study)
    cut = int(SHARE * len(batch))
    return batch.part(0, cut), batch.part(cut, len(batch))


def bayesian(first: Batch, last: Batch, variance: float) -> Margins:
    """Margins of `last` by a linear expert of Auto (docs/auto.md, "The step"), in NumPy. Its values
    must be 1."""
    size = int(max(first.indices.max(), last.indices.max())) + 1
    z, info = np.zeros(size), np.zeros(size)
    bias_z, bias_info, ridge = 0.0, 0.0, np.mean(np.diff(first.indptr)) / variance

    def margin(at: np.ndarray) -> tuple[float, np.ndarray, float]:
        v, bias_v = 1 / (ridge + info[at]), 1 / (0.25 + bias_info)
        return -(z[at] @ v) - bias_z * bias_v, v, bias_v

    for row, label in enumerate(first.labels):
        at = first.indices[first.indptr[row] : first.indptr[row + 1]]
        m, v, bias_v = margin(at)
        total, p = v.sum() + bias_v, 1 / (1 + np.exp(-m))
        h = max(p * (1 - p), 1e-4)
        slope = _implicit_slope(m, total, label)
        d, bias_d = h / np.maximum(1, 1 + h * (total - v)), h / max(1, 1 + h * (total - bias_v))
        z[at] += slope * (1 + d * v) + d * z[at] * v
        info[at] += d
        bias_z += slope * (1 + bias_d * bias_v) + bias_d * bias_z * bias_v
        bias_info += bias_d
    ends = zip(last.indptr, last.indptr[1:], strict=False)
    return np.array([margin(last.indices[start:end])[0] for start, end in ends])


def _implicit_slope(margin: float, variance: float, label: float) -> float:
    """s = sigmoid(m - V s) - y, by bisection."""
    low, high = -1.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        above = middle > 1 / (1 + np.exp(variance * middle - margin)) - label
        low, high = (low, middle) if above else (middle, high)
    return (low + high) / 2


def frozen(study: str, rival: Rival) -> tuple[float, np.ndarray]:
    """The mean loss of the first rows, each before it was learned, and the losses of the others."""
    first, last = split(study)
    loss = LOSSES[STUDIES[study].loss].loss
    learner = LEARNERS[rival.family](study, rival.settings)
    before = loss(learner.learn_margins(first), first.labels).mean()
    return float(before), loss(learner.margin_many(last), last.labels)


def compared(study: str) -> list[str]:
    """Auto, then each winner with what Auto loses to it, then the experts alone."""
    _, ours = frozen(study, Rival("auto"))
    runs = [(rival.name, *frozen(study, rival)) for rival in grid()]
    cells = [f"{len(ours):,}", f"{ours.mean():.5f}"]
    hindsight = min(runs, key=lambda run: run[2].mean())
    foresight = min(runs, key=lambda run: run[1])
    for name, _, theirs in (hindsight, foresight):
        difference = ours - theirs
        error = difference.std(ddof=1) / np.sqrt(len(difference))
        cells += [f"{theirs.mean():.5f} ({name})", f"{difference.mean():+.5f} ± {error:.5f}"]
    first, last = split(study)
    loss = LOSSES[STUDIES[study].loss].loss
    alone = [loss(bayesian(first, last, v), last.labels).mean() for v in VARIANCES]
    return cells + [f"{value:.5f}" for value in alone]


def main() -> None:
    titles = ["set", "rows judged", "Auto", "best of 102 there", "Auto − it"]
    titles += ["best of 102 before", "Auto − it", *(f"prior {v:g}" for v in VARIANCES)]
    print("| " + " | ".join(titles) + " |\n" + "|---" * len(titles) + "|")
    for study in behind():
        print("| " + " | ".join([study, *compared(study)]) + " |", flush=True)
    print(f"\n{circumstances()}")


if __name__ == "__main__":
    main()
