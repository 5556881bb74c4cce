"""The figures of a report, each with its title and what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pqrlearn import plots
from pqrlearn.explain import Strong, effect_scale, importance, strongest
from pqrlearn.learners import Frozen, Learner, Mixture
from pqrlearn.loss import losses_of_constant
from pqrlearn.report.gather import Gathered
from pqrlearn.rows import FloatArray

CONSTANT = "best constant"
_TOP = 12
_SQUARE = 14  # features or fields of a heat map
_SLOW_ROWS = 100  # explained of models without weights for pairs, where that is slow


@dataclass(frozen=True)
class Shown:
    """A figure, by the name of its file; `rows` are what it shows as a table."""

    name: str
    title: str
    caption: str
    figure: Any
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def shown(found: Gathered, theme: plots.Theme = plots.LIGHT) -> Iterator[Shown]:
    """All figures that this model and these labels allow, in the order of the page."""
    yield _learning_curve(found, theme)
    yield from _of_predictions(found, theme)
    yield from _of_weights(found, theme)
    yield from _of_pairs(found, theme)
    yield _occurrence(found, theme)
    yield from _worst(found, theme)


# -- learning and predicting ------------------------------------------------------------


def _learning_curve(found: Gathered, theme: plots.Theme) -> Shown:
    measures, weights = found.loss.metrics, found.weights
    mean = float(np.average(found.labels, weights=weights))
    losses = {_curve_name(found, name): own for name, own in found.progressive.items()}
    if isinstance(found.model, Frozen):
        losses = {"this model, as it is": found.losses, **losses}
    losses[CONSTANT] = losses_of_constant(found.loss, found.labels, mean)
    rows = _places(found)
    curves = {name: _so_far(found, own, rows) for name, own in losses.items()}
    figure = plots.learning_curve(rows, curves, measure=measures.title, theme=theme)
    last = tuple((name, f"{values[-1]:.5f}") for name, values in curves.items())
    columns = ("after all rows", f"progressive {measures.title}")
    caption = _about_curves(found)
    return Shown("learning-curve", "Learning curve", caption, figure, columns, last)


def _curve_name(found: Gathered, name: str) -> str:
    return f"{name}, from the start" if name == found.model.kind else name


def _about_curves(found: Gathered) -> str:
    """Says whose curves are drawn: the model's file does not have its own."""
    model = found.model
    who = (
        f"A new {model.kind} with the settings of this model, and lr with default settings, learn "
        "these rows from the start; each row is predicted before it is learned. "
    )
    if isinstance(model, Frozen):
        who = (
            "A frozen model does not learn: its curve is its loss as it is. lr learns these rows "
            "from the start; it predicts each row before it learns it. "
        )
    elif model.kind == "lr":
        who = (
            "A new lr with the settings of this model learns these rows from the start; each row "
            "is predicted before it is learned. "
        )
    counted = ""
    if hasattr(model, "separation"):
        counted = "Which features are high is taken from the model, which has counted before. "
    return f"{who}{counted}Loss of all rows so far; the best constant is chosen in hindsight."


def _places(found: Gathered) -> Any:
    """Numbers of rows to draw at; the mean of the very first says nothing."""
    size = len(found.labels)
    first = max(min(100, size), size // 50, int(np.flatnonzero(found.weights > 0)[0]) + 1)
    return np.unique(np.geomspace(first, size, 200).round().astype(np.int64))


def _so_far(found: Gathered, losses: FloatArray, rows: Any) -> FloatArray:
    means = np.cumsum(found.weights * losses)[rows - 1] / np.cumsum(found.weights)[rows - 1]
    return np.array([found.loss.metrics.figure(mean) for mean in means.tolist()])


def _of_predictions(found: Gathered, theme: plots.Theme) -> Iterator[Shown]:
    rows = found.predictions, found.labels, found.weights
    ranks = found.loss.metrics.ranks
    predicted = "predicted probability" if ranks else "prediction"
    observed = f"observed {found.loss.mean_label}"
    title = "Reliability" if ranks else "Predicted against observed"
    caption = (
        "Rows by prediction, in tenths, the last one cut further: on the dashed line predictions "
        "are right on average. Bars are the rows of each bin."
    )
    words: Any = {"observed": observed, "predicted": predicted, "title": title, "theme": theme}
    yield Shown("reliability", title, caption, plots.reliability(*rows, **words))
    caption = (
        "Rows of each label by prediction: the less they overlap, the better the model tells them "
        "apart."
        if ranks
        else "Predictions beside labels. A model that is unsure predicts closer to the mean."
    )
    figure = plots.score_histogram(*rows, predicted=predicted, theme=theme)
    yield Shown("predictions", "Predictions", caption, figure)
    if not ranks:
        caption = "What the label is beyond the prediction; the dashed line is the mean."
        yield Shown("residuals", "Residuals", caption, plots.residuals(*rows, theme=theme))
    counted = found.labels[found.weights > 0]
    if ranks and 0 < counted.mean() < 1:
        caption = "The share of clicks found, against the share of other rows taken for clicks."
        yield Shown("roc", "ROC curve", caption, plots.roc(*rows, theme=theme))
    if (counted >= 0).all() and counted.any():
        rate = found.loss.mean_label
        caption = f"The {rate} of the rows predicted highest, as a multiple of that of all rows."
        yield Shown("lift", "Lift", caption, plots.lift(*rows, rate=rate, theme=theme))


# -- inside ---------------------------------------------------------------------------------


def _of_weights(found: Gathered, theme: plots.Theme) -> Iterator[Shown]:
    model = found.model
    blocks = {block: strongest(model, block, _TOP) for block in model.blocks if block != "bias"}
    linear = blocks.pop("linear", [])
    if linear:
        caption = (
            "What a feature of value 1 adds to the margin (the raw score). To the right: in how "
            "many rows the model has seen it, where it knows that."
        )
        yield _bars("strongest-features", "Strongest features", caption, linear, theme)
    blocks.pop("factor", None)
    others = sorted(
        ((block, one) for block, rows in blocks.items() for one in rows),
        key=lambda pair: -abs(pair[1].effect or pair[1].weight),
    )[:_TOP]
    if others:
        caption = (
            "What an interaction adds to the margin of a typical row. × low features: a weight "
            "that a feature shares with all that are low."
        )
        named = [one._replace(names=[_called(block, one)]) for block, one in others]
        yield _bars("strongest-interactions", "Strongest interactions", caption, named, theme)


def _called(block: str, one: Strong) -> str:
    if block == "shared":
        return f"{one.names[0]} × low features"
    return f"{one.names[0]}²" if block == "square" else " × ".join(one.names)


def _bars(name: str, title: str, caption: str, rows: list[Strong], theme: plots.Theme) -> Shown:
    effects = [one.weight if one.effect is None else one.effect for one in rows]
    names = [" × ".join(one.names) for one in rows]
    support = [one.support for one in rows]
    figure = plots.strongest(names, effects, support, title=title, theme=theme)
    lines = tuple(
        (called, f"{one.weight:+.4f}", f"{effect:+.4f}", _count(one.support))
        for called, one, effect in zip(names, rows, effects, strict=True)
    )
    return Shown(name, title, caption, figure, ("", "weight", "effect", "seen"), lines)


def _count(support: int | None) -> str:
    return "" if support is None else f"{support:,}"


def _of_pairs(found: Gathered, theme: plots.Theme) -> Iterator[Shown]:
    fields = _pairs_of_fields(found)
    if fields:
        names, cells = fields
        caption = (
            "Mean absolute contribution of the pairs of two fields to the margins of the first "
            "rows of the file: where interactions matter."
        )
        unit = "mean |contribution| to the margin"
        figure = plots.heat_map(names, cells, unit=unit, title="Pairs of fields", theme=theme)
        yield Shown("pairs-of-fields", "Pairs of fields", caption, figure)
    features = _pairs_of_features(found.model)
    if features:
        names, cells = features
        caption = (
            "Weights of pairs between the features that have the strongest ones, on the scale of a "
            "typical row. Empty: no weight."
        )
        figure = plots.heat_map(names, cells, title="Pairs of features", theme=theme)
        yield Shown("pairs-of-features", "Pairs of features", caption, figure)


def _pairs_of_fields(found: Gathered) -> tuple[list[str], FloatArray] | None:
    """Importances of pairs between the fields that have the largest; None if there are none."""
    model, sample = found.model, found.sample
    if isinstance(model, Mixture) or model.kind == "lr":
        return None
    if not {"pair", "square", "shared"} & {*model.blocks}:
        sample = [sample[0].part(0, min(_SLOW_ROWS, len(sample[0])))]
    pairs = {pair: size for pair, size in importance(model, sample).pairs.items() if size > 0}
    names = list(dict.fromkeys(name for pair in pairs for name in pair))[:_SQUARE]
    return _square(names, pairs) if len(names) > 1 else None


def _pairs_of_features(model: Learner) -> tuple[list[str], FloatArray] | None:
    """Effects of the strongest pairs; None if the model has no weights for pairs."""
    if "pair" not in model.blocks:
        return None
    features, weights = model.weights("pair")
    scale = effect_scale(model, "pair") or 1.0
    order = [at for at in np.argsort(-np.abs(weights), kind="stable").tolist() if weights[at] != 0]
    chosen: dict[int, None] = {}
    for at in order:
        both = dict.fromkeys([*chosen, *features[at].tolist()])
        if len(both) > _SQUARE:
            break
        chosen = both
    if len(chosen) < 2:
        return None
    kept = np.isin(features, list(chosen)).all(axis=1) & (weights != 0)
    pairs = {
        (model.name_of(one), model.name_of(other)): scale * float(weight)
        for (one, other), weight in zip(
            features[kept].tolist(), weights[kept].tolist(), strict=True
        )
    }
    return _square([model.name_of(feature) for feature in chosen], pairs)


def _square(names: list[str], pairs: dict[tuple[str, str], float]) -> tuple[list[str], FloatArray]:
    at = {name: number for number, name in enumerate(names)}
    cells = np.full((len(names), len(names)), np.nan)
    for (one, other), size in pairs.items():
        if one in at and other in at:
            cells[at[one], at[other]] = cells[at[other], at[one]] = size
    return names, cells


def _occurrence(found: Gathered, theme: plots.Theme) -> Shown:
    features, high = found.features, None
    known = getattr(found.model, "_high", None)
    if known is not None and found.model.kind != "lr":
        high = np.isin(features.features, known())
    figure = plots.occurrence(features.rows, high, theme=theme)
    caption = "In how many rows of this file each feature is, on logarithmic scales. " + (
        "High features have weights for their pairs; low ones share."
        if high is not None
        else "This model has no high features."
    )
    return Shown("occurrence", "Features by how often they occur", caption, figure)


def _worst(found: Gathered, theme: plots.Theme) -> Iterator[Shown]:
    features, measures = found.features, found.loss.metrics
    least = max(30.0, 0.005 * len(found.labels))
    mean, error = features.mean_losses()
    overall = float(np.average(found.losses, weights=found.weights))
    common = (features.rows >= least) & (mean > overall)
    order = np.flatnonzero(common)[np.argsort(-mean[common], kind="stable")][:_TOP]
    if not len(order):
        return
    constants = features.constants(found.loss)
    names = [found.name_of(feature) for feature in features.features[order].tolist()]
    sizes, low, high, local = (
        np.array([measures.figure(max(0.0, one)) for one in values[order].tolist()])
        for values in (mean, mean - error, mean + error, constants)
    )
    rows = features.rows[order].astype(int).tolist()
    measure = measures.title if measures.figure(1.0) != 1.0 else f"mean {measures.title}"
    about: Any = {"overall": measures.figure(overall), "measure": measure, "theme": theme}
    figure = plots.worst(names, sizes, (high - low) / 2, local, rows, **about)
    caption = (
        f"Values of fields with the largest loss, of those in {least:,.0f} rows or more, with 95 % "
        "intervals. Where the circle is to the right of the diamond, a constant would do better "
        "on these rows; where it is to the left, they are hard, and the model helps."
    )
    columns = ("", measure, "best constant", "rows")
    lines = tuple(
        (name, f"{size:.4f}", f"{constant:.4f}", f"{count:,}")
        for name, size, constant, count in zip(names, sizes, local, rows, strict=True)
    )
    yield Shown("worst", "Where the loss is worst", caption, figure, columns, lines)
