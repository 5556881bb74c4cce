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
from pqrlearn.journal import Journal
from pqrlearn.learners import LEARNERS, make
from pqrlearn.tune import Task, points, space, tiers_of, tune

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
    separation = Counts.of(train).separate(order=8) if kind == "pqr" else None
    return Task(kind, "squared", train, rows.part(810, 900), fixed, separation)


# The space.


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("kind", LEARNERS)
def test_every_setting_tried_is_within_the_papers_range(kind: str, loss: str) -> None:
    ranks = {4, 8, 16, 32, 64} if loss == "logistic" else RATINGS_RANKS
    for name, values in space(kind, loss).items():
        if name == "rank":
            assert set(values) <= ranks
        elif name == "tiers":
            assert {tiers[-1][1] for tiers in values} <= ranks
        else:
            assert name == "radius" or all(
                1e-4 <= value <= 10 for value in values if value is not None
            )


@pytest.mark.parametrize("kind", LEARNERS)
def test_every_setting_tried_is_one_of_the_learner(kind: str) -> None:
    separation = Counts.of(ratings()).separate(order=3)
    for point in points(space(kind, "squared"), 12, seed=1):
        assert make(kind, "squared", point, separation).kind == kind


def test_every_value_comes_up_before_one_repeats_and_more_trials_begin_like_fewer() -> None:
    grid = {"a": range(6), "b": range(4)}
    few, many = points(grid, 12, seed=3), points(grid, 24, seed=3)
    assert [point["a"] for point in few][:6] != list(range(6))
    assert sorted(point["a"] for point in many[:6]) == list(range(6))
    assert sorted(point["b"] for point in many[:4]) == list(range(4))
    assert many[: len(few)] == few
    assert few != points(grid, 12, seed=4)


def test_tiers_leave_out_ranks_that_would_be_zero() -> None:
    assert tiers_of(2) == ((100, 1), (1000, 2))
    assert tiers_of(16) == ((10, 4), (100, 8), (1000, 16))


# The search.


def test_the_winner_is_the_best_of_those_that_learned_everything() -> None:
    problem = task("pqr")
    found = tune(problem, trials=18)
    sizes = [trial.rows for trial in found.trials]
    assert [sizes.count(rows) for rows in (90, 270, 810)] == [18, 6, 2]
    last = [trial for trial in found.trials if trial.rows == 810]
    assert found.score == min(trial.score for trial in last) == problem.score(found.settings, 810)


def test_tuning_beats_the_defaults_and_sees_that_interactions_pay() -> None:
    tuned = tune(task("pqr"), trials=27)
    default = task("pqr").score({}, 810)
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
    trial = tune(huge, trials=3).trials[0]
    assert math.isinf(trial.score)


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
