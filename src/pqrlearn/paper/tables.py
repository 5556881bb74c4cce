"""The paper's tables, with measured values beside those that it prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pqrlearn import datasets, hyper
from pqrlearn.datasets.statistics import summarised
from pqrlearn.loss import loss_named
from pqrlearn.paper.plan import Plan
from pqrlearn.paper.printed import CLICKS, FIGURES, ORDERS, RATINGS, printed
from pqrlearn.paper.protocol import contenders
from pqrlearn.paper.results import Row, measured, timed
from pqrlearn.paper.sources import Source
from pqrlearn.paper.work import Workspace

NONE = "–"
LOSS_COLUMNS = (
    *("", "AUC paper", "here", "± seeds"),
    *("LogLoss paper", "here", "± seeds", "here − LR", "±"),
)
COST_COLUMNS = ("time × LR paper", "here", "non-zeros paper", "here")
NAMES = {
    "rmse": "RMSE",
    "auc": "AUC",
    "logloss": "LogLoss",
    "time": "time × LR",
    "size": "non-zeros",
}


@dataclass(frozen=True)
class Table:
    """Text cells for people, and the same as plain data for programs."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    data: Any = None
    text_columns: int = 1


def as_data(table: Table) -> dict[str, Any]:
    """A table as JSON: its text, and the figures behind it."""
    return {**asdict(table), "data": table.data}


def rmse(workspace: Workspace, plan: Plan, names: Sequence[str] = RATINGS) -> list[Table]:
    """The RMSE table, one part per data set."""
    sources = [Source(name) for name in names]
    rows = measured(workspace, plan, [source for source in sources if source.present()])
    parts = {mine[0].source: mine for mine in rows}
    return [_overview(sources, parts)] + [
        table
        for source in sources
        for table in (_ratings(parts[source]) if source in parts else [_absent(source)])
    ]


def binary(
    workspace: Workspace, plan: Plan, names: Sequence[str] = CLICKS, fraction: float | None = None
) -> list[Table]:
    """The table of AUC, LogLoss, time and size; with a fraction, of simulated streams, whose
    accuracy is not shown: it does not rank models as real data do."""
    sources = [Source(name, fraction) for name in names]
    rows = measured(workspace, plan, [source for source in sources if source.present()])
    parts = {mine[0].source: timed(workspace, plan, mine) for mine in rows}
    return [
        table
        for source in sources
        for table in (_of_clicks(parts[source]) if source in parts else [_absent(source)])
    ]


def _overview(sources: Sequence[Source], parts: dict[Source, list[Row]]) -> Table:
    """The paper's table, transposed: a line per model."""
    columns, lines = [""], []
    for source in sources:
        columns += [f"{source.title} paper", "here"]
    for contender in contenders(sources[0].name):
        line = [contender.title]
        for source in sources:
            found = [r for r in parts.get(source, ()) if r.contender.title == contender.title]
            here = found[0].summary("rmse") if found else {"mean": None, "seeds_std": None}
            line += [_as_printed(source, "rmse", contender.printed or "")]
            line += [_with_std(here["mean"], here["seeds_std"])]
        lines.append(line)
    note = "means over the splits; how many a model has, the tables below say"
    return Table("rmse", "Test RMSE", columns, lines, [note])


def _ratings(rows: Sequence[Row]) -> list[Table]:
    source = rows[0].source
    columns = ["", "paper", "here", "± seeds", "± splits", "here − paper", "here − LR", "±"]
    columns += ["non-zeros"]
    lines = [[row.contender.title, *_ratings_cells(row)] for row in rows]
    data = [row.data() for row in rows]
    title = f"{source.title}: test RMSE"
    table = Table(f"rmse {source.name}", title, columns, lines, _notes(rows), data)
    return [table, _paired(rows), _chosen(rows)]


def _ratings_cells(row: Row) -> list[str]:
    found = row.summary("rmse")
    return [
        _with_std(found["paper"], found["paper_std"]),
        number(found["mean"]),
        small(found["seeds_std"]),
        small(found["splits_std"]),
        signed(found["minus_paper"]),
        signed(found["minus_lr"]),
        small(found["minus_lr_error"]),
        count(row.nonzeros()),
    ]


def _of_clicks(rows: Sequence[Row]) -> list[Table]:
    source = rows[0].source
    if source.fraction is None:
        name, title = f"binary {source.name}", "test AUC and LogLoss, training time, model size"
        columns = [*LOSS_COLUMNS, *COST_COLUMNS]
        lines = [[row.contender.title, *_loss_cells(row), *_cost_cells(row)] for row in rows]
        data = [row.data() for row in rows]
    else:
        name, title = f"binary {source.name} simulated", "training time and model size"
        columns = ["", *COST_COLUMNS]
        lines = [[row.contender.title, *_cost_cells(row)] for row in rows]
        data = [row.costs() for row in rows]
    table = Table(name, f"{source.title}: {title}", columns, lines, _notes(rows), data)
    return [table, *([_paired(rows)] if source.fraction is None else []), _chosen(rows)]


def _paired(rows: Sequence[Row]) -> Table:
    """Differences in loss from LR, from FM and from the paper's PQR of the highest order."""
    source = rows[0].source
    measure, order = source.rows().measures[-1], ORDERS[source.name][-1]
    titles = ("LR", "FM (AdaGrad)", f"PQR k={order} (none)")
    rivals = [row for row in rows if row.contender.title in titles]
    columns = ["", *(column for title in titles for column in (f"− {title}", "±"))]
    lines = []
    for row in rows:
        found = [row.minus(rival, measure) for rival in rivals]
        cells = [text for mean, error in found for text in (signed(mean), small(error))]
        lines.append([row.contender.title, *cells])
    title = f"{source.title}: differences in test {NAMES[measure]}, paired split by split"
    note = "±: standard error of the mean over the splits"
    return Table(f"paired {source.name}", title, columns, lines, [note])


def _loss_cells(row: Row) -> list[str]:
    auc, loss = row.summary("auc"), row.summary("logloss")
    return [
        _with_std(auc["paper"], auc["paper_std"]),
        number(auc["mean"]),
        small(auc["seeds_std"]),
        _with_std(loss["paper"], loss["paper_std"]),
        number(loss["mean"]),
        small(loss["seeds_std"]),
        signed(loss["minus_lr"]),
        small(loss["minus_lr_error"]),
    ]


def _cost_cells(row: Row) -> list[str]:
    column = row.contender.printed or ""
    return [
        _as_printed(row.source, "time", column),
        times(row.time()),
        _as_printed(row.source, "size", column),
        count(row.nonzeros()),
    ]


def _absent(source: Source) -> Table:
    """The paper's values for a data set that is missing."""
    measures = list(FIGURES[source.name])
    columns = ["", *(f"{NAMES[measure]} paper" for measure in measures)]
    names = dict.fromkeys(c.printed for c in contenders(source.name) if c.printed is not None)
    lines = [[_title(name), *(_as_printed(source, m, name) for m in measures)] for name in names]
    note = (
        f"could not run: {datasets.get(source.name).title} was not found "
        f"(pqr data get {source.name} fetches it or says how)"
    )
    return Table(f"absent {source.name}", f"{source.title}: not measured", columns, lines, [note])


def _title(column: str) -> str:
    """A column of the paper's tables, as a model is called there."""
    kind, _, order = column.partition(" ")
    name = {"difacto": "DiFacto"}.get(kind, kind.upper())
    return f"{name} k={order}" if order else name


def _chosen(rows: Sequence[Row]) -> Table:
    """The winning settings, and on how many splits they won."""
    lines = []
    for row in rows:
        shown = [(r["settings"], r["edges"]) for r in row.results if r["validation"] is not None]
        found = Counter(_words(settings, edges) for settings, edges in shown)
        for at, (words, splits) in enumerate(found.most_common()):
            lines.append(["" if at else row.contender.title, words, str(splits)])
    source = rows[0].source
    title = f"{source.title}: settings that won on the validation part"
    columns = ["", "settings", "splits"]
    note = "↑ and ↓: at the highest or lowest end of what was searched"
    return Table(f"settings {source.name}", title, columns, lines, [note], text_columns=2)


def _words(settings: dict[str, Any], edges: dict[str, str]) -> str:
    def word(value: Any) -> str:
        if isinstance(value, list | tuple):
            return ",".join(f"{count}:{rank}" for count, rank in value)
        return "none" if value is None else value if isinstance(value, str) else f"{value:g}"

    arrows = {name: {"highest": "↑", "lowest": "↓"}[edge] for name, edge in edges.items()}
    words = [f"{name}={word(value)}{arrows.get(name, '')}" for name, value in settings.items()]
    return " ".join(words) or "none"


def _notes(rows: Sequence[Row]) -> list[str]:
    source = rows[0].source
    notes, most = [source.rows().note, *_amounts(rows)], source.features()
    if any(most < (row.contender.order or 0) < hyper.MAX_ORDER for row in rows):
        notes.append(f"a larger k than {most:,} makes all features high")
    for row in rows:
        if row.results and row.contender.kind == "pqr" and row.contender.order is None:
            found = ", ".join(f"{result['order']:,}" for result in row.results)
            notes.append(f"{row.contender.title}: k = {found}")
    return notes


def _amounts(rows: Sequence[Row]) -> list[str]:
    """How many splits and seeds there are, and what is not finished."""
    splits = max(len(row.results) for row in rows)
    seeds = max((len(r["tests"]) for row in rows for r in row.results), default=0)
    found = [f"splits: {splits}; seeds on each, for FM and DiFacto: {seeds}"]
    fewer: dict[int, list[str]] = {}
    for row in rows:
        if len(row.results) < max(1, splits):
            fewer.setdefault(len(row.results), []).append(row.contender.title)
    for count, titles in fewer.items():
        some = "only the first split" if count == 1 else f"only the first {count} splits"
        found.append(f"{some if count else 'not finished'}: {', '.join(titles)}")
    return found


def stats(names: Sequence[str] = (*RATINGS, *CLICKS)) -> list[Table]:
    """The statistics table: the paper's values, and those of the files."""
    columns = ["", "rows paper", "here", "features paper", "here", "non-zeros a row", "label"]
    found = [_counted(Source(name)) for name in names]
    lines, notes, data = (list(parts) for parts in zip(*found, strict=True))
    return [Table("stats", "Statistics of the data sets", columns, lines, notes, data)]


def _counted(source: Source) -> tuple[list[str], str, dict[str, Any]]:
    """A line of the table, its note and its data."""
    known = datasets.get(source.name)
    here: dict[str, Any] = {"rows": None, "features": None, "nonzeros_per_row": None}
    note = f"{source.title}: not found"
    if source.present():
        counted = summarised(known)
        here["rows"], here["features"] = counted.rows, counted.features
        here["nonzeros_per_row"] = counted.nonzeros / counted.rows
        what = loss_named(known.loss).mean_label
        note = f"{source.title}: {what} {counted.mean_label:.4f}"
        if not counted.all_rows:
            note += f"; the first rows only (pqr data stats {source.name} --all counts the others)"
    paper = {"rows": known.paper_rows, "features": known.paper_features}
    cells = [count(part[name]) for name in paper for part in (paper, here)]
    label = "binary" if loss_named(known.loss).metrics.ranks else "numerical"
    line = [source.title, *cells, times(here["nonzeros_per_row"]), label]
    return line, note, {"name": source.name, "paper": paper, "here": here, "label": label}


def _as_printed(source: Source, measure: str, column: str) -> str:
    figure = printed(source.name, measure, column) or (None, None)
    shown = {"time": times, "size": count}.get(measure)
    return shown(figure[0]) if shown else _with_std(*figure)


def number(value: float | None) -> str:
    return NONE if value is None else f"{value:.4f}"


def signed(value: float | None) -> str:
    return NONE if value is None else f"{value:+.4f}".replace("-", "−")


def small(value: float | None) -> str:
    if value is None or value == 0:
        return NONE if value is None else "0"
    return f"{value:.4f}" if value >= 0.001 else f"{value:.0e}"


def _with_std(value: float | None, std: float | None) -> str:
    return number(value) if std is None else f"{number(value)} ± {std:.1e}"


def times(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}"


def count(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"
