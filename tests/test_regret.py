"""The regret of the three optimizers, recomputed by other means; Theorem 1's bound holds."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import oracle
from pqrlearn import Batch, Ftrl, FtrlGeneral, Ogd, Separation
from pqrlearn.batch import fit_optimal
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.errors import HyperError
from pqrlearn.hyper import Optimizer
from pqrlearn.loss import LOSSES
from pqrlearn.paper.regret import TITLES, Game, Point, horizons, measure, panels
from strategies import as_dicts, random_batch

RADIUS = 3.0
both_losses = pytest.mark.parametrize("loss", ["squared", "logistic"])


def stream(loss: str, seed: int, rows: int = 2000) -> Batch:
    """Clicks with planted interactions; as ratings, their margins with noise around 3."""
    clicks = ClickStream(
        fields=6, features=80, click_rate=0.3, interactions=10, pair_share=0.01, seed=seed
    )
    batch = clicks.batch(0, rows)
    if loss == "logistic":
        return batch
    noise = np.random.default_rng(seed).normal(0, 0.5, rows)
    return replace(batch, labels=3 + clicks.margins(batch) + noise)


def game(loss: str, batch: Batch, radius: float = RADIUS) -> Game:
    return Game(Separation.top_k(batch, 15), loss, radius)


def players(radius: float = RADIUS) -> list[Optimizer]:
    return [Ogd(radius=radius), FtrlGeneral(), Ftrl()]


# What it is.


@both_losses
def test_it_is_the_loss_of_learning_less_that_of_the_best_fixed_weights(loss: str) -> None:
    batch = stream(loss, seed=1, rows=400)
    played = game(loss, batch)
    for point in measure(played, batch, players(), points=3):
        part = batch.part(0, point.rows)
        best = fit_optimal(played.learner(Ftrl()), part, radius=RADIUS).loss
        assert point.theorem is not None
        for optimizer in (Ogd(radius=RADIUS), FtrlGeneral(point.theorem.eta, RADIUS), Ftrl()):
            margins = played.learner(optimizer).learn_margins(part)
            regret = LOSSES[loss].loss(margins, part.labels).sum() - best
            assert point.regret[optimizer.name] == pytest.approx(regret, abs=2e-5 * point.rows)


@both_losses
def test_the_average_regret_of_every_optimizer_falls(loss: str) -> None:
    batch = stream(loss, seed=2, rows=4000)
    points = measure(game(loss, batch), batch, players(), points=6)
    for name in TITLES:
        averages = [point.figures()["average_regret"][name] for point in points]
        assert all(before > after for before, after in pairwise(averages))
        assert averages[-1] < averages[0] / 2


@both_losses
def test_no_learner_ends_with_better_weights_than_the_best(loss: str) -> None:
    batch = stream(loss, seed=3)
    played = game(loss, batch)
    (point,) = measure(played, batch, players(), points=1)
    for optimizer in (Ogd(radius=RADIUS), FtrlGeneral(0.01, RADIUS)):
        model = played.learner(optimizer)
        model.learn_many(batch)
        fixed = LOSSES[loss].loss(model.margin_many(batch), batch.labels).sum()
        assert point.best - point.gap < fixed


@both_losses
def test_a_larger_ball_has_a_better_best_and_more_regret(loss: str) -> None:
    batch = stream(loss, seed=4)
    found = [
        measure(game(loss, batch, radius), batch, [Ftrl()], points=1)[0]
        for radius in (0.5, 1.0, 2.0, 4.0)
    ]
    for small, large in pairwise(found):
        assert large.best < small.best
        assert large.regret["ftrl"] > small.regret["ftrl"]
        assert small.theorem is None


# Theorem 1.


@pytest.mark.parametrize("radius", [0.3, 3.0, 6.0])
@pytest.mark.parametrize("seed", [5, 6, 7])
@both_losses
def test_the_regret_of_algorithm_1_is_within_theorem_1(loss: str, seed: int, radius: float) -> None:
    batch = stream(loss, seed, rows=1000)
    for point in measure(game(loss, batch, radius), batch, [FtrlGeneral()], points=5):
        theorem = point.theorem
        assert theorem is not None
        assert point.regret["ftrl-general"] + point.gap <= theorem.bound <= theorem.worst


@both_losses
def test_the_constants_are_those_of_the_oracle(loss: str) -> None:
    """Algorithm 1 in NumPy, with the same step, over rows with weights and real values."""
    batch = random_batch(seed=8, rows=150)
    played = game(loss, batch)
    (point,) = measure(played, batch, [FtrlGeneral()], points=1)
    theorem = point.theorem
    assert theorem is not None
    model = oracle.PQR(
        played.separation.features.tolist(),
        loss,
        oracle.FtrlGeneral(theorem.eta, RADIUS),
        played.interaction_scale,
    )
    lengths = []
    for row, label, weight in zip(as_dicts(batch), batch.labels, batch.weights, strict=True):
        slope = weight * (model.predict(row) - label)
        lengths.append(abs(slope) * oracle.norm(model.expand(row)))
        model.learn(row, label, weight)
    squares = np.square(lengths).sum()
    bound = 2 * theorem.eta * squares + point.length**2 / 2 / theorem.eta
    assert theorem.bound == pytest.approx(bound, rel=1e-4)
    assert max(lengths) <= theorem.g_r * (1 + 1e-5)
    assert theorem.d_r == pytest.approx(RADIUS / math.sqrt(2))
    assert theorem.eta == pytest.approx(theorem.d_r / (theorem.g_r * math.sqrt(2 * len(batch))))
    assert theorem.worst == pytest.approx(2 * theorem.d_r * theorem.g_r * math.sqrt(2 * len(batch)))


def test_a_gradient_longer_than_those_at_the_start_raises_the_constant() -> None:
    """At θ = 0 all are √2 long; after a step towards 1, the next label, -1, is farther away."""
    rows = Batch.from_rows([([0], [1.0])] * 100, labels=[1.0, -1.0] * 50)
    played = Game(Separation.top_k(rows, 1), "squared", RADIUS)
    (point,) = measure(played, rows, [FtrlGeneral()], points=1)
    assert point.theorem is not None
    assert point.theorem.g_r > math.sqrt(2) * 1.01
    assert point.regret["ftrl-general"] <= point.theorem.bound


# Around it.


@pytest.mark.parametrize(
    ("rows", "points", "found"),
    [(10_000, 3, [100, 1000, 10_000]), (10_000, 1, [10_000]), (3, 12, [1, 2, 3]), (1, 5, [1])],
)
def test_horizons_are_spread_evenly_and_end_at_all_rows(
    rows: int, points: int, found: list[int]
) -> None:
    assert horizons(rows, points) == found


def test_a_ball_without_room_is_refused() -> None:
    batch = stream("logistic", seed=1, rows=10)
    with pytest.raises(HyperError, match=r"radius=0.0 must be a number > 0"):
        game("logistic", batch, radius=0.0)


def test_the_work_is_told_as_it_goes_on() -> None:
    told: list[tuple[float, str]] = []
    batch = stream("logistic", seed=1, rows=300)
    played = game("logistic", batch)
    measure(played, batch, [Ftrl()], points=3, watch=lambda *word: told.append(word))
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert told[0] == (0.0, "expanding the rows")
    assert told[-1][1].startswith("the best weights for 300 rows: iteration ")


def test_the_figure_shows_what_lies_above_zero() -> None:
    def point(rows: int, regret: float, theorem: Any = None) -> Point:
        return Point(rows, 5.0, 0.0, 1.0, {"ogd": regret, "ftrl": 2.0}, theorem)

    played = game("logistic", stream("logistic", seed=1, rows=50))
    whole, average = panels([point(10, -1.0), point(100, 4.0)], "fifty rows", played)
    assert (whole.title, average.title) == (
        "fifty rows",
        "order 15, ‖θ‖ ≤ 3, interactions as in the paper",
    )
    ogd, ftrl = whole.lines
    assert (ogd.name, ogd.x, ogd.y) == ("OGD", [100], [4.0])
    assert (ftrl.name, ftrl.x, ftrl.y) == ("FTRL-Proximal", [10, 100], [2.0, 2.0])
    assert average.lines[1].y == [0.2, 0.02]
    assert {whole.x_axis, whole.y_axis, average.x_axis, average.y_axis} == {"log"}


def test_the_figure_has_the_bounds_where_there_are_any() -> None:
    batch = stream("logistic", seed=1, rows=300)
    played = game("logistic", batch)
    points = measure(played, batch, players(), points=2)
    names = [line.name for line in panels(points, "rows", played)[0].lines]
    assert names == ["OGD", "FTRL", "FTRL-Proximal", "Theorem 1 for FTRL", "its worst case"]
