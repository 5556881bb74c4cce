"""scikit-learn's own checks, on every estimator."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import pqrlearn.sklearn

ESTIMATORS = [getattr(pqrlearn.sklearn, name)() for name in pqrlearn.sklearn.__all__]

# An online learner takes one step for a row, however large its weight; two rows are two steps, and
# what they teach depends on their order. SGDClassifier and SGDRegressor fail here for that reason.
_STEPS = "a row of weight 2 is one step, two rows are two"
NOT_EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": _STEPS,
    "check_sample_weight_equivalence_on_sparse_data": _STEPS,
}


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")  # of a check
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: NOT_EXPECTED)
def test_the_checks_of_scikit_learn_pass(estimator: Any, check: Any) -> None:
    check(estimator)
