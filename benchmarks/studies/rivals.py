"""Who is compared: our learners over a grid of settings, Vowpal Wabbit, and the running mean.

All see the rows once, in order, and are scored by the same metrics on margins made before a row is
learned. Our learners are also scored frozen: after the first 80 % of the rows, on the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import pqrlearn
from benchmarks.measure import PEERS_PYTHON, ROOT, measure, near
from benchmarks.studies.sets import STUDIES, rows_of
from pqrlearn import LR, PQR, Batch, Counts, Ftrl
from pqrlearn.files import atomic_path
from pqrlearn.metrics import Metrics

Margins = npt.NDArray[np.float64]
Figures = dict[str, float]

SHARE = 0.8
"""Of the rows that a frozen model has learned."""
ALPHAS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
VW_RATES = (0.02, 0.1, 0.5)


@dataclass(frozen=True)
class Rival:
    """One contender with one setting. `family` is the column of the table it competes in."""

    family: str
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        shown = " ".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.family} {shown}".rstrip()

    def run(self, study: str, folder: Path) -> dict[str, Figures]:
        """What it reached: `progressive` and, for our learners, `frozen`."""
        if self.family == "mean":
            return {"progressive": _score(study, running_mean(study))}
        if self.family.startswith("vw"):
            return {"progressive": _score(study, vowpal_wabbit(study, self.settings, folder))}
        return both_ways(study, LEARNERS[self.family](study, self.settings))


def rivals() -> list[Rival]:
    """All of them, the quick ones first; Auto only where the package has it."""
    auto = [Rival("auto")] if hasattr(pqrlearn, "Auto") else []
    return [Rival("mean"), *auto, *grid(), *vw_rivals()]


def grid() -> list[Rival]:
    """102 settings: 18 of LR, 84 of PQR, whose order is a multiple of √d."""
    linear = [
        Rival("lr", {"alpha": alpha, **more})
        for alpha in ALPHAS
        for more in ({}, {"l1": 0.3}, {"beta": 0.2})
    ]
    usual = [
        Rival("pqr", {"order": order, "alpha": alpha, "scale": scale})
        for order in (1, 4, 16)
        for alpha in ALPHAS
        for scale in (None, 0.3, 1.0, 3.0)
    ]
    eager = [
        Rival("pqr", {"order": 4, "alpha": alpha, "scale": scale, "beta": 0.2})
        for alpha in ALPHAS
        for scale in (None, 1.0)
    ]
    return linear + usual + eager


def vw_rivals() -> list[Rival]:
    """With 2^22 weights. Where there are pairs, numbers are hashed as text is (`--hash all`): a
    pair is found at 403 i ^ j modulo 2^22, which small numbers do not spread."""
    pairs = "-q :: --hash all"
    return [
        Rival("vw", {"options": ""}),
        Rival("vw -q", {"options": pairs}),
        *(
            Rival(f"vw --ftrl {rate} -q", {"options": f"--ftrl --ftrl_alpha {rate} {pairs}"})
            for rate in VW_RATES
        ),
        Rival("vw --coin -q", {"options": f"--coin {pairs}"}),
    ]


# Our learners.


def _auto(study: str, settings: dict[str, Any]) -> Any:
    return pqrlearn.Auto(loss=STUDIES[study].loss)


def _lr(study: str, settings: dict[str, Any]) -> LR:
    return LR(STUDIES[study].loss, Ftrl(**settings))


def _pqr(study: str, settings: dict[str, Any]) -> PQR:
    """The high features are counted over all rows beforehand."""
    rates = dict(settings)
    order, scale = rates.pop("order"), rates.pop("scale")
    counts = Counts.of(rows_of(study))
    separation = counts.separate(order=order * counts.default_order())
    return PQR(separation, STUDIES[study].loss, Ftrl(**rates), interaction_scale=scale)


LEARNERS: dict[str, Callable[[str, dict[str, Any]], Any]] = {"auto": _auto, "lr": _lr, "pqr": _pqr}


def both_ways(study: str, learner: Any) -> dict[str, Figures]:
    batch = rows_of(study)
    cut = int(SHARE * len(batch))
    first, last = batch.part(0, cut), batch.part(cut, len(batch))
    before = learner.learn_margins(first)
    frozen = learner._batch_margins(last)
    margins = np.concatenate([before, learner.learn_margins(last)])
    return {"progressive": _score(study, margins), "frozen": _figures(study, frozen, last)}


# The others.


def running_mean(study: str) -> Margins:
    """The mean of the labels so far; of clicks with half a click and half a non-click more."""
    labels = rows_of(study).labels
    so_far, rows = np.cumsum(labels) - labels, np.arange(len(labels))
    if STUDIES[study].loss == "squared":
        return so_far / np.maximum(rows, 1)
    return np.log((so_far + 0.5) / (rows - so_far + 0.5))


def vowpal_wabbit(study: str, settings: dict[str, Any], folder: Path) -> Margins:
    """Its own predictions before learning (`-p` in a single pass): margins, as it has no link.

    The average loss that it prints is the same, except for `--coin`, where it is smaller than that
    of any prediction one can ask it for: .5207 for .5345 on the first 3,000 rows of frappe.
    """
    text = write_vw(study, folder)
    with_options = "-".join(settings["options"].replace(":", "").split())
    found = folder / f"{study}{with_options}.predictions"
    loss = {"squared": "squared", "logistic": "logistic"}[STUDIES[study].loss]
    run = [near(PEERS_PYTHON), "-m", "vowpalwabbit", "-d", near(text), "-p", near(found)]
    measure([*run, "--no_stdin", "-b", "22", "--loss_function", loss, *settings["options"].split()])
    margins = np.loadtxt(ROOT / found, dtype=np.float64)
    found.unlink()
    return margins


def write_vw(study: str, folder: Path) -> Path:
    """The rows as Vowpal Wabbit text: one namespace, features that are numbers, clicks as ±1."""
    path = folder / f"{study}.vw"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    batch, clicks = rows_of(study), STUDIES[study].loss == "logistic"
    names = [
        f"{index}" if value == 1 else f"{index}:{value!r}"
        for index, value in zip(batch.indices.tolist(), batch.values.tolist(), strict=True)
    ]
    with atomic_path(path) as beside, beside.open("w") as file:
        for row, label in enumerate(batch.labels.tolist()):
            features = " ".join(names[batch.indptr[row] : batch.indptr[row + 1]])
            file.write(f"{2 * label - 1 if clicks else label:g} |f {features}\n")
    return path


def _score(study: str, margins: Margins) -> Figures:
    return _figures(study, margins, rows_of(study))


def _figures(study: str, margins: Margins, batch: Batch) -> Figures:
    metrics = Metrics(STUDIES[study].loss)
    metrics.update(margins, batch.labels, batch.weights)
    result = metrics.result()
    return {name: result[name] for name in ("logloss", "auc", "rmse") if name in result}
