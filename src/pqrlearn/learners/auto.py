"""Auto: eight experts and a mixture of them, with nothing to choose and a guarantee."""

from __future__ import annotations

from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from pqrlearn import _core, modelfile
from pqrlearn.errors import HyperError
from pqrlearn.hyper import check_memory, check_whole
from pqrlearn.learners.auto_state import Scalars, Slots, check_slots, weights
from pqrlearn.learners.collapsed import collapsed_explainer
from pqrlearn.learners.native import NativeLearner
from pqrlearn.learners.terms import Explainer
from pqrlearn.loss import LossName, check_loss

EXPERTS: Final = (
    "bias",
    "linear, tight",
    "linear, loose",
    "linear, ftrl",
    "pairs, tight",
    "pairs, medium",
    "pairs, loose",
    "pairs, ftrl",
)
"""In the order of the core; docs/auto.md says what each is."""

PAIRS: Final = 1 << 20
"""Slots for pairs, unless `memory` allows fewer."""
PAIR_BYTES: Final = 128
"""What a pair takes at most, with its place in the table."""
FEATURE_BYTES: Final = 80
"""What a feature takes: a slot of 64 bytes, a count, and some room in the tables."""

_NO_FEATURES = np.zeros(0, np.uint32)


class Auto(NativeLearner):
    """The self-tuning learner: no rate, no order, no counting before it learns.

    Eight experts, from a mere constant to all pairs of frequent features, learn side by side, and
    what they predict is mixed. With the logistic loss and row weights up to 1, the total loss
    exceeds that of the best expert by 2.78 nats at most, whatever the rows are (`bound`). Features
    rise from low to high while it learns.

    `memory` bounds the tables of features and pairs, in bytes: a feature takes about 80, a pair up
    to 128. By default features have no bound, and there are up to 1,048,576 pairs. A pair that
    finds no room counts by its feature's shared weight, a feature that finds none as never seen. Of
    a row with more than 512 high features, those that rose later count as low.

    >>> model = Auto()
    >>> for _ in range(200):
    ...     _ = model.learn_one({"site": "news", "hour": "9"}, 1)
    ...     _ = model.learn_one({"site": "news", "hour": "23"}, 0)
    >>> round(model.predict_one({"site": "news", "hour": "9"}), 1)
    1.0
    >>> model.regret() <= model.bound()
    True
    """

    kind = "auto"
    blocks = ("bias", "linear", "pair", "shared")
    _model: _core.Auto
    _shares_pairs = True  # before a pair is seen

    def __init__(self, loss: LossName = "logistic", *, memory: int | None = None) -> None:
        self.loss = check_loss(loss)
        if self.loss == "poisson":
            raise HyperError(
                "loss='poisson' is not for Auto: a mixture of predicted means has no bound there; "
                "use PQR or LR"
            )
        features, pairs = 1 << 32, PAIRS
        memory = check_memory(memory)
        if memory is not None:
            pairs = min(PAIRS, memory // 2 // PAIR_BYTES)
            features = (memory - pairs * PAIR_BYTES) // FEATURE_BYTES
        self.memory = memory
        self._most_pairs = pairs
        self._model = _core.Auto(self.loss, features, pairs)

    # -- looking into -----------------------------------------------------------

    def _size(self) -> dict[str, Any]:
        return {"high": len(self.high)}

    def posterior(self) -> dict[str, float]:
        """The share of each expert, by how well it has predicted so far.

        >>> Auto().posterior()["bias"]
        0.125
        """
        return dict(zip(EXPERTS, self._scalars().posterior().tolist(), strict=True))

    def regret(self) -> float:
        """What its predictions have lost beyond the best expert's, in total; often negative.

        >>> Auto().regret()
        0.0
        """
        return self._scalars().regret()

    def bound(self) -> float:
        """What `regret` cannot exceed.

        >>> round(Auto().bound(), 2)
        2.77
        """
        return self._scalars().bound()

    def summary(self) -> dict[str, Any]:
        """What it has found out: shares, losses and sizes, as plain numbers.

        >>> model = Auto()
        >>> _ = model.learn_one({"site": "news"}, 1)
        >>> model.summary()["features"], model.summary()["high"]
        (1, 0)
        """
        features, pairs = self._model.sizes()
        scalars = self._scalars()
        return {
            "posterior": dict(zip(EXPERTS, scalars.posterior().tolist(), strict=True)),
            "losses": dict(zip(EXPERTS, scalars["experts"]["lost"].tolist(), strict=True)),
            "stacked": scalars.stacked,
            "regret": scalars.regret(),
            "bound": scalars.bound(),
            "features": features,
            "high": len(self.high),
            "pairs": pairs,
        }

    def _scalars(self) -> Scalars:
        return Scalars(np.array(self._model.scalars), self.loss == "squared")

    @property
    def high(self) -> npt.NDArray[np.uint32]:
        """The features that have risen, in the order in which they did.

        >>> model = Auto()
        >>> _ = model.learn_many([{"site": "news"}, {"site": "shop"}] * 50, [1, 0] * 50)
        >>> sorted(map(model.name_of, model.high))
        ['site=news', 'site=shop']
        """
        high: npt.NDArray[np.uint32] = self._model.high()[0]
        return high

    def weights(self, block: str) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.floating[Any]]]:
        """The features of each coordinate of a block, and its weight.

        The experts' weights, added up as the mixture takes them: an approximation, because a
        mixture of probabilities is not linear.

        >>> model = Auto()
        >>> _ = model.learn_many([{"site": "news"}, {"site": "shop"}] * 50, [1, 0] * 50)
        >>> features, weights = model.weights("linear")
        >>> {model.name_of(f): w > 0 for f, w in zip(features, weights.tolist())}
        {'site=news': True, 'site=shop': False}
        """
        if block not in self.blocks:
            raise KeyError(f"auto has no block {block!r}, only {', '.join(self.blocks)}")
        with self._paused():
            scalars, slots, high = self._scalars(), Slots.of(self._model), self.high
            priors, bias = self._model.priors(), self._model.expert_margins({})
        if block == "bias":
            return _NO_FEATURES, np.array([scalars.coefficients() @ np.array(bias)])
        found = weights(block, slots, high, scalars, priors)
        if block == "pair":
            return high[np.stack([slots.pairs & 0xFFFF, slots.pairs >> 16], axis=1)], found
        return (slots.features if block == "linear" else high), found

    def _high(self) -> npt.NDArray[np.uint32]:
        return self.high

    def _seen(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[Any]]:
        tensors = self._tensors()
        return tensors["linear.keys"], tensors["linear.counts"]

    def _explainer(self) -> Explainer:
        return collapsed_explainer(self)

    # -- saving -----------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        return {
            "loss": self.loss,
            "memory": self.memory,
            "rows": self._model.rows,
            "next_feature": self._model.next_feature,
        }

    def _tensors(self) -> modelfile.Tensors:
        slots = Slots.of(self._model)
        high, waiting = self._model.high()
        return {
            "scalars": np.array(self._model.scalars, np.float64),
            "linear.keys": slots.features,
            "linear.counts": slots.counts,
            "linear.squares": slots.squares,
            "linear.exponents": slots.exponents,
            "linear.slots": slots.slots,
            "high": high,
            "waiting": waiting,
            "shared.slots": slots.shared,
            "pair.keys": slots.pairs,
            "pair.slots": slots.pair_slots,
        }

    @classmethod
    def _restored(
        cls, settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> Self:
        def tensor(name: str, dtype: type[np.generic], ndim: int = 1) -> npt.NDArray[Any]:
            return modelfile.tensor(tensors, name, dtype, ndim)

        model = cls(settings["loss"], memory=settings["memory"])
        slots = Slots(
            tensor("linear.keys", np.uint32),
            tensor("linear.counts", np.uint32),
            tensor("linear.squares", np.float32),
            tensor("linear.exponents", np.uint8),
            tensor("linear.slots", np.float32, 2),
            tensor("shared.slots", np.float32, 2),
            tensor("pair.keys", np.uint32),
            tensor("pair.slots", np.float32, 2),
        )
        high, waiting = tensor("high", np.uint32), tensor("waiting", np.uint32)
        check_slots(slots, high, waiting, model._most_pairs)
        scalars = Scalars(tensor("scalars", np.float64), model.loss == "squared")
        scalars.check()
        model._model.set_high(high, waiting)
        slots.give_to(model._model)
        model._model.scalars = scalars.flat.tolist()
        model._model.rows = check_whole("rows", settings["rows"], least=0, most=2**63)
        taken = int(slots.features[-1]) if len(slots.features) else -1
        model._model.next_feature = check_whole(
            "next_feature", settings["next_feature"], least=taken + 1, most=2**32
        )
        model._model.names = names
        return model
