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
    DiFacto,
    Ftrl,
    FtrlGeneral,
    Mixture,
    NuclearBall,
    Ogd,
    Separation,
    Sgd,
)
from strategies import random_batch

BATCH = random_batch(seed=7)
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


def learners() -> dict[str, contract.Make]:
    made: dict[str, contract.Make] = {
        f"auto {loss}": auto(loss=loss) for loss in ("squared", "logistic")
    }
    made |= {f"mixture {loss}": mixture(loss) for loss in ("squared", "logistic")}
    made["auto small"] = auto(memory=1 << 20)
    for loss in ("squared", "logistic", "poisson"):
        chosen = {name: OPTIMIZERS[name] for name in ("plain", "ogd ball", "general ball")}
        for name, optimizer in (chosen if loss == "poisson" else OPTIMIZERS).items():
            families = (pqr, lr, qr, difacto) if isinstance(optimizer, Ftrl) else (pqr, lr, qr)
            for family in families:
                label = f"{family.__name__} {loss} {name}"
                made[label] = family(loss=loss, optimizer=optimizer)
        for name, descent in DESCENTS.items():
            made[f"fm {loss} {name}"] = fm(loss=loss, optimizer=descent, rank=3, init=0.1)
        made[f"difacto {loss} unbiased"] = difacto(loss=loss, bias=False)
        made[f"fm {loss} unbiased"] = fm(loss=loss, bias=False)
        plain: dict[str, Any] = {"loss": loss, "optimizer": OPTIMIZERS["plain"]}
        made[f"pqr {loss} scaled"] = pqr(**plain, interaction_scale=0.3)
        made[f"qr {loss} scaled"] = qr(**plain, interaction_scale=0.3)
        made[f"pqr {loss} unbiased"] = pqr(**plain, bias=False)
        made[f"lr {loss} unbiased"] = lr(**plain, bias=False)
        made[f"qr {loss} unbiased"] = qr(**plain, bias=False)
        for every in (1, 7):
            ball = NuclearBall(radius=4.0, eta=0.5, block_rows=every)
            made[f"cfm {loss} every {every}"] = cfm(**plain, ball=ball)
        for every in (1, 3):
            ball = NuclearBall(radius=4.0, eta=0.5, block_rows=every)
            made[f"ccfm {loss} every {every}"] = ccfm(loss=loss, ball=ball)
        made[f"cfm {loss} l1+l2"] = cfm(loss=loss, optimizer=OPTIMIZERS["l1+l2"], ball=ball)
        made[f"cfm {loss} unbiased"] = cfm(**plain, ball=ball, bias=False)
    return made


LEARNERS = learners()


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__[6:])
@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS.keys())
def test_contract(make: contract.Make, check: contract.Check) -> None:
    check(make, BATCH)


def test_the_batch_has_no_tie_at_the_order() -> None:
    """Names and numbers break ties differently, so that none may decide which features are high."""
    counts = Separation.top_k(BATCH, ORDER + 1).counts
    assert counts[ORDER - 1] > counts[ORDER]
