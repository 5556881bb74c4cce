"""PQR, LR and QR: linear models over the expansion of a row.

PQR has one weight per feature, one per pair of high features, and one per high feature that is
shared by all its pairs with low features. LR is PQR without high features. In QR all features are
high, and squares have weights too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self, Unpack

import numpy as np
import numpy.typing as npt

from pqrlearn import _core, modelfile
from pqrlearn.errors import HyperError
from pqrlearn.hyper import (
    INTERACTION_SCALE,
    MAX_PAIRS_PER_ROW,
    Ftrl,
    FtrlRates,
    LinearOptimizer,
    Optimizer,
    check_interaction_scale,
    check_max_pairs,
    check_number,
    check_whole,
    optimizer_from,
    with_rates,
)
from pqrlearn.learners.native import NativeLearner
from pqrlearn.learners.terms import Explainer, linear_explainer
from pqrlearn.loss import LossName, check_loss
from pqrlearn.readers import prefetch
from pqrlearn.rows import Batch, FloatArray
from pqrlearn.separation import Separation

_NOTHING_HIGH = np.zeros(0, np.uint32)
_DEFAULT = Ftrl()
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

        >>> model = QR()
        >>> _ = model.learn_one({"site": "a", "ad": "x"}, 1)
        >>> model.weights("pair")[0].tolist(), model.name_of(0), model.name_of(1)
        ([[0, 1]], 'ad=x', 'site=a')
        """
        self._check_block(block)
        if block == "bias":
            return _NOTHING_HIGH, np.array([self._model.bias_weight])
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


class LR(LinearLearner):
    """Linear regression (loss "squared") or logistic regression (loss "logistic").

    `alpha`, `beta`, `l1` and `l2` are the rates of FTRL-Proximal (see Ftrl), the default; another
    optimizer is given as `optimizer`, with its rates.

    >>> model = LR(alpha=0.2)
    >>> for _ in range(50):
    ...     _ = model.learn_one({"site": "1fbe", "hour": "14"}, 1)
    ...     _ = model.learn_one({"site": "85f7", "hour": "14"}, 0)
    >>> model.predict_one({"site": "1fbe"}) > model.predict_one({"site": "85f7"})
    True
    """

    kind = "lr"
    blocks = ("bias", "linear")

    def __init__(
        self,
        loss: LossName = "logistic",
        optimizer: Optimizer | None = None,
        *,
        bias: bool = True,
        **rates: Unpack[FtrlRates],
    ) -> None:
        chosen = with_rates("LR", optimizer, _DEFAULT, rates)
        super().__init__(_core.Separation(_NOTHING_HIGH), loss, chosen, None, bias)

    @classmethod
    def _restored(
        cls, settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> Self:
        model = cls(settings["loss"], optimizer_from(settings["optimizer"]), bias=settings["bias"])
        return model._restore(settings, tensors, names)


@dataclass(frozen=True, eq=False, repr=False)
class _SplitBatch(Batch):
    """Rows whose high features are known: row r is number `first` + r of the splits."""

    splits: _core.Splits | None = None
    split_by: _core.Separation | None = None
    first: int = 0

    def part(self, start: int, stop: int) -> Batch:
        columns = super().part(start, stop)._columns()
        return _SplitBatch._unchecked(*columns, self.splits, self.split_by, self.first + start)


class PQR(LinearLearner):
    """Projective quadratic regression: weights for pairs of frequent features.

    `separation` says which features are high. `interaction_scale=None` does not scale interactions
    (the paper); a factor f multiplies those of a row by f / √(their number). A row with more than
    `max_pairs_per_row` pairs is refused. `alpha`, `beta`, `l1` and `l2` are the rates of
    FTRL-Proximal (see Ftrl), the default; another optimizer is given as `optimizer`, with its
    rates.

    >>> rows = [{"site": "a", "ad": "x"}, {"site": "b", "ad": "x"}, {"site": "a", "ad": "y"}]
    >>> model = PQR(Separation.top_k(rows, order=2), alpha=0.05)
    >>> model.learn_one({"site": "a", "ad": "x"}, 1)
    0.5
    >>> model
    PQR(loss='logistic', order=2, rows=1, nonzeros=4)
    >>> round(model.predict_one({"site": "a", "ad": "x"}), 2) > 0.5
    True
    """

    kind = "pqr"
    blocks = ("bias", "linear", "pair", "shared")

    def __init__(
        self,
        separation: Separation | None = None,
        loss: LossName = "logistic",
        optimizer: Optimizer | None = None,
        *,
        interaction_scale: float | None = INTERACTION_SCALE,
        max_pairs_per_row: int = MAX_PAIRS_PER_ROW,
        bias: bool = True,
        **rates: Unpack[FtrlRates],
    ) -> None:
        if not isinstance(separation, Separation):
            raise _no_separation(rates.get("order"))
        chosen = with_rates("PQR", optimizer, _DEFAULT, rates)
        self._set_up(separation, loss, chosen, interaction_scale, bias, separation.names.copy())
        self.max_pairs_per_row = max_pairs_per_row
        self.schema = separation.schema

    def _set_up(
        self,
        separation: Separation,
        loss: str,
        optimizer: Optimizer,
        interaction_scale: float | None,
        bias: bool,
        names: _core.Names,
    ) -> None:
        super().__init__(separation.snapshot, loss, optimizer, interaction_scale, bias)
        self.separation = separation
        self._model.names = names

    def _prepared(self, batch: Batch) -> Batch:
        if self.separation.order == 0:
            return batch
        by = self.separation.snapshot
        if isinstance(batch, _SplitBatch) and batch.split_by is by:
            return batch
        splits = by.split(batch.indptr, batch.indices, batch.values)
        return _SplitBatch._unchecked(*batch._columns(), splits, by)

    def _size(self) -> dict[str, Any]:
        return {"order": self.separation.order}

    def _seen(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[Any]]:
        by_feature = np.argsort(self.separation.features)
        return self.separation.features[by_feature], self.separation.counts[by_feature]

    def _learned(self, batch: Batch) -> FloatArray:
        if not isinstance(batch, _SplitBatch) or batch.split_by is not self.separation.snapshot:
            return super()._learned(batch)
        columns = batch.indptr, batch.indices, batch.values, batch.labels, batch.weights
        assert batch.splits is not None
        margins: FloatArray = self._model.learn_split(*columns, batch.splits, batch.first)
        return margins

    def settings(self) -> dict[str, Any]:
        return super().settings() | {
            "interaction_scale": self.interaction_scale,
            "separation": self.separation.settings(),
        }

    def _all_but_pairs(self) -> modelfile.Tensors:
        high = {f"separation.{name}": t for name, t in self.separation.tensors().items()}
        return super()._all_but_pairs() | high

    @classmethod
    def _restored(
        cls, settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> Self:
        head = "separation."
        high = {n.removeprefix(head): t for n, t in tensors.items() if n.startswith(head)}
        model = cls.__new__(cls)
        model._set_up(
            Separation.restored(settings["separation"], high, names),
            settings["loss"],
            optimizer_from(settings["optimizer"]),
            settings["interaction_scale"],
            settings["bias"],
            names,
        )
        return model._restore(settings, tensors, names)


def _no_separation(order: object) -> HyperError:
    counted = "rows" if order is None else f"rows, order={order!r}"
    return HyperError(
        "PQR needs a Separation, which says which features are frequent: count some rows first, "
        f"PQR(Separation.top_k({counted})), or take Auto(), which needs nothing counted"
    )


class QR(LinearLearner):
    """Full quadratic regression, for few features: a weight for every pair and every square.

    Features are high as soon as they are learned; one never learned is ignored. A row with more
    than `max_pairs_per_row` pairs is refused. `alpha`, `beta`, `l1` and `l2` are the rates of
    FTRL-Proximal (see Ftrl), the default.

    >>> model = QR("squared", alpha=0.5)
    >>> _ = model.learn_one({"width": 2.0, "height": 3.0}, 6)
    >>> model.nonzeros()
    {'bias': 1, 'linear': 2, 'pair': 1, 'square': 2}
    """

    kind = "qr"
    blocks = ("bias", "linear", "pair", "square")
    _all_high = True

    def __init__(
        self,
        loss: LossName = "logistic",
        optimizer: Optimizer | None = None,
        *,
        interaction_scale: float | None = INTERACTION_SCALE,
        max_pairs_per_row: int = MAX_PAIRS_PER_ROW,
        bias: bool = True,
        high: npt.NDArray[np.uint32] = _NOTHING_HIGH,
        **rates: Unpack[FtrlRates],
    ) -> None:
        chosen = with_rates("QR", optimizer, _DEFAULT, rates)
        super().__init__(_core.Separation(high), loss, chosen, interaction_scale, bias)
        self.max_pairs_per_row = max_pairs_per_row

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"interaction_scale": self.interaction_scale}

    def _all_but_pairs(self) -> modelfile.Tensors:
        return super()._all_but_pairs() | {"high": self._model.high()}

    @classmethod
    def _restored(
        cls, settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> Self:
        model = cls(
            settings["loss"],
            optimizer_from(settings["optimizer"]),
            interaction_scale=settings["interaction_scale"],
            bias=settings["bias"],
            high=modelfile.tensor(tensors, "high", np.uint32, 1),
        )
        return model._restore(settings, tensors, names)
