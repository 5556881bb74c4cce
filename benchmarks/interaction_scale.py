"""Which interaction scale and learning rate should be the defaults?

One progressive pass over each real data set found in $PQRLEARN_DATA, for LR and for PQR at two
orders, over a grid of scales and rates. Prints the loss of every cell as a Markdown table, the
best rate per row, and how far each pair of defaults is from LR at the same rate.

    PQRLEARN_DATA=... .venv/bin/python benchmarks/interaction_scale.py
"""

from __future__ import annotations

import csv
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from pqrlearn import LR, PQR, Batch, Counts, Ftrl
from pqrlearn.progressive import learn

ALPHAS = (0.02, 0.05, 0.1, 0.2, 0.5)
SCALES: tuple[float | None, ...] = (None, 0.1, 0.3, 1.0, 3.0)
Rows = Iterator[tuple[float, list[str]]]


def movielens_100k(folder: Path) -> Rows:
    users, movies = {}, {}
    for line in (folder / "u.user").read_text("latin-1").splitlines():
        user, age, gender, occupation, zip_code = line.split("|")
        users[user] = [f"age={age}", f"gender={gender}", f"job={occupation}", f"zip={zip_code}"]
    for line in (folder / "u.item").read_text("latin-1").splitlines():
        movie, *_ = parts = line.split("|")
        movies[movie] = [f"genre={at}" for at, flag in enumerate(parts[-19:]) if flag == "1"]
    for line in (folder / "u.data").read_text().splitlines():
        user, movie, rating, _ = line.split("\t")
        yield float(rating), users[user] + movies[movie]


def movielens_1m(folder: Path) -> Rows:
    users, movies = {}, {}
    for line in (folder / "users.dat").read_text("latin-1").splitlines():
        user, gender, age, job, zip_code = line.split("::")
        users[user] = [f"age={age}", f"gender={gender}", f"job={job}", f"zip={zip_code}"]
    for line in (folder / "movies.dat").read_text("latin-1").splitlines():
        movie, _, genres = line.split("::")
        movies[movie] = [f"genre={genre}" for genre in genres.split("|")]
    for line in (folder / "ratings.dat").read_text().splitlines():
        user, movie, rating, _ = line.split("::")
        yield float(rating), users[user] + movies[movie]


def criteo(folder: Path) -> Rows:
    with (folder / "train_sample.txt").open() as file:
        for line in file:
            label, *parts = line.rstrip("\n").split("\t")
            numbers = [
                f"I{at}={v if int(v) <= 2 else f'L{math.floor(math.log(int(v)) ** 2)}'}"
                for at, v in enumerate(parts[:13], 1)
                if v
            ]
            yield float(label), numbers + [f"C{at}={v}" for at, v in enumerate(parts[13:], 1) if v]


def avazu(folder: Path) -> Rows:
    with (folder / "train_sample_23299.csv").open() as file:
        for row in csv.DictReader(file):
            label = float(row.pop("click"))
            row.pop("id")
            hour = row.pop("hour")
            yield label, [f"hour={hour[-2:]}", *(f"{k}={v}" for k, v in row.items())]


def kdd2012(folder: Path) -> Rows:
    with (folder / "Click_prediction_small.csv").open() as file:
        for row in csv.DictReader(file):
            label = float(float(row.pop("click")) > 0)
            row.pop("impression", None)
            yield label, [f"{k}={v}" for k, v in row.items()]


DATA: dict[str, tuple[str, str, Callable[[Path], Rows]]] = {
    "ML-100K": ("ml-100k", "squared", movielens_100k),
    "ML-1M": ("ml-1m", "squared", movielens_1m),
    "Criteo sample": ("criteo", "logistic", criteo),
    "Avazu sample": ("avazu", "logistic", avazu),
    "KDD2012 sample": ("kdd2012", "logistic", kdd2012),
}


def as_batch(rows: Rows, shuffled: bool) -> Batch:
    """Ratings come sorted by user or time of download, so they are shuffled as in the paper."""
    index: dict[str, int] = {}
    labels, features = [], []
    for label, names in rows:
        labels.append(label)
        features.append([index.setdefault(name, len(index)) for name in names])
    order = np.random.default_rng(1).permutation(len(labels)) if shuffled else range(len(labels))
    return Batch.from_rows(
        ((features[at], [1.0] * len(features[at])) for at in order), [labels[at] for at in order]
    )


def main() -> None:
    home = Path(os.environ.get("PQRLEARN_DATA", ""))
    for name, (folder, loss, read) in DATA.items():
        if not (home / folder).is_dir():
            print(f"{name}: not in $PQRLEARN_DATA", file=sys.stderr)
            continue
        batch = as_batch(read(home / folder), shuffled=loss == "squared")
        figure = "rmse" if loss == "squared" else "logloss"
        counts = Counts.of(batch)
        print(f"\n### {name}: {len(batch):,} rows, {counts.distinct:,} features, {figure}\n")
        print("| model | scale | " + " | ".join(f"α={a}" for a in ALPHAS) + " |")
        print("|---|---|" + "---|" * len(ALPHAS))
        cells = [learn(LR(loss, Ftrl(alpha=a)), [batch]).figures[figure] for a in ALPHAS]
        print("| LR | | " + " | ".join(f"{c:.4f}" for c in cells) + " |", flush=True)
        for order in (counts.default_order(), 2000):
            separation = counts.separate(order=order)
            for scale in SCALES:
                cells = [
                    learn(
                        PQR(separation, loss, Ftrl(alpha=a), interaction_scale=scale), [batch]
                    ).figures[figure]
                    for a in ALPHAS
                ]
                shown = " | ".join(f"{c:.4f}" for c in cells)
                print(f"| PQR {separation.order} | {scale or 'none'} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
