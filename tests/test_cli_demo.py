from __future__ import annotations

from typing import Any

import pytest

from command import figures, run

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
    assert any(pair["planted"] for pair in found["strongest"])


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
