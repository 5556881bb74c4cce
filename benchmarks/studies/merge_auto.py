"""Can models of Auto be merged by adding what the rows of each worker added?

    python -m benchmarks.studies.merge_auto [SET...]

Of every Kalman expert z and I are added, those of the FTRL experts are merged by the contraction
rule with m = 16; the experts' losses and the precision of the stacker are added; features that rose
with any worker have risen. Four workers, eight rounds; the loss is that on the last sixth of the
rows. Prints Markdown. The answer is no (docs/merging.md).
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from benchmarks.machine import circumstances
from benchmarks.studies.sets import STUDIES, rows_of
from pqrlearn import Auto, Batch, State
from pqrlearn.learners.auto_state import _SCALARS
from pqrlearn.merging.models import loss_on
from pqrlearn.merging.rounds import cuts
from pqrlearn.merging.rule import Rates

SETS = ("criteo", "avazu", "frappe")
WORKERS, ROUNDS = 4, 8
RATES, M = Rates(alpha=0.5, beta=1.0), 16.0
MOST_INFO = 2.0**14
Array = np.ndarray


def spread(keys: Array, some: Array, slots: Array, base: Array | None = None) -> Array:
    """Slots at the places of `keys`; where there is none, those of the base, or zeros."""
    found = np.zeros((len(keys), slots.shape[1])) if base is None else base.copy()
    found[np.searchsorted(keys, some)] = slots
    return found


def added(base: Array, workers: list[Array], ftrl: tuple[int, ...]) -> Array:
    """z of all experts, then I, with what each worker has added to them."""
    found, size = base.copy(), base.shape[1] // 2
    for expert in range(size):
        info = size + expert
        if expert in ftrl:
            found[:, expert], found[:, info] = contracted(base, workers, expert, info)
            continue
        found[:, expert] += sum(each[:, expert] - base[:, expert] for each in workers)
        found[:, info] += sum(each[:, info] - base[:, info] for each in workers)
        shrink = np.minimum(1.0, MOST_INFO / np.maximum(found[:, info], 1.0))
        found[:, expert] *= shrink
        found[:, info] *= shrink
    return found


def contracted(base: Array, workers: list[Array], z: int, info: int) -> tuple[Array, Array]:
    """An FTRL expert, whose I is √n/alpha: w = -z/(2 + I)."""
    start, root = -base[:, z] / (2 + base[:, info]), base[:, info] / 2
    growths = [np.square(each[:, info] / 2) - np.square(root) for each in workers]
    whole, weights = RATES.share(root, sum(growths), M), start.copy()
    for each, growth in zip(workers, growths, strict=True):
        by = -each[:, z] / (2 + each[:, info]) - start
        own = np.where(by != 0, RATES.share(root, growth, M), 1.0)
        weights += np.where(by != 0, by / own * np.where(by != 0, whole, 0.0), 0.0)
    after = 2 * np.sqrt(np.square(root) + np.maximum(sum(growths), 0.0))
    return -weights * (2 + after), after


def scalars(base: Array, workers: list[Array]) -> Array:
    """Sums of biases and losses; the stacker by its precision; the rest as it must be."""
    with np.errstate(invalid="ignore"):  # the range of labels is infinite before the first one
        found = base + sum(each - base for each in workers)
    made, views = found.view(_SCALARS)[0], [each.view(_SCALARS)[0] for each in workers]
    start = base.view(_SCALARS)[0]
    precisions = [np.linalg.inv(view["P"]) for view in (start, *views)]
    targets = [p @ view["a"] for p, view in zip(precisions, (start, *views), strict=True)]
    precision, target = (
        each[0] + sum(one - each[0] for one in each[1:]) for each in (precisions, targets)
    )
    covariance = np.linalg.inv(precision)
    covariance = (covariance + covariance.T) / 2
    if np.all(np.linalg.eigvalsh(covariance) > 0):
        made["P"], made["a"] = covariance, covariance @ target
    else:
        made["P"], made["a"] = (np.mean([v[name] for v in views], axis=0) for name in ("P", "a"))
    for name, take in (("largest", max), ("low", min), ("high", max)):
        made[name] = take(float(view[name]) for view in views)
    for name in ("mean_features", "mean_low"):
        made[name] = np.mean([float(view[name]) for view in views])
    made["refresh_at"] = 2.0 ** math.ceil(math.log2(made["rows"] + 1))
    return found


def merged(base: Auto, models: list[Auto]) -> Auto:
    start, ends = base.state(), [model.state().arrays for model in models]
    first = start.arrays
    features = np.unique(np.concatenate([end["linear.keys"] for end in ends]))
    high = list(dict.fromkeys([f for one in (first, *ends) for f in one["high"].tolist()]))
    rank = {feature: number for number, feature in enumerate(high)}
    arrays: dict[str, Any] = {
        "scalars": scalars(first["scalars"], [end["scalars"] for end in ends]),
        "linear.keys": features,
        "high": np.array(high, np.uint32),
        "waiting": np.array(
            sorted({f for end in ends for f in end["waiting"].tolist()} - set(high)), np.uint32
        ),
    }
    _linear(arrays, first, ends)
    ranks = np.arange(len(high))
    own = [np.array([rank[f] for f in one["high"].tolist()], int) for one in (first, *ends)]
    before = spread(ranks, own[0], first["shared.slots"])
    after = [
        spread(ranks, at, end["shared.slots"], before)
        for at, end in zip(own[1:], ends, strict=True)
    ]
    arrays["shared.slots"] = added(before, after, ftrl=(3,)).astype(np.float32)
    _pairs(arrays, [_keys(one, at) for one, at in zip((first, *ends), own, strict=True)])
    rows = base.rows + sum(model.rows - base.rows for model in models)
    last = max(model.next_feature for model in models)
    settings = start.settings | {"rows": rows, "next_feature": last}
    return Auto.from_state(State("auto", settings, arrays, start.names))


def _linear(arrays: dict[str, Any], first: Any, ends: list[Any]) -> None:
    keys = arrays["linear.keys"]
    before = spread(keys, first["linear.keys"], first["linear.slots"])
    after = [spread(keys, end["linear.keys"], end["linear.slots"], before) for end in ends]
    arrays["linear.slots"] = added(before, after, ftrl=(2, 6)).astype(np.float32)
    seen = spread(keys, first["linear.keys"], first["linear.counts"][:, None])
    counts = seen + sum(
        spread(keys, end["linear.keys"], end["linear.counts"][:, None], seen) - seen for end in ends
    )
    arrays["linear.counts"] = counts[:, 0].astype(np.uint32)
    for name in ("squares", "exponents"):
        found = np.zeros(len(keys), first[f"linear.{name}"].dtype)
        for end in ends:  # all values of these sets are 1
            found[np.searchsorted(keys, end["linear.keys"])] = end[f"linear.{name}"]
        arrays[f"linear.{name}"] = found


def _keys(one: Any, ranks: Array) -> tuple[Array, Array]:
    """Pairs by common ranks, and their slots."""
    pairs = one["pair.keys"].astype(np.int64)
    ends = np.sort(np.stack([ranks[pairs >> 16], ranks[pairs & 0xFFFF]]), axis=0)
    keys = ends[1] << 16 | ends[0]
    order = np.argsort(keys)
    return keys[order], one["pair.slots"][order]


def _pairs(arrays: dict[str, Any], pairs: list[tuple[Array, Array]]) -> None:
    keys = np.unique(np.concatenate([each for each, _ in pairs]))
    before = spread(keys, *pairs[0])
    found = added(before, [spread(keys, *each, before) for each in pairs[1:]], ftrl=(3,))
    arrays["pair.keys"], arrays["pair.slots"] = keys.astype(np.uint32), found.astype(np.float32)


def main(names: list[str]) -> None:
    about = circumstances()
    print("| set | sequential | merged | best worker of the last round |\n|---|---|---|---|")
    for name in names or SETS:
        rows: Batch = rows_of(name)
        cut, loss = len(rows) * 5 // 6, STUDIES[name].loss
        train, test = rows.part(0, cut), rows.part(cut, len(rows))
        sequential = Auto(loss)  # type: ignore[arg-type]
        sequential.learn_margins(train)
        model, workers = Auto(loss), []  # type: ignore[arg-type]
        for ends in cuts(cut, ROUNDS, WORKERS):
            workers = [Auto.from_bytes(model.to_bytes()) for _ in range(WORKERS)]
            for number, worker in enumerate(workers):
                worker.learn_margins(train.part(ends[number], ends[number + 1]))
            model = merged(model, workers)
        best = min(loss_on(worker, [test]) for worker in workers)
        losses = [loss_on(sequential, [test]), loss_on(model, [test]), best]
        cells = [f"{each / losses[0] - 1:+.2%}" for each in losses[1:]]
        print(f"| {name} | {losses[0]:.5f} | {cells[0]} | {cells[1]} |", flush=True)
    print(f"\n{about}")


if __name__ == "__main__":
    main(sys.argv[1:])
