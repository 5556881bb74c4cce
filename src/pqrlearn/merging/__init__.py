"""Merging models that have learned different rows. Knows no engine: states in, a state out."""

from __future__ import annotations

from pqrlearn.merging.models import CHOICES, Candidate, Merged, merge, merged
from pqrlearn.merging.rounds import HELD_ROWS, Round, learn_in_rounds

__all__ = [
    "CHOICES",
    "HELD_ROWS",
    "Candidate",
    "Merged",
    "Round",
    "learn_in_rounds",
    "merge",
    "merged",
]
