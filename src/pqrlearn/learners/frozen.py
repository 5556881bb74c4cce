"""Frozen: one table of weights, for serving."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from pqrlearn import _core, modelfile
from pqrlearn.errors import HyperError
from pqrlearn.frames import is_frame
from pqrlearn.hyper import MAX_PAIRS_PER_ROW, Ftrl, check_whole
from pqrlearn.learners.auto import Auto
from pqrlearn.learners.base import Learner
from pqrlearn.learners.frames import labelled_batches
from pqrlearn.learners.linear import LinearLearner
from pqrlearn.learners.pqr import LR, PQR
from pqrlearn.learners.terms import counts_of
from pqrlearn.loss import loss_named
from pqrlearn.metrics import Metrics
from pqrlearn.rows import Batch, Features, FloatArray

_RULE = Ftrl(alpha=1.0, beta=1.0, l1=0.0, l2=0.0)
"""By which a slot (z, 0) has the weight -z, to the bit."""

Weights = npt.NDArray[np.float32]
Keyed = tuple[npt.NDArray[np.uint32], Weights]


class Frozen(LinearLearner):
    """One weight for each feature and pair; it predicts as PQR does, and does not learn.

    `model.frozen()` makes one. `of` is the kind of that model, `keep` how many of its weights were
    kept, or None for all; `measured` has the loss of both on rows that were given, or None.

    >>> from pqrlearn import LR
    >>> model = LR()
    >>> _ = model.learn_one({"site": "news"}, 1)
    >>> served = model.frozen()
    >>> served.predict_one({"site": "news"}) == model.predict_one({"site": "news"})
    True
    """

    kind = "frozen"
    blocks = ("bias", "linear", "pair", "shared")

    def __init__(
        self,
        of: str,
        loss: str,
        high: npt.NDArray[np.uint32],
        interaction_scale: float | None,
        shares_pairs: bool,
    ) -> None:
        self._shares_pairs = bool(shares_pairs)
        if of == Auto.kind:
            self._most_high = _core.MOST_HIGH  # of a row, as Auto has it: the rest count as low
        super().__init__(_core.Separation(high), loss, _RULE, interaction_scale, bias=True)
        self.of = of
        self.keep: int | None = None
        self.measured: dict[str, Any] | None = None
        self._counted = np.zeros(0, np.uint32), np.zeros(0, np.uint64)

    # -- it does not learn ----------------------------------------------------------

    def learn_one(self, x: Features, y: float, weight: float = 1.0) -> NoReturn:
        """Always an error.

        >>> from pqrlearn import LR
        >>> LR().frozen().learn_one({"site": "news"}, 1)
        Traceback (most recent call last):
        pqrlearn.errors.HyperError: a frozen model does not learn: teach the model it was made of
        """
        raise _read_only()

    def learn_margins(self, batch: Batch) -> FloatArray:
        """Always an error.

        >>> from pqrlearn import LR, Batch
        >>> LR().frozen().learn_margins(Batch.from_rows([([0], [1.0])], labels=[1]))
        Traceback (most recent call last):
        pqrlearn.errors.HyperError: a frozen model does not learn: teach the model it was made of
        """
        raise _read_only()

    def _learn_dicts(self, X: Any, y: Any, weights: Any) -> FloatArray:
        raise _read_only()

    # -- its weights ------------------------------------------------------------------

    def _size(self) -> dict[str, Any]:
        return {"of": self.of}

    def _seen(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[Any]]:
        return self._counted

    def _fill(self, bias: float, keyed: dict[str, Keyed]) -> Self:
        """Takes weights that are not zero, by key: features, ranks, or ranks (lower, higher)."""
        if not np.isfinite(bias):
            raise ValueError("the bias is not finite")
        self._model.bias = (-bias, 0.0)
        for block in ("linear", "shared"):
            keys, weights = keyed[block]
            self._model.restore(block, keys, _slots(weights))
        pairs, weights = keyed["pair"]
        order = len(self._high())
        if pairs.shape[1] != 2 or np.any(np.diff(pairs[:, 1].astype(np.int64)) < 0):
            raise ValueError("pair: keys are no ranks in order")
        if len(pairs) and pairs.max() >= order:
            raise ValueError("pair: a rank that is not there")
        counts = np.bincount(pairs[:, 1], minlength=order).astype(np.uint32)
        lower = np.ascontiguousarray(pairs[:, 0])
        self._model.restore_pairs(counts, lower, _slots(weights))
        return self

    # -- saving -----------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        return {
            "loss": self.loss,
            "of": self.of,
            "interaction_scale": self.interaction_scale,
            "shares_pairs": self._shares_pairs,
            "keep": self.keep,
            "measured": self.measured,
            "rows": self._model.rows,
            "next_feature": self._model.next_feature,
            **self._max_pairs_setting(),
        }

    def _tensors(self) -> modelfile.Tensors:
        counts = self._model.pair_counts()
        lower, slots = self._model.pairs(0, counts)
        higher = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
        tensors: modelfile.Tensors = {
            "bias": np.array([self._model.bias_weight]),
            "high": self._high(),
            "pair.keys": np.stack([lower, higher], axis=1),
            "pair.weights": -slots[:, 0],
            "support.keys": self._counted[0],
            "support.counts": self._counted[1],
        }
        for block in ("linear", "shared"):
            keys, slots = self._model.state(block)
            tensors |= {f"{block}.keys": keys, f"{block}.weights": -slots[:, 0]}
        return tensors

    def _tensors_in_parts(self) -> tuple[modelfile.Tensors, modelfile.InParts]:
        return self._tensors(), modelfile.NO_PARTS

    @classmethod
    def _restored(
        cls, settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> Self:
        def tensor(name: str, dtype: type[np.generic], ndim: int = 1) -> npt.NDArray[Any]:
            return modelfile.tensor(tensors, name, dtype, ndim)

        high, scale = tensor("high", np.uint32), settings["interaction_scale"]
        of, shares = str(settings["of"]), settings["shares_pairs"]
        model = cls(of, settings["loss"], high, scale, shares)
        (bias,) = tensor("bias", np.float64).tolist()
        keyed = {
            block: (
                tensor(f"{block}.keys", np.uint32, 2 if block == "pair" else 1),
                tensor(f"{block}.weights", np.float32),
            )
            for block in ("linear", "shared", "pair")
        }
        model._fill(bias, keyed)
        model._counted = tensor("support.keys", np.uint32), tensor("support.counts", np.uint64)
        if len(model._counted[0]) != len(model._counted[1]):
            raise ValueError("support: keys and counts differ in length")
        keep, measured = settings["keep"], settings["measured"]
        model.keep = keep if keep is None else check_whole("keep", keep, least=0, most=2**63)
        model.measured = measured if measured is None else _checked(measured)
        model._model.rows = check_whole("rows", settings["rows"], least=0, most=2**63)
        model._model.next_feature = check_whole(
            "next_feature", settings["next_feature"], least=0, most=2**32
        )
        model.max_pairs_per_row = settings.get("max_pairs_per_row", MAX_PAIRS_PER_ROW)
        model._model.names = names
        return model


def _checked(measured: dict[str, Any]) -> dict[str, Any]:
    """What `_measured` gave; KeyError, ValueError or TypeError if it is anything else."""
    return {
        "rows": check_whole("rows", measured["rows"], least=1, most=2**63),
        "figure": str(measured["figure"]),
        **{name: float(measured[name]) for name in ("loss", "frozen", "difference")},
    }


def _slots(weights: Weights) -> npt.NDArray[np.float32]:
    return np.stack([-weights, np.zeros_like(weights)], axis=1)


def _read_only() -> HyperError:
    return HyperError("a frozen model does not learn: teach the model it was made of")


# -- making one -------------------------------------------------------------------


def freeze(learner: Learner, keep: int | None = None, data: Any = None) -> Frozen:
    """See `Learner.frozen`."""
    if not isinstance(learner, Auto | LR | PQR | Frozen):
        raise HyperError(
            f"a {learner.kind} model cannot be frozen: auto, pqr and lr have one weight for each "
            "feature and pair"
        )
    if keep is not None:
        check_whole("keep", keep, least=0)
    weights = sum(learner.nonzeros().values())
    few = keep is not None and keep < weights // 2
    shares = [True, False] if learner._shares_pairs else [False]
    if data is None:
        return _collapsed(learner, keep, shares[0] and not few)
    made = [_collapsed(learner, keep, one) for one in (shares if few else shares[:1])]
    for frozen, measured in zip(made, _measured(learner, made, data), strict=True):
        frozen.measured = measured
    return min(made, key=lambda frozen: frozen.measured["frozen"] if frozen.measured else 0.0)


def _collapsed(learner: Auto | LR | PQR | Frozen, keep: int | None, shares_pairs: bool) -> Frozen:
    """With `shares_pairs`, a pair without a weight counts by a shared one.

    That is how Auto takes pairs that it has not seen. Of those that are pruned away it is a poor
    guess: where most are, they are better left out.
    """
    found = {block: _weights(learner, block) for block in ("linear", "shared", "pair")}
    high = learner._high()  # after the weights: features may rise meanwhile
    keyed = {b: (_ranks(high, features, b), w) for b, (features, w) in found.items()}
    chosen = _chosen(learner, high, keyed, keep, shares_pairs)
    blocks = {block: _in_order(*keyed[block], chosen[block]) for block in keyed}
    scale = getattr(learner, "interaction_scale", None)
    of = getattr(learner, "of", learner.kind)
    frozen = Frozen(of, learner.loss, high, scale, shares_pairs)
    frozen._fill(float(learner.weights("bias")[1][0]), blocks)
    frozen.max_pairs_per_row = getattr(learner, "max_pairs_per_row", MAX_PAIRS_PER_ROW)
    frozen.keep = keep
    seen, counts = learner._seen()
    used = np.union1d(blocks["linear"][0], high)
    known = np.isin(seen, used)
    frozen._counted = seen[known], counts[known].astype(np.uint64)
    frozen._model.rows = learner.rows
    frozen._model.next_feature = learner.next_feature
    frozen._model.names = learner.names.copy() if keep is None else _named(learner, used)
    frozen.schema = learner.schema
    return frozen


def _named(learner: Learner, features: npt.NDArray[np.uint32]) -> _core.Names:
    """The names of some features: one that has no weight and is low needs none."""
    names = _core.Names()
    for feature in features.tolist():
        if name := learner.names.name(feature):
            names.add(feature, name)
    return names


def _ranks(
    high: npt.NDArray[np.uint32], features: npt.NDArray[np.uint32], block: str
) -> npt.NDArray[np.uint32]:
    """The keys of weights: features, or for interactions the ranks of high ones, lower first."""
    if block == "linear" or not len(high):
        return features
    by_feature = np.argsort(high)
    ranks = by_feature[np.searchsorted(high[by_feature], features)].astype(np.uint32)
    return np.sort(ranks, axis=1) if block == "pair" else ranks


def _weights(learner: Learner, block: str) -> tuple[npt.NDArray[np.uint32], npt.NDArray[Any]]:
    if block in learner.blocks:
        return learner.weights(block)
    return np.zeros((0, 2) if block == "pair" else 0, np.uint32), np.zeros(0, np.float32)


def _in_order(
    keys: npt.NDArray[np.uint32], weights: npt.NDArray[Any], chosen: npt.NDArray[np.bool_]
) -> Keyed:
    """The chosen weights that are not zero, by key; of pairs, by the higher rank first."""
    at = np.flatnonzero(chosen & (weights != 0))
    columns = (keys[at],) if keys.ndim == 1 else (keys[at, 0], keys[at, 1])
    at = at[np.lexsort(columns)]
    return np.ascontiguousarray(keys[at]), weights[at].astype(np.float32)


def _chosen(
    learner: Learner,
    high: npt.NDArray[np.uint32],
    keyed: dict[str, tuple[npt.NDArray[np.uint32], npt.NDArray[Any]]],
    keep: int | None,
    shares_pairs: bool,
) -> dict[str, npt.NDArray[np.bool_]]:
    """Which weights of each block are among the `keep` that matter most; ties go to the first."""
    sizes = {block: len(weights) for block, (_, weights) in keyed.items()}
    if keep is None or keep >= sum(sizes.values()):
        return {block: np.ones(size, bool) for block, size in sizes.items()}
    matter = []
    for block, (keys, weights) in keyed.items():
        change = weights.astype(np.float64)
        if block == "pair" and shares_pairs:  # what it would count by instead
            shared = np.zeros(len(high))
            shared[keyed["shared"][0]] = keyed["shared"][1]
            change = change - shared[keys[:, 0]]
        matter.append(change**2 * _expected_rows(learner, high, block, keys))
    kept = np.zeros(sum(sizes.values()), bool)
    kept[np.argsort(-np.concatenate(matter), kind="stable")[:keep]] = True
    parts = np.split(kept, np.cumsum(list(sizes.values()))[:-1])
    return dict(zip(sizes, parts, strict=True))


def _expected_rows(
    learner: Learner, high: npt.NDArray[np.uint32], block: str, keys: npt.NDArray[np.uint32]
) -> FloatArray:
    """In what share of rows a weight counts: of a pair, as if features came independently."""
    rows = learner.separation.rows if isinstance(learner, PQR) else learner.rows
    features = keys if block == "linear" else high[keys]
    counts = counts_of(learner._seen(), features.ravel()).reshape(features.shape)
    known = counts[counts > 0]
    counts = np.where(counts > 0, counts, known.min() if len(known) else 1)  # the rest are rarer
    shares = counts / max(1, rows)
    return shares.prod(axis=1) if shares.ndim == 2 else shares


def _measured(learner: Learner, made: list[Frozen], data: Any) -> list[dict[str, Any]]:
    """The loss of the model on rows with labels, beside that of each frozen one."""
    if is_frame(data):
        batches: Iterable[Batch] = labelled_batches(learner, data)
    else:
        batches = [data] if isinstance(data, Batch) else data
    models = [learner, *made]
    metrics = [Metrics(learner.loss) for _ in models]
    for batch in batches:
        for model, one in zip(models, metrics, strict=True):
            one.update(model.margin_many(batch), batch.labels, batch.weights)
    key = loss_named(learner.loss).metrics.key
    loss, *losses = (float(one.result()[key]) for one in metrics)
    if not np.isfinite([loss, *losses]).all():
        raise HyperError("there is no row with a label and a weight to measure the loss on")
    rows = int(metrics[0].result()["rows"])
    about = {"rows": rows, "figure": key, "loss": loss}
    return [about | {"frozen": one, "difference": one - loss} for one in losses]
