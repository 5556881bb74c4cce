"""PQR, LR and QR: linear models over the expansion of a row.

PQR has one weight per feature, one per pair of high features, and one per high feature that is
shared by all its pairs with low features. LR is PQR without high features. In QR all features are
high, and squares have weights too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, Unpack

import numpy as np
import numpy.typing as npt

from pqrlearn import _core, modelfile
from pqrlearn.errors import HyperError
from pqrlearn.hyper import (
    INTERACTION_SCALE,
    MAX_PAIRS_PER_ROW,
    Ftrl,
    FtrlRates,
    Optimizer,
    optimizer_from,
    with_rates,
)
from pqrlearn.learners.linear import LinearLearner
from pqrlearn.loss import LossName
from pqrlearn.rows import Batch, FloatArray
from pqrlearn.separation import Separation

_NOTHING_HIGH = np.zeros(0, np.uint32)
_DEFAULT = Ftrl()


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
