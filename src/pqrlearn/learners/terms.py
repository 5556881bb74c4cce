"""What a margin is made of: the terms of rows, as arrays and by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pqrlearn import _core
from pqrlearn.errors import RowError
from pqrlearn.hyper import MAX_PAIRS_PER_ROW
from pqrlearn.learners import frames
from pqrlearn.learners.given import located
from pqrlearn.rows import Batch, FloatArray, plain_error

if TYPE_CHECKING:
    from pqrlearn.learners.base import Learner


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a margin: `contribution` = `weight` × `value`.

    `names` are its features: none for the bias and for `mixing`, two for a pair. `value` is that of
    the coordinate: of a pair, the product of two features' values and of the interaction scale.
    `count` says in how many rows the feature has been seen, where the model knows that.

    >>> from pqrlearn import LR
    >>> model = LR()
    >>> _ = model.learn_one({"site": "news"}, 1)
    >>> term = model.explain_one({"site": "news"}).terms[1]
    >>> term.block, term.names, term.contribution > 0, term.count
    ('linear', ('site=news',), True, None)
    """

    block: str
    names: tuple[str, ...]
    value: float
    weight: float
    contribution: float
    count: int | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a row is predicted as it is: the margin, link(margin), and the terms of the margin.

    Terms are in the order in which the margin adds them up, the bias first.

    >>> from pqrlearn import LR
    >>> LR().explain_one({"site": "news"})
    Explanation(margin=0.0, prediction=0.5, terms=2)
    """

    margin: float
    prediction: float
    terms: tuple[Term, ...]

    def __repr__(self) -> str:
        return (
            f"Explanation(margin={self.margin!r}, prediction={self.prediction!r}, "
            f"terms={len(self.terms)})"
        )

    def strongest(self) -> list[Term]:
        """The terms by the size of their contribution, the largest first.

        >>> from pqrlearn import LR
        >>> model = LR()
        >>> _ = model.learn_one({"site": "news", "hour": 0.1}, 1)
        >>> model.explain_one({"site": "news", "hour": 0.1}).strongest()[-1].names
        ('hour',)
        """
        return sorted(self.terms, key=lambda term: -abs(term.contribution))


@dataclass(frozen=True, eq=False)
class RowTerms:
    """The terms of many rows but for their bias: those of row r are indptr[r] to indptr[r + 1]."""

    bias: float
    indptr: npt.NDArray[np.int64]
    blocks: npt.NDArray[Any]
    """The name of each term's block."""
    features: npt.NDArray[np.uint32]
    """Two of each term, the same twice unless it is a pair."""
    values: npt.NDArray[np.floating[Any]]
    weights: npt.NDArray[np.floating[Any]]
    contributions: npt.NDArray[np.floating[Any]]
    mixing: FloatArray | None = None
    """What each margin is beyond the sum of its terms, where a model is not linear."""

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The row of each term."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


Explainer = Callable[[Batch], RowTerms]


def linear_explainer(model: _core.Model, own: str) -> Explainer:
    """The terms of PQR and its like, from the core; `own` is the block of single high features."""
    blocks = np.array(["linear", own, "pair"])

    def explain(batch: Batch) -> RowTerms:
        columns = batch.indptr, batch.indices, batch.values
        try:
            indptr, kinds, features, values, weights = model.terms(*columns)
        except ValueError as error:
            raise located(error, batch) from None
        products = weights * values  # in single precision, as the core has them
        bias = model.bias_weight
        return RowTerms(bias, indptr, blocks[kinds], features, values, weights, products)

    return explain


def quadratic_terms(learner: Learner, batch: Batch) -> RowTerms:
    """The terms of a model that is quadratic in the values, from margins of parts of rows.

    With f(S) the margin of the features S alone, a pair contributes f(ij) - f(i) - f(j) + f().
    """
    parts = [_quadratic_row(learner, batch.part(row, row + 1)) for row in range(len(batch))]
    sizes = [len(blocks) for blocks, *_ in parts]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    blocks, features, values, contributions = columns if parts else _NO_TERMS
    weights = np.divide(contributions, values, out=np.zeros(len(values)), where=values != 0)
    bias = float(learner._batch_margins(_alone([[]], [[]]))[0])
    indptr = np.cumsum([0, *sizes], dtype=np.int64)
    return RowTerms(bias, indptr, blocks, features, values, weights, contributions)


_NO_TERMS: Any = np.zeros(0, object), np.zeros((0, 2), np.uint32), np.zeros(0), np.zeros(0)


def _quadratic_row(learner: Learner, row: Batch) -> tuple[Any, Any, FloatArray, FloatArray]:
    features, x = row.indices, row.values.astype(np.float64)
    size = len(features)
    if (pairs_in_row := size * (size - 1) // 2) > MAX_PAIRS_PER_ROW:
        raise RowError(
            f"a row of {size} features has {pairs_in_row} pairs; up to {MAX_PAIRS_PER_ROW} can be "
            "explained"
        )
    first, second = np.triu_indices(size, 1)
    singles, pairs = np.arange(size)[:, None], np.stack([first, second], axis=1)

    def margins(places: npt.NDArray[Any], sign: int = 1) -> FloatArray:
        return learner._batch_margins(_alone(features[places], sign * x[places]))

    nothing, alone = margins(singles[:1, :0])[0] if size else 0.0, margins(singles)
    linear, square = alone - nothing, np.zeros(0)
    if "square" in learner.blocks:  # the part that the sign of the value does not change
        turned = margins(singles, -1)
        linear, square = (alone - turned) / 2, (alone + turned) / 2 - nothing
    interactions = margins(pairs) - alone[first] - alone[second] + nothing
    blocks = ["linear"] * size + ["square"] * len(square) + ["pair"] * len(pairs)
    own = features[: len(square)]
    return (
        np.array(blocks, object),
        np.concatenate([np.stack([f, f], axis=1) for f in (features, own)] + [features[pairs]]),
        np.concatenate([x, x[: len(square)] ** 2, x[first] * x[second]]),
        np.concatenate([linear, square, interactions]),
    )


def _alone(features: Any, values: Any) -> Batch:
    """Rows of some features each, as many in all."""
    features, values = np.asarray(features, np.uint32), np.asarray(values, np.float32)
    rows, width = features.shape
    return Batch._unchecked(
        np.arange(rows + 1, dtype=np.int64) * width,
        np.ascontiguousarray(features).ravel(),
        np.ascontiguousarray(values).ravel(),
        np.zeros(rows),
        np.ones(rows, np.float32),
    )


# -- by name ----------------------------------------------------------------


def row_of(learner: Learner, x: Any) -> tuple[Batch, _core.Names]:
    """A row given as a dict as a Batch, and the names that the learner does not have."""
    if learner.schema is not None:
        fresh = frames.fresh_names(learner)
        return frames._records(learner).batch(x, learner.names, fresh), fresh
    reader = _core.DictReader()
    reader.names = learner.names
    try:
        row = Batch._unchecked(*reader.read(x, learner.next_feature))
    except ValueError as error:
        raise RowError(str(error).removeprefix("row 0: ")) from None
    except TypeError as error:
        raise plain_error(error, x) from None
    reader.names = _core.Names()
    reader.keep()  # into these: the learner's are as they were
    return row, reader.names


def explanations(
    learner: Learner, explain: Explainer, batch: Batch, fresh: _core.Names
) -> Iterator[Explanation]:
    """Each row of a batch explained, with names of the learner or those of the rows."""
    margins = learner._batch_margins(batch)
    predictions = learner._linked(margins.copy())
    found = explain(batch)
    counts = _counts_of(learner, found.features)
    for row, (margin, prediction) in enumerate(
        zip(margins.tolist(), predictions.tolist(), strict=True)
    ):
        terms = [Term("bias", (), 1.0, found.bias, found.bias, learner.rows)]
        for at in range(found.indptr[row], found.indptr[row + 1]):
            pair = dict.fromkeys(found.features[at].tolist())
            terms.append(
                Term(
                    str(found.blocks[at]),
                    tuple(fresh.name(f) or learner.name_of(f) for f in pair),
                    float(found.values[at]),
                    float(found.weights[at]) + 0.0,  # not -0.0, which would be shown
                    float(found.contributions[at]) + 0.0,
                    None if len(pair) > 1 or counts[at] < 0 else int(counts[at]),
                )
            )
        if found.mixing is not None:
            rest = float(found.mixing[row])
            terms.append(Term("mixing", (), 1.0, rest, rest, None))
        yield Explanation(margin, prediction, tuple(terms))


def _counts_of(learner: Learner, features: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """In how many rows the first feature of each term was seen; -1 where that is not known."""
    return counts_of(learner._seen(), features[:, 0])


def counts_of(
    seen: tuple[npt.NDArray[np.uint32], npt.NDArray[Any]], features: npt.NDArray[np.uint32]
) -> npt.NDArray[np.int64]:
    """The count of each feature, by features that rise and their counts; -1 where it has none."""
    known, counts = seen
    found = np.full(len(features), -1, np.int64)
    if len(known):
        at = np.minimum(np.searchsorted(known, features), len(known) - 1)
        found = np.where(known[at] == features, counts[at].astype(np.int64), found)
    return found
