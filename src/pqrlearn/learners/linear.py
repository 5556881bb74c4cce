"""What PQR, LR and QR share: a native model that is linear over the expansion of a row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from pqrlearn import _core, modelfile
from pqrlearn.errors import HyperError
from pqrlearn.hyper import (
    MAX_PAIRS_PER_ROW,
    LinearOptimizer,
    Optimizer,
    check_interaction_scale,
    check_max_pairs,
    check_number,
    check_whole,
)
from pqrlearn.learners.native import NativeLearner
from pqrlearn.learners.terms import Explainer, linear_explainer
from pqrlearn.loss import check_loss
from pqrlearn.readers import prefetch

_PART = 1 << 17  # pairs
_NO_BOUND = (1 << 64) - 1


class LinearLearner(NativeLearner):
    """Base of the three: a native model, its settings, and its slots as arrays."""

    _all_high: ClassVar[bool] = False
    _most_high: int = _NO_BOUND
    _model: _core.Model

    def __init__(
        self,
        high: _core.Separation,
        loss: str,
        optimizer: Optimizer,
        interaction_scale: float | None,
        bias: bool,
    ) -> None:
        if not isinstance(optimizer, LinearOptimizer):
            raise HyperError(f"optimizer={optimizer!r} must be an Ftrl, Ogd or FtrlGeneral")
        self.loss = check_loss(loss)
        self.optimizer = optimizer
        self.interaction_scale = check_interaction_scale(interaction_scale)
        self.bias = bool(bias)
        self._model = _core.Model(
            high,
            self.loss,
            self.bias,
            self._all_high,
            self.interaction_scale or 0.0,
            MAX_PAIRS_PER_ROW,
            optimizer.name,
            optimizer.rates(),
            self._shares_pairs,
            self._most_high,
        )

    @property
    def max_pairs_per_row(self) -> int:
        """How many pairs of high features a row may have: one with more is refused.

        A pair takes up to 80 bytes of memory while its row is learned or predicted.

        >>> from pqrlearn import QR
        >>> model = QR(max_pairs_per_row=1000)
        >>> model.max_pairs_per_row *= 2
        >>> model.max_pairs_per_row
        2000
        """
        return self._model.max_pairs

    @max_pairs_per_row.setter
    def max_pairs_per_row(self, pairs: int) -> None:
        self._model.max_pairs = check_max_pairs(pairs)

    def _max_pairs_setting(self) -> dict[str, int]:
        """As model files have it: only if it is not the default."""
        pairs = self.max_pairs_per_row
        return {} if pairs == MAX_PAIRS_PER_ROW else {"max_pairs_per_row": pairs}

    def weights(self, block: str) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.floating[Any]]]:
        """The features of each coordinate of a block, and its weight.

        A pair has two features, the bias none. The feature of a shared weight is the high one.

        >>> from pqrlearn import QR
        >>> model = QR()
        >>> _ = model.learn_one({"site": "a", "ad": "x"}, 1)
        >>> model.weights("pair")[0].tolist(), model.name_of(0), model.name_of(1)
        ([[0, 1]], 'ad=x', 'site=a')
        """
        self._check_block(block)
        if block == "bias":
            return np.zeros(0, np.uint32), np.array([self._model.bias_weight])
        if block == "pair":
            with self._paused():  # otherwise counts and pairs could differ
                counts = self._model.pair_counts()
                lower, slots = self._model.pairs(0, counts)
            higher = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
            return self._model.high()[np.stack([lower, higher], axis=1)], self._model.weights(
                block, slots
            )
        keys, slots = self._model.state(block)
        features = keys if block == "linear" else self._model.high()[keys]
        return features, self._model.weights(block, slots)

    def _high(self) -> npt.NDArray[np.uint32]:
        """The high features, by rank."""
        high: npt.NDArray[np.uint32] = self._model.high()
        return high

    def _explainer(self) -> Explainer:
        return linear_explainer(self._model, "square" if self._all_high else "shared")

    def _check_block(self, block: str) -> None:
        if block not in self.blocks:
            raise KeyError(f"{self.kind} has no block {block!r}, only {', '.join(self.blocks)}")

    def weights_of(self, block: str, slots: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The weights of slots, as in `state`, for any block but the bias.

        >>> from pqrlearn import LR
        >>> model = LR()
        >>> _ = model.learn_one({"site": "a"}, 1)
        >>> weights = model.weights_of("linear", model.state().arrays["linear.slots"])
        >>> weights.tolist() == model.weights("linear")[1].tolist()
        True
        """
        self._check_block(block)
        state = np.ascontiguousarray(slots, np.float32)
        if state.ndim != 2:
            raise ValueError(f"slots must be an array with two dimensions, not {state.ndim}")
        return self._model.weights(block, state)

    def slots_of(
        self, block: str, weights: npt.ArrayLike, n: npt.ArrayLike
    ) -> npt.NDArray[np.float32]:
        """The inverse: slots with these weights, after gradients whose squares sum to n.

        With FTRL-Proximal a larger n means smaller steps; other optimizers ignore it.

        >>> from pqrlearn import LR
        >>> model = LR()
        >>> slots = model.slots_of("linear", [0.5, -0.25], n=[100.0, 1.0])
        >>> model.weights_of("linear", slots).tolist()
        [0.5, -0.25]
        """
        self._check_block(block)
        target = np.atleast_1d(np.ascontiguousarray(weights, np.float32)).astype(np.float64)
        sums = np.broadcast_to(np.asarray(n, np.float32), target.shape).astype(np.float64)
        return self._model.slots(block, target, sums).astype(np.float32)

    def bias_slot_of(self, weight: float, n: float) -> npt.NDArray[np.float64]:
        """The same for the bias, which is stored in double precision.

        >>> from pqrlearn import LR
        >>> LR().bias_slot_of(0.5, n=4.0).shape
        (2,)
        """
        slots = self._model.slots("bias", np.array([float(weight)]), np.array([float(n)]))
        slot: npt.NDArray[np.float64] = slots.ravel()
        return slot

    def nonzeros(self) -> dict[str, int]:
        blocks = [block for block in self.blocks if block != "bias"]
        return {"bias": int(self._model.bias_weight != 0)} | {
            block: self._model.nonzeros(block) for block in blocks
        }

    def settings(self) -> dict[str, Any]:
        return {
            "loss": self.loss,
            "optimizer": self.optimizer.settings(),
            "bias": self.bias,
            "rows": self._model.rows,
            "next_feature": self._model.next_feature,
            **self._max_pairs_setting(),
        }

    def _tensors(self) -> modelfile.Tensors:
        if "pair" not in self.blocks:
            return self._all_but_pairs()
        counts = self._model.pair_counts()
        ranks, slots = self._model.pairs(0, counts)
        pairs = {"pair.counts": counts, "pair.ranks": ranks, "pair.slots": slots}
        return self._all_but_pairs() | pairs

    def _tensors_in_parts(self) -> tuple[modelfile.Tensors, modelfile.InParts]:
        if "pair" not in self.blocks:
            return self._all_but_pairs(), modelfile.NO_PARTS
        counts = self._model.pair_counts()
        tensors = self._all_but_pairs() | {"pair.counts": counts}
        return tensors, _pairs_in_parts(self._model, counts)

    def _all_but_pairs(self) -> modelfile.Tensors:
        tensors: modelfile.Tensors = {"optimizer": np.array(self._model.scalars, np.float64)}
        for block in self.blocks:
            if block == "bias":
                tensors["bias"] = np.array(self._model.bias)
            elif block != "pair":
                tensors[f"{block}.keys"], tensors[f"{block}.slots"] = self._model.state(block)
        return tensors

    def _restore(
        self, settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> Self:
        last = -1
        for block in self.blocks:
            if block == "bias":
                z, root_n = modelfile.tensor(tensors, "bias", np.float64, 1).tolist()
                if not np.isfinite(z):
                    raise ValueError("the bias is not finite")
                self._model.bias = (z, check_number("bias", root_n))
                continue
            slots = modelfile.tensor(tensors, f"{block}.slots", np.float32, 2)
            if block == "pair":
                counts = modelfile.tensor(tensors, "pair.counts", np.uint32, 1)
                ranks = modelfile.tensor(tensors, "pair.ranks", np.uint32, 1)
                self._model.restore_pairs(counts, ranks, slots)
                continue
            keys = modelfile.tensor(tensors, f"{block}.keys", np.uint32, 1)
            self._model.restore(block, keys, slots)
            if block == "linear" and len(keys):
                last = int(keys[-1])
        self._model.scalars = modelfile.tensor(tensors, "optimizer", np.float64, 1).tolist()
        self._model.rows = check_whole("rows", settings["rows"], least=0, most=2**63)
        self._model.next_feature = check_whole(
            "next_feature", settings["next_feature"], least=last + 1, most=2**32
        )
        self.max_pairs_per_row = settings.get("max_pairs_per_row", MAX_PAIRS_PER_ROW)
        self._model.names = names
        return self


def _pairs_in_parts(model: _core.Model, counts: npt.NDArray[np.uint32]) -> modelfile.InParts:
    """The tensors of pairs, a part at a time: they may be as large as the rest of the model."""
    ends = np.cumsum(counts, dtype=np.int64)
    pairs = int(ends[-1]) if len(ends) else 0
    starts = np.searchsorted(ends, np.arange(0, pairs, _PART)).tolist()

    def parts() -> Iterator[modelfile.Tensors]:
        for first, last in pairwise([*starts, len(counts)]):
            ranks, slots = model.pairs(first, counts[first:last])
            yield {"pair.ranks": ranks, "pair.slots": slots}

    about = {
        "pair.ranks": (np.dtype(np.uint32), [pairs]),
        "pair.slots": (np.dtype(np.float32), [pairs, 2]),
    }
    return modelfile.InParts(about, lambda: prefetch(parts(), 2))
