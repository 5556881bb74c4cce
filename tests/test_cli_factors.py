"""Models with factors through the real command: learned, resumed, contradicted, shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import clicks, failure, figures, ok, run, write_rows
from pqrlearn import FM, AdaGrad, DiFacto, Ftrl, Sgd
from pqrlearn.learners import Learner
from strategies import cut

ROWS = clicks(seed=21)
HALF = 170


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """rows.svm and its two parts."""
    folder = tmp_path_factory.mktemp("factors")
    write_rows(folder / "rows.svm", ROWS)
    write_rows(folder / "a.svm", cut(ROWS, 0, HALF))
    write_rows(folder / "b.svm", cut(ROWS, HALF, len(ROWS)))
    return folder


def train(*arguments: object) -> None:
    """With a warning or without: some settings here are worse than a constant."""
    assert run("train", *arguments).code == 0


@pytest.mark.parametrize(
    ("given", "model"),
    [
        ("--model fm", FM()),
        (
            "--model fm --rank 3 --seed 7 --init 0.1 --eta 0.2 --beta 2 --l1 0.01 --l2 0.1 "
            "--factor-eta 0.05 --factor-l2 0.2 --loss squared --no-bias",
            FM(
                "squared",
                AdaGrad(eta=0.2, beta=2.0, l1=0.01, l2=0.1, factor_eta=0.05, factor_l2=0.2),
                rank=3,
                seed=7,
                init=0.1,
                bias=False,
            ),
        ),
        (
            "--model fm --optimizer sgd --eta 0.05 --schedule sqrt",
            FM(optimizer=Sgd(eta=0.05, schedule="sqrt")),
        ),
        ("--model difacto", DiFacto()),
        (
            "--model difacto --tiers 2:3,50:9 --seed 7 --init 0.1 --alpha 0.2 --beta 2 --l1 0.01 "
            "--l2 0.1 --factor-eta 0.05 --factor-beta 0.5 --factor-l2 0.2 --loss squared --no-bias",
            DiFacto(
                "squared",
                Ftrl(alpha=0.2, beta=2.0, l1=0.01, l2=0.1),
                tiers=((2, 3), (50, 9)),
                factor_eta=0.05,
                factor_beta=0.5,
                factor_l2=0.2,
                seed=7,
                init=0.1,
                bias=False,
            ),
        ),
    ],
    ids=["fm", "fm adagrad", "fm sgd", "difacto", "difacto tiers"],
)
def test_models_with_factors_are_learned_resumed_and_shown(
    folder: Path, given: str, model: Learner
) -> None:
    whole, half = folder / "whole.pqr", folder / "half.pqr"
    train(folder / "rows.svm", *given.split(), "-o", whole)
    model.learn_many(ROWS)
    assert whole.read_bytes() == model.to_bytes()
    train(folder / "a.svm", *given.split(), "-o", half)
    train(folder / "b.svm", "--resume", half, *given.split(), "-o", whole)
    assert whole.read_bytes() == model.to_bytes()
    shown = figures("inspect", half, "--top", 3)
    assert shown["model"] == model.kind
    assert len(shown["strongest"]["linear"]) == len(shown["strongest"]["factor"]) == 3
    assert "strongest factor weights" in ok("inspect", half)


@pytest.mark.parametrize(
    ("model", "given", "has"),
    [
        ("fm", "--seed 12", 0),
        ("fm", "--rank 9", 16),
        ("fm", "--factor-eta 1.0", 0.03),
        ("fm", "--optimizer sgd", "adagrad"),
        ("difacto", "--init 0.5", 0.03),
        ("difacto", "--factor-l2 0.5", 0.0),
        ("difacto", "--tiers 1:2", ((10, 4), (100, 8), (1000, 16))),
    ],
)
def test_a_flag_may_only_repeat_what_a_resumed_model_has(
    folder: Path, model: str, given: str, has: object
) -> None:
    path = folder / f"{model}.pqr"
    train(folder / "a.svm", "--model", model, "-o", path)
    said = failure(2, "train", folder / "b.svm", "--resume", path, *given.split(), "-o", path)
    assert f"contradicts --resume {path}; the model has {has}" in said
