"""Estimators for scikit-learn in its tools, their weights and their errors."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array, random_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import pqrlearn
from pqrlearn.errors import DataError, HyperError, SettingsConflict
from pqrlearn.sklearn import (
    AutoClassifier,
    AutoRegressor,
    DiFactoClassifier,
    FMClassifier,
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
SITES = ["news" if click else ["sport", "none"][n % 2] for n, click in enumerate(CLICKS)]
FRAME = pd.DataFrame({"site": SITES, "price": DENSE[:, 0]})

ALL = [getattr(pqrlearn.sklearn, name) for name in pqrlearn.sklearn.__all__]


# Weights of features.


def test_the_weights_of_a_linear_model_give_its_margins() -> None:
    model = LRClassifier(l1=2.0).fit(SPARSE, CLICKS)
    margins = (SPARSE @ model.coef_.T).toarray()[:, 0] + model.intercept_
    assert np.allclose(margins, model.decision_function(SPARSE), atol=1e-5)
    assert 0 < model.coef_.nnz < 40
    many = LRClassifier().fit(SPARSE, COLOURS)
    margins = (SPARSE @ many.coef_.T).toarray() + many.intercept_
    assert np.allclose(margins, many.decision_function(SPARSE), atol=1e-5)


def test_the_weights_of_numbers_are_those_of_scaled_columns() -> None:
    rows = DENSE * 100 + 7
    model = LRRegressor().fit(rows, SIZES * 50)
    assert model.features_.tolist() == ["0", "1", "2", "3"]
    center, scale = rows.mean(axis=0), rows.std(axis=0)
    found = ((rows - center) / scale) @ model.coef_.toarray()[0] + model.intercept_[0]
    assert np.allclose(found, model.predict(rows), atol=1e-3)


def test_the_weights_of_pairs_give_the_margins_of_pqr() -> None:
    model = PQRRegressor(order=5, interaction_scale=None).fit(SPARSE, SPARSE.sum(axis=1) * 9)
    rows = SPARSE.toarray()
    low = rows.copy()
    low[:, model.models_[0].separation.features] = 0
    found = model.intercept_[0] + rows @ model.coef_.toarray()[0]
    found += ((rows @ model.interactions_[0].toarray()) * rows).sum(axis=1)
    found += (rows @ model.shared_.toarray()[0]) * low.sum(axis=1)
    assert np.allclose(found, model.predict(SPARSE), atol=1e-3)
    assert model.interactions_[0].nnz == 10


def test_a_model_that_is_not_linear_shows_no_weights() -> None:
    for made in (AutoClassifier, FMClassifier, DiFactoClassifier, AutoRegressor):
        assert not hasattr(made().fit(DENSE, CLICKS), "coef_")
    assert not hasattr(LRClassifier(), "coef_")
    with pytest.raises(NotFittedError):
        PQRClassifier().interactions_  # noqa: B018


# Tools of scikit-learn.


def test_pipelines_and_column_transformers_feed_it() -> None:
    encode = ColumnTransformer(
        [("site", OneHotEncoder(), ["site"]), ("price", StandardScaler(), ["price"])]
    )
    assert make_pipeline(encode, LRClassifier()).fit(FRAME, CLICKS).score(FRAME, CLICKS) == 1
    named = ColumnTransformer(
        [("price", StandardScaler(), ["price"])], remainder="passthrough"
    ).set_output(transform="pandas")
    model = make_pipeline(named, AutoClassifier()).fit(FRAME, CLICKS)
    assert model.score(FRAME, CLICKS) == 1
    assert "remainder__site" in model[-1].feature_names_in_


@pytest.mark.filterwarnings("ignore:A worker stopped:UserWarning")  # on a busy machine
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_a_search_finds_settings_on_processes_and_threads(backend: str) -> None:
    grid = {"order": np.array([0, 4]), "alpha": np.array([0.01, 0.5])}
    with joblib.parallel_config(backend, n_jobs=2):
        search = GridSearchCV(PQRRegressor(), grid, cv=2).fit(DENSE, SIZES)
    assert search.best_params_ == {"order": 4, "alpha": 0.5}
    alone = PQRRegressor(order=4, alpha=0.5).fit(DENSE, SIZES)
    assert np.array_equal(search.predict(DENSE), alone.predict(DENSE))


def test_probabilities_can_be_calibrated() -> None:
    model = CalibratedClassifierCV(AutoClassifier(), cv=3).fit(SPARSE, COLOURS)
    assert np.allclose(model.predict_proba(SPARSE).sum(axis=1), 1)


def test_weights_are_routed_to_fit_and_score() -> None:
    weights = (np.arange(300) % 3 == 0).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        model = AutoClassifier().set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        found = cross_validate(
            model,
            *(SPARSE, CLICKS),
            params={"sample_weight": weights},
            return_estimator=True,
            cv=2,
        )
        other = LRClassifier().set_partial_fit_request(classes=True, sample_weight=True)
        assert other.get_metadata_routing().partial_fit.requests == {
            "classes": True,
            "sample_weight": True,
        }
    assert sum(m.models_[0].rows for m in found["estimator"]) < 300  # those of weight 0 are not


@pytest.mark.parametrize("made", ALL)
def test_a_clone_has_the_settings_and_a_pickle_goes_on(made: Any) -> None:
    y = CLICKS if sklearn.base.is_classifier(made()) else SIZES
    model = made(bias=False) if made.kind != "auto" else made(memory=10**6)
    model.fit(SPARSE, y)
    twin = pickle.loads(pickle.dumps(model))
    for each in (model, twin):
        each.partial_fit(SPARSE, y)
    assert twin.models_[0].to_bytes() == model.models_[0].to_bytes()
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "models_")


def test_threads_may_predict_with_one_model() -> None:
    model = AutoClassifier().fit(SPARSE, COLOURS)
    expected = model.predict_proba(SPARSE)
    tasks = (joblib.delayed(model.predict_proba)(SPARSE) for _ in range(8))
    for found in joblib.Parallel(2, prefer="threads")(tasks):
        assert np.array_equal(found, expected)


# Errors.


def test_settings_that_do_not_fit_are_named() -> None:
    with pytest.raises(SettingsConflict, match="eta needs optimizer ogd or ftrl-general, not ftrl"):
        LRClassifier(eta=0.1).fit(SPARSE, CLICKS)
    with pytest.raises(HyperError, match=r"passes=0 must be a whole number >= 1"):
        LRClassifier(passes=0).fit(SPARSE, CLICKS)
    with pytest.raises(HyperError, match="order=-1 must be a whole number"):
        PQRClassifier(order=-1).fit(SPARSE, CLICKS)
    with pytest.raises(HyperError, match="loss='absolute' must be one of"):
        LRRegressor(loss="absolute").fit(SPARSE, SIZES)
    with pytest.raises(TypeError, match="unexpected keyword argument 'alhpa'"):
        LRClassifier(alhpa=1)
    model = LRClassifier(optimizer="ogd", eta=0.5, radius=3.0).fit(SPARSE, CLICKS)
    assert model.models_[0].optimizer == pqrlearn.Ogd(eta=0.5, radius=3.0)


def test_an_empty_table_is_an_error() -> None:
    with pytest.raises(DataError, match=r"a table of shape \(0, 2\) has nothing to learn"):
        LRClassifier().fit(FRAME[:0], [])


@pytest.mark.parametrize("extra", ["sklearn", "river"])
def test_without_the_library_the_extra_is_named(extra: str) -> None:
    script = f"import sys; sys.modules['{extra}'] = None; import pqrlearn.{extra}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert f'need an extra: pip install "pqrlearn[{extra}]"' in done.stderr.splitlines()[-1]
