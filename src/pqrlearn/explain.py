"""What matters in a model: fields and pairs of fields by importance, effects on one scale.

`model.explain_one` explains one row; this is about many rows, and about the model as a whole.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from pqrlearn.frames import is_frame
from pqrlearn.learners import Auto, Explanation, Frozen, Learner
from pqrlearn.learners.frames import unlabelled
from pqrlearn.learners.terms import Explainer, RowTerms, counts_of, explanations
from pqrlearn.names import Names
from pqrlearn.rows import Batch
from pqrlearn.separation import add_names

LOW = "low features"
"""What a shared weight is paired with."""
_PART = 256  # rows at a time: a row of 39 features has 780 terms
_INTERACTIONS = ("pair", "shared", "square")


@dataclass(frozen=True)
class Importance:
    """The mean absolute contribution to the margin, by field and by pair of fields.

    The field of the feature `site=news` is `site`; a feature without `=` is a field of its own.
    """

    rows: int
    fields: dict[str, float]
    """Of linear weights, the most important first."""
    pairs: dict[tuple[str, str], float]
    """Of pairs, shared weights (with `LOW`) and squares, the most important first."""


def field_of(name: str) -> str:
    """The field of a feature.

    >>> field_of("site=news"), field_of("price")
    ('site', 'price')
    """
    return name.partition("=")[0] or name


def importance(model: Learner, data: Any, watch: Callable[[int], None] | None = None) -> Importance:
    """What the margins of rows come from, on average.

    `data` is a frame, Batches, or what `pqrlearn.read` returns; labels are not used. `watch` is
    called now and then with the number of rows done.

    >>> from pqrlearn import LR
    >>> rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 50, labels=[1, 0] * 50)
    >>> model = LR()
    >>> _ = model.learn_many(rows)
    >>> importance(model, [rows]).fields.keys()
    dict_keys(['1', '0'])
    """
    explain, fresh = model._explainer(), Names()
    rows, fields, pairs = 0, Counter[str](), Counter[tuple[str, str]]()
    for batch in _batches(model, data):
        _keep_names(fresh, batch)
        for start in range(0, len(batch), _PART):
            part = batch.part(start, min(start + _PART, len(batch)))
            _add(_Sums(fields, pairs), explain(part), model, fresh)
            rows += len(part)
            if watch is not None:
                watch(rows)
    return Importance(rows, _ordered(fields, rows), _ordered(pairs, rows))


@dataclass(frozen=True)
class _Sums:
    fields: Counter[str]
    pairs: Counter[tuple[str, str]]


def _add(sums: _Sums, terms: RowTerms, model: Learner, fresh: Names) -> None:
    """Adds the contributions of some rows, summed by coordinate first: names are slow."""
    sizes = np.abs(terms.contributions.astype(np.float64))
    for block in dict.fromkeys(terms.blocks.tolist()):
        of = terms.blocks == block
        keys, at = np.unique(terms.features[of], axis=0, return_inverse=True)
        totals = np.bincount(at.ravel(), sizes[of], minlength=len(keys))
        for (first, second), total in zip(keys.tolist(), totals.tolist(), strict=True):
            one, other = (
                field_of(fresh.name(feature) or model.name_of(feature))
                for feature in (first, second)
            )
            if block == "linear":
                sums.fields[one] += total
            else:
                pair = (one, LOW) if block == "shared" else (min(one, other), max(one, other))
                sums.pairs[pair] += total


def _ordered(sums: Counter[Any], rows: int) -> dict[Any, float]:
    return {key: total / rows for key, total in sums.most_common()}


def explained(model: Learner, data: Any, first: int = 0) -> Iterator[Explanation]:
    """The explanations of many rows, from row `first` on.

    >>> from pqrlearn import LR
    >>> rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])])
    >>> [len(found.terms) for found in explained(LR(), [rows])]
    [2, 2]
    """
    explain: Explainer = model._explainer()
    fresh = Names()
    for batch in _batches(model, data):
        _keep_names(fresh, batch)
        for row in range(min(first, len(batch)), len(batch)):
            yield from explanations(model, explain, batch.part(row, row + 1), fresh)
        first = max(0, first - len(batch))


def _batches(model: Learner, data: Any) -> Iterable[Batch]:
    if is_frame(data):
        return (batch for _, batch in unlabelled(model, data))
    return [data] if isinstance(data, Batch) else data


def _keep_names(fresh: Names, batch: Batch) -> None:
    if batch.new_names is not None:
        add_names(fresh, batch.new_names)


def typical_scale(model: Learner) -> float | None:
    """What the interactions of a typical row are multiplied by; None if the model cannot tell.

    The scale of a row is f / √(its number of interactions). A typical row has as many high features
    as rows have on average, by the counts of the model.

    >>> from pqrlearn import PQR, Separation
    >>> rows = [{"site": "a", "ad": "x"}, {"site": "b", "ad": "x"}]
    >>> round(typical_scale(PQR(Separation.top_k(rows, order=3), interaction_scale=1.0)), 3)
    0.577
    """
    factor = getattr(model, "interaction_scale", None)
    if factor is None:
        return 1.0
    separation = getattr(model, "separation", None)
    rows = model.rows if separation is None else separation.rows
    counts = counts_of(model._seen(), model._high())  # type: ignore[attr-defined]
    if rows == 0 or len(counts) == 0 or (counts < 0).any():
        return None
    high = counts.sum() / rows
    return float(factor / math.sqrt(max(1.0, high * (high + 1) / 2)))


def effect_scale(model: Learner, block: str) -> float | None:
    """What a weight of this block is multiplied by to compare it with linear ones.

    >>> from pqrlearn import LR
    >>> effect_scale(LR(), "linear")
    1.0
    """
    if block == "factor":
        return None
    return typical_scale(model) if block in _INTERACTIONS else 1.0


def worth_of_interactions(model: Auto) -> str:
    """A sentence on what pairs are worth here, by the losses of the experts with and without.

    >>> worth_of_interactions(Auto())
    'nothing has been learned yet'
    """
    losses = model.summary()["losses"]
    paired = {name: loss for name, loss in losses.items() if name.startswith("pairs")}
    plain = {name: loss for name, loss in losses.items() if name not in paired}
    best, without = min(paired.values()), min(plain.values())
    if not without > 0:
        return "nothing has been learned yet"
    share = 100 * (1 - best / without)
    if share > 0:
        return f"interactions are worth {share:.1f} % of the loss here"
    return f"interactions do not pay here: with pairs the loss is {-share:.1f} % larger"


def count_low(model: Learner) -> int:
    """How many features with weights have no pairs of their own.

    >>> model = Auto()
    >>> _ = model.learn_one({"site": "news"}, 1)
    >>> count_low(model)
    1
    """
    high = model._high()  # type: ignore[attr-defined]
    return int(np.count_nonzero(~np.isin(model.weights("linear")[0], high)))


def most_frequent_low(model: Learner, top: int) -> list[tuple[str, int]]:
    """Low features by how often they were seen, where the model has counted them.

    >>> model = Auto()
    >>> _ = model.learn_one({"site": "news"}, 1)
    >>> most_frequent_low(model, 10)
    [('site=news', 1)]
    """
    if not isinstance(model, Auto | Frozen):
        return []
    features, counts = model._seen()
    low = ~np.isin(features, model._high())
    order = np.argsort(-counts[low].astype(np.int64), kind="stable")[:top]
    found = zip(features[low][order].tolist(), counts[low][order].tolist(), strict=True)
    return [(model.name_of(feature), count) for feature, count in islice(found, top)]


class Strong(NamedTuple):
    """A weight among the largest of its block."""

    names: list[str]
    weight: float
    effect: float | None
    """On the margin of a typical row, where that is known."""
    support: int | None
    """In how many rows its feature was seen, where that is known."""


def strongest(learner: Learner, block: str, top: int, search: str = "") -> list[Strong]:
    """The largest weights of a block, the largest first; with `search`, where a name has it.

    >>> from pqrlearn import LR
    >>> model = LR()
    >>> _ = model.learn_many([{"site": "news", "hour": "9"}] * 3, [1, 1, 1])
    >>> [one.names for one in strongest(model, "linear", 5, search="ho")]
    [['hour=9']]
    """
    features, weights = learner._strengths(block)
    order = np.argsort(-np.abs(weights), kind="stable")
    order = order[weights[order] != 0]
    named = ((at, _names(learner, features[at])) for at in order.tolist())
    chosen = islice((one for one in named if any(search in name for name in one[1])), top)
    scale, single, seen = effect_scale(learner, block), features.ndim == 1, learner._seen()
    found = []
    for at, names in chosen:
        count = int(counts_of(seen, np.atleast_1d(features[at])[:1])[0])
        weight = float(weights[at])
        effect = None if scale is None else weight * scale
        found.append(Strong(names, weight, effect, count if single and count >= 0 else None))
    return found


def _names(learner: Learner, features: Any) -> list[str]:
    return [learner.name_of(feature) for feature in np.atleast_1d(features).tolist()]
