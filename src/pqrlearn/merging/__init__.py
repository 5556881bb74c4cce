"""Merging models that have learned different rows. Knows no engine: states in, a state out."""

from __future__ import annotations

from pqrlearn.merging.models import CHOICES, Candidate, Merged, merge, merged

__all__ = ["CHOICES", "Candidate", "Merged", "merge", "merged"]
