from __future__ import annotations

from typing import Any

import pytest

from command import figures, run
from pqrlearn import PQR, Counts, Ftrl
from pqrlearn.cli.demo import ORDERS
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.progressive import evaluate

RANDOM = {"FM, rank 64", "DiFacto"}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return figures("demo", "--rows", 20_000, "--repeats", 2, "--quiet")


def test_interactions_pay_and_the_planted_ones_are_found(found: dict[str, Any]) -> None:
    losses = {model["model"]: model["held_out_logloss"] for model in found["models"]}
    linear = losses.pop("LR")
    assert found["best_possible"]["logloss"] < min(losses.values())
    assert max(losses.values()) < linear
    assert min(losses, key=losses.__getitem__) == "Auto, untouched"
    assert len(found["strongest"]) == 10
    for pair in found["strongest"]:
        assert pair["planted"] == (pair["effect"] is not None)
    right = [pair for pair in found["strongest"] if pair["planted"]]
    assert len(right) >= 5
    assert all(pair["weight"] * pair["effect"] > 0 for pair in right)
    assert 20 < found["recovered"] < found["planted"] == 600


def test_only_models_with_a_random_start_differ_between_rounds(found: dict[str, Any]) -> None:
    for model in found["models"]:
        assert model["runs"] == 2
        spread = model["standard_deviation"]["held_out_logloss"]
        assert (spread > 0) == (model["model"] in RANDOM)


def test_the_table_shows_every_model_and_a_spread_where_there_is_one() -> None:
    result = run("demo", "--rows", 2000, "--repeats", 2)
    assert result.code == 0
    lines = {line.split("  ")[0]: line for line in result.out.splitlines()}
    for name in (
        "Auto, untouched",
        "LR",
        "FM, rank 64",
        "DiFacto",
        "PQR, order 100",
        "PQR, order 2,000",
    ):
        assert ("±" in lines[name]) == (name in RANDOM)
        assert " ×" in lines[name]
    assert "the truth itself" in lines
    assert "of the 600 planted pairs are among its 600 strongest." in result.out
    assert max(map(len, result.out.splitlines())) <= 80


def test_a_larger_order_pays_where_the_demo_shows_several() -> None:
    """On the rows of the demo itself; its readings are the same in every run."""
    stream = ClickStream.demo()
    train, test = stream.batch(0, 400_000), stream.batch(400_000, 100_000)
    losses = []
    for order, alpha in ORDERS.items():
        separation = Counts.of(train).separate(order=order)
        model = PQR(separation, optimizer=Ftrl(alpha=alpha), interaction_scale=None)
        model.learn_margins(train)
        losses.append(evaluate(model, [test]).metrics["logloss"])
    assert losses == sorted(losses, reverse=True)
