"""Output: tables and JSON on stdout, notes on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import IO, Any, Literal

from pqrlearn.cli.progress import progress as progress
from pqrlearn.cli.progress import steps as steps
from pqrlearn.cli.progress import tally as tally
from pqrlearn.cli.text import printable, printable_json
from pqrlearn.errors import RowError
from pqrlearn.explain import LOW
from pqrlearn.learners import PQR, Auto, Learner, Mixture
from pqrlearn.progressive import Pass
from pqrlearn.schema import Schema

_SHOWN_COLUMNS = 60
_LEAST_WIDTH = 8  # of a column that is wrapped


def print_json(figures: dict[str, Any]) -> None:
    print(printable_json(json.dumps(figures, allow_nan=False, ensure_ascii=False)))


def note(message: str) -> None:
    """Prints a message on stderr."""
    print(f"pqr: {printable(message)}", file=sys.stderr)


def note_bad_rows(count: int, first: Sequence[RowError]) -> None:
    """Reports how many rows were skipped, and the first errors."""
    for error in first[:3]:
        note(f"skipped {error}")
    if count:
        note(f"{count:,} bad rows were skipped" if count > 1 else "1 bad row was skipped")


def schema(of: Schema, loss: str) -> None:
    """What the columns of a table are taken for, on stderr; those that are ignored too."""
    shown, rest = of.columns[:_SHOWN_COLUMNS], of.columns[_SHOWN_COLUMNS:]
    rows = [(_short(c.name, 24), c.kind, _short(of.notes.get(c.name, ""), 42)) for c in shown]
    title = f"pqr: columns, for {loss} loss (pqr schema writes them to a file to edit):"
    table(title, ["column", "is", "because"], rows, text_columns=3, file=sys.stderr)
    if rest:
        ignored = [_short(c.name, 24) for c in rest if c.kind == "ignored"]
        names = f"; ignored: {', '.join(ignored)}" if ignored else ""
        print(f"and {len(rest):,} more{printable(names)}", file=sys.stderr)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def replaced_cells(of: Schema | None, replaced: int) -> list[tuple[str, str]]:
    """How many values found no room in a bounded dictionary."""
    bounded = of is not None and of.max_features is not None
    return [("values counted as column=*", f"{replaced:,}")] if bounded else []


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_columns: int = 1,
    file: IO[str] | None = None,
    *,
    folded: int | None = None,
) -> None:
    """A table, by default on stdout: `text_columns` to the left, the others to the right.

    If the terminal is too narrow, the last column of text is wrapped, and nothing is cut off. The
    column `folded` is text too, and is wrapped in its place.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, show_header=any(columns))
    drawn.padding = (0, 2, 0, 0)
    for at, column in enumerate(columns):
        wraps = at == (text_columns - 1 if folded is None else folded)
        justify: Literal["left", "right"] = "left" if at < text_columns or wraps else "right"
        least = _LEAST_WIDTH if wraps and (file or sys.stdout).isatty() else None
        drawn.add_column(
            column, justify=justify, no_wrap=not wraps, overflow="fold", min_width=least
        )
    for row in rows:
        drawn.add_row(*(Text(printable(cell)) for cell in row))
    out = file or sys.stdout
    if title:
        print(title, file=out)
    # Names may be long: outside a terminal nothing is cut.
    width = None if out.isatty() else 10_000
    Console(file=out, width=width, highlight=False).print(drawn, soft_wrap=False, crop=False)


def term_name(block: str, names: Sequence[str]) -> str:
    """What people call a term or a weight: "site=a × ad=b", "site=a × low features", "bias"."""
    if block == "shared":
        return f"{names[0]} × {LOW}"
    return f"{names[0]}²" if block == "square" else " × ".join(names) or block


def figure_cells(result: Pass) -> list[tuple[str, str]]:
    """Metrics as cells of a table."""
    measures, figures = result.measures, result.metrics
    key, title = measures.key, measures.title
    cells = [(title, f"{figures[key]:.5f}")]
    if measures.ranks:
        both = not math.isnan(figures["auc"])
        auc = f"{figures['auc']:.5f} ± {figures['auc_error']:.0e}" if both else "needs both labels"
        cells.append(("AUC", auc))
    return [
        *cells,
        (f"best constant's {title}", f"{figures[f'constant_{key}']:.5f}"),
        ("mean label", f"{figures['mean_label']:.5f}"),
        ("mean prediction", f"{figures['mean_prediction']:.5f}"),
    ]


def auto_cells(model: Auto) -> list[tuple[str, str]]:
    """The state of Auto as cells of a table."""
    about = model.summary()
    best = min(about["losses"], key=about["losses"].__getitem__)
    return [
        ("high features", f"{about['high']:,}"),
        ("best expert", f"{best}  ({about['posterior'][best]:.0%} of the posterior)"),
        ("prediction", f"{about['stacked']:.0%} stacked experts, the rest by the posterior"),
        ("loss beyond the best", f"{about['regret']:,.5g}  (at most {about['bound']:,.5g})"),
    ]


def mixture_figures(learner: Mixture) -> dict[str, Any]:
    """The state of a mixture, for JSON; a PQR has an `order`."""
    shares = zip(learner.learners, learner.posterior(), strict=True)
    return {
        "posterior": [
            {"learner": one.kind, **_order(one), "share": share} for one, share in shares
        ],
        "regret": learner.regret(),
        "bound": learner.bound(),
    }


def _order(learner: Learner) -> dict[str, int]:
    return {"order": learner.separation.order} if isinstance(learner, PQR) else {}


def mixture_cells(learner: Mixture) -> list[tuple[str, str]]:
    """The same as cells of a table."""
    figures = mixture_figures(learner)
    shares = [
        (
            f"  {one['learner']}" + (f", order {one['order']:,}" if "order" in one else ""),
            f"{one['share']:.2%}",
        )
        for one in figures["posterior"]
    ]
    regret = f"{figures['regret']:.2f}  (at most {figures['bound']:.2f})"
    return [("posterior", ""), *shares, ("loss beyond the best of them", regret)]


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"


def size(count: int) -> str:
    """Bytes for people.

    >>> size(900), size(12_345), size(3_456_789)
    ('900 B', '12.3 kB', '3.5 MB')
    """
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:,.1f} {unit}"
    return f"{count} B"
