"""Base of models with factors: checks of settings, and blocks as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn import _core, modelfile
from pqrlearn.hyper import MAX_SEED, check_number, check_rate, check_whole
from pqrlearn.learners.native import NativeLearner
from pqrlearn.loss import LossName, check_loss

_NO_FEATURES = np.zeros(0, np.uint32)

Coordinates = tuple[npt.NDArray[np.uint32], npt.NDArray[np.floating[Any]]]


class Embedded(NativeLearner):
    """A bias, a linear weight per feature, and a vector of factors per feature."""

    blocks = ("bias", "linear", "factor")

    def __init__(self, loss: LossName, seed: int, init: float, bias: bool) -> None:
        self.loss = check_loss(loss)
        self.seed = check_whole("seed", seed, least=0, most=MAX_SEED)
        self.init = check_rate("init", init, above=0)
        self.bias = bool(bias)

    def weights(self, block: str) -> Coordinates:
        """The features of each coordinate of a block, and its weight.

        The key of a factor is its feature and its component. The bias has none.

        >>> from pqrlearn import FM
        >>> model = FM(rank=2)
        >>> _ = model.learn_one({"site": "news"}, 1)
        >>> model.weights("factor")[0].tolist()
        [[0, 0], [0, 1]]
        """
        if block not in self.blocks:
            raise KeyError(f"{self.kind} has no block {block!r}, only {', '.join(self.blocks)}")
        if block == "bias":
            return _NO_FEATURES, np.array([self._bias_weight()])
        if block == "linear":
            return self._linear()
        features, ranks, values = self._factors()
        components = np.arange(len(values)) - np.repeat(np.cumsum(ranks) - ranks, ranks)
        keys = np.column_stack([np.repeat(features, ranks), components.astype(np.uint32)])
        return keys, values

    def _strengths(self, block: str) -> Coordinates:
        """As `weights`, with one number for all factors of a feature: their Euclidean norm."""
        if block != "factor":
            return self.weights(block)
        features, ranks, values = self._factors()
        owners = np.repeat(np.arange(len(features)), ranks)
        squares = np.bincount(owners, values.astype(np.float64) ** 2, minlength=len(features))
        return features, np.sqrt(squares)

    def _bias_weight(self) -> float:
        return float(self._model.bias[0]) if self.bias else 0.0

    def _linear(self) -> Coordinates:
        """Features and their linear weights."""
        raise NotImplementedError

    def _factors(
        self,
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Features, the number of factors of each, and all factors concatenated."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        return {
            "loss": self.loss,
            "seed": self.seed,
            "init": self.init,
            "bias": self.bias,
            "rows": self._model.rows,
            "next_feature": self._model.next_feature,
        }

    def _restore_common(
        self, settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> None:
        bias, total = modelfile.tensor(tensors, "bias", np.float64, 1).tolist()
        if not np.isfinite(bias):
            raise ValueError("the bias is not finite")
        self._model.bias = (bias, check_number("bias", total))
        self._model.rows = check_whole("rows", settings["rows"], least=0, most=2**63)
        self._model.next_feature = check_whole(
            "next_feature", settings["next_feature"], least=0, most=2**32
        )
        self._model.names = names
