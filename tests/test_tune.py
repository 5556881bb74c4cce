"""Tuning: it finds good settings, repeats itself, goes on where it was, and survives divergence."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from command import clicks, failure, figures, ok, run, write_rows
from pqrlearn import Batch, Counts
from pqrlearn.cli.tune import _report
from pqrlearn.journal import Journal
from pqrlearn.learners import LEARNERS, make
from pqrlearn.learners.build import settings_of
from pqrlearn.loss import LOSSES
from pqrlearn.spaces import (
    HIGHEST,
    LOWEST,
    Log,
    Optional,
    Values,
    edges,
    near,
    order_axis,
    random_points,
    settings_at,
    space,
    tiers_of,
)
from pqrlearn.tune import Task, trials_of, tune

RATINGS_RANKS = {2**power for power in range(1, 10)}


def ratings(rows: int = 900) -> Batch:
    """Two crossed groups and noise: interactions matter, and a small rate learns too little."""
    generator = np.random.default_rng(5)
    pairs = np.stack([generator.integers(0, 4, rows), generator.integers(4, 8, rows)], axis=1)
    labels = 3 + (pairs.sum(axis=1) % 2) + 0.1 * generator.standard_normal(rows)
    return Batch.from_rows(((pair, [1.0, 1.0]) for pair in pairs.tolist()), labels)


def task(kind: str, **fixed: object) -> Task:
    rows = ratings()
    train = rows.part(0, 810)
    known = {"order": 8} if kind == "pqr" and "order" not in fixed else {}
    return Task(kind, "squared", train, rows.part(810, 900), {**known, **fixed})


# The space.


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("kind", LEARNERS)
def test_the_whole_range_of_the_paper_is_searched_and_penalties_may_be_zero(
    kind: str, loss: str
) -> None:
    ranks = {4, 8, 16, 32, 64} if loss == "logistic" else RATINGS_RANKS
    for name, axis in space(kind, loss).items():
        ends = [axis.value(0.0), axis.value(1.0)]
        if isinstance(axis, Values):
            assert {v if name == "rank" else v[-1][1] for v in axis.values} == ranks
        elif name in ("l1", "l2", "factor_l2"):
            assert ends == [0.0, HIGHEST]
        elif name in ("alpha", "beta", "factor_eta", "factor_beta"):
            assert ends == [LOWEST, HIGHEST]


def test_every_setting_of_every_learner_is_searched_or_known_not_to_be() -> None:
    left = {"seed", "bias", "optimizer", "block_rows", "schedule", "memory", "name"}
    left |= {"max_pairs_per_row"}
    for kind in LEARNERS:
        own = set(settings_of(task(kind)._learner(task(kind).fixed))) - left
        searched = set(space(kind, "squared"))
        assert own - searched == set(), kind


def test_the_papers_fm_has_one_step_size_and_l1() -> None:
    found = space("fm", "squared", {"optimizer": "sgd"})
    assert {*found} == {"eta", "schedule", "l1", "rank", "init"}


@pytest.mark.parametrize("kind", LEARNERS)
def test_every_setting_tried_is_one_of_the_learner(kind: str) -> None:
    separation, axes = Counts.of(ratings()).separate(order=3), space(kind, "squared")
    for point in random_points(len(axes), 12, seed=1):
        assert make(kind, "squared", settings_at(axes, point), separation).kind == kind


def test_points_fill_every_axis_evenly_and_more_begin_like_fewer() -> None:
    few, many = random_points(5, 12, seed=3), random_points(5, 100, seed=3)
    np.testing.assert_array_equal(few, many[:12])
    counts = [np.histogram(column, 10, (0, 1))[0] for column in np.transpose(many)]
    assert np.min(counts) >= 7
    assert not np.allclose(few, random_points(5, 12, seed=4))


def test_points_near_a_point_are_other_points_inside_the_cube() -> None:
    for start in (np.zeros(4), np.full(4, 0.5), np.ones(4)):
        for seed in range(50):
            moved = near(start, 0.2, [seed])
            assert moved.min() >= 0
            assert moved.max() <= 1
            assert (moved != start).any()


def test_a_place_leads_back_to_its_value() -> None:
    for axis in (Log(), Log(zero=0.2), Values((2, 4, 8)), Optional(Log(0.1, 10)), order_axis(500)):
        for place in np.linspace(0, 1, 23):
            value = axis.value(place)
            again = axis.value(axis.place(value))
            assert again == value or again == pytest.approx(value, rel=0.01)


def test_the_ends_of_a_range_are_told() -> None:
    axes = {"a": Log(), "b": Log(zero=0.1), "c": Values((1, 2, 3)), "d": Optional(Log())}
    low = {"a": LOWEST, "b": 0.0, "c": 1, "d": None}
    assert edges(axes, low) == {"a": "lowest", "c": "lowest"}
    high = {"a": HIGHEST, "b": HIGHEST, "c": 3, "d": HIGHEST}
    assert edges(axes, high) == dict.fromkeys("abcd", "highest")
    assert edges(axes, {"a": 0.1, "b": LOWEST, "c": 2, "d": 0.1}) == {}


def test_orders_go_from_no_interactions_to_all_features() -> None:
    axis = order_axis(300)
    assert [axis.value(place) for place in (0.05, 0.1, 1.0)] == [0, 10, 300]
    assert order_axis(4).value(1.0) == 4


def test_tiers_leave_out_ranks_that_would_be_zero() -> None:
    assert tiers_of(2) == ((100, 1), (1000, 2))
    assert tiers_of(16) == ((10, 4), (100, 8), (1000, 16))


# The search.


def test_the_winner_is_the_best_of_those_that_learned_everything() -> None:
    problem = task("pqr")
    found = tune(problem, trials=34)
    sizes = [trial.rows for trial in found.trials]
    start, spread, near = 3, 15, 8 * 2  # eight rounds of two
    assert start + spread + near == 34
    assert [sizes.count(rows) for rows in (30, 90, 270, 810)] == [15, 5, 2 + near, 1 + 8 + start]
    last = [trial for trial in found.trials if trial.rows == 810]
    assert found.score == min(trial.score for trial in last) == problem.score(found.settings, 810)


def test_the_defaults_are_the_first_trial_so_that_tuning_is_never_worse() -> None:
    problem = task("difacto")
    found = tune(problem, trials=1)
    (first, *_) = found.trials
    default = problem.default()
    assert {name: first.settings[name] for name in ("alpha", "l1", "tiers")} == {
        name: default[name] for name in ("alpha", "l1", "tiers")
    }


def test_the_order_of_pqr_is_searched_unless_it_is_fixed() -> None:
    rows = ratings()
    free = Task("pqr", "squared", rows.part(0, 810), rows.part(810, 900), {})
    found = tune(free, trials=40)
    assert {trial.settings["order"] for trial in found.trials} >= {0, 8}
    assert found.settings["order"] == 8  # all features: interactions are everything here
    none = free.score({"order": 0, "alpha": 0.1})
    linear = task("lr").score({"alpha": 0.1})
    assert none == linear
    assert {trial.settings["order"] for trial in tune(task("pqr"), trials=9).trials} == {8}


def test_a_result_is_shown_beside_defaults_lr_and_the_best_constant() -> None:
    problem = task("pqr")
    beside = problem.yardsticks()
    assert beside["default"] == problem.score({"order": 8})
    assert beside["lr"] == task("lr").score({})
    assert beside["constant"] == pytest.approx(np.std(problem.validation.labels), rel=1e-6)


def test_every_model_has_a_number_of_trials_for_every_loss() -> None:
    for kind in LEARNERS:
        counts = [trials_of(kind, loss, {}) for loss in LOSSES]
        assert counts[0] >= counts[1] >= (1 if kind == "auto" else 54)
    assert trials_of("fm", "squared", {"optimizer": "sgd"}) > trials_of("fm", "squared", {})


def test_without_a_number_as_many_trials_are_run_as_the_model_needs() -> None:
    assert tune(task("lr")) == tune(task("lr"), trials=trials_of("lr", "squared", {}))
    assert tune(task("lr")).trials != tune(task("lr"), trials=54).trials


def test_tuning_beats_the_defaults_and_sees_that_interactions_pay() -> None:
    tuned = tune(task("pqr"), trials=27)
    default = task("pqr").score({"order": 8}, 810)
    assert default is not None
    assert tuned.score < default
    assert tuned.score < tune(task("lr"), trials=27).score - 0.2


@pytest.mark.parametrize("kind", LEARNERS)
def test_every_learner_can_be_tuned_and_the_search_repeats(kind: str) -> None:
    alone, together = tune(task(kind), trials=4), tune(task(kind), trials=4, jobs=3)
    assert alone == together
    assert math.isfinite(alone.score)


def test_fixed_settings_are_not_searched() -> None:
    found = tune(task("pqr", interaction_scale=None, alpha=0.2), trials=6)
    for trial in found.trials:
        assert (trial.settings["interaction_scale"], trial.settings["alpha"]) == (None, 0.2)


def test_a_trial_that_diverges_loses_and_is_no_error() -> None:
    problem = task("fm")
    huge = replace(problem, train=replace(problem.train, labels=problem.train.labels * 1e30))
    assert all(math.isinf(trial.score) for trial in tune(huge, trials=3).trials)


def test_a_search_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tune(task("lr"), trials=9)
    measured: list[int] = []
    score, stopped = Task.score, True

    def interrupted(self: Task, settings: dict[str, object], rows: int) -> float | None:
        measured.append(rows)
        if stopped and len(measured) > 4:
            raise KeyboardInterrupt
        return score(self, settings, rows)

    monkeypatch.setattr(Task, "score", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune(task("lr"), trials=9, journal=Journal(tmp_path / "trials.jsonl"))
    measured.clear()
    stopped = False
    again = tune(task("lr"), trials=9, journal=Journal(tmp_path / "trials.jsonl"))
    assert again == whole
    assert len(measured) == len(whole.trials) - 4
    measured.clear()
    assert tune(task("lr"), trials=9, journal=Journal(tmp_path / "trials.jsonl")) == whole
    assert not measured


def test_other_rows_are_another_search(tmp_path: Path) -> None:
    problem = task("lr")
    other = replace(problem, train=replace(problem.train, labels=problem.train.labels + 1))
    journal = Journal(tmp_path / "trials.jsonl")
    assert tune(problem, trials=3, journal=journal) != tune(other, trials=3, journal=journal)


# The command.


def test_the_command_prints_a_line_that_trains(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows of mine.svm", clicks(seed=3))
    out = ok("tune", rows, "--order", 3, "--trials", 6, "--quiet")
    words = out.splitlines()[-1]
    assert words.startswith(
        f"pqr train '{rows}' -o model.pqr --model pqr --loss logistic --order 3"
    )
    assert [line.split("  ")[0] for line in out.splitlines() if ", defaults" in line] == [
        "pqr, defaults",
        "lr, defaults",
    ]
    assert "best constant" in out
    found = figures("tune", rows, "--order", 3, "--trials", 6)
    assert found["command"] == words
    done = run(*_arguments(words), "--json", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("kind", ["difacto", "cfm", "ccfm", "qr"])
def test_the_line_that_trains_is_understood_for_every_model(tmp_path: Path, kind: str) -> None:
    rows = write_rows(tmp_path / "rows.svm", clicks(seed=3))
    words = figures("tune", rows, "--model", kind, "--trials", 2)["command"]
    assert run(*_arguments(words), cwd=tmp_path).code == 0


def _arguments(command: str) -> list[str]:
    program, *arguments = shlex.split(command)
    assert program == "pqr"
    return arguments


def test_a_table_is_tuned_and_the_line_that_trains_says_how_it_is_read(tmp_path: Path) -> None:
    rows = "".join(f"{n % 2};{'ab'[n % 2]};{n % 3}\n" for n in range(300))
    (tmp_path / "rows.txt").write_text(f"click;site;hour\n{rows}")
    given = ("tune", tmp_path / "rows.txt", "--label", "click", "--delimiter", ";")
    found = figures(*given, "--ignore", "hour", "--trials", 12)
    assert "--delimiter ';'" in found["command"]
    assert "--label click --ignore hour" in found["command"]
    assert found["beside"]["constant"] == pytest.approx(math.log(2), rel=0.01)
    assert found["validation_logloss"] < 0.3
    done = run(*_arguments(found["command"]), "--json", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    price = "".join(f"{n % 7}.5;{n % 7}\n" for n in range(300))
    (tmp_path / "rows.txt").write_text(f"price;site\n{price}")
    found = figures(*given[:2], "--label", "price", "--delimiter", ";", "--trials", 2)
    assert "validation_rmse" in found


def test_people_are_told_what_is_at_the_end_of_its_range(
    capsys: pytest.CaptureFixture[str],
) -> None:
    problem = task("fm")
    found = tune(problem, trials=1)
    _report(replace(found, edges={"rank": "highest"}), problem, "pqr train", as_json=False)
    out = capsys.readouterr().out
    assert "rank=16 is at the highest end of what was searched" in out
    _report(replace(found, edges={}), problem, "pqr train", as_json=False)
    assert "end of what was searched" not in capsys.readouterr().out


def test_a_table_without_a_label_is_an_error_that_says_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("click,site\n1,a\n0,b\n")
    assert "give --label NAME" in failure(2, "tune", tmp_path / "rows.csv")


def test_the_last_rows_judge_unless_they_are_shuffled(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.svm", clicks(seed=3))
    given = ("tune", rows, "--model", "lr", "--trials", 3)
    plain, shuffled = figures(*given), figures(*given, "--shuffle", 1)
    assert (plain["training_rows"], plain["validation_rows"]) == (360, 40)
    assert plain["trials"] != shuffled["trials"]
    few = figures(*given, "--rows", 100, "--validation", 0.2)
    assert (few["training_rows"], few["validation_rows"]) == (80, 20)


def test_the_cache_of_the_command_is_used(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.svm", clicks(seed=3))
    given = ("tune", rows, "--model", "lr", "--trials", 3, "--cache", tmp_path / "cache")
    first = figures(*given)
    journal = tmp_path / "cache" / "trials.jsonl"
    kept = journal.read_bytes()
    assert figures(*given) == first
    assert journal.read_bytes() == kept


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--model lr --order 3", "--order needs --model pqr"),
        ("--model fm --interaction-scale none", "needs --model pqr or qr"),
        ("--validation 0.9", "Invalid value for '--validation'"),
    ],
)
def test_options_that_would_not_be_heard_are_refused(tmp_path: Path, flags: str, said: str) -> None:
    rows = write_rows(tmp_path / "rows.svm", clicks(seed=3, rows=20))
    assert said in failure(2, "tune", rows, *flags.split())


def test_one_row_is_too_few(tmp_path: Path) -> None:
    (tmp_path / "rows.svm").write_text("1 3:1\n")
    assert "too few" in failure(3, "tune", tmp_path / "rows.svm")
