"""CFM, the convex factorization machine of Yamada et al. (KDD 2017), online."""

from __future__ import annotations

import math
from typing import Any, Self, Unpack

import numpy as np
import numpy.typing as npt

from pqrlearn import _core, modelfile
from pqrlearn.errors import HyperError
from pqrlearn.hyper import (
    Ftrl,
    FtrlRates,
    NuclearBall,
    Optimizer,
    ball_from,
    optimizer_from,
    with_rates,
)
from pqrlearn.learners.convex import SpectralLearner
from pqrlearn.loss import LossName

_BALL = NuclearBall()
_OPTIMIZER = Ftrl()

Slot = tuple[float, float, float]
"""z and √n of FTRL-Proximal, and the weight computed from them."""
START: Slot = (0.0, 0.0, 0.0)


def step(slot: Slot, gradient: float, rates: Ftrl, l1: float) -> Slot:
    """Algorithm 2 of the paper for one coordinate."""
    z, root, weight = slot
    grown = math.sqrt(root * root + gradient * gradient)
    z += gradient - (grown - root) / rates.alpha * weight
    return z, grown, weight_of(z, grown, rates, l1)


def weight_of(z: float, root: float, rates: Ftrl, l1: float) -> float:
    if -l1 <= z <= l1:
        return 0.0
    return ((l1 if z > 0 else -l1) - z) / ((rates.beta + root) / rates.alpha + rates.l2)


class CFM(SpectralLearner):
    """A linear model, plus pairs whose matrix stays in a nuclear-norm ball.

    The margin is b + w'x + Σ_{i<j} A_ij x_i x_j. FTRL-Proximal (`optimizer`, or its rates `alpha`,
    `beta`, `l1` and `l2`) learns b and w at every row, conditional gradient steps learn A every
    `ball.block_rows` rows.

    >>> model = CFM("squared", ball=NuclearBall(block_rows=1))
    >>> for _ in range(100):
    ...     _ = model.learn_one({"user": "ann", "film": "alien"}, 5)
    ...     _ = model.learn_one({"user": "ben", "film": "alien"}, 1)
    >>> model.predict_one({"user": "ann", "film": "alien"}) > 4
    True
    """

    kind = "cfm"
    blocks = ("bias", "linear", "pair")
    _augmented = False

    def __init__(
        self,
        loss: LossName = "logistic",
        optimizer: Optimizer | None = None,
        ball: NuclearBall = _BALL,
        *,
        bias: bool = True,
        **rates: Unpack[FtrlRates],
    ) -> None:
        optimizer = with_rates("CFM", optimizer, _OPTIMIZER, rates)
        if not isinstance(optimizer, Ftrl):
            raise HyperError(f"optimizer={optimizer!r} must be a Ftrl")
        super().__init__(loss, ball)
        self.optimizer = optimizer
        self.bias = bool(bias)
        self._bias = START
        self._linear: dict[int, Slot] = {}

    def _linear_margin(self, features: list[int], values: list[float]) -> float:
        total = self._bias[2]
        for feature, value in zip(features, values, strict=True):
            slot = self._linear.get(feature)
            if slot is not None:
                total += slot[2] * value
        return total

    def _learn_linear(self, features: list[int], values: list[float], slope: float) -> None:
        rates = self.optimizer
        if self.bias:
            self._bias = step(self._bias, slope, rates, 0.0)
        for feature, value in zip(features, values, strict=True):
            slot = self._linear.get(feature, START)
            self._linear[feature] = step(slot, slope * value, rates, rates.l1)

    def _block_weights(
        self, block: str
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.floating[Any]]]:
        if block == "bias":
            return np.zeros(0, np.uint32), np.array([self._bias[2]])
        return self.features, np.array([slot[2] for slot in self._linear.values()], np.float64)

    def settings(self) -> dict[str, Any]:
        return super().settings() | {
            "optimizer": self.optimizer.settings(),
            "bias": self.bias,
        }

    def _tensors(self) -> modelfile.Tensors:
        slots = np.array(list(self._linear.values()), np.float64).reshape(-1, 3)
        return super()._tensors() | {"bias": np.array(self._bias[:2]), "linear.slots": slots[:, :2]}

    @classmethod
    def _restored(
        cls, settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> Self:
        optimizer = optimizer_from(settings["optimizer"])
        if not isinstance(optimizer, Ftrl):
            raise ValueError("cfm needs the optimizer ftrl")
        ball = ball_from(settings["ball"])
        model = cls(settings["loss"], optimizer, ball, bias=settings["bias"])
        model._restore(settings, tensors, names)
        bias = modelfile.tensor(tensors, "bias", np.float64, 1)
        slots = modelfile.tensor(tensors, "linear.slots", np.float64, 2)
        if bias.shape != (2,) or slots.shape != (len(model.features), 2):
            raise ValueError("the number of linear slots is not that of the features")
        whole = np.concatenate([[bias], slots])
        if not np.isfinite(whole).all() or whole[:, 1].min() < 0:
            raise ValueError("invalid optimizer state in a linear slot")
        z, root = bias.tolist()
        model._bias = (z, root, weight_of(z, root, optimizer, 0.0))
        for feature, (z, root) in zip(model.features.tolist(), slots.tolist(), strict=True):
            model._linear[feature] = (z, root, weight_of(z, root, optimizer, optimizer.l1))
        return model
