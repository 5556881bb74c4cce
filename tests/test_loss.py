"""The losses: the Python record against the native trait, the oracle, SciPy and scikit-learn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from sklearn.metrics import d2_tweedie_score, mean_poisson_deviance

import oracle
from pqrlearn import _core
from pqrlearn.errors import HyperError
from pqrlearn.loss import LOSSES, Loss, check_loss
from pqrlearn.metrics import Metrics

every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=lambda loss: loss.name)
margins = st.one_of(st.floats(-40, 40), st.sampled_from([-1000.0, -30.0, 0.0, 30.0, 1000.0]))
counts = st.sampled_from([0.0, 0.5, 1.0, 2.0, 7.0, 1e6])


def a_label(loss: Loss, count: float) -> float:
    return min(count, 1.0) // 1 if loss.name == "logistic" else count


@every_loss
@given(margin=margins, count=counts)
def test_python_and_the_core_agree_with_the_oracle(loss: Loss, margin: float, count: float) -> None:
    label = a_label(loss, count)
    m, y = np.array([margin]), np.array([label])
    link, value, slope, curvature = _core.loss_at(loss.name, margin, label)
    exact: dict[str, Any] = {"rel": 1e-9, "abs": 1e-9 * (1 + count)}
    assert link == pytest.approx(oracle.link(loss.name, margin), rel=1e-12)
    assert value == pytest.approx(oracle.loss_of(loss.name, margin, label), **exact)
    assert slope == pytest.approx(link - label, rel=1e-12)
    assert loss.link(m)[0] == pytest.approx(link, rel=1e-12)
    assert loss.loss(m, y)[0] == pytest.approx(value, **exact)
    assert loss.slope(m, y)[0] == pytest.approx(slope, rel=1e-12, abs=1e-15)
    assert loss.curvature(m, y)[0] == pytest.approx(curvature, rel=1e-12)
    assert value >= -1e-9 * (1 + count)


@every_loss
@pytest.mark.parametrize("margin", [-3.0, -0.5, 0.0, 0.7, 2.5])
def test_slope_and_curvature_are_derivatives(loss: Loss, margin: float) -> None:
    label = np.array([a_label(loss, 2.0)])
    slope = approx_fprime(np.array([margin]), lambda m: loss.loss(m, label)[0], 1e-7)
    assert loss.slope(np.array([margin]), label)[0] == pytest.approx(slope[0], rel=1e-5, abs=1e-6)
    second = approx_fprime(np.array([margin]), lambda m: loss.slope(m, label)[0], 1e-7)
    curvature = loss.curvature(np.array([margin]), label)[0]
    assert curvature == pytest.approx(second[0], rel=1e-5, abs=1e-6)


@every_loss
@given(margin=st.floats(-35, 35), by=st.floats(-8, 8), count=counts)
def test_a_change_is_the_difference_of_losses(
    loss: Loss, margin: float, by: float, count: float
) -> None:
    m, step, y = np.array([margin]), np.array([by]), np.array([a_label(loss, count)])
    before, after = loss.loss(m, y)[0], loss.loss(m + step, y)[0]
    size = 1e-9 * (1 + abs(before) + abs(after) + count * (1 + abs(margin)))
    assert loss.change(m, step, y)[0] == pytest.approx(after - before, rel=1e-9, abs=size)


@every_loss
def test_a_small_change_keeps_its_digits(loss: Loss) -> None:
    m, y = np.array([0.3]), np.array([a_label(loss, 2.0)])
    expected = loss.slope(m, y)[0] * 1e-13
    assert loss.change(m, np.array([1e-13]), y)[0] == pytest.approx(expected, rel=1e-9)


@every_loss
def test_labels_are_checked_alike(loss: Loss) -> None:
    labels = np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 7.5, math.inf, -math.inf, math.nan])
    fit = {"logistic": {-1, 0, 1}, "squared": set(labels[:8]), "poisson": {0, 0.5, 1, 2, 7.5}}
    for label, good in zip(labels, loss.check_label(labels), strict=True):
        assert good == (label in fit[loss.name])
        weights = np.ones(1, np.float32)
        if good:
            _core.check_targets(loss.name, np.array([label]), weights)
            assert loss.kept(np.array([label]))[0] == (
                max(label, 0) if len(fit[loss.name]) == 3 else label
            )
            continue
        said = "there is no label" if math.isnan(label) else loss.wants
        with pytest.raises(ValueError, match="row 0: ") as error:
            _core.check_targets(loss.name, np.array([label]), weights)
        assert said in str(error.value)


def test_both_halves_have_the_same_losses_and_words() -> None:
    assert {name: loss.wants for name, loss in LOSSES.items()} == _core.LABELS_WANTED


def test_an_unknown_loss_is_an_error_wherever_it_is_named() -> None:
    with pytest.raises(HyperError, match="loss='hinge' must be one of logistic, squared, poisson"):
        check_loss("hinge")
    with pytest.raises(ValueError, match="no loss is called hinge"):
        _core.loss_at("hinge", 0.0, 0.0)
    with pytest.raises(ValueError, match="no loss is called hinge"):
        _core.parse_libsvm(b"1 1:1\n", True, "hinge", 1, False)


@given(
    rows=st.lists(
        st.tuples(st.floats(-5, 5), st.integers(0, 9), st.sampled_from([0.5, 1.0, 3.0])),
        min_size=2,
        max_size=40,
    )
)
def test_the_deviance_is_that_of_scikit_learn(rows: list[tuple[float, int, float]]) -> None:
    m, y, w = np.array(rows, dtype=float).T
    metrics = Metrics("poisson")
    metrics.update(m, y, w)
    figures = metrics.result()
    expected = mean_poisson_deviance(y, np.exp(m), sample_weight=w)
    assert figures["deviance"] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    if np.ptp(y) > 0:
        explained = d2_tweedie_score(y, np.exp(m), sample_weight=w, power=1)
        ratio = 1 - figures["deviance"] / figures["constant_deviance"]
        assert ratio == pytest.approx(explained, rel=1e-6, abs=1e-9)
    else:
        assert figures["constant_deviance"] == pytest.approx(0.0, abs=1e-12)


def test_huge_poisson_margins_overflow_nothing() -> None:
    m, y = np.array([-1e9, 1e9]), np.array([3.0, 0.0])
    loss = LOSSES["poisson"]
    for found in (loss.link(m), loss.loss(m, y), loss.slope(m, y), loss.curvature(m, y)):
        assert np.isfinite(found).all()
