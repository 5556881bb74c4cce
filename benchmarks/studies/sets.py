"""The data sets of the accuracy studies, below $PQRLEARN_DATA."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from pqrlearn import Batch, datasets
from pqrlearn.readers import LibsvmReader

SEED = 0
"""Of the order of ratings: MovieLens files are not in the order of time."""


@dataclass(frozen=True)
class Study:
    """A set of rows: its name, its loss, how it is loaded."""

    name: str
    loss: str
    load: Callable[[], Batch]

    @property
    def figure(self) -> str:
        return "rmse" if self.loss == "squared" else "logloss"


def _published(name: str) -> Batch:
    return datasets.get(name).load().batch


def _libsvm(name: str) -> Batch:
    path = Path(os.environ["PQRLEARN_DATA"], "extra", f"{name}.svm")
    return Batch.joined(LibsvmReader(path, loss="logistic").batches())


def _shuffled(batch: Batch) -> Batch:
    return batch.take(np.random.default_rng(SEED).permutation(len(batch)))


def _with_ids(name: str) -> Batch:
    """The user and the item of each rating, besides the paper's features."""
    batch = _published(name)
    ratings, separator = {"ml-100k": ("u.data", "\t"), "ml-1m": ("ratings.dat", "::")}[name]
    text = (datasets.get(name).home / ratings).read_text("latin-1")
    ids = np.array([line.split(separator)[:2] for line in text.splitlines()], np.int64)
    ids[:, 0] += int(batch.indices.max())
    ids[:, 1] += ids[:, 0].max()
    ends = batch.indptr[1:]  # larger than all other features, so rows stay in order
    return Batch.from_csr(
        _Csr(
            batch.indptr + 2 * np.arange(len(batch) + 1),
            np.insert(batch.indices.astype(np.int64), np.repeat(ends, 2), ids.ravel()),
            np.insert(batch.values.astype(np.float64), np.repeat(ends, 2), 1.0),
        ),
        batch.labels,
    )


@dataclass(frozen=True)
class _Csr:
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


STUDIES = {
    study.name: study
    for study in (
        Study("avazu", "logistic", lambda: _published("avazu")),
        Study("kdd2012", "logistic", lambda: _published("kdd2012")),
        Study("criteo", "logistic", lambda: _published("criteo")),
        Study("frappe", "logistic", lambda: _libsvm("frappe")),
        Study("ipinyou", "logistic", lambda: _libsvm("ipinyou")),
        Study("w8a", "logistic", lambda: _libsvm("w8a")),
        Study("ml-100k", "squared", lambda: _shuffled(_published("ml-100k"))),
        Study("ml-1m", "squared", lambda: _shuffled(_published("ml-1m"))),
        Study("ml-100k-ids", "squared", lambda: _shuffled(_with_ids("ml-100k"))),
        Study("ml-1m-ids", "squared", lambda: _shuffled(_with_ids("ml-1m"))),
    )
}


@cache
def rows_of(name: str) -> Batch:
    return STUDIES[name].load()
