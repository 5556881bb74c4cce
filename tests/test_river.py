"""Estimators for River: its checks, its pipelines, its way to measure and to choose."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from river import (
    checks,
    compose,
    datasets,
    evaluate,
    feature_extraction,
    linear_model,
    metrics,
    model_selection,
    multiclass,
    preprocessing,
    utils,
)

import pqrlearn.river
from pqrlearn import LR, PQR, Auto, Ftrl, Separation
from pqrlearn.errors import HyperError, RowError
from pqrlearn.river import (
    AutoClassifier,
    AutoRegressor,
    DiFactoRegressor,
    FMRegressor,
    LRClassifier,
    LRRegressor,
    PQRClassifier,
)

ALL = [getattr(pqrlearn.river, name) for name in pqrlearn.river.__all__]
CLICKS = list(datasets.Phishing().take(300))

# The checks learn dates as the number 736389 of days. The products of pairs of such numbers leave
# the range of 32-bit floats, and the row is refused: these models need a scaler before them.
NEED_A_SCALER = (FMRegressor, DiFactoRegressor)

taken_as_number = pytest.mark.filterwarnings("ignore:field 'ordinal_date':UserWarning")


@taken_as_number
@pytest.mark.parametrize("made", ALL)
def test_the_checks_of_river_pass(made: Any) -> None:
    for params in made._unit_test_params():
        model = made(**params)
        assert not model._unit_test_skips()
        if made in NEED_A_SCALER:
            model = preprocessing.StandardScaler() | model
        checks.check_estimator(model)


def test_an_estimator_is_the_plain_learner() -> None:
    separation = Separation.top_k([x for x, _ in CLICKS], order=4)
    for estimator, learner in (
        (AutoClassifier(), Auto()),
        (LRClassifier(alpha=0.3, l1=0.1), LR(optimizer=Ftrl(0.3, l1=0.1))),
        (PQRClassifier(separation=separation), PQR(separation)),
    ):
        for n, (x, y) in enumerate(CLICKS):
            learner.learn_one(x, y, 1 + n % 2)
            estimator.learn_one(x, y, w=1 + n % 2)
        assert estimator.learner.to_bytes() == learner.to_bytes()
        x = CLICKS[0][0]
        chance = learner.predict_one(x)
        assert estimator.predict_proba_one(x) == {False: 1 - chance, True: chance}
        assert estimator.predict_one(x) == (chance > 0.5)


def test_counts_are_learned_by_the_poisson_loss() -> None:
    model, learner = LRRegressor(loss="poisson"), LR("poisson")
    for n in range(100):
        model.learn_one({"day": str(n % 7)}, n % 7)
        learner.learn_one({"day": str(n % 7)}, n % 7)
    assert model.predict_one({"day": "6"}) == learner.predict_one({"day": "6"}) > 0
    with pytest.raises(RowError, match="is not a count"):
        model.learn_one({"day": "6"}, -1)


@pytest.mark.parametrize("delay", [None, 50])
def test_progressive_validation_may_be_delayed(delay: int | None) -> None:
    score = evaluate.progressive_val_score(CLICKS, AutoClassifier(), metrics.LogLoss(), delay=delay)
    model, found = AutoClassifier(), metrics.LogLoss()
    for at, (x, y) in enumerate(CLICKS):
        known = at - (delay or 0)
        if delay is not None and known >= 0:
            model.learn_one(*CLICKS[known])
        found.update(y, model.predict_proba_one(x))
        if delay is None:
            model.learn_one(x, y)
    assert score.get() == pytest.approx(found.get())
    assert 0 < score.get() < 0.69


def test_it_is_about_as_good_as_the_models_of_river() -> None:
    peer = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    worst = evaluate.progressive_val_score(datasets.Phishing(), peer, metrics.LogLoss()).get()
    for model in (AutoClassifier(), preprocessing.StandardScaler() | LRClassifier()):
        found = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss()).get()
        assert found < worst


@taken_as_number
def test_auto_learns_numbers_and_labels_as_they_are() -> None:
    found = evaluate.progressive_val_score(datasets.TrumpApproval(), AutoRegressor(), metrics.MAE())
    assert found.get() < 0.5
    scaled = preprocessing.TargetStandardScaler(regressor=LRRegressor(alpha=0.5))
    model = preprocessing.StandardScaler() | scaled
    found = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    assert found.get() < 1


def test_a_pipeline_explains_one_row() -> None:
    scale = compose.SelectType(float, int) | preprocessing.StandardScaler()
    model = (scale + compose.Select("site")) | AutoClassifier()
    for n in range(100):
        x = {"site": "news" if n % 2 else "sport", "price": float(n % 10), "none": None}
        model.learn_one(x, n % 2 == 1)
    report = model.debug_one({"site": "news", "price": 3.0})
    title, table = report.split("AutoClassifier\n")[-1].split("\n", 1)
    assert set(title) == {"-"}
    lines = [line.split() for line in table.splitlines() if line]
    assert lines[0] == ["Name", "Value", "Contribution"]
    assert {line[0] for line in lines[1:4]} == {"site", "price", "Intercept"}
    assert lines[1][:2] == ["site", "news"]
    assert [line[0] for line in lines[4:]] == ["False:", "True:"]


def test_contributions_are_what_a_feature_adds_to_the_margin() -> None:
    model = AutoClassifier()
    for x, y in CLICKS:
        model.learn_one(x, y)
    row = {**CLICKS[0][0], "site": "news", "gone": None}
    lines = [line.split() for line in model.debug_one(row, decimals=3).splitlines()[1:]]
    found = {line[0]: float(line[-1]) for line in lines}
    assert list(found.values()) == sorted(found.values(), reverse=True)
    margin = model.learner.margin_one
    assert found.pop("Intercept") == pytest.approx(margin({}), abs=1e-3)
    assert found["gone"] == 0
    for name, value in found.items():
        without = {key: value for key, value in row.items() if key != name}
        assert value == pytest.approx(margin(row) - margin(without), abs=1e-3)


def test_features_need_not_be_called_by_texts() -> None:
    model = feature_extraction.BagOfWords(ngram_range=(1, 2)) | AutoClassifier()
    for _ in range(30):
        model.learn_one("a good film", True)
        model.learn_one("not good", False)
    assert model.predict_one("a good film") is True
    assert model[-1].learner.names.find("('good', 'film')") is not None
    mixed = LRClassifier()
    for _ in range(9):
        mixed.learn_one({"a": 1.0, 0: 2.0, np.str_("b"): 1}, True)
    assert mixed.predict_one({0: 2.0})


def test_more_classes_are_told_apart_by_a_model_each() -> None:
    model = multiclass.OneVsRestClassifier(AutoClassifier())
    rows = datasets.ImageSegments().take(500)
    assert evaluate.progressive_val_score(rows, model, metrics.Accuracy()).get() > 0.7
    with pytest.raises(RowError, match=r"label 'spam' is neither True nor False; .*OneVsRest"):
        AutoClassifier().learn_one({"a": 1}, "spam")


def test_settings_are_chosen_by_model_selection() -> None:
    scale, grid = preprocessing.StandardScaler(), {"LRClassifier": {"alpha": [1e-6, 0.1]}}
    models = utils.expand_param_grid(scale | LRClassifier(), grid)
    chosen = model_selection.SuccessiveHalvingClassifier(
        models, metrics.LogLoss(), budget=200, eta=2, seed=1
    )
    evaluate.progressive_val_score(CLICKS, chosen, metrics.LogLoss())
    assert chosen.best_model["LRClassifier"].alpha == 0.1
    numbers = [LRRegressor(alpha=1e-6), LRRegressor(alpha=0.5), AutoRegressor()]
    bandit = model_selection.GreedyRegressor(numbers, metrics.MAE())
    for n in range(200):
        bandit.learn_one({"day": str(n % 7)}, n % 7)
    assert bandit.best_model is not bandit.models[0]


def test_pqr_needs_a_separation() -> None:
    with pytest.raises(HyperError, match="PQR needs a Separation"):
        PQRClassifier()
    separation = Separation.top_k([{"a": "x", "b": 2.0}], order=2)
    for twin in (pickle.loads(pickle.dumps(separation)), copy.deepcopy(separation)):
        assert twin.high_names() == separation.high_names() == ["a=x", "b"]
        assert repr(twin) == repr(separation)
    model = PQRClassifier(separation=separation, alpha=0.5).clone()
    assert (model.learner.separation.order, model.alpha) == (2, 0.5)
