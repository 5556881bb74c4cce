"""Mixture: several Learners, and a prediction hardly worse than that of the best one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pqrlearn import _core, modelfile
from pqrlearn.errors import HyperError, RefusedRow
from pqrlearn.hyper import check_whole
from pqrlearn.learners.base import Learner
from pqrlearn.learners.bayes import BAYES
from pqrlearn.learners.build import LEARNERS
from pqrlearn.learners.given import complete, located
from pqrlearn.learners.numbered import NumberedLearner
from pqrlearn.learners.terms import Explainer
from pqrlearn.loss import LossName, loss_named
from pqrlearn.rows import Batch, FloatArray
from pqrlearn.separation import name_tensors

_NO_FEATURES = np.zeros(0, np.uint32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_SLICE_ROWS, _SLICE_PAIRS = 4096, 1 << 22  # learned at a time, while readers and Ctrl-C wait


class Mixture(NumberedLearner):
    """A Bayesian mixture of the predictions of Learners that all learn every row.

    With the logistic loss, N learners and row weights up to 1, the total loss exceeds that of the
    best learner by at most ln N, whatever the rows are (`bound`). The learners have the same loss
    and share one dictionary of names; from now on only the mixture may train them.

    If a learner refuses a row as too large, the others predict and learn it, and it counts as if
    that learner had predicted what they did together. A row that all refuse is refused.

    >>> from pqrlearn import LR, PQR, Separation
    >>> rows = [{"site": "a", "ad": "x"}, {"site": "b", "ad": "x"}, {"site": "a", "ad": "y"}]
    >>> model = Mixture([LR(), PQR(Separation.top_k(rows, order=2))])
    >>> _ = model.learn_many(rows * 100, [1, 0, 0] * 100)
    >>> sum(model.posterior()), model.regret() <= model.bound()
    (1.0, True)
    """

    kind = "mixture"

    def __init__(self, learners: Iterable[Learner]) -> None:
        super().__init__(outer=True)
        self.learners = tuple(learners)
        _check_learners(self.learners)
        self.loss = check_mixable(self.learners[0].loss)
        self.blocks = _common_blocks(self.learners)
        self._bayes = BAYES[self.loss](len(self.learners))
        self._rows = 0
        self.use_names(_common_names(self.learners))

    # -- learning and predicting ------------------------------------------------

    def _learn_batch(self, batch: Batch) -> FloatArray:
        try:
            _core.check_targets(self.loss, batch.labels, batch.weights)
        except ValueError as error:
            raise located(error, batch) from None
        rows = min(_SLICE_ROWS, _SLICE_PAIRS * len(batch) ** 2 // max(1, len(batch.indices)) ** 2)
        mixed, done = [np.zeros(0)], 0
        while done < len(batch):
            part = batch.part(done, min(len(batch), done + max(1, rows)))
            with self._turns.alone():
                mixed.append(self._learn_part(part))
            done += len(mixed[-1])
            if len(mixed[-1]) < len(part):
                break
        return complete(np.concatenate(mixed), batch, partial(self._why_refused, learns=True))

    def _learn_part(self, batch: Batch) -> FloatArray:
        """Margins of the rows before one that all learners refuse.

        The others learn up to a row that the first one refuses: if all refuse it, no learner may
        have learned a later row.
        """
        mixed, done = [np.zeros(0)], 0
        while True:
            rest = batch.part(done, len(batch)) if done else batch
            first = _until_refused(self.learners[0]._learn_batch, rest)
            run = rest if len(first) == len(rest) else rest.part(0, len(first))
            others = [_each_row(learner._learn_batch, run) for learner in self.learners[1:]]
            margins = np.stack([first, *others])
            margins = margins[:, : _predicted(margins)]
            stop = margins.shape[1]
            labels = loss_named(self.loss).kept(run.labels[:stop])
            mixed.append(self._bayes.learn(margins, labels, run.weights[:stop]))
            self._rows += int(np.count_nonzero(run.weights[:stop] > 0))
            done += stop
            if stop < len(run) or done == len(batch):
                return np.concatenate(mixed)

    def _batch_margins(self, batch: Batch) -> FloatArray:
        with self._turns.among():
            found = [_each_row(learner._batch_margins, batch) for learner in self.learners]
            margins = np.stack(found)
            mixed = self._bayes.mixed(margins[:, : _predicted(margins)])
        return complete(mixed, batch, partial(self._why_refused, learns=False))

    def _why_refused(self, row: Batch, *, learns: bool) -> str:
        return self.learners[0]._why_refused(row, learns=learns)

    # -- inspecting -------------------------------------------------------------

    def _size(self) -> dict[str, Any]:
        return {"learners": list(self.learners)}

    def posterior(self) -> list[float]:
        """The posterior probability of each learner, in order.

        >>> from pqrlearn import LR
        >>> Mixture([LR(), LR(alpha=0.2)]).posterior()
        [0.5, 0.5]
        """
        with self._turns.among():
            return [float(share) for share in self._bayes.posterior()]

    def regret(self) -> float:
        """The total loss of its predictions minus that of the best learner; often negative.

        With the squared loss, in units of (prediction - label)².

        >>> from pqrlearn import LR
        >>> Mixture([LR(), LR(alpha=0.2)]).regret()
        0.0
        """
        with self._turns.among():
            return self._bayes.regret()

    def bound(self) -> float:
        """The upper bound of `regret`, up to rounding.

        >>> from pqrlearn import LR
        >>> round(Mixture([LR(), LR(alpha=0.2)]).bound(), 2)
        0.69
        """
        with self._turns.among():
            return self._bayes.bound()

    def _explainer(self) -> Explainer:
        raise HyperError(
            "a mixture predicts by several models at once, so its margin has no terms: explain one "
            "of model.learners"
        )

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def next_feature(self) -> int:
        return max(learner.next_feature for learner in self.learners)

    def _share_names(self, names: _core.Names) -> None:
        super()._share_names(names)
        for learner in self.learners:
            learner._share_names(names)

    def weights(self, block: str) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.floating[Any]]]:
        """The features of each coordinate of a block that all learners have, and its weight.

        The sum of the learners' weights times their posteriors: with the logistic loss an
        approximation, because a mixture of probabilities is not linear.

        >>> from pqrlearn import LR
        >>> model = Mixture([LR(), LR(alpha=0.2)])
        >>> _ = model.learn_one({"site": "news"}, 1)
        >>> model.weights("linear")[0].tolist()
        [0]
        """
        if block not in self.blocks:
            raise KeyError(
                f"this mixture has no block {block!r}, only {', '.join(self.blocks)}: "
                "all of its learners must have it"
            )
        with self._turns.among():
            keys, weights = zip(*(one.weights(block) for one in self.learners), strict=True)
            amounts = [share * w for share, w in zip(self.posterior(), weights, strict=True)]
        if block == "bias":
            return _NO_FEATURES, np.sum(amounts, axis=0)
        numbers, places = np.unique(_numbers(np.concatenate(keys)), return_inverse=True)
        totals = np.zeros(len(numbers))
        np.add.at(totals, places, np.concatenate(amounts))
        if keys[0].ndim == 1:
            return numbers.astype(np.uint32), totals
        pairs = np.stack([numbers >> np.uint64(32), numbers & _LOW_HALF], axis=1)
        return pairs.astype(np.uint32), totals

    # -- saving -----------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        return {
            "loss": self.loss,
            "rows": self._rows,
            "learners": [{"kind": one.kind, **one.settings()} for one in self.learners],
        }

    def _tensors(self) -> modelfile.Tensors:
        tensors: modelfile.Tensors = {**self._bayes.tensors()}
        for number, learner in enumerate(self.learners):
            tensors |= {f"{number}.{name}": t for name, t in learner._tensors().items()}
        return tensors

    @classmethod
    def _restored(
        cls, settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> Self:
        learners = []
        for number, described in enumerate(settings["learners"]):
            own, head = dict(described), f"{number}."
            parts = {n.removeprefix(head): t for n, t in tensors.items() if n.startswith(head)}
            learners.append(LEARNERS[own.pop("kind")]._restored(own, parts, names))
        model = cls(learners)
        if settings["loss"] != model.loss:
            raise ValueError("the loss differs from that of the learners")
        model._rows = check_whole("rows", settings["rows"], least=0, most=2**63)
        model._bayes.restore(
            modelfile.tensor(tensors, "losses", np.float64, 2),
            modelfile.tensor(tensors, "scalars", np.float64, 1),
        )
        if (model._rows > 0) != (model._bayes.low <= model._bayes.high):
            raise ValueError("the range of labels is inconsistent with the number of rows")
        model._share_names(names)
        return model


def check_mixable(loss: LossName) -> LossName:
    """Rejects a loss for which mixing has no bound."""
    if loss not in BAYES:
        raise HyperError(
            f"loss={loss!r} is not for Mixture: a mixture of predicted means has no bound there; "
            "use one of the learners alone"
        )
    return loss


def _check_learners(learners: tuple[Learner, ...]) -> None:
    if not learners:
        raise HyperError("a Mixture needs at least one learner")
    for number, learner in enumerate(learners):
        if not isinstance(learner, Learner) or isinstance(learner, Mixture):
            raise HyperError(f"learner {number} is {learner!r}: a Mixture takes any other Learner")
        if any(learner is other for other in learners[:number]):
            raise HyperError(f"learner {number} is a duplicate: it would learn every row twice")
        if learner.loss != learners[0].loss:
            raise HyperError(
                f"learner {number} has loss={learner.loss!r}, the first {learners[0].loss!r}: "
                "a Mixture has one loss"
            )


def _common_blocks(learners: tuple[Learner, ...]) -> tuple[str, ...]:
    """Blocks that all learners have, except factors: only their products are comparable."""
    blocks = [b for b in learners[0].blocks if all(b in other.blocks for other in learners)]
    return tuple(block for block in blocks if block != "factor")


def _common_names(learners: tuple[Learner, ...]) -> _core.Names:
    """The shared names, if the learners that have names number them alike."""
    named = [learner.names for learner in learners if len(learner.names)]
    for names in named[1:]:
        first, other = name_tensors(named[0]), name_tensors(names)
        if not all(np.array_equal(first[part], other[part]) for part in first):
            raise HyperError(
                "the learners have different names of features; make them from the same counts, "
                "or set the same names with use_names"
            )
    return named[0] if named else _core.Names()


def _until_refused(margins_of: Callable[[Batch], FloatArray], batch: Batch) -> FloatArray:
    """Margins up to the first refused row, whose margin is NaN."""
    try:
        return margins_of(batch)
    except RefusedRow as error:
        return np.append(error.margins, np.nan)


def _each_row(margins_of: Callable[[Batch], FloatArray], batch: Batch) -> FloatArray:
    """Margins of all rows; NaN for refused rows."""
    margins = _until_refused(margins_of, batch)
    while len(margins) < len(batch):
        rest = batch.part(len(margins), len(batch))
        margins = np.concatenate([margins, _until_refused(margins_of, rest)])
    return margins


def _predicted(margins: FloatArray) -> int:
    """How many rows precede the first that no learner predicts."""
    refused = np.flatnonzero(np.isnan(margins).all(axis=0))
    return int(refused[0]) if len(refused) else margins.shape[1]


def _numbers(keys: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """One number per feature or pair; the order within a pair does not matter."""
    if keys.ndim == 1:
        return keys.astype(np.uint64)
    low, high = keys.min(axis=1).astype(np.uint64), keys.max(axis=1).astype(np.uint64)
    numbers: npt.NDArray[np.uint64] = (low << np.uint64(32)) | high
    return numbers
