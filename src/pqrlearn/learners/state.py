"""What a Learner has learned, as plain arrays: enough to merge, to start warm, to renumber."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pqrlearn._core import Names
from pqrlearn.modelfile import Tensors


@dataclass(frozen=True, eq=False)
class State:
    """A copy of all there is to know of a Learner; `Learner.from_state` makes one of it.

    `settings` are those of the model file, `arrays` its tensors (docs/modelfile.md) without the
    names. Slots become weights, and weights slots, by `weights_of` and `slots_of` of the model.
    """

    kind: str
    settings: dict[str, Any]
    arrays: Tensors
    names: Names
