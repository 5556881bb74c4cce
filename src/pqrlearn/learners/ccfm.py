"""CCFM, the compact convexified factorization machine of Lin et al. (WWW 2018)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pqrlearn import _core, modelfile
from pqrlearn.hyper import NuclearBall, ball_from
from pqrlearn.learners.convex import SpectralLearner
from pqrlearn.loss import LossName

_DEFAULT = NuclearBall()


class CCFM(SpectralLearner):
    """Bias, linear weights and pairs in one matrix C = [[A, w], [w', b]] in a nuclear-norm ball.

    The margin is x̂'Cx̂ / 2 with x̂ = (x, 1), which includes squares of features and b / 2.

    >>> model = CCFM("squared", NuclearBall(block_rows=1))
    >>> for _ in range(100):
    ...     _ = model.learn_one({"user": "ann", "film": "alien"}, 5)
    ...     _ = model.learn_one({"user": "ben", "film": "alien"}, 1)
    >>> model.predict_one({"user": "ann", "film": "alien"}) > 4
    True
    """

    kind = "ccfm"
    blocks = ("bias", "linear", "pair", "square")
    _augmented = True

    def __init__(self, loss: LossName = "logistic", ball: NuclearBall = _DEFAULT) -> None:
        super().__init__(loss, ball)

    def _learn_linear(self, features: list[int], values: list[float], slope: float) -> None:
        """Nothing to do: the linear part is in the matrix."""

    def _block_weights(
        self, block: str
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.floating[Any]]]:
        if block == "bias":
            origin = np.zeros(1, np.int64)
            return np.zeros(0, np.uint32), self._spectrum.entries(origin, origin) / 2
        positions = np.arange(1, len(self.features) + 1)
        if block == "square":
            return self.features, self._spectrum.entries(positions, positions) / 2
        return self.features, self._spectrum.entries(np.zeros_like(positions), positions)

    @classmethod
    def _restored(
        cls, settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> Self:
        return cls(settings["loss"], ball_from(settings["ball"]))._restore(settings, tensors, names)
