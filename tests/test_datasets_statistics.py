"""What is counted of a data set, and the curve of Figure 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from data_files import write_good
from pqrlearn import Batch, Counts, datasets
from pqrlearn.datasets import statistics
from pqrlearn.datasets.statistics import Statistics, measure


def test_statistics_count_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PQRLEARN_DATA", str(tmp_path))
    write_good(tmp_path, "ml-1m")
    counted = measure(datasets.get("ml-1m"))
    assert (counted.rows, counted.features, counted.nonzeros) == (2, 11, 11)
    assert counted.mean_label == 4.0
    assert counted.most_frequent(2) == [("age=1", 1), ("gender=F", 1)]


def test_a_long_curve_is_thinned_and_keeps_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "POINTS", 20)
    rows = [(list(range(size)), [1.0] * size) for size in range(1, 101)]
    counts = Counts.of(Batch.from_rows(rows))
    ranks, occurrence = Statistics(5050, 0.0, counts.separate(min_count=1)).occurrence()
    assert (ranks[0], ranks[-1]) == (1, 100)
    assert len(ranks) <= 20
    assert np.all(np.diff(ranks) > 0)
    assert occurrence.tolist() == [101 - rank for rank in ranks.tolist()]
