"""DiFacto: a factorization machine in which frequent features have more factors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self, Unpack

import numpy as np
import numpy.typing as npt

from pqrlearn import _core, modelfile
from pqrlearn.errors import HyperError
from pqrlearn.hyper import (
    DIFACTO_FTRL,
    FACTOR_BETA,
    FACTOR_ETA,
    INIT,
    TIERS,
    Ftrl,
    FtrlRates,
    Optimizer,
    check_rate,
    check_tiers,
    optimizer_from,
    with_rates,
)
from pqrlearn.learners.embedded import Coordinates, Embedded
from pqrlearn.loss import LossName

_OLD_BETA = 1.0  # of model files that do not say


class DiFacto(Embedded):
    """DiFacto (Li et al.): frequent features have more factors, rare ones none.

    Linear weights learn by FTRL-Proximal (`optimizer`, or its rates `alpha`, `beta`, `l1` and
    `l2`), factors by AdaGrad (`factor_eta`, `factor_beta`, `factor_l2`). `tiers` are pairs of a
    number of learned rows and the number of factors from there on; the product of two vectors ends
    with the shorter one. The factors of a feature count only while its linear weight is not zero,
    which l1 controls. A feature never learned is ignored.

    >>> model = DiFacto(tiers=[(2, 4), (20, 8)])
    >>> for _ in range(50):
    ...     _ = model.learn_one({"site": "1fbe", "hour": "14"}, 1)
    ...     _ = model.learn_one({"site": "85f7", "hour": "14"}, 0)
    >>> model.nonzeros()["factor"]
    24
    """

    kind = "difacto"
    _model: _core.Difacto

    def __init__(
        self,
        loss: LossName = "logistic",
        optimizer: Optimizer | None = None,
        *,
        tiers: Iterable[tuple[int, int]] = TIERS,
        factor_eta: float = FACTOR_ETA,
        factor_beta: float = FACTOR_BETA,
        factor_l2: float = 0.0,
        seed: int = 0,
        init: float = INIT,
        bias: bool = True,
        **rates: Unpack[FtrlRates],
    ) -> None:
        optimizer = with_rates("DiFacto", optimizer, DIFACTO_FTRL, rates)
        if not isinstance(optimizer, Ftrl):
            raise HyperError(f"optimizer={optimizer!r} must be a Ftrl")
        super().__init__(loss, seed, init, bias)
        self.optimizer = optimizer
        self.tiers = check_tiers(tiers)
        self.factor_eta = check_rate("factor_eta", factor_eta, above=0)
        self.factor_beta = check_rate("factor_beta", factor_beta, above=0)
        self.factor_l2 = check_rate("factor_l2", factor_l2)
        self._model = _core.Difacto(
            self.loss,
            self.bias,
            self.tiers,
            self.seed,
            self.init,
            list(optimizer.rates().values()),
            [self.factor_eta, self.factor_beta, self.factor_l2],
        )

    def _bias_weight(self) -> float:
        return float(self._model.bias_weight)

    def _size(self) -> dict[str, Any]:
        return {"tiers": self.tiers}

    def _linear(self) -> Coordinates:
        features, _, slots, _, _ = self._model.state()
        return features, self._model.weights(slots)

    def _factors(
        self,
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """All stored factors, including those that a zero weight masks."""
        features, counts, _, factors, _ = self._model.state()
        ranks = np.array([0, *(rank for _, rank in self.tiers)], np.int64)
        reached = np.searchsorted([count for count, _ in self.tiers], counts, side="right")
        return features, ranks[reached], factors

    def settings(self) -> dict[str, Any]:
        return super().settings() | {
            "optimizer": self.optimizer.settings(),
            "tiers": [list(tier) for tier in self.tiers],
            "factor_eta": self.factor_eta,
            "factor_l2": self.factor_l2,
            **({} if self.factor_beta == _OLD_BETA else {"factor_beta": self.factor_beta}),
        }

    def _seen(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[Any]]:
        features, counts, *_ = self._model.state()
        return features, counts

    def _tensors(self) -> modelfile.Tensors:
        features, counts, slots, factors, sums = self._model.state()
        return {
            "bias": np.array(self._model.bias),
            "features": features,
            "counts": counts,
            "linear": slots,
            "factor": factors,
            "factor.sums": sums,
        }

    @classmethod
    def _restored(
        cls, settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> Self:
        model = cls(
            settings["loss"],
            optimizer_from(settings["optimizer"]),
            tiers=settings["tiers"],
            factor_eta=settings["factor_eta"],
            factor_beta=settings.get("factor_beta", _OLD_BETA),
            factor_l2=settings["factor_l2"],
            seed=settings["seed"],
            init=settings["init"],
            bias=settings["bias"],
        )
        model._model.restore(
            modelfile.tensor(tensors, "features", np.uint32, 1),
            modelfile.tensor(tensors, "counts", np.uint32, 1),
            modelfile.tensor(tensors, "linear", np.float32, 2),
            modelfile.tensor(tensors, "factor", np.float32, 1),
            modelfile.tensor(tensors, "factor.sums", np.float32, 1),
        )
        model._restore_common(settings, tensors, names)
        return model
