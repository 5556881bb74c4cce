"""Estimators for scikit-learn: the same models as the plain ones, from rows of any form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array, csr_matrix, random_array
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pqrlearn
from pqrlearn import LR, PQR, Auto, DiFacto, Separation
from pqrlearn.errors import DataError
from pqrlearn.separation import Counts
from pqrlearn.sklearn import (
    AutoClassifier,
    AutoRegressor,
    DiFactoClassifier,
    FMClassifier,
    FMRegressor,
    LRClassifier,
    LRRegressor,
    PQRClassifier,
    PQRRegressor,
)

chance = np.random.default_rng(3)
SPARSE = csr_array(random_array((300, 40), density=0.15, rng=chance))
CLICKS = ((SPARSE @ chance.normal(size=40)) > 0).astype(int)
COLOURS = np.array(["red", "green", "blue"])[chance.integers(0, 3, 300)]
DENSE = chance.normal(size=(300, 4))
SIZES = DENSE @ [3.0, -2.0, 1.0, 0.0] + DENSE[:, 0] * DENSE[:, 1] + chance.normal(size=300) / 10

ALL = [getattr(pqrlearn.sklearn, name) for name in pqrlearn.sklearn.__all__]
CLASSIFIERS = [made for made in ALL if made.__name__.endswith("Classifier")]
REGRESSORS = [made for made in ALL if made.__name__.endswith("Regressor")]


# The same models.


def test_a_classifier_is_the_plain_learner() -> None:
    separation = Counts.of(pqrlearn.Batch.from_csr(SPARSE)).separate()
    for estimator, learner in (
        (AutoClassifier(), Auto()),
        (LRClassifier(passes=1, alpha=0.3, l1=0.1), LR(optimizer=pqrlearn.Ftrl(0.3, l1=0.1))),
        (PQRClassifier(passes=1), PQR(separation)),
        (DiFactoClassifier(passes=1, tiers=((2, 3),)), DiFacto(tiers=((2, 3),))),
    ):
        learner.learn_many(SPARSE, CLICKS)
        estimator.fit(SPARSE, CLICKS)
        assert estimator.models_[0].to_bytes() == learner.to_bytes()
        assert np.array_equal(estimator.decision_function(SPARSE), learner.margin_many(SPARSE))
        assert np.allclose(estimator.predict_proba(SPARSE)[:, 1], learner.predict_many(SPARSE))


def test_the_order_is_that_of_the_command_unless_given() -> None:
    assert PQRClassifier().fit(SPARSE, CLICKS).models_[0].separation.order == 7  # ⌈√40⌉
    assert PQRClassifier(order=3).fit(SPARSE, CLICKS).models_[0].separation.order == 3
    model = PQRClassifier(order=3)
    model.partial_fit(SPARSE[:100], CLICKS[:100], classes=[0, 1])
    counted = Separation.top_k(pqrlearn.Batch.from_csr(SPARSE[:100]), order=3)
    assert np.array_equal(model.models_[0].separation.features, counted.features)


@pytest.mark.parametrize("made", [LRClassifier, PQRClassifier, FMClassifier])
def test_passes_learn_the_same_rows_again(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pqrlearn.frames.BATCH_ROWS", 70)  # several Batches with new names
    for rows in (SPARSE, pd.DataFrame({"site": np.arange(300).astype(str), "shade": COLOURS})):
        model = made(passes=3).fit(rows[:99], CLICKS[:99])
        once = made(passes=1).fit(rows[:99], CLICKS[:99])
        for _ in range(2):
            once.partial_fit(rows[:99], CLICKS[:99])
        assert model.models_[0].to_bytes() == once.models_[0].to_bytes()
        assert (model.schema_ is None) == (rows is SPARSE)


def test_each_of_many_classes_has_a_model_of_its_own() -> None:
    model = AutoClassifier().fit(SPARSE, COLOURS)
    assert model.classes_.tolist() == ["blue", "green", "red"]
    for place, colour in enumerate(model.classes_):
        alone = AutoClassifier().fit(SPARSE, colour == COLOURS)
        margins = alone.decision_function(SPARSE)
        assert np.array_equal(model.decision_function(SPARSE)[:, place], margins)
    chances = model.predict_proba(SPARSE)
    assert np.allclose(chances.sum(axis=1), 1)
    assert np.array_equal(model.predict(SPARSE), model.classes_[chances.argmax(axis=1)])


def test_many_classes_share_the_names_of_features() -> None:
    frame = pd.DataFrame({"shade": COLOURS, "size": DENSE[:, 0]})
    model = LRClassifier().fit(frame, COLOURS)
    assert model.score(frame, COLOURS) == 1
    assert len({m.names.name(0) for m in model.models_}) == 1
    assert model.coef_.shape == (3, 4)
    assert set(model.features_) == {"shade=red", "shade=green", "shade=blue", "size"}


# Rows.


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil"])
@pytest.mark.parametrize("matrix", [csr_array, csr_matrix])
def test_sparse_rows_may_have_any_form(form: str, matrix: Any) -> None:
    expected = LRClassifier().fit(SPARSE, CLICKS).decision_function(SPARSE)
    rows = matrix(SPARSE).asformat(form)
    model = LRClassifier().fit(rows, CLICKS)
    assert np.array_equal(model.decision_function(rows), expected)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_indices_may_have_32_or_64_bits(kind: Any) -> None:
    expected = LRClassifier().fit(SPARSE, CLICKS).decision_function(SPARSE)
    parts = (SPARSE.data, SPARSE.indices.astype(kind), SPARSE.indptr.astype(kind))
    rows = csr_array(parts, shape=SPARSE.shape)
    rows.indices, rows.indptr = parts[1:]
    assert rows.indices.dtype == kind
    model = LRClassifier().fit(rows, CLICKS)
    assert np.array_equal(model.decision_function(rows), expected)
    assert np.array_equal(model.decision_function(rows.tocsc()), expected)


def frames_of(columns: dict[str, Any]) -> list[Any]:
    return [pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)]


@pytest.mark.parametrize("made", ALL)
def test_a_frame_of_numbers_is_read_as_an_array(made: Any) -> None:
    y = CLICKS if made in CLASSIFIERS else SIZES
    expected = made().fit(DENSE, y).predict(DENSE)
    for frame in frames_of({name: DENSE[:, at] for at, name in enumerate("abcd")}):
        model = made().fit(frame, y)
        assert model.feature_names_in_.tolist() == [*"abcd"]
        assert model.n_features_in_ == 4
        assert np.array_equal(model.predict(frame), expected)


def table() -> dict[str, Any]:
    sites = ["news" if click else ["sport", None][n % 2] for n, click in enumerate(CLICKS)]
    return {"site": sites, "price": DENSE[:, 0], "new": CLICKS == 1}


def test_categories_of_a_frame_need_no_encoding() -> None:
    frames = frames_of(table())
    frames.append(frames[0].astype({"site": "category"}))
    frames.append(frames[1].with_columns(pl.col("site").cast(pl.Categorical)))
    expected = None
    for frame in frames:
        model = AutoClassifier().fit(frame, CLICKS)
        assert model.score(frame, CLICKS) == 1
        margins = model.decision_function(frame)
        expected = margins if expected is None else expected
        assert np.array_equal(margins, expected)
    schema = model.schema_
    assert [column.kind for column in schema.columns] == ["category", "number", "category"]
    unseen = pd.DataFrame({"site": ["weather"], "price": [0.0], "new": [True]})
    assert model.predict_proba(unseen).shape == (1, 2)


def test_a_schema_says_what_columns_are() -> None:
    frame = pd.DataFrame({"hour": np.arange(300) % 24})
    night = frame["hour"] % 24 < 6
    schema = pqrlearn.Schema((pqrlearn.Column("hour", "category"),))
    assert LRClassifier(schema=schema).fit(frame, night).score(frame, night) == 1
    array = pqrlearn.Schema((pqrlearn.Column("0", "category"),))
    assert LRClassifier(schema=array).fit(frame.to_numpy(), night).score(frame.to_numpy(), night)
    with pytest.raises(DataError, match="there is no column 'minute'"):
        LRClassifier(schema={"columns": [{"name": "minute", "kind": "number"}]}).fit(frame, night)


def test_a_model_of_a_frame_can_be_saved_and_used_without_scikit_learn(tmp_path: Path) -> None:
    frame = frames_of(table())[0]
    model = AutoClassifier().fit(frame, CLICKS)
    model.models_[0].save(tmp_path / "model.pqr")
    alone = pqrlearn.load(tmp_path / "model.pqr")
    assert np.allclose(alone.predict_many(frame), model.predict_proba(frame)[:, 1])


def test_a_missing_number_is_a_feature_of_its_own() -> None:
    X = DENSE.copy()
    X[CLICKS == 1, 2] = np.nan
    for rows in (X, frames_of({name: X[:, at] for at, name in enumerate("abcd")})[0]):
        model = LRClassifier().fit(rows, CLICKS)
        assert model.score(rows, CLICKS) > 0.98
        assert any(name.endswith("=∅") for name in model.features_)
    with pytest.raises(ValueError, match="infinit"):
        LRClassifier().fit(np.where(np.isnan(X), np.inf, X), CLICKS)


def test_rows_may_be_dense_in_fit_and_sparse_in_predict_and_the_other_way_round() -> None:
    dense = SPARSE.toarray()
    for fitted, other in ((dense, SPARSE), (SPARSE, dense)):
        model = AutoClassifier().fit(fitted, CLICKS)
        assert np.array_equal(model.decision_function(other), model.decision_function(fitted))


def test_a_model_of_sparse_rows_may_predict_frames() -> None:
    model = LRClassifier().fit(csr_array(DENSE), CLICKS)
    expected = model.decision_function(DENSE)
    for frame in frames_of({name: DENSE[:, at] for at, name in enumerate("abcd")}):
        with pytest.warns(UserWarning, match="X has feature names"):
            assert np.array_equal(model.decision_function(frame), expected)


def test_a_table_has_not_too_many_columns() -> None:
    wide = np.zeros((2, 70_000))
    with pytest.raises(DataError, match=r"at most 65,536 columns, not 70,000; give a sparse"):
        LRClassifier().fit(wide, [0, 1])
    assert LRClassifier().fit(csr_array(wide), [0, 1]).n_features_in_ == 70_000


def test_arrays_and_frames_may_be_exchanged_with_a_warning() -> None:
    for names in (["a", "b", "c", "d"], [0, 1, 2, 3]):
        frame = pd.DataFrame(DENSE, columns=names)
        model = LRClassifier().fit(frame, CLICKS)
        expected = model.decision_function(frame)
        if names[0] == 0:  # these are no names
            assert not hasattr(model, "feature_names_in_")
            assert np.array_equal(model.decision_function(DENSE), expected)
            continue
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            assert np.array_equal(model.decision_function(DENSE), expected)


def test_an_index_of_pandas_is_no_feature() -> None:
    frame = pd.DataFrame({"a": DENSE[:, 0]}, index=CLICKS)
    by_number = pd.DataFrame({3: DENSE[:, 0]}, index=CLICKS)
    named = frame.rename_axis("click")
    for rows in (frame, by_number, named):
        model = LRClassifier().fit(rows, CLICKS)
        assert model.features_.size == model.n_features_in_ == 1
        assert np.array_equal(model.decision_function(rows[:7]), model.decision_function(rows)[:7])
        model.decision_function(rows.reset_index(drop=True))


@pytest.mark.parametrize("series", [list, pd.Series, pl.Series, pa.array])
def test_labels_may_be_columns_of_frames(series: Any) -> None:
    expected = LRClassifier().fit(SPARSE, COLOURS)
    model = LRClassifier().fit(SPARSE, series(COLOURS.tolist()), series([1.0] * 300))
    assert model.classes_.tolist() == expected.classes_.tolist()
    assert np.array_equal(model.decision_function(SPARSE), expected.decision_function(SPARSE))
    assert LRRegressor().fit(SPARSE, series(SIZES.tolist())).predict(SPARSE).shape == (300,)


# Scale.


@pytest.mark.parametrize("made", CLASSIFIERS)
def test_numbers_of_any_size_are_learned_alike(made: Any) -> None:
    expected = made().fit(DENSE, CLICKS).predict_proba(DENSE)
    moved = DENSE * [1e-6, 1e6, 1e3, 1] + [0, 1e7, -1e4, 2000]
    assert np.allclose(made().fit(moved, CLICKS).predict_proba(moved), expected, atol=1e-3)


@pytest.mark.parametrize("made", REGRESSORS)
def test_labels_of_any_size_are_learned_alike(made: Any) -> None:
    expected = made().fit(DENSE, SIZES).predict(DENSE)
    for factor, offset in ((1e6, 1e7), (1e-6, 0.0), (1e3, 5.0)):
        found = made().fit(DENSE, SIZES * factor + offset).predict(DENSE)
        assert np.allclose((found - offset) / factor, expected, atol=0.05)


def test_counts_are_learned_by_the_poisson_loss() -> None:
    counts = chance.poisson(np.exp(DENSE[:, 0]))
    for made in (LRRegressor, PQRRegressor, FMRegressor):
        model = made(loss="poisson").fit(DENSE, counts)
        found = model.predict(DENSE)
        assert (found > 0).all()
        assert np.corrcoef(found, np.exp(DENSE[:, 0]))[0, 1] > 0.9
    with pytest.raises(ValueError, match="is not a count"):
        LRRegressor(loss="poisson").fit(DENSE, counts - 1.0)


def test_it_is_about_as_good_as_the_solvers_of_scikit_learn() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    peer = make_pipeline(StandardScaler(), LogisticRegression())
    least = cross_val_score(peer, X, y, scoring="roc_auc", cv=3).mean() - 0.01
    for made in CLASSIFIERS:
        assert cross_val_score(made(), X, y, scoring="roc_auc", cv=3).mean() > least
    X, y = load_diabetes(return_X_y=True)
    for made in REGRESSORS:
        assert cross_val_score(made(), X, y, cv=3).mean() > 0.45


# Weights of rows, and parts of the rows.


def test_a_row_of_weight_zero_teaches_nothing() -> None:
    weights = np.arange(300) % 2
    model = LRClassifier().fit(SPARSE, CLICKS, sample_weight=weights)
    half = LRClassifier().fit(SPARSE[1::2], CLICKS[1::2])
    assert np.array_equal(model.decision_function(SPARSE), half.decision_function(SPARSE))
    with pytest.raises(ValueError, match=r"row 0: .*-1"):
        LRClassifier().fit(SPARSE, CLICKS, sample_weight=weights - 1.0)


def test_weights_are_those_of_the_plain_learner() -> None:
    weights = chance.random(300)
    learner = LR()
    learner.learn_many(SPARSE, CLICKS, weights)
    model = LRClassifier(passes=1).fit(SPARSE, CLICKS, sample_weight=weights)
    assert model.models_[0].to_bytes() == learner.to_bytes()


def test_the_scale_of_labels_is_that_of_weighted_rows() -> None:
    weights = (np.arange(300) >= 150).astype(float)
    model = AutoRegressor().fit(DENSE, np.where(weights, SIZES, 1e9), sample_weight=weights)
    assert model.target_center_ == pytest.approx(SIZES[150:].mean())
    assert model.target_scale_ == pytest.approx(SIZES[150:].std())


@pytest.mark.parametrize("made", [AutoClassifier, LRClassifier, FMClassifier, DiFactoClassifier])
def test_partial_fit_learns_as_fit_does_in_one_pass(made: Any) -> None:
    frame = frames_of(table())[0]
    schema = AutoClassifier().fit(frame, CLICKS).schema_
    settings = {} if made is AutoClassifier else {"passes": 1}
    whole = made(schema=schema, **settings).fit(frame, CLICKS)
    parts = made(schema=schema)
    for start in range(0, 300, 70):
        rows = slice(start, start + 70)
        parts.partial_fit(frame[rows], CLICKS[rows], classes=[0, 1])
    assert parts.models_[0].to_bytes() == whole.models_[0].to_bytes()


def test_a_class_may_come_later_if_it_was_announced() -> None:
    model = LRClassifier()
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(SPARSE, CLICKS)
    model.partial_fit(SPARSE[:9], ["red"] * 9, classes=["red", "green", "blue"])
    model.partial_fit(SPARSE, COLOURS)
    assert model.predict_proba(SPARSE).shape == (300, 3)
    with pytest.raises(DataError, match=r"y has .*pink.*, which is not one of the classes"):
        model.partial_fit(SPARSE[:1], ["pink"])
    with pytest.raises(DataError, match=r"y has one class, .*red.*: a classifier needs two"):
        model.fit(SPARSE[:9], ["red"] * 9)


def test_fit_forgets_what_was_learned_before() -> None:
    model = LRClassifier().fit(DENSE, COLOURS).fit(SPARSE, CLICKS)
    assert model.classes_.tolist() == [0, 1]
    assert model.n_features_in_ == 40
    fresh = LRClassifier().fit(SPARSE, CLICKS)
    assert np.array_equal(model.decision_function(SPARSE), fresh.decision_function(SPARSE))
