"""The report: a self-contained HTML page, Markdown, and JSON data."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pqrlearn import plots, spaces, tune
from pqrlearn.files import atomic_write
from pqrlearn.machine import commit, machine
from pqrlearn.paper.plan import REPEATS, SPLITS, USUAL_REPEATS, USUAL_SPLITS, Plan
from pqrlearn.paper.protocol import BLOCK_ROWS
from pqrlearn.paper.tables import Table, as_data
from pqrlearn.report import page as layout

TITLE = "Projective Quadratic Regression, measured again"


@dataclass(frozen=True)
class Figure:
    """Panels with a title and the name of their files."""

    name: str
    title: str
    panels: Sequence[plots.Panel]


@dataclass(frozen=True)
class Section:
    """A section of the report."""

    title: str
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    words: str = ""


@dataclass(frozen=True)
class Report:
    sections: Sequence[Section]
    choices: Sequence[str]
    made: dict[str, Any] = field(default_factory=dict)

    def save(self, folder: Path) -> list[Path]:
        """Writes the page, the Markdown, the data and the figures; returns their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        figures = [figure for section in self.sections for figure in section.figures]
        drawn = {f.name: plots.draw(f.panels, title=f.title) for f in figures}
        images = {name: plots.svg(figure, name) for name, figure in drawn.items()}
        texts = {
            "report.html": self.html(images),
            "tables.md": self.markdown(),
            "results.json": json.dumps(self.data(), indent=1, ensure_ascii=False) + "\n",
        }
        for name, text in texts.items():
            atomic_write(folder / name, text.encode())
        saved = [path for n, figure in drawn.items() for path in plots.save(figure, folder / n)]
        return [*(folder / name for name in texts), *saved]

    def data(self) -> dict[str, Any]:
        tables = [table for section in self.sections for table in section.tables]
        return {
            "made": self.made,
            "choices": list(self.choices),
            "tables": {table.name: as_data(table) for table in tables},
        }

    def markdown(self) -> str:
        """Names the figures without showing them, so that the page can be kept by itself."""
        parts = [f"# {TITLE}", "", *(f"- {line}" for line in _made_lines(self.made)), ""]
        parts += ["## Choices", "", *(f"- {choice}" for choice in self.choices)]
        for section in self.sections:
            parts += ["", f"## {section.title}", *(["", section.words] if section.words else [])]
            parts += [f"\nFigure `{f.name}.svg`: {f.title}." for f in section.figures]
            parts += ["\n" + markdown_table(table) for table in section.tables]
        return "\n".join(parts) + "\n"

    def html(self, images: dict[str, str]) -> str:
        intro = _list(_made_lines(self.made))
        parts = [layout.Part("Choices", _list(self.choices))]
        parts += [layout.Part(one.title, _section(one, images)) for one in self.sections]
        return layout.page(TITLE, intro, parts)


def _section(section: Section, images: dict[str, str]) -> str:
    body = [f"<p>{escape(section.words)}</p>"] if section.words else []
    for figure in section.figures:
        wide = len(figure.panels) > 1
        body.append(layout.figure(images[figure.name], figure.title, figure.title, wide=wide))
    for table in section.tables:
        notes = table.notes
        columns, rows = table.columns, table.rows
        body.append(layout.table(columns, rows, table.text_columns, table.title, notes))
    return "".join(body)


def made(command: str, seconds: float, kept: int, *outputs: str) -> dict[str, Any]:
    """Command, date, commit and machine; `kept` cells came from earlier runs."""
    return {
        "command": command,
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(*outputs),
        "version": version("pqrlearn"),
        "machine": machine(),
        "seconds": round(seconds),
        "cells_from_earlier_runs": kept,
    }


def choices(plan: Plan, *, quick: bool, finished: bool = False) -> list[str]:
    """The choices of the protocol, as sentences."""
    shares = "80 % of the rows train, 10 % choose settings, 10 % test"
    splits = _counts(plan.splits, USUAL_SPLITS, SPLITS)
    repeats = _counts(plan.repeats, USUAL_REPEATS, REPEATS)
    found = [
        f"Random splits: {splits}, seeds from {plan.seed} on: {shares}. One pass, one row at "
        "a time; the test part is measured once.",
        f"FM and DiFacto start from a seed: {repeats} seeds on every split. ± seeds is the "
        "standard deviation over seeds within a split, which is the paper's ±; ± splits is that of "
        "the splits' means. The other models start at zero and need no repetition.",
        "Differences from LR are paired, split by split; the ± beside them is the standard error.",
        f"Settings: {_trials(plan)} on the validation part of every split. Half of the trials are "
        "spread over the whole space and halved three times on growing shares of the training "
        "rows, the other half is near the best so far. Rates and beta "
        f"{spaces.LOWEST:g} to {spaces.HIGHEST:g}, l1 and l2 the same or 0, ranks of ratings "
        f"{_range(spaces.RATING_RANKS)}, of clicks {_range(spaces.CLICK_RANKS)}, init 0.001 to 1; "
        "`best k` also searches the order, 0 (no interactions) to all features.",
        f"CFM and CCFM are tuned on the first {plan.costly_splits} splits, and the other splits "
        "use these settings; their matrix steps every 256 rows. On ML1M and ML10M there are no "
        f"other splits for them, and it steps every {BLOCK_ROWS['ml-1m']} rows.",
        "FM (AdaGrad) and FM (OGD + l1): the paper ran the second.",
        "PQR (none) is the paper's; PQR (default) multiplies the interactions of a row by one over "
        "the root of their number; with an own rate of interactions this factor is searched, which "
        "for FTRL-Proximal is a learning rate of their own. Features are counted on the training "
        "part only.",
        "Auto, untouched, has no settings: it makes no use of the validation part.",
        "Training times: processor seconds of the pass alone, in memory, one model after the other "
        f"in turn; medians of {plan.timings} multiples of LR in the same round. Other programs may "
        "run at the same time: the load is above.",
        "The order study tunes all other settings at every order on the first split, and measures "
        "what won on all splits.",
        "Simulated streams show time and size only (docs/simulated.md says why).",
    ]
    notes = []
    if quick:
        notes.append("THIS IS A QUICK RUN: fewer splits and seeds than in the paper's protocol.")
    if finished:
        notes.append(
            "NOT ALL OF IT WAS MEASURED: every table says how many splits it has, and what is not "
            "finished."
        )
    return notes + found


def _trials(plan: Plan) -> str:
    if plan.trials is not None:
        return f"{plan.trials} trials for every model"
    ratings, clicks = tune.SQUARED_TRIALS, tune.TRIALS
    return (
        f"{ratings['fm']} trials for ratings and {clicks['fm']} for clicks, {clicks['fm']} for FM "
        f"by OGD, {ratings['cfm']} for CFM and CCFM,"
    )


def _counts(given: int | None, usual: int, others: Mapping[str, int]) -> str:
    """A number, and the data sets that have another one."""
    except_for = ", ".join(f"{name} {count}" for name, count in others.items())
    return f"{usual} ({except_for})" if given is None else str(given)


def _range(values: Sequence[float]) -> str:
    return f"{values[0]:g} to {values[-1]:g} ({len(values)} values)"


def markdown_table(table: Table) -> str:
    """With title and notes; figures are right-aligned."""
    rule = [":--" if at < table.text_columns else "--:" for at in range(len(table.columns))]
    lines = [f"**{table.title}**", ""]
    lines += [f"| {' | '.join(cells)} |" for cells in (table.columns, rule, *table.rows)]
    return "\n".join([*lines, *(f"\n{note}" for note in table.notes)]) + "\n"


def _list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _made_lines(made: dict[str, Any]) -> list[str]:
    where = made["machine"]
    return [
        f"command: {made['command']}",
        f"date: {made['date']}; commit: {made['commit']}; pqrlearn {made['version']}",
        f"machine: {where['cpu']}, {where['cores']} cores, {where['memory_gb']} GB, "
        f"{where['system']}, Python {where['python']}; load at the end {where['load']:.2f}",
        f"this run took {made['seconds']:,} seconds; {made['cells_from_earlier_runs']:,} cells "
        "came from earlier runs of the same code",
    ]
