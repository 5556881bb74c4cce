"""Learners: whatever learns and predicts, all under one contract."""

from __future__ import annotations

import os

from pqrlearn import modelfile
from pqrlearn.errors import NotAModel
from pqrlearn.learners.auto import Auto
from pqrlearn.learners.base import Learner
from pqrlearn.learners.build import LEARNERS, check_settings, make, settings_of
from pqrlearn.learners.ccfm import CCFM
from pqrlearn.learners.cfm import CFM
from pqrlearn.learners.difacto import DiFacto
from pqrlearn.learners.fm import FM
from pqrlearn.learners.frozen import Frozen
from pqrlearn.learners.mixture import Mixture
from pqrlearn.learners.pqr import LR, PQR, QR
from pqrlearn.learners.state import State
from pqrlearn.learners.terms import Explanation, Term

__all__ = [
    "CCFM",
    "CFM",
    "FM",
    "LEARNERS",
    "LR",
    "PQR",
    "QR",
    "Auto",
    "DiFacto",
    "Explanation",
    "Frozen",
    "Learner",
    "Mixture",
    "State",
    "Term",
    "check_settings",
    "from_bytes",
    "load",
    "make",
    "settings_of",
]

_KINDS: dict[str, type[Learner]] = {**LEARNERS, Mixture.kind: Mixture, Frozen.kind: Frozen}


def load(path: str | os.PathLike[str]) -> Learner:
    """The model saved at `path`, of any kind, ready to predict or to continue learning.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     FM(rank=4).save(Path(folder, "clicks.pqr"))
    ...     load(Path(folder, "clicks.pqr"))
    FM(loss='logistic', rank=4, rows=0, nonzeros=0)
    """
    kind, settings, tensors = modelfile.read(path)
    if kind not in _KINDS:
        raise NotAModel(f"{path}: a {kind} file, not a model written by pqr train")
    return _KINDS[kind]._from_parts(str(path), kind, settings, tensors)


def from_bytes(data: bytes) -> Learner:
    """The model that `to_bytes` wrote.

    >>> from_bytes(LR().to_bytes())
    LR(loss='logistic', rows=0, nonzeros=0)
    """
    kind, settings, tensors = modelfile.from_bytes(data)
    if kind not in _KINDS:
        raise NotAModel(f"<bytes>: a {kind} file, not a model")
    return _KINDS[kind]._from_parts("<bytes>", kind, settings, tensors)
