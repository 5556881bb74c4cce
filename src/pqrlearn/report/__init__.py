"""Pictures of a model on rows with labels: one self-contained page, or one file for each.

`pqr report` is this module as a command. Needs the extra `plots`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Final

from pqrlearn import plots
from pqrlearn.explain import worth_of_interactions
from pqrlearn.files import atomic_write
from pqrlearn.frames import is_frame
from pqrlearn.learners import Auto, Learner
from pqrlearn.learners.frames import labelled_batches
from pqrlearn.metrics import Metrics
from pqrlearn.readers import Reading, read_inputs
from pqrlearn.report import page
from pqrlearn.report.figures import Shown, shown
from pqrlearn.report.gather import Gathered, Watch, gather
from pqrlearn.rows import Batch

ROWS: Final = 1_000_000
"""Rows that are drawn by default: what is drawn of more looks the same, and takes memory."""

OnFigure = Callable[[float, str], None]
"""Called with the share of the figures that are drawn and the title of the next."""


@dataclass(frozen=True)
class Report:
    """The figures of a model; `source` says whose rows they were.

    >>> from pqrlearn import LR, Batch
    >>> rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 500, labels=[1, 0] * 500)
    >>> model = LR()
    >>> _ = model.learn_many(rows)
    >>> found = report(model, [rows], source="some clicks")
    >>> [one.name for one in found.figures][:3]
    ['learning-curve', 'reliability', 'predictions']
    """

    found: Gathered
    source: str
    limited: bool = False
    """Whether there may be more rows than were drawn."""

    @cached_property
    def figures(self) -> list[Shown]:
        """In the order of the page."""
        return list(shown(self.found))

    @cached_property
    def summary(self) -> list[tuple[str, str]]:
        """What the page says before its figures."""
        found, measures = self.found, self.found.loss.metrics
        metrics = Metrics(found.model.loss)
        metrics.update(found.margins, found.labels, found.weights)
        figures = metrics.result()
        lines = [
            ("model", f"{found.model.kind}, {found.model.loss} loss"),
            ("rows it has learned", f"{found.model.rows:,}"),
            ("non-zero weights", f"{sum(found.model.nonzeros().values()):,}"),
            ("rows of this report", f"{int(figures['rows']):,}"),
            (f"{measures.title} of the model", f"{figures[measures.key]:.5f}"),
            (
                f"{measures.title} of the best constant",
                f"{figures[f'constant_{measures.key}']:.5f}",
            ),
        ]
        if measures.ranks:
            lines.append(("AUC", f"{figures['auc']:.5f}"))
        lines += [
            (found.loss.mean_label, f"{figures['mean_label']:.5f}"),
            ("mean prediction", f"{figures['mean_prediction']:.5f}"),
        ]
        if isinstance(found.model, Auto):
            lines.append(("interactions", worth_of_interactions(found.model)))
        return lines

    def html(self, watch: OnFigure | None = None) -> str:
        """One page that needs no other file; `watch` is called before each figure.

        >>> from pqrlearn import LR, Batch
        >>> rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 9, labels=[1, 0] * 9)
        >>> "&lt;clicks&gt;" in report(LR(), [rows], source="<clicks>").html()
        True
        """
        note = (
            "The figures are those of the model as it is. If it has learned these rows, they "
            "flatter it; the learning curve never does."
        )
        if self.limited:
            note += f" They show the first {len(self.found.labels):,} rows."
        intro = page.table(["", ""], self.summary, text_columns=2)
        intro += f"<p class=note>{escape(note)}</p>"
        parts = []
        for at, one in enumerate(self.figures):
            if watch is not None:
                watch(at / len(self.figures), one.title)
            parts.append(page.Part(one.title, _body(one)))
        title = f"{self.found.model.kind} on {self.source}"
        return page.page(title, intro, parts, side_by_side=True)

    def save(self, path: str | os.PathLike[str], watch: OnFigure | None = None) -> None:
        """Writes the page, atomically."""
        atomic_write(Path(path), self.html(watch).encode())

    def save_figures(self, folder: str | os.PathLike[str], *, dark: bool = False) -> list[Path]:
        """Writes each figure as PNG and SVG into a folder; returns their paths."""
        figures = list(shown(self.found, plots.DARK)) if dark else self.figures
        Path(folder).mkdir(parents=True, exist_ok=True)
        return [path for one in figures for path in plots.save(one.figure, Path(folder, one.name))]


def _body(one: Shown) -> str:
    body = page.figure(plots.svg(one.figure, one.name), one.title, one.caption)
    if one.rows:
        body += page.folded("As a table", page.table(one.columns, one.rows))
    return body


def report(
    model: Learner,
    data: Any,
    *,
    source: str | None = None,
    rows: int | None = ROWS,
    watch: Watch | None = None,
    skip_refused: bool = False,
) -> Report:
    """Looks at a model on rows with labels, which are read once.

    `data` is a path or paths (read by the schema of the model), a frame, or Batches numbered by the
    model. Of more than `rows` rows the first are used.

    >>> import numpy as np
    >>> from pqrlearn import train
    >>> clicks = np.array([("news", 1), ("sport", 0)] * 500, [("site", "U9"), ("click", "i4")])
    >>> found = report(train(clicks, label="click"), clicks)
    >>> found.summary[3]
    ('rows of this report', '1,000')
    """
    plots.check()
    batches = _batches(model, data)
    found = gather(model, batches, rows, watch, skip_refused=skip_refused)
    name = source or (", ".join(map(str, _paths(data))) or "rows in memory")
    return Report(found, name, limited=rows is not None and len(found.labels) >= rows)


def _paths(data: Any) -> list[Any]:
    if isinstance(data, str | os.PathLike):
        return [data]
    is_list = isinstance(data, list | tuple)
    return list(data) if is_list and all(isinstance(one, str | os.PathLike) for one in data) else []


def _batches(model: Learner, data: Any) -> Iterable[Batch]:
    if is_frame(data):
        return labelled_batches(model, data)
    if paths := _paths(data):
        inputs = read_inputs(paths, replace(Reading(), schema=model.schema), loss=model.loss)
        inputs.use_names(model.names, model.next_feature)
        return inputs
    return [data] if isinstance(data, Batch) else data
