"""The state of a Learner as plain arrays, for merging, warm starts and renumbering."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pqrlearn._core import Names
from pqrlearn.modelfile import Tensors


@dataclass(frozen=True, eq=False)
class State:
    """A copy of the complete state of a Learner; `Learner.from_state` is the inverse.

    `settings` are those of the model file, `arrays` its tensors (docs/modelfile.md) without the
    names. `weights_of` and `slots_of` of the model convert between slots and weights.

    >>> from pqrlearn import LR
    >>> LR().state().kind
    'lr'
    """

    kind: str
    settings: dict[str, Any]
    arrays: Tensors
    names: Names
