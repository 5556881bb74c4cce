"""FM: the factorization machine, whose pair weights are inner products of short vectors."""

from __future__ import annotations

from typing import Any, Self, Unpack

import numpy as np
import numpy.typing as npt

from pqrlearn import _core, modelfile
from pqrlearn.errors import HyperError
from pqrlearn.hyper import (
    INIT,
    MAX_RANK,
    RANK,
    AdaGrad,
    Descent,
    DescentRates,
    Optimizer,
    check_whole,
    optimizer_from,
    with_rates,
)
from pqrlearn.learners.embedded import Coordinates, Embedded
from pqrlearn.loss import LossName

_DEFAULT = AdaGrad()


class FM(Embedded):
    """A factorization machine (Rendle): the weight of a pair is the inner product of two vectors.

    `rank` is their length. They start uniform in [-init, init], by a hash of the seed, the feature
    and the component; a feature never learned keeps these and has no linear weight. A large l1
    brings all factors to zero, and zero is absorbing: FM then stays an LR. `eta` and the others are
    the rates of AdaGrad, the default; another optimizer is given as `optimizer`, with its rates.

    >>> model = FM(rank=4, eta=0.2)
    >>> for _ in range(50):
    ...     _ = model.learn_one({"site": "1fbe", "hour": "14"}, 1)
    ...     _ = model.learn_one({"site": "85f7", "hour": "14"}, 0)
    >>> model.predict_one({"site": "1fbe"}) > model.predict_one({"site": "85f7"})
    True
    """

    kind = "fm"
    _model: _core.Fm

    def __init__(
        self,
        loss: LossName = "logistic",
        optimizer: Optimizer | None = None,
        *,
        rank: int = RANK,
        seed: int = 0,
        init: float = INIT,
        bias: bool = True,
        **rates: Unpack[DescentRates],
    ) -> None:
        optimizer = with_rates("FM", optimizer, _DEFAULT, rates)
        if not isinstance(optimizer, Descent):
            raise HyperError(f"optimizer={optimizer!r} must be an AdaGrad or Sgd")
        super().__init__(loss, seed, init, bias)
        self.optimizer = optimizer
        self.rank = check_whole("rank", rank, least=1, most=MAX_RANK)
        self._model = _core.Fm(
            self.loss,
            self.bias,
            self.rank,
            self.seed,
            self.init,
            optimizer.adaptive,
            optimizer.decays,
            optimizer.rates(),
        )

    def _size(self) -> dict[str, Any]:
        return {"rank": self.rank}

    def _linear(self) -> Coordinates:
        features, slots, _, _ = self._model.state()
        return features, slots[:, 0]

    def _factors(
        self,
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        features, _, factors, _ = self._model.state()
        return features, np.full(len(features), self.rank), factors.ravel()

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"optimizer": self.optimizer.settings(), "rank": self.rank}

    def _tensors(self) -> modelfile.Tensors:
        features, linear, factors, sums = self._model.state()
        tensors = {"features": features, "linear": linear, "factor": factors}
        adaptive = {"factor.sums": sums} if self.optimizer.adaptive else {}
        return {"bias": np.array(self._model.bias), **tensors, **adaptive}

    @classmethod
    def _restored(
        cls, settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> Self:
        model = cls(
            settings["loss"],
            optimizer_from(settings["optimizer"]),
            rank=settings["rank"],
            seed=settings["seed"],
            init=settings["init"],
            bias=settings["bias"],
        )
        sums = np.zeros((0, model.rank), np.float32)
        if model.optimizer.adaptive:
            sums = modelfile.tensor(tensors, "factor.sums", np.float32, 2)
        model._model.restore(
            modelfile.tensor(tensors, "features", np.uint32, 1),
            modelfile.tensor(tensors, "linear", np.float32, 2),
            modelfile.tensor(tensors, "factor", np.float32, 2),
            sums,
        )
        model._restore_common(settings, tensors, names)
        return model
