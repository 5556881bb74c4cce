"""Every learner passes every check of the contract."""

from __future__ import annotations

from typing import Any

import pytest

import contract
from pqrlearn import (
    CCFM,
    CFM,
    FM,
    LR,
    PQR,
    QR,
    AdaGrad,
    Auto,
    Batch,
    DiFacto,
    Ftrl,
    FtrlGeneral,
    Mixture,
    NuclearBall,
    Ogd,
    Separation,
    Sgd,
)
from pqrlearn.learners.build import LEARNERS, optimizers
from pqrlearn.loss import LOSSES
from strategies import random_batch

BATCH = random_batch(seed=7)
SMALL = random_batch(seed=7, rows=32, features=8)
ORDER = 4

OPTIMIZERS = {
    "plain": Ftrl(alpha=0.1, beta=1.0, l1=0.0, l2=0.0),
    "l1": Ftrl(alpha=0.1, beta=1.0, l1=0.3, l2=0.0),
    "l1+l2": Ftrl(alpha=0.5, beta=0.5, l1=0.05, l2=1.0),
    "ogd": Ogd(eta=0.02, schedule="fixed"),
    "ogd root": Ogd(eta=0.1, schedule="sqrt"),
    "ogd ball": Ogd(eta=0.1, schedule="fixed", radius=0.5),
    "ogd root ball": Ogd(eta=0.5, schedule="sqrt", radius=0.5),
    "general": FtrlGeneral(eta=0.02),
    "general ball": FtrlGeneral(eta=0.1, radius=0.5),
}


def pqr(interaction_scale: float | None = None, **settings: Any) -> contract.Make:
    settings["interaction_scale"] = interaction_scale
    return lambda rows=None: PQR(
        Separation.top_k(BATCH if rows is None else rows, ORDER), **settings
    )


def lr(**settings: Any) -> contract.Make:
    return lambda rows=None: LR(**settings)


def qr(interaction_scale: float | None = None, **settings: Any) -> contract.Make:
    settings["interaction_scale"] = interaction_scale
    return lambda rows=None: QR(**settings)


def fm(**settings: Any) -> contract.Make:
    return lambda rows=None: FM(**settings)


def difacto(**settings: Any) -> contract.Make:
    tiers = ((3, 2), (12, 5))
    return lambda rows=None: DiFacto(tiers=tiers, factor_eta=0.1, init=0.1, **settings)


DESCENTS = {
    "adagrad": AdaGrad(eta=0.1),
    "adagrad l1+l2": AdaGrad(eta=0.1, l1=0.01, l2=0.1, factor_eta=0.05, factor_l2=0.2),
    "sgd": Sgd(eta=0.05),
    "sgd l1+l2": Sgd(eta=0.1, schedule="sqrt", l1=0.01, l2=0.1),
}


def cfm(**settings: Any) -> contract.Make:
    return lambda rows=None: CFM(**settings)


def ccfm(**settings: Any) -> contract.Make:
    return lambda rows=None: CCFM(**settings)


def auto(**settings: Any) -> contract.Make:
    return lambda rows=None: Auto(**settings)


def mixture(loss: str) -> contract.Make:
    makers = lr(loss=loss), pqr(loss=loss, optimizer=OPTIMIZERS["l1+l2"])
    return lambda rows=None: Mixture(make(rows) for make in makers)


def models(loss: str) -> dict[str, contract.Make]:
    """Every model that has this loss, with its default settings."""
    families = [lr, pqr, qr, fm, difacto] + [auto, mixture] * (loss != "poisson")
    return {family.__name__: family(loss=loss) for family in families}


def learners() -> dict[str, contract.Make]:
    """Every model with every loss; every optimizer and every option with squared loss.

    An optimizer sees gradients, whatever the loss. LR and PQR run loops of their own; QR runs that
    of PQR with its slots elsewhere, so it takes one optimizer of each class."""
    made = {f"{name} {loss}": make for loss in LOSSES for name, make in models(loss).items()}
    made["auto small"] = auto(memory=1 << 20)
    for name, optimizer in OPTIMIZERS.items():
        for family in (lr, pqr, difacto) if isinstance(optimizer, Ftrl) else (lr, pqr):
            made[f"{family.__name__} {name}"] = family(loss="squared", optimizer=optimizer)
    for name in ("ogd ball", "general ball"):
        made[f"qr {name}"] = qr(loss="squared", optimizer=OPTIMIZERS[name])
    for name, descent in DESCENTS.items():
        made[f"fm {name}"] = fm(loss="squared", optimizer=descent, rank=3, init=0.1)
    for family in (lr, pqr, qr, fm, difacto):
        made[f"{family.__name__} unbiased"] = family(loss="squared", bias=False)
    for family in (pqr, qr):
        made[f"{family.__name__} scaled"] = family(loss="squared", interaction_scale=0.3)
    return made


def convex_learners() -> dict[str, contract.Make]:
    """Each step of theirs is an eigenvalue problem: they get fewer rows."""

    def ball(rows: int) -> NuclearBall:
        return NuclearBall(radius=4.0, eta=0.5, block_rows=rows)

    made = {f"ccfm {loss}": ccfm(loss=loss, ball=ball(3)) for loss in LOSSES}
    made |= {f"cfm {loss}": cfm(loss=loss, ball=ball(3)) for loss in LOSSES}
    for rows in (1, 7):
        made[f"ccfm every {rows}"] = ccfm(loss="squared", ball=ball(rows))
        made[f"cfm every {rows}"] = cfm(loss="squared", ball=ball(rows))
    made["cfm l1+l2"] = cfm(loss="squared", optimizer=OPTIMIZERS["l1+l2"], ball=ball(3))
    made["cfm unbiased"] = cfm(loss="squared", ball=ball(3), bias=False)
    return made


MAKERS = [pytest.param(make, BATCH, id=name) for name, make in learners().items()]
MAKERS += [pytest.param(make, SMALL, id=name) for name, make in convex_learners().items()]


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__[6:])
@pytest.mark.parametrize(("make", "batch"), MAKERS)
def test_contract(make: contract.Make, batch: Batch, check: contract.Check) -> None:
    check(make, batch)


def test_the_batch_has_no_tie_at_the_order() -> None:
    """Names and numbers break ties differently, so that none may decide which features are high."""
    counts = Separation.top_k(BATCH, ORDER + 1).counts
    assert counts[ORDER - 1] > counts[ORDER]


def test_every_learner_goes_through_the_contract_with_every_optimizer() -> None:
    made = [maker.values[0]() for maker in MAKERS]
    found = {(model.kind, model.settings().get("optimizer", {}).get("name")) for model in made}
    expected = {(kind, name) for kind in LEARNERS for name in optimizers(kind) or [None]}
    assert found == expected | {("mixture", None)}
