"""One numbering for the features of several models: by name, where they have one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn.errors import HyperError
from pqrlearn.learners import State
from pqrlearn.names import Names, Texts
from pqrlearn.rows import NewNames
from pqrlearn.separation import add_names

Indices = npt.NDArray[np.uint32]


class Numbering:
    """Names and numbers that all states share, those of the first one unchanged.

    Names that later states have gathered on their own get new numbers, in the order of the states
    and within one in the order of its numbers. Features without a name keep their numbers.
    """

    def __init__(self, states: Sequence[State], called: Sequence[str]) -> None:
        self.names = states[0].names.copy()
        unnamed = [_unnamed(state) for state in states]
        ends = [int(numbers[-1]) + 1 for numbers in unnamed if len(numbers)]
        taken = states[0].settings["next_feature"], self.names.next_feature
        self._next = max([*taken, *ends])
        self._moves = [self._taken(state) for state in states]
        indices = self.names.arrays()[0]
        for numbers, who in zip(unnamed, called, strict=True):
            both = numbers[_among(numbers, indices)]
            if len(both):
                known = self.names.name(int(both[0]))
                raise HyperError(
                    f"feature {both[0]} has no name in {who}, but is {known!a} in another model: "
                    "merge models whose rows were given in one way"
                )

    def _taken(self, state: State) -> tuple[Indices, Indices]:
        """The numbers of a state's names, and what they become; new names are added."""
        indices, ends, data = state.names.arrays()
        if _equal(state.names, self.names):
            return indices, indices
        texts = Texts(np.concatenate([np.zeros(1, np.int64), ends.astype(np.int64)]), data)
        found = [self.names.find(name) for name in texts]
        fresh = [at for at, number in enumerate(found) if number is None]
        numbers = np.arange(self._next, self._next + len(fresh), dtype=np.uint32)
        self._next += len(fresh)
        added = [texts[at] for at in fresh]
        add_names(self.names, NewNames(numbers, added, np.zeros(len(fresh), np.int64)))
        new = np.array([0 if number is None else number for number in found], np.uint32)
        new[fresh] = numbers
        return indices, new

    def of(self, state: int, features: Indices) -> Indices:
        """Features as a state numbers them, in the common numbering."""
        old, new = self._moves[state]
        found: Indices = features.copy()
        if old is new or not len(old):
            return found
        at = np.minimum(np.searchsorted(old, features), len(old) - 1)
        named = old[at] == features
        found[named] = new[at[named]]
        return found


def _unnamed(state: State) -> Indices:
    keys: Indices = state.arrays["linear.keys"]
    return keys[~_among(keys, state.names.arrays()[0])]


def _among(numbers: Indices, indices: Indices) -> npt.NDArray[np.bool_]:
    """Which of the numbers are among `indices`, which rise."""
    if not len(indices):
        return np.zeros(len(numbers), bool)
    at = np.minimum(np.searchsorted(indices, numbers), len(indices) - 1)
    found: npt.NDArray[np.bool_] = indices[at] == numbers
    return found


def _equal(one: Names, other: Names) -> bool:
    if len(one) != len(other):
        return False
    pairs: Any = zip(one.arrays(), other.arrays(), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)
