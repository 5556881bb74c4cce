"""Measures the real samples that simulated click streams are built after.

    PQRLEARN_DATA=... python -m benchmarks.studies.click_statistics

writes src/pqrlearn/datasets/measured.json: a few numbers for each column, none of the data. A line
of it is one field:

- `size`: its values in the full data set. A column in which no value is rare has as many as the
  sample; the others share the published number of features in proportion to how many of their
  values the sample has once.
- `shares`: the share of rows of the 1, 2, 4, 8, ... most frequent values, up to the last rank
  that five rows or more support. A missing cell is a value like any other.
- `tail`: beyond, frequencies fall like this power of the rank, found by bisection: as many rows as
  the sample has then hold as many different values as the sample.
- `strength`: the standard deviation, over rows, of what the field adds to the margin of LR.
- `latent`, `fidelity`: which fields belong together, and how closely. The dependence of two fields
  is their mutual information over the smaller entropy, of their 63 most frequent values and all
  others together; fields are joined by Ward's method. `bond` is the dependence of fields that do
  not belong together over that of fields that do.
"""

from __future__ import annotations

import csv
import json
import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from benchmarks.measure import ROOT
from pqrlearn import LR, Batch, Ftrl, datasets
from pqrlearn.datasets.base import Loaded

OUTPUT = ROOT / "src/pqrlearn/datasets/measured.json"
FEATURES = {"avazu": 1_000_000, "criteo": 1_000_000, "kdd2012": 54_686_452}
"""As in the LIBSVM versions, which the paper used."""
LEFT_OUT = {"avazu": {"C1", "C15", "C16", "C18", "C19", "C20", "device_type"}}
"""The LIBSVM version has 15 features a row; these columns depend on others, or hardly vary."""
LATENTS = 3
SUPPORT = 5
COLUMNS = ("name", "size", "shares", "tail", "strength", "latent", "fidelity")
TOP = 63

Codes = npt.NDArray[np.int64]


def measured(name: str) -> dict[str, Any]:
    loaded = datasets.get(name).load()
    columns = dict(columns_of(name, loaded))
    strengths = _strengths(loaded)
    sizes = _sizes(columns, FEATURES[name])
    latents, fidelities, bond = _latents([*columns.values()])
    fields = [
        [
            *(field, sizes[field], *_frequencies(codes, sizes[field])),
            *(round(strengths.get(field, 0.0), 3), latents[at], round(fidelities[at], 2)),
        ]
        for at, (field, codes) in enumerate(columns.items())
    ]
    rate = float(loaded.batch.labels.mean())
    fields.sort(key=lambda field: int(field[1]))
    known = {"rows": len(loaded.batch), "click_rate": round(rate, 4), "bond": round(bond, 2)}
    return known | {"fields": fields}


def columns_of(name: str, loaded: Loaded) -> Iterator[tuple[str, Codes]]:
    """For each field a code for every row, 0 where the cell is empty."""
    batch, fields = loaded.batch, fields_of(loaded)
    rows = np.repeat(np.arange(len(batch)), np.diff(batch.indptr))
    for field in dict.fromkeys(fields.tolist()):
        if field in LEFT_OUT.get(name, ()):
            continue
        codes = np.zeros(len(batch), np.int64)
        mine = fields[batch.indices] == field
        codes[rows[mine]] = batch.indices[mine].astype(np.int64) + 1
        yield field, codes
    if name == "kdd2012":  # the eleventh, which the loader leaves out
        with datasets.get(name).files()[0].open(newline="") as file:
            yield "impression", np.array([int(line["impression"]) for line in csv.DictReader(file)])


def fields_of(loaded: Loaded) -> npt.NDArray[np.str_]:
    """The field of each feature."""
    return np.array([str(loaded.names.name(i)).split("=")[0] for i in range(len(loaded.names))])


def _strengths(loaded: Loaded) -> dict[str, float]:
    batch, fields = loaded.batch, fields_of(loaded)
    model = LR(optimizer=Ftrl(alpha=0.1))
    model.learn_margins(batch)
    weights = np.zeros(len(fields))
    features, learned = model.weights("linear")
    weights[features.ravel()] = learned
    return {str(field): _spread(batch, weights * (fields == field)) for field in np.unique(fields)}


def _spread(batch: Batch, weights: npt.NDArray[np.float64]) -> float:
    rows = np.repeat(np.arange(len(batch)), np.diff(batch.indptr))
    return float(np.bincount(rows, weights[batch.indices], len(batch)).std())


def _sizes(columns: dict[str, Codes], features: int) -> dict[str, int]:
    counts = {field: _counts(codes) for field, codes in columns.items()}
    once = {field: int((found == 1).sum()) for field, found in counts.items()}
    left = features - sum(map(len, counts.values()))
    sizes = {
        field: max(2, len(found) + left * once[field] // sum(once.values()))
        for field, found in counts.items()
    }
    largest = max(sizes, key=sizes.__getitem__)
    return sizes | {largest: sizes[largest] + features - sum(sizes.values())}


def _counts(codes: Codes) -> Codes:
    return -np.sort(-np.unique(codes, return_counts=True)[1])


def _frequencies(codes: Codes, size: int) -> tuple[list[float], float]:
    counts = _counts(codes)
    known = int((counts >= SUPPORT).sum())
    ranks = [2**k for k in range(40) if 2**k <= min(known, size - 1)] or [1]
    shares = [round(float(counts[:rank].sum() / len(codes)), 4) for rank in ranks]
    return shares, round(_tail(counts, ranks[-1], size), 2)


def _tail(counts: Codes, head: int, size: int) -> float:
    """The exponent with which the expected number of different values is that of the sample."""
    rows, wanted = counts.sum(), len(counts) - head
    edges = np.unique(np.geomspace(head + 1, size + 1, 400))
    mass = counts[head:].sum() / rows
    low, high = 0.0, 5.0
    for _ in range(40):
        middle = (low + high) / 2
        integral = np.diff(edges ** (1 - middle) / (1 - middle))
        chances = mass * integral / integral.sum() / np.diff(edges)
        many = (np.diff(edges) * -np.expm1(-rows * chances)).sum() > wanted
        low, high = (middle, high) if many else (low, middle)
    return (low + high) / 2


def _latents(columns: list[Codes]) -> tuple[list[int], list[float], float]:
    tops = [_top(codes) for codes in columns]
    near = np.array([[_dependence(a, b) for b in tops] for a in tops])
    np.fill_diagonal(near, 1.0)
    tree = linkage(squareform(1 - near, checks=False), "ward")
    groups = fcluster(tree, LATENTS, "maxclust")
    fidelities = []
    for at, group in enumerate(groups):
        others = near[at][(groups == group) & (np.arange(len(groups)) != at)]
        fidelities.append(float(np.sqrt(others.mean())) if len(others) else 0.0)
    same = groups[:, None] == groups
    bond = near[~same].mean() / near[same & ~np.eye(len(groups), dtype=bool)].mean()
    return [int(group) - 1 for group in groups], fidelities, float(bond)


def _top(codes: Codes) -> Codes:
    values, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
    places = np.full(len(values), TOP)
    order = np.argsort(-counts, kind="stable")[:TOP]
    places[order] = np.arange(len(order))
    return places[inverse]


def _dependence(a: Codes, b: Codes) -> float:
    joint = np.bincount(a * (TOP + 1) + b, minlength=(TOP + 1) ** 2).reshape(TOP + 1, -1)
    one, other = _entropy(joint.sum(axis=1)), _entropy(joint.sum(axis=0))
    return float((one + other - _entropy(joint.ravel())) / max(min(one, other), 1e-9))


def _entropy(counts: npt.NDArray[np.int64]) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def text(found: dict[str, Any]) -> str:
    """JSON with one line for each field."""
    parts = []
    for name, one in found.items():
        fields = ",\n".join(json.dumps(field, separators=(",", ":")) for field in one["fields"])
        head = json.dumps({key: one[key] for key in ("rows", "click_rate", "bond")})[1:-1]
        parts.append(f'"{name}": {{{head}, "fields": [\n{fields}\n]}}')
    command = shlex.join(["python", *sys.orig_argv[1:]])
    about = json.dumps(
        {"command": command, "date": f"{datetime.now(UTC):%Y-%m-%d}", "columns": COLUMNS}
    )
    return "{\n" + ",\n".join([f'"measured": {about}', *parts]) + "\n}\n"


def main() -> None:
    OUTPUT.write_text(text({name: measured(name) for name in FEATURES}))
    print(OUTPUT)


if __name__ == "__main__":
    main()
