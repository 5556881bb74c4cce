"""The frames of peers."""

from __future__ import annotations

from typing import Any

import pandas as pd


def read_frame(path: str, rows: int) -> tuple[Any, Any]:
    """The first rows of a CSV file as categories of text, without ids; and their labels."""
    frame = pd.read_csv(path, nrows=rows, dtype=str)
    clicks = (frame.pop("click") == "1").to_numpy().astype(int)
    return frame.drop(columns="id", errors="ignore").astype("category"), clicks
