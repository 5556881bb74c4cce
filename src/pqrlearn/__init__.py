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
    from pqrlearn.readers import read
    from pqrlearn.rows import Batch
    from pqrlearn.separation import Counts, Separation

_HOMES = {
    "AdaGrad": "hyper",
    "Auto": "learners",
    "Batch": "rows",
    "CCFM": "learners",
    "CFM": "learners",
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
    "Separation": "separation",
    "Sgd": "hyper",
    "State": "learners",
    "from_bytes": "learners",
    "load": "learners",
    "read": "readers",
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
    "Counts",
    "DiFacto",
    "Ftrl",
    "FtrlGeneral",
    "Mixture",
    "NuclearBall",
    "Ogd",
    "PqrError",
    "Separation",
    "Sgd",
    "State",
    "from_bytes",
    "load",
    "read",
]


def __getattr__(name: str) -> Any:
    """Imports each public name where it is first used, so that `pqr --version` stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'pqrlearn' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"pqrlearn.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
