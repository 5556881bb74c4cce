"""Hostile model files, tables and schemas: the fuzzers of fuzz/models.py and fuzz/tables.py."""

from __future__ import annotations

import sys
from pathlib import Path

from models import limited, run, seeds  # of fuzz/
from mutations import damages, mutations
from tables import run as run_tables

from attack.base import Counts
from attack.base import seeds as new_seeds

_TABLES = 200  # of each seed


def models(seed: int, seconds: float, scratch: Path) -> Counts:
    counts = Counts()
    for files, whole in (
        (mutations(seed, seeds()), None),
        (damages(seed, seeds()), set(seeds())),
    ):
        tally = run(limited(files, None, seconds / 2), scratch, whole)
        counts["model files"] += tally.files
        counts["failed"] += sum(tally.failures.values())
        for what in tally.failures:
            print(f"FAILED: model files, seed {seed}: {what}", file=sys.stderr)
    return counts


def tables(seed: int, seconds: float, scratch: Path) -> Counts:
    """CSV, Parquet, Arrow, JSON lines, Vowpal Wabbit text and schema files."""
    counts = Counts()
    for each in new_seeds(seed, seconds):
        tally = run_tables(each, _TABLES, None, scratch)
        counts["failed"] += tally.pop("failed", 0)
        counts["tables"] += sum(tally.values())
    return counts
