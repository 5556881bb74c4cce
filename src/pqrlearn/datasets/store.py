"""Where the files of data sets live."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def places(folders: Sequence[str]) -> list[Path]:
    """Where to look, in order: $PQRLEARN_DATA, then the user's cache."""
    return [root / folder for root in _roots() for folder in folders]


def _roots() -> list[Path]:
    chosen = os.environ.get("PQRLEARN_DATA")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return [*([Path(chosen)] if chosen else []), Path(cache) / "pqrlearn"]
