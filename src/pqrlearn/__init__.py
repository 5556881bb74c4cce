"""Projective Quadratic Regression: online learning of feature interactions that stays convex.

>>> from pqrlearn import PQR, Auto, Separation
>>> model = Auto()  # nothing to choose, nothing to count
>>> model.learn_one({"site": "a", "hour": "9"}, 1)
0.5
>>> rows = [{"site": "a", "hour": "9"}, {"site": "a", "hour": "10"}, {"site": "b", "hour": "9"}]
>>> model = PQR(Separation.top_k(rows), alpha=0.05)
>>> _ = model.learn_many(rows, [1, 0, 0])
>>> model
PQR(loss='logistic', order=2, rows=3, nonzeros=8)

docs/library.md is a tour of the modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pqrlearn import batch, datasets, explain, metrics, progressive, readers, tune
    from pqrlearn.client import Client
    from pqrlearn.errors import PqrError
    from pqrlearn.hyper import AdaGrad, Ftrl, FtrlGeneral, NuclearBall, Ogd, Sgd
    from pqrlearn.learners import (
        CCFM,
        CFM,
        FM,
        LR,
        PQR,
        QR,
        Auto,
        DiFacto,
        Explanation,
        Frozen,
        Learner,
        Mixture,
        State,
        Term,
        from_bytes,
        load,
    )
    from pqrlearn.metrics import Metrics
    from pqrlearn.progressive import Pass, evaluate, learn
    from pqrlearn.readers import read
    from pqrlearn.rows import Batch
    from pqrlearn.schema import Column, Schema
    from pqrlearn.separation import Counts, Separation
    from pqrlearn.threads import set_threads
    from pqrlearn.training.oneline import train

    __version__: str

_HOMES = {
    "AdaGrad": "hyper",
    "Auto": "learners",
    "Batch": "rows",
    "CCFM": "learners",
    "CFM": "learners",
    "Client": "client",
    "Column": "schema",
    "Counts": "separation",
    "DiFacto": "learners",
    "Explanation": "learners",
    "FM": "learners",
    "Frozen": "learners",
    "Ftrl": "hyper",
    "FtrlGeneral": "hyper",
    "LR": "learners",
    "Learner": "learners",
    "Metrics": "metrics",
    "Mixture": "learners",
    "NuclearBall": "hyper",
    "Ogd": "hyper",
    "PQR": "learners",
    "Pass": "progressive",
    "PqrError": "errors",
    "QR": "learners",
    "Schema": "schema",
    "Separation": "separation",
    "Sgd": "hyper",
    "State": "learners",
    "Term": "learners",
    "evaluate": "progressive",
    "from_bytes": "learners",
    "learn": "progressive",
    "load": "learners",
    "read": "readers",
    "set_threads": "threads",
    "train": "training.oneline",
}
_MODULES = ("batch", "datasets", "explain", "metrics", "progressive", "readers", "tune")

__all__ = [
    "CCFM",
    "CFM",
    "FM",
    "LR",
    "PQR",
    "QR",
    "AdaGrad",
    "Auto",
    "Batch",
    "Client",
    "Column",
    "Counts",
    "DiFacto",
    "Explanation",
    "Frozen",
    "Ftrl",
    "FtrlGeneral",
    "Learner",
    "Metrics",
    "Mixture",
    "NuclearBall",
    "Ogd",
    "Pass",
    "PqrError",
    "Schema",
    "Separation",
    "Sgd",
    "State",
    "Term",
    "batch",
    "datasets",
    "evaluate",
    "explain",
    "from_bytes",
    "learn",
    "load",
    "metrics",
    "progressive",
    "read",
    "readers",
    "set_threads",
    "train",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Imports each public name on first use, so that `pqr --version` stays fast."""
    from importlib import import_module

    if name == "__version__":
        from importlib.metadata import version

        return version("pqrlearn")
    if name in _MODULES:
        return import_module(f"pqrlearn.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'pqrlearn' has no attribute {name!r}")
    return getattr(import_module(f"pqrlearn.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
