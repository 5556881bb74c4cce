"""Every learner passes every check of the contract."""

from __future__ import annotations

from typing import Any

import pytest

import contract
from pqrlearn import LR, PQR, QR, Ftrl, FtrlGeneral, Ogd, Separation
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


def learners() -> dict[str, contract.Make]:
    made: dict[str, contract.Make] = {}
    for loss in ("squared", "logistic"):
        for name, optimizer in OPTIMIZERS.items():
            for family in (pqr, lr, qr):
                label = f"{family.__name__} {loss} {name}"
                made[label] = family(loss=loss, optimizer=optimizer)
        plain: dict[str, Any] = {"loss": loss, "optimizer": OPTIMIZERS["plain"]}
        made[f"pqr {loss} scaled"] = pqr(**plain, interaction_scale=0.3)
        made[f"qr {loss} scaled"] = qr(**plain, interaction_scale=0.3)
        made[f"pqr {loss} unbiased"] = pqr(**plain, bias=False)
        made[f"lr {loss} unbiased"] = lr(**plain, bias=False)
        made[f"qr {loss} unbiased"] = qr(**plain, bias=False)
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
