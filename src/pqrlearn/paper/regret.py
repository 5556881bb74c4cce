"""The regret of the three optimizers on one stream, and Theorem 1's bound on that of Algorithm 1.

    regret_T = Σ_{t ≤ T} f_t(θ_t) - min_{‖θ‖ ≤ D} Σ_{t ≤ T} f_t(θ)

f_t is the loss of row t. The minimum is that of the first T rows, found anew for every T by the
batch solver, which misses it by `gap` at most.

OGD (projected onto the ball) and FTRL-Proximal (which knows no ball) run once, and their regret is
read off on the way. Theorem 1 is about a fixed step η that is chosen for T, so Algorithm 1 runs
anew for every T, with

    η = D_R / (G_R √(2T)),    D_R² = max_{‖θ‖ ≤ D} R(θ) - R(θ_1) = D²/2    (R = ‖θ‖²/2, θ_1 = 0),

where G_R bounds every ‖g_t‖. No such number is known beforehand: it starts as the longest gradient
at θ = 0 and is raised to the longest that was met until a run stays within it. Then

    regret_T ≤ 2η Σ ‖g_t‖² + R(θ)/η ≤ 2 D_R G_R √(2T),    θ being the best in hindsight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pqrlearn.batch import Minimum, Problem, expanded, minimise, problem_of
from pqrlearn.hyper import INTERACTION_SCALE, Ftrl, FtrlGeneral, Optimizer, check_rate
from pqrlearn.learners import PQR
from pqrlearn.paper.tables import Table
from pqrlearn.plots import Line, Panel
from pqrlearn.rows import Batch, FloatArray
from pqrlearn.separation import Separation

Watch = Callable[[float, str], None]
"""Told how much of the work is done, from 0 to 1, and what is being done."""

TITLES = {"ogd": "OGD", "ftrl-general": "FTRL", "ftrl": "FTRL-Proximal"}
FIRST = 100
"""The least T, where there are so many rows."""
TOLERANCE = 1e-5
"""By how much the mean loss of the best weights may be above the least possible one."""


@dataclass(frozen=True)
class Game:
    """What all the players share: the model, its loss, and the ball."""

    separation: Separation
    loss: str
    radius: float
    interaction_scale: float | None = INTERACTION_SCALE

    def __post_init__(self) -> None:
        check_rate("radius", self.radius, above=0)

    def learner(self, optimizer: Optimizer) -> PQR:
        return PQR(self.separation, self.loss, optimizer, interaction_scale=self.interaction_scale)


@dataclass(frozen=True, eq=False)
class Run:
    """What an optimizer lost at each row, and how long the gradient there was."""

    losses: FloatArray
    gradients: FloatArray


@dataclass(frozen=True)
class Theorem:
    """Theorem 1 at one T, with its constants as measured."""

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
    """The loss of the best fixed weights, summed over the rows; the least may be lower by `gap`."""
    gap: float
    length: float
    """‖θ‖ of the best."""
    regret: dict[str, float]
    theorem: Theorem | None

    def figures(self) -> dict[str, Any]:
        average = {name: regret / self.rows for name, regret in self.regret.items()}
        return asdict(self) | {"average_regret": average}


def measure(
    game: Game,
    batch: Batch,
    optimizers: Sequence[Optimizer],
    *,
    points: int = 12,
    tolerance: float = TOLERANCE,
    watch: Watch | None = None,
) -> list[Point]:
    """The regret of every optimizer at `points` values of T, from few rows to all.

    Of an FtrlGeneral neither step nor radius is used: Theorem 1 and the game say what they are.
    """
    tell = watch or (lambda share, text: None)
    tell(0.0, "expanding the rows")
    stream = _Stream(game, batch)
    runs = {o.name: stream.run(o) for o in optimizers if not isinstance(o, FtrlGeneral)}
    found = []
    for rows, best in _hindsight(stream.problem, horizons(len(batch), points), tolerance, tell):
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
    problem: Problem, many: list[int], tolerance: float, tell: Watch
) -> Iterator[tuple[int, Minimum]]:
    """The best weights for the first T rows, each found from the one before."""
    best: Minimum | None = None
    for at, rows in enumerate(many):
        share = sum(many[:at]) / sum(many)

        def watch(iteration: int, _: float, rows: int = rows, share: float = share) -> None:
            tell(share, f"the best weights for {rows:,} rows: iteration {iteration:,}")

        if best is not None:  # the same ball holds back more loss
            best = replace(best, multiplier=best.multiplier * rows / many[at - 1])
        best = minimise(problem.head(rows), tolerance, best, watch)
        yield rows, best


class _Stream:
    """The rows, and how long each of them is once expanded."""

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
        """Algorithm 1 with the step of Theorem 1 for so many rows."""
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
        """‖g_t‖ where the margins of the first rows are these."""
        rows = len(margins)
        slope = np.abs(self.problem.loss.slope(margins, self._batch.labels[:rows]))
        return self._weights[:rows] * slope * self._lengths[:rows]


# -- the tables and the figure ---------------------------------------------------------------------


def tables(points: Sequence[Point], title: str, game: Game) -> list[Table]:
    """The regret, then the same per row."""
    names = list(points[0].regret)
    title += f", order {game.separation.order:,}, ‖θ‖ ≤ {game.radius:g}, {game.loss} loss"
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
    where = f"order {game.separation.order:,}, ‖θ‖ ≤ {game.radius:g}"
    return [
        Panel(title, "T", "regret_T", whole, x_axis="log", y_axis="log"),
        Panel(where, "T", "regret_T / T", average, x_axis="log", y_axis="log"),
    ]


def _line(name: str, rows: Sequence[int], values: Sequence[float]) -> Line:
    """Only what lies above zero: the scale has no room for the rest."""
    above = [(t, value) for t, value in zip(rows, values, strict=True) if value > 0]
    style: Any = "o-" if name in TITLES.values() else "--"
    return Line(name, [t for t, _ in above], [value for _, value in above], style=style)
