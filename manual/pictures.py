"""The pictures of the manual, drawn when it is built; git has one of them, for the README."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from manual.matrix import matrix
from pqrlearn import LR, PQR, Auto, Learner, Separation, learn, plots
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.progressive import Loop
from pqrlearn.rows import Batch

KEPT = Path(__file__).parent.parent / "docs" / "pictures" / "matrix.svg"
"""The one that the README shows."""
ROWS, LATER = 50_000, 10_000


def drawn() -> dict[str, bytes]:
    """Every picture but the kept one, by its place in the manual."""
    stream = ClickStream.demo()
    rows = stream.batch(0, ROWS)
    later = stream.batch(ROWS, LATER)
    high = Separation.top_k(rows)
    model = Auto()
    learn(model, [rows])
    figures = {
        "learning-curve": _curve(rows, high),
        "reliability": plots.reliability(model.predict_many(later), later.labels),
        "occurrence": _occurrence(rows, high),
    }
    return {f"pictures/{name}.svg": _svg(figure) for name, figure in figures.items()}


def _curve(rows: Batch, high: Separation) -> Any:
    models: dict[str, Learner] = {"Auto": Auto(), "PQR": PQR(high), "LR": LR()}
    ends = np.unique(np.geomspace(500, ROWS, 60).astype(int))
    losses = {name: list(_losses(model, rows, ends)) for name, model in models.items()}
    return plots.learning_curve(ends, losses)


def _losses(model: Learner, rows: Batch, ends: Any) -> Iterator[float]:
    starts = [0, *ends[:-1]]
    parts = [rows.part(start, end) for start, end in zip(starts, ends, strict=True)]
    with Loop(model, parts) as loop:
        for at, _ in enumerate(loop):
            if at:  # metrics are those of the batches before
                yield loop.metrics.progress()["loss"]
    yield loop.result().loss


def _occurrence(rows: Batch, high: Separation) -> Any:
    features, counts = np.unique(rows.indices, return_counts=True)
    return plots.occurrence(counts, np.isin(features, high.features))


def _svg(figure: Any) -> bytes:
    with TemporaryDirectory() as folder:
        (path,) = plots.save(figure, Path(folder, "figure"), ["svg"])
        return path.read_bytes()


if __name__ == "__main__":
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(matrix())
