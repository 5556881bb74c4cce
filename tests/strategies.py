"""Random rows and settings, and the few helpers that the tests of the models share.

Values are multiples of 1/8, so that sums of them are exact in float32 as in double: whether low
features cancel is then the same question for the native model and for the oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

import oracle
from pqrlearn import Batch, Ftrl, FtrlGeneral, Ogd
from pqrlearn.hyper import SCHEDULES, Optimizer
from pqrlearn.learners.base import Learner

Pairs = list[tuple[int, float]]


@dataclass(frozen=True)
class Labelled:
    """One row as it arrives: repeats and zeros are still in it."""

    pairs: Pairs
    label: float
    weight: float

    @property
    def row(self) -> oracle.Row:
        return oracle.canonical(self.pairs)


eighths = st.integers(-12, 12).map(lambda n: n / 8)
row_weights = st.sampled_from([1.0, 1.0, 1.0, 0.0, 0.25, 2.0])
losses = st.sampled_from(["squared", "logistic", "poisson"])
scales = st.sampled_from([None, 0.3, 1.0])
ftrls = st.builds(
    Ftrl,
    alpha=st.sampled_from([0.01, 0.05, 0.2]),
    beta=st.sampled_from([0.5, 1.0]),
    l1=st.sampled_from([0.0, 0.1, 1.0]),
    l2=st.sampled_from([0.0, 0.5]),
)
radii = st.sampled_from([None, 0.05, 0.5])
ogds = st.builds(
    Ogd, eta=st.sampled_from([0.001, 0.01]), schedule=st.sampled_from(SCHEDULES), radius=radii
)
ftrl_generals = st.builds(FtrlGeneral, eta=st.sampled_from([0.001, 0.01]), radius=radii)
optimizers = st.one_of(ftrls, ogds, ftrl_generals)


def eager(optimizer: Optimizer) -> oracle.Optimizer:
    """The oracle's optimizer of the same settings."""
    settings = optimizer.settings()
    made: oracle.Optimizer = oracle.OPTIMIZERS[settings.pop("name")](**settings)
    return made


def labelled_rows(features: int = 8, max_rows: int = 30) -> st.SearchStrategy[list[Labelled]]:
    """Rows with labels that fit both losses; empty, repeated, zero and weightless ones too."""
    pair = st.tuples(st.integers(0, features - 1), eighths)
    return st.lists(
        st.builds(
            Labelled,
            pairs=st.lists(pair, max_size=6),
            label=st.sampled_from([0.0, 1.0]),
            weight=row_weights,
        ),
        min_size=1,
        max_size=max_rows,
    )


def as_batch(rows: list[Labelled]) -> Batch:
    return Batch.from_rows(
        [([index for index, _ in r.pairs], [value for _, value in r.pairs]) for r in rows],
        labels=[r.label for r in rows],
        weights=[r.weight for r in rows],
    )


def as_dicts(batch: Batch) -> list[oracle.Row]:
    """The rows of a batch as dicts, feature number -> value."""
    rows = [slice(begin, end) for begin, end in pairwise(batch.indptr.tolist())]
    return [
        dict(zip(batch.indices[r].tolist(), batch.values[r].tolist(), strict=True)) for r in rows
    ]


def cut(batch: Batch, begin: int, end: int) -> Batch:
    """The rows begin to end as a batch of their own."""
    pairs = [(list(row), list(row.values())) for row in as_dicts(batch)[begin:end]]
    return Batch.from_rows(pairs, labels=batch.labels[begin:end], weights=batch.weights[begin:end])


def random_batch(seed: int, rows: int = 60, features: int = 14) -> Batch:
    """Feature i occurs in about rows / (i + 1.5) rows; labels are 0 and 1."""
    rng = np.random.default_rng(seed)
    present = rng.random((rows, features)) < 1 / (np.arange(features) + 1.5)
    values = rng.integers(1, 12, size=(rows, features)) * rng.choice([-1, 1], (rows, features)) / 8
    return Batch.from_rows(
        [(np.flatnonzero(p).tolist(), v[p].tolist()) for p, v in zip(present, values, strict=True)],
        labels=rng.integers(0, 2, rows).astype(float),
        weights=rng.choice([0.5, 1.0, 3.0], rows),
    )


def nonzero_weights(model: Learner) -> dict[oracle.Key, float]:
    """The non-zero weights of a native model under the oracle's keys."""
    found: dict[oracle.Key, float] = {}
    for block in model.nonzeros():
        keys, weights = model.weights(block)
        named = [tuple(sorted(np.atleast_1d(key).tolist())) for key in keys] or [()]
        pairs = zip(named, weights.tolist(), strict=True) if len(weights) else ()
        found |= {(block, *key): weight for key, weight in pairs if weight != 0}
    return found
