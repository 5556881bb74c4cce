"""All tables and figures, as the sections of one report."""

from __future__ import annotations

from collections.abc import Sequence

from pqrlearn import datasets
from pqrlearn.datasets.statistics import summarised
from pqrlearn.hyper import Ftrl, FtrlGeneral, Ogd
from pqrlearn.paper import complexity, tables
from pqrlearn.paper.experts import auto_regret
from pqrlearn.paper.experts import table as experts_table
from pqrlearn.paper.plan import Plan
from pqrlearn.paper.printed import CLICKS, RATINGS
from pqrlearn.paper.protocol import SCALES
from pqrlearn.paper.regret import Game, measure, panels
from pqrlearn.paper.regret import tables as regret_tables
from pqrlearn.paper.report import Figure, Section
from pqrlearn.paper.sources import Source
from pqrlearn.paper.study import study
from pqrlearn.paper.work import Workspace
from pqrlearn.plots import Line, Panel
from pqrlearn.separation import Counts

REGRET_ROWS = 20_000
REGRET_ORDER = 500
REGRET_RADIUS = 10.0


def sections(
    workspace: Workspace, plan: Plan, names: Sequence[str], fraction: float | None = None
) -> list[Section]:
    """All sections; with a fraction, simulated streams too."""
    ratings = [name for name in names if name in RATINGS]
    clicks = [name for name in names if name in CLICKS]
    sources = [Source(name) for name in names if Source(name).present()]
    found = []
    if ratings:
        found.append(Section("Ratings: RMSE", tables.rmse(workspace, plan, ratings)))
    if clicks:
        title = "Clicks: AUC, LogLoss, training time, model size"
        found.append(Section(title, tables.binary(workspace, plan, clicks)))
    if clicks and fraction is not None:
        words = (
            "No real data: simulated streams in the shape of the three data sets. Time and size "
            "only: accuracy on them does not rank models as real data do (docs/simulated.md)."
        )
        simulated = tables.binary(workspace, plan, clicks, fraction)
        found.append(Section("Clicks, simulated", simulated, words=words))
        sources += [Source(name, fraction) for name in clicks]
    if sources:
        drawn, panels = study(workspace, plan, sources)
        title = "Test loss, training time and size against the order"
        words = (
            "Settings are tuned at every order on the first split. Losses and sizes are means over "
            "the splits of the data set. Error bars of losses are the standard error of the "
            "difference from LR, paired split by split; those of times are half the interquartile "
            "range over their rounds."
        )
        figures = [Figure("order-study", title, panels)] if panels else []  # none is finished
        found.append(Section("Order study", drawn, figures, words))
    if sources:
        found.append(_regret(workspace, [source for source in sources if source.fraction is None]))
    found.append(Section("Statistics", tables.stats(names), _occurrence(names)))
    found.append(Section("Complexity", complexity.tables(workspace)))
    return found


def _regret(workspace: Workspace, sources: Sequence[Source]) -> Section:
    """On the first rows of the smallest data set of ratings and of the smallest one of clicks."""
    found, figures = [], []
    for loss in ("squared", "logistic"):
        mine = [source for source in sources if source.rows().loss == loss]
        if not mine:
            continue
        source = min(mine, key=lambda one: len(one.rows().batch))
        batch = source.rows().batch.part(0, min(REGRET_ROWS, len(source.rows().batch)))
        title = f"{source.title}, first {len(batch):,} rows"
        players = [Ogd(radius=REGRET_RADIUS), FtrlGeneral(radius=REGRET_RADIUS), Ftrl()]
        for name, scale in SCALES.items():
            high = Counts.of(batch).separate(order=REGRET_ORDER)
            game = Game(high, loss, REGRET_RADIUS, scale)
            points = measure(game, batch, players, watch=workspace.watch)
            found += regret_tables(points, title, game)
            file = f"regret-{source.name}-{name}"
            figures.append(Figure(file, f"{title}, {game.scaling}", panels(points, title, game)))
        auto = auto_regret(batch, loss, [point.rows for point in points])
        found.append(experts_table(auto, title))
    words = (
        "FTRL is Algorithm 1 with the step of Theorem 1; docs/regret.md explains the terms. First "
        "the paper's model, then the one with scaled interactions, then Auto against its experts."
    )
    return Section("Regret", found, figures, words)


def _occurrence(names: Sequence[str]) -> list[Figure]:
    """The paper's Figure 1, for every data set that is present."""
    panels = []
    for name in names:
        if datasets.get(name).present():
            ranks, rows = summarised(datasets.get(name)).occurrence
            title = Source(name).title
            line = Line("features", ranks, rows, style="-")
            labels = ("rank of the feature", "rows in which it occurs")
            panels.append(Panel(title, *labels, [line], x_axis="log", y_axis="log"))
    title = "Distribution of feature occurrence (Figure 1 of the paper)"
    return [Figure("feature-occurrence", title, panels)] if panels else []
