"""pqr compare and pqrlearn.compare: models side by side on the same rows."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pqrlearn
from command import clicks, failure, figures, in_terminal, ok, run, write_rows
from pqrlearn import Batch
from pqrlearn.comparison import Blocks, CompareConfig
from pqrlearn.comparison.paired import GROUPS, paired_interval
from pqrlearn.loss import loss_named

LOGISTIC, SQUARED = (loss_named(name).metrics for name in ("logistic", "squared"))
XOR = pd.DataFrame({"a": list("0011") * 500, "b": list("0101") * 500, "y": [0, 1, 1, 0] * 500})


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows") / "rows.svm", clicks(seed=3, rows=2000))


# The figures.


def test_each_model_does_as_it_would_do_alone(rows: Path) -> None:
    kinds = ["auto", "lr", "pqr", "fm", "difacto"]
    found = figures("compare", rows, "--models", ",".join(kinds))
    assert [one["model"] for one in found["models"]] == kinds
    for one in found["models"]:
        alone = figures("train", rows, "--model", one["model"])
        assert one["logloss"] == alone["logloss"]
        assert one["auc"] == alone["auc"]
        assert one["nonzeros"] == sum(alone["nonzeros"].values())
        assert found["constant_logloss"] == alone["constant_logloss"]


def test_a_table_is_named_and_numbered_alike_for_all_models(tmp_path: Path) -> None:
    XOR.to_csv(tmp_path / "xor.csv", index=False)
    found = figures("compare", tmp_path / "xor.csv", "--label", "y", "--models", "lr,pqr,auto")
    for one in found["models"]:
        given = ("--label", "y", "--model", one["model"])
        alone = run("train", tmp_path / "xor.csv", *given, "--json")  # which warns of LR
        assert one["logloss"] == json.loads(alone.out)["logloss"]
    models = pqrlearn.compare(XOR, label="y").models
    assert {name for one in models for name in map(one.learner.name_of, range(4))} == {
        *("a=0", "a=1", "b=0", "b=1"),
    }


def test_rows_of_a_pipe_are_read_once_and_counted_first(rows: Path) -> None:
    piped = figures("compare", "-", stdin=rows.read_bytes())
    assert [one["model"] for one in piped["models"]] == ["auto", "lr", "pqr"]
    filed = figures("compare", rows)
    assert [o["logloss"] for o in piped["models"]] == [o["logloss"] for o in filed["models"]]


def test_differences_are_from_the_best_and_in_its_units(rows: Path) -> None:
    found = figures("compare", rows, "--models", "lr,fm,qr")
    best = min(found["models"], key=lambda one: one["logloss"])
    assert found["best"] == best["model"]
    assert best["beyond_best"] is None
    for one in found["models"]:
        if one is not best:
            beyond = one["beyond_best"]
            assert beyond["difference"] == pytest.approx(one["logloss"] - best["logloss"])
            assert beyond["low"] < beyond["difference"] < beyond["high"]


def test_the_size_is_that_of_the_saved_file(rows: Path, tmp_path: Path) -> None:
    found = figures("compare", rows, "--models", "lr", "-o", tmp_path / "lr.pqr")
    assert (tmp_path / "lr.pqr").stat().st_size == found["models"][0]["bytes"]
    assert found["output"] == str(tmp_path / "lr.pqr")
    ok("train", rows, "--model", "lr", "-o", tmp_path / "alone.pqr")
    assert (tmp_path / "alone.pqr").read_bytes() == (tmp_path / "lr.pqr").read_bytes()


# The interval.


def test_the_error_of_independent_rows_is_that_of_the_textbook() -> None:
    chance = np.random.default_rng(1)
    one, other = chance.normal(1.0, 1.0, (2, 40_000))
    blocks = Blocks(3)
    blocks.add(np.array([one, other, np.ones(40_000)]))
    found = paired_interval(*blocks.sums, LOGISTIC)
    textbook = stats.sem(one - other) * stats.t.ppf(0.975, GROUPS - 1)
    assert found.difference == pytest.approx((one - other).mean())
    assert (found.high - found.low) / 2 == pytest.approx(textbook, rel=0.4)


def test_rows_that_resemble_their_neighbours_widen_the_interval() -> None:
    chance = np.random.default_rng(2)
    slow = np.repeat(chance.normal(0.0, 1.0, 400), 100)  # a day of 100 rows has one difference
    blocks = Blocks(3)
    blocks.add(np.array([2.0 + slow, np.full(40_000, 2.0), np.ones(40_000)]))
    found = paired_interval(*blocks.sums, LOGISTIC)
    true = stats.norm.ppf(0.975) / math.sqrt(400)
    assert (found.high - found.low) / 2 == pytest.approx(true, rel=0.4)
    assert (found.high - found.low) / 2 > 5 * 1.96 * stats.sem(slow)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    chance = np.random.default_rng(5)
    held = 0
    for _ in range(300):
        slow = np.convolve(chance.normal(0.0, 1.0, 3019), np.ones(20), "valid")  # mean 0
        blocks = Blocks(3)
        blocks.add(np.array([5.0 + slow, np.full(3000, 5.0), np.ones(3000)]))
        found = paired_interval(*blocks.sums, LOGISTIC)
        held += found.low < 0 < found.high
    assert 0.9 < held / 300 < 0.99


def test_a_difference_of_roots_has_the_error_of_the_delta_method() -> None:
    chance = np.random.default_rng(3)
    one, other = chance.gamma(2.0, 0.6, 30_000), chance.gamma(2.0, 0.5, 30_000)
    blocks = Blocks(3)
    blocks.add(np.array([one, other, np.ones(30_000)]))
    found = paired_interval(*blocks.sums, SQUARED)
    roots = np.sqrt(2 * one.mean()), np.sqrt(2 * other.mean())
    assert found.difference == pytest.approx(roots[0] - roots[1])
    error = np.std(one / roots[0] - other / roots[1]) / math.sqrt(30_000)
    assert (found.high - found.low) / 2 == pytest.approx(error * stats.t.ppf(0.975, 29), rel=0.4)


def test_blocks_do_not_depend_on_how_rows_are_cut() -> None:
    values = np.arange(400.0)[None, :]
    whole, parts = Blocks(1), Blocks(1)
    whole.add(values)
    for start in range(0, 400, 7):
        parts.add(values[:, start : start + 7])
    assert whole.sums.tolist() == parts.sums.tolist()
    assert whole.sums.sum() == values.sum()


def test_one_row_has_no_interval() -> None:
    found = paired_interval(np.ones(1), np.zeros(1), np.ones(1), LOGISTIC)
    assert (found.difference, found.is_known, found.is_significant) == (1.0, False, False)


# The advice.


def test_interactions_that_matter_are_worth_a_larger_model() -> None:
    found = pqrlearn.compare(XOR, label="y", models=["lr", "auto"])
    assert found.best.kind == "auto"
    assert found.advised is found.best
    assert found.advice.startswith("take auto: its LogLoss of ")
    assert "chance" not in found.advice


def test_of_models_that_cannot_be_told_apart_the_smallest_is_advised() -> None:
    chance = np.random.default_rng(0)
    sites = chance.integers(0, 2, 3000)
    frame = pd.DataFrame(
        {
            "site": np.where(sites == 1, "news", "shop"),
            "hour": chance.integers(0, 24, 3000).astype(str),
            "click": chance.random(3000) < 0.2 + 0.5 * sites,
        }
    )
    found = pqrlearn.compare(frame, label="click", models=["fm", "lr"])
    assert found.advised is not None
    told_apart = [one for one in found.models if one.beyond_best and one.beyond_best.low > 0]
    left = [one for one in found.models if one not in told_apart]
    assert found.advised.nonzeros == min(one.nonzeros for one in left)
    assert len(left) > 1
    assert "may be chance" in found.advice


def test_features_that_say_nothing_are_worth_no_model(tmp_path: Path) -> None:
    chance = np.random.default_rng(4)
    frame = pd.DataFrame(
        {"site": chance.integers(0, 300, 1000).astype(str), "click": chance.random(1000) < 0.5}
    )
    frame.to_csv(tmp_path / "noise.csv", index=False)
    given = ("--label", "click", "--models", "lr", "-o", tmp_path / "model.pqr")
    result = run("compare", tmp_path / "noise.csv", *given, "-q")
    assert result.code == 0
    assert "take none: the best LogLoss, " in result.out
    assert not (tmp_path / "model.pqr").exists()


def test_people_see_a_table_and_a_sentence(rows: Path) -> None:
    *lines, _, advice = in_terminal("compare", rows, "--quiet")
    assert lines[2].split()[:2] == ["LogLoss", "AUC"]
    assert [line.split()[0] for line in lines[3:]] == ["auto", "lr", "pqr", "constant"]
    assert advice.startswith("take ")


def test_ratings_are_compared_by_rmse_and_counts_without_auto(tmp_path: Path) -> None:
    batch = clicks(seed=5, rows=1000)
    counts = replace(batch, labels=np.round(np.abs(batch.labels * 3)))
    write_rows(tmp_path / "counts.svm", counts)
    assert figures("compare", tmp_path / "counts.svm", "--loss", "squared")["measure"] == "rmse"
    found = figures("compare", tmp_path / "counts.svm", "--loss", "poisson")
    assert [one["model"] for one in found["models"]] == ["lr", "pqr"]
    given = ("--loss", "poisson", "--models", "auto,lr")
    assert "auto has no bound there" in failure(2, "compare", tmp_path / "counts.svm", *given)


# Errors.


def test_a_model_that_does_not_exist_is_named(rows: Path) -> None:
    assert failure(2, "compare", rows, "--models", "lr,ffm") == (
        "models: 'ffm' must be one of auto, pqr, lr, qr, fm, difacto, cfm, ccfm"
    )
    assert "lr is there twice" in failure(2, "compare", rows, "--models", "lr,lr")
    assert "nothing to compare" in failure(2, "compare", rows, "--models", ",")


def test_an_input_is_never_written_over(rows: Path) -> None:
    assert "is an input" in failure(2, "compare", rows, "-o", rows)


def test_a_row_that_one_model_refuses_counts_for_none(tmp_path: Path) -> None:
    good = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 50, labels=[1, 0] * 50)
    huge = Batch.from_rows([([0, 1], [3e38, 3e38])], labels=[1])
    path = write_rows(tmp_path / "rows.svm", good, huge, good)
    assert "too large" in failure(3, "compare", path, "--models", "lr,pqr")
    result = run("compare", path, "--models", "lr,pqr", "--on-bad-row", "skip", "--json")
    assert result.code == 0, result.err
    assert "1 bad row was skipped" in result.err
    assert '"rows": 200' in result.out
    assert '"bad_rows": 1' in result.out


def test_the_configuration_is_checked_when_it_is_made() -> None:
    with pytest.raises(pqrlearn.PqrError, match="nothing to compare"):
        CompareConfig(inputs=("rows.svm",), models=())
