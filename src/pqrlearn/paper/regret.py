"""The regret of the three optimizers on one stream, and Theorem 1's bound on that of Algorithm 1.

    regret_T = Σ_{t ≤ T} f_t(θ_t) - min_{‖θ‖ ≤ D} Σ_{t ≤ T} f_t(θ)

f_t is the loss of row t. The minimum over the first T rows is found by the batch solver, for every
T, up to `gap`.

OGD (projected onto the ball) and FTRL-Proximal (not constrained) run once, and their regret is
recorded at each T. Theorem 1 is about a fixed step η that depends on T, so Algorithm 1 runs once
per T, with

    η = D_R / (G_R √(2T)),    D_R² = max_{‖θ‖ ≤ D} R(θ) - R(θ_1) = D²/2    (R = ‖θ‖²/2, θ_1 = 0),

where G_R bounds every ‖g_t‖. It is not known in advance: it starts as the longest gradient at θ = 0
and is raised to the longest one of the run, until a run stays within it. Then

    regret_T ≤ 2η Σ ‖g_t‖² + R(θ)/η ≤ 2 D_R G_R √(2T),    θ being the best in hindsight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pqrlearn.batch import Minimum, Problem, expanded, minimise, problem_of
from pqrlearn.hyper import Ftrl, FtrlGeneral, Ogd, Optimizer, check_rate
from pqrlearn.learners import PQR
from pqrlearn.loss import LossName
from pqrlearn.paper.tables import Table
from pqrlearn.paper.work import OnStep, silent
from pqrlearn.plots import Line, Panel
from pqrlearn.rows import Batch, FloatArray
from pqrlearn.separation import Counts, Separation

TITLES = {"ogd": "OGD", "ftrl-general": "FTRL", "ftrl": "FTRL-Proximal"}
FIRST = 100
"""The smallest T, if there are enough rows."""
TOLERANCE = 1e-5
"""How much the mean loss of the best weights may exceed its minimum."""


@dataclass(frozen=True)
class Game:
    """What all optimizers have in common: the model, its loss, and the ball."""

    separation: Separation
    loss: LossName
    radius: float
    interaction_scale: float | None = None
    """None is the paper's model."""

    def __post_init__(self) -> None:
        check_rate("radius", self.radius, above=0)

    def learner(self, optimizer: Optimizer) -> PQR:
        return PQR(self.separation, self.loss, optimizer, interaction_scale=self.interaction_scale)

    @property
    def scaling(self) -> str:
        if self.interaction_scale is None:
            return "interactions as in the paper"
        return f"interactions × {self.interaction_scale:g}/√(their number)"


@dataclass(frozen=True, kw_only=True)
class RegretConfig:
    """Which optimizers are measured in which game, and how finely.

    Fields have the names of the options of `pqr paper regret`. `rows` of None are all of the data.
    """

    radius: float = 10.0
    order: int | None = None
    rows: int | None = 20_000
    points: int = 12
    optimizers: tuple[str, ...] = tuple(TITLES)
    eta: float = Ogd.eta
    alpha: float = Ftrl.alpha
    interaction_scale: float | None = None
    tolerance: float = TOLERANCE

    def game(self, batch: Batch, loss: LossName) -> Game:
        separation = Counts.of(batch).separate(order=self.order)
        return Game(separation, loss, self.radius, self.interaction_scale)

    def chosen(self) -> list[Optimizer]:
        known: dict[str, Optimizer] = {
            Ogd.name: Ogd(self.eta, radius=self.radius),
            Ftrl.name: Ftrl(self.alpha),
            FtrlGeneral.name: FtrlGeneral(radius=self.radius),
        }
        return [known[name] for name in self.optimizers]


@dataclass(frozen=True, eq=False)
class Run:
    """The loss and the length of the gradient at each row."""

    losses: FloatArray
    gradients: FloatArray


@dataclass(frozen=True)
class Theorem:
    """Theorem 1 at one T, with measured constants."""

    eta: float
    d_r: float
    g_r: float
    bound: float
    """2η Σ ‖g_t‖² + R(θ)/η"""
    worst: float
    """2 D_R G_R √(2T)"""


@dataclass(frozen=True)
class Point:
    """The regret after T rows."""

    rows: int
    best: float
    """The total loss of the best fixed weights; the true minimum may be lower by `gap`."""
    gap: float
    length: float
    """‖θ‖ of the best weights."""
    regret: dict[str, float]
    theorem: Theorem | None

    def figures(self) -> dict[str, Any]:
        average = {name: regret / self.rows for name, regret in self.regret.items()}
        return asdict(self) | {"average_regret": average}


def measure(
    game: Game,
    batch: Batch,
    optimizers: Sequence[Optimizer],
    points: int = 12,
    tolerance: float = TOLERANCE,
    *,
    watch: OnStep | None = None,
) -> list[Point]:
    """The regret of every optimizer at `points` values of T, from few rows to all.

    Step and radius of an FtrlGeneral are ignored: Theorem 1 and the game determine them.
    """
    report = watch or silent
    report(0.0, "expanding the rows")
    stream = _Stream(game, batch)
    runs = {o.name: stream.run(o) for o in optimizers if not isinstance(o, FtrlGeneral)}
    found = []
    for rows, best in _hindsight(stream.problem, horizons(len(batch), points), tolerance, report):
        theorem = None
        if any(isinstance(optimizer, FtrlGeneral) for optimizer in optimizers):
            theorem, runs[FtrlGeneral.name] = stream.theorem(rows, best)
        lost = {o.name: float(runs[o.name].losses[:rows].sum()) for o in optimizers}
        regret = {name: total - best.value for name, total in lost.items()}
        length = float(np.linalg.norm(best.theta))
        found.append(Point(rows, best.value, best.gap, length, regret, theorem))
    return found


def horizons(rows: int, points: int) -> list[int]:
    """Values of T, evenly spaced on a logarithmic scale, the last of them `rows`."""
    first = min(FIRST, max(1, rows // 10))
    return sorted({round(t) for t in np.geomspace(rows, first, points).tolist()})


def _hindsight(
    problem: Problem, many: list[int], tolerance: float, report: OnStep
) -> Iterator[tuple[int, Minimum]]:
    """The best weights for the first T rows, each search starting from the one before."""
    best: Minimum | None = None
    for at, rows in enumerate(many):
        share = sum(many[:at]) / sum(many)

        def watch(iteration: int, _: float, rows: int = rows, share: float = share) -> None:
            report(share, f"the best weights for {rows:,} rows: iteration {iteration:,}")

        if best is not None:  # the multiplier grows with the total loss
            best = replace(best, multiplier=best.multiplier * rows / many[at - 1])
        best = minimise(problem.head(rows), tolerance, best, watch)
        yield rows, best


class _Stream:
    """The rows, and the norm of each when expanded."""

    def __init__(self, game: Game, batch: Batch) -> None:
        self._game, self._batch = game, batch
        model = game.learner(Ftrl())
        self.problem = problem_of(model, expanded(model, batch), batch, radius=game.radius)
        self._weights = self.problem.weights
        self._lengths: FloatArray = np.sqrt(self.problem.matrix.power(2).sum(axis=1))

    def run(self, optimizer: Optimizer, rows: int | None = None) -> Run:
        """One pass over the first rows, each predicted before it is learned."""
        batch = self._batch if rows is None else self._batch.part(0, rows)
        margins = self._game.learner(optimizer).learn_margins(batch)
        return Run(
            self._weights[: len(batch)] * self.problem.loss.loss(margins, batch.labels),
            self._gradients(margins),
        )

    def theorem(self, rows: int, best: Minimum) -> tuple[Theorem, Run]:
        """Algorithm 1 with the step of Theorem 1 for this number of rows."""
        d_r = self._game.radius / math.sqrt(2)
        g_r = float(self._gradients(np.zeros(rows)).max()) or 1.0
        while True:
            eta = d_r / (g_r * math.sqrt(2 * rows))
            run = self.run(FtrlGeneral(eta, self._game.radius), rows)
            met = float(run.gradients.max())
            if met <= g_r:
                break
            g_r = met
        squares = float(np.square(run.gradients).sum())
        bound = 2 * eta * squares + float(best.theta @ best.theta) / 2 / eta
        return Theorem(eta, d_r, g_r, bound, 2 * d_r * g_r * math.sqrt(2 * rows)), run

    def _gradients(self, margins: FloatArray) -> FloatArray:
        """‖g_t‖ of the first rows, given their margins."""
        rows = len(margins)
        slope = np.abs(self.problem.loss.slope(margins, self._batch.labels[:rows]))
        return self._weights[:rows] * slope * self._lengths[:rows]


# -- the tables and the figure ---------------------------------------------------------------------


def tables(points: Sequence[Point], title: str, game: Game) -> list[Table]:
    """The regret, and the regret per row."""
    names = list(points[0].regret)
    title += f", order {game.separation.order:,}, ‖θ‖ ≤ {game.radius:g}, {game.loss} loss"
    title += f", {game.scaling}"
    bounds = ["Theorem 1", "worst case"] if points[0].theorem else []
    columns = ["T", *(TITLES[name] for name in names), *bounds, "best loss", "‖θ‖"]
    return [
        Table(
            f"{name} {title}",
            f"{head}: {title}",
            columns,
            [_cells(point, names, per_row=per_row) for point in points],
            [] if per_row else _constants(points[-1]),
            [] if per_row else [point.figures() for point in points],
            text_columns=0,
        )
        for name, head, per_row in (
            ("regret", "regret_T", False),
            ("average regret", "regret_T / T", True),
        )
    ]


def _cells(point: Point, names: Sequence[str], *, per_row: bool) -> list[str]:
    by, digits = (point.rows, 4) if per_row else (1, 1)
    found = [point.regret[name] for name in names]
    if point.theorem:
        found += [point.theorem.bound, point.theorem.worst]
    cells = [f"{value / by:,.{digits}f}" for value in [*found, point.best]]
    return [f"{point.rows:,}", *cells, f"{point.length:.2f}"]


def _constants(last: Point) -> list[str]:
    if last.theorem is None:
        return []
    known = last.theorem
    return [
        f"FTRL at T = {last.rows:,}: D_R = {known.d_r:.4g}, G_R = {known.g_r:.4g}, "
        f"η = D_R / (G_R √(2T)) = {known.eta:.4g}"
    ]


def panels(points: Sequence[Point], title: str, game: Game) -> list[Panel]:
    """regret_T and regret_T / T, on logarithmic scales."""
    named = [(TITLES[name], [p.regret[name] for p in points]) for name in points[0].regret]
    if points[0].theorem is not None:
        theorems = [p.theorem for p in points if p.theorem is not None]
        named.append(("Theorem 1 for FTRL", [t.bound for t in theorems]))
        named.append(("its worst case", [t.worst for t in theorems]))
    rows = [p.rows for p in points]
    whole = [_line(name, rows, values) for name, values in named]
    average = [_line(n, rows, [v / t for v, t in zip(vs, rows, strict=True)]) for n, vs in named]
    where = f"order {game.separation.order:,}, ‖θ‖ ≤ {game.radius:g}, {game.scaling}"
    return [
        Panel(title, "T", "regret_T", whole, x_axis="log", y_axis="log"),
        Panel(where, "T", "regret_T / T", average, x_axis="log", y_axis="log"),
    ]


def _line(name: str, rows: Sequence[int], values: Sequence[float]) -> Line:
    """Positive values only: the scale is logarithmic."""
    above = [(t, value) for t, value in zip(rows, values, strict=True) if value > 0]
    style: Any = "o-" if name in TITLES.values() else "--"
    return Line(name, [t for t, _ in above], [value for _, value in above], style=style)
