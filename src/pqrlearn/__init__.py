"""Projective Quadratic Regression: online learning of feature interactions that stays convex.

>>> from pqrlearn import PQR, Separation
>>> rows = [{"site": "a", "hour": "9"}, {"site": "a", "hour": "10"}, {"site": "b", "hour": "9"}]
>>> model = PQR(Separation.top_k(rows, order=2))
>>> model.learn_many(rows, [1, 0, 0]).round(2).tolist()[0]
0.5
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        Mixture,
        State,
        from_bytes,
        load,
    )
    from pqrlearn.progressive import evaluate
    from pqrlearn.readers import read
    from pqrlearn.rows import Batch
    from pqrlearn.schema import Column, Schema
    from pqrlearn.separation import Counts, Separation
    from pqrlearn.threads import set_threads
    from pqrlearn.training.oneline import train

_HOMES = {
    "AdaGrad": "hyper",
    "Auto": "learners",
    "Batch": "rows",
    "CCFM": "learners",
    "CFM": "learners",
    "Column": "schema",
    "Counts": "separation",
    "DiFacto": "learners",
    "FM": "learners",
    "Ftrl": "hyper",
    "FtrlGeneral": "hyper",
    "LR": "learners",
    "Mixture": "learners",
    "NuclearBall": "hyper",
    "Ogd": "hyper",
    "PQR": "learners",
    "PqrError": "errors",
    "QR": "learners",
    "Schema": "schema",
    "Separation": "separation",
    "Sgd": "hyper",
    "State": "learners",
    "evaluate": "progressive",
    "from_bytes": "learners",
    "load": "learners",
    "read": "readers",
    "set_threads": "threads",
    "train": "training.oneline",
}

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
    "Column",
    "Counts",
    "DiFacto",
    "Ftrl",
    "FtrlGeneral",
    "Mixture",
    "NuclearBall",
    "Ogd",
    "PqrError",
    "Schema",
    "Separation",
    "Sgd",
    "State",
    "evaluate",
    "from_bytes",
    "load",
    "read",
    "set_threads",
    "train",
]


def __getattr__(name: str) -> Any:
    """Imports each public name on first use, so that `pqr --version` stays fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'pqrlearn' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"pqrlearn.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
