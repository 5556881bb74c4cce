"""The training run as a library: its configuration, its loop, and what it reports."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import pqrlearn
from command import clicks, ok, run, write_rows
from pqrlearn import PQR, Separation
from pqrlearn.errors import HyperError, SettingsConflict
from pqrlearn.hyper import Settings
from pqrlearn.learners import LEARNERS, check_settings, make, settings_of
from pqrlearn.metrics import Metrics
from pqrlearn.progressive import Loop, learn
from pqrlearn.training import Monitor, TrainConfig, train
from strategies import cut

ROWS = clicks(seed=21)
SEPARATION = Separation.top_k(ROWS, order=5)
OTHERS: dict[str, Settings] = {
    "auto": {"memory": 2_000_000},
    "pqr": {"alpha": 0.2, "interaction_scale": None, "bias": False},
    "lr": {"optimizer": "ogd", "eta": 0.2, "schedule": "fixed", "radius": 3.0},
    "qr": {"optimizer": "ftrl-general", "interaction_scale": 0.5},
    "fm": {"optimizer": "sgd", "rank": 4, "seed": 3, "init": 0.1, "factor_eta": 0.3},
    "difacto": {"tiers": ((5, 2), (9, 4)), "factor_eta": 0.1, "factor_l2": 0.2, "l1": 0.5},
    "cfm": {"alpha": 0.3, "radius": 20.0, "block_rows": 9},
    "ccfm": {"eta": 0.5, "radius": 7.0},
}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.svm", ROWS)


# Settings.


@pytest.mark.parametrize("kind", LEARNERS)
def test_the_settings_of_a_learner_make_the_same_learner_again(kind: str) -> None:
    learner = make(kind, "squared", OTHERS[kind], SEPARATION)
    found = settings_of(learner)
    assert OTHERS[kind].items() <= found.items()
    assert make(kind, "squared", found, SEPARATION).to_bytes() == learner.to_bytes()
    assert make(kind, "squared", {}, SEPARATION).to_bytes() != learner.to_bytes()


def test_every_setting_is_used_by_a_model() -> None:
    assert set().union(
        *(settings_of(make(k, "squared", OTHERS[k], SEPARATION)) for k in LEARNERS)
    ) == set(get_type_hints(Settings))


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("lr", {"rank": 3}, "rank needs model fm, not lr"),
        ("auto", {"memory": 10**7, "l1": 1.0}, "l1 needs model pqr, lr, qr, fm, difacto or cfm: "),
        ("fm", {"schedule": "sqrt"}, "schedule needs optimizer sgd, not adagrad"),
        ("cfm", {"optimizer": "ogd"}, "optimizer ogd is not for cfm: use ftrl"),
        ("pqr", {"depth": 3}, "no model has a setting 'depth'"),
        ("tree", {}, "model='tree' must be one of auto, pqr"),
        ("qr", {"interaction_scale": 0.0}, "interaction_scale=0.0 must be a number > 0"),
    ],
)
def test_settings_that_a_model_does_not_use_are_rejected(
    kind: str, settings: Any, message: str
) -> None:
    with pytest.raises(HyperError, match=message):
        check_settings(kind, settings)


# The configuration.


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bad_rows": "bad"}, "bad_rows needs on_bad_row skip"),
        ({"every": 3}, "every needs checkpoint"),
        ({"passes": 0}, "passes=0 must be a whole number >= 1"),
        ({"loss": "hinge"}, "loss='hinge' must be one of"),
        ({"loss": "poisson"}, "loss poisson needs another model, such as pqr or lr"),
        ({"order": 3}, "order needs model pqr: auto, the default, tunes itself"),
        (
            {"model": "pqr", "separation": "sep", "min_count": 3},
            "separation already says which features are high: leave out min_count",
        ),
        ({"model": "pqr", "order": "auto", "min_count": 3}, "leave out order auto"),
    ],
)
def test_a_configuration_is_validated_when_it_is_made(fields: Any, message: str) -> None:
    with pytest.raises(HyperError, match=message):
        TrainConfig(inputs=("rows",), output="model", **fields)


def test_a_configuration_cannot_be_changed() -> None:
    config = TrainConfig(inputs=("rows",), output="model")
    with pytest.raises(FrozenInstanceError):
        config.passes = 2  # type: ignore[misc]
    with pytest.raises(HyperError):
        replace(config, passes=-1)


def test_a_conflict_names_settings_and_survives_a_pickle() -> None:
    error = pickle.loads(pickle.dumps(SettingsConflict("{min_count} needs {model} pqr")))
    assert (str(error), error.template) == (
        "min_count needs model pqr",
        "{min_count} needs {model} pqr",
    )


# The run.


def test_a_run_saves_what_the_command_saves(rows: Path, tmp_path: Path) -> None:
    given = ["--model", "pqr", "--order", 4, "--alpha", 0.3, "--passes", 2]
    ok("train", rows, *given, "-o", tmp_path / "command.pqr")
    result = train(
        TrainConfig(
            inputs=(rows,),
            model="pqr",
            order=4,
            settings={"alpha": 0.3},
            passes=2,
            output=tmp_path / "library.pqr",
        )
    )
    saved = (tmp_path / "library.pqr").read_bytes()
    assert saved == (tmp_path / "command.pqr").read_bytes() == result.learner.to_bytes()
    assert result.counted is not None
    assert (result.counted.rows, result.counted.distinct) == (len(ROWS), 14)
    assert list(result.passes) == [1, 2]
    assert result.first is result.passes[1]
    assert result.passes[2].loss < result.passes[1].loss


def test_a_run_resumes_from_its_checkpoint(rows: Path, tmp_path: Path) -> None:
    config = TrainConfig(
        inputs=(rows,),
        model="lr",
        checkpoint=tmp_path / "checkpoint",
        every=150,
        output=tmp_path / "model.pqr",
    )
    train(config)
    assert pqrlearn.load(tmp_path / "checkpoint").rows == 300
    again = TrainConfig(inputs=(rows,), resume=tmp_path / "checkpoint", output=tmp_path / "again")
    result = train(again)
    assert (result.start.rows, result.passes[1].rows, result.counted) == (300, 100, None)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model.pqr").read_bytes()
    with pytest.raises(SettingsConflict, match=r"^alpha 3.0 contradicts resume .*has 0.1$"):
        train(replace(again, settings={"alpha": 3.0}))


class Recorder(Monitor):
    def __init__(self) -> None:
        self.orders: list[int] = []
        self.titles: list[str] = []
        self.rows: list[int] = []

    def counted(self, separation: Separation, seconds: float) -> None:
        self.orders.append(separation.order)

    @contextmanager
    def progress(
        self, title: str, fraction: Callable[[], float | None]
    ) -> Iterator[Callable[[Metrics], None]]:
        self.titles.append(title)
        yield lambda metrics: self.rows.append(int(metrics.result()["rows"]))


def test_a_monitor_sees_what_happens(rows: Path, tmp_path: Path) -> None:
    monitor = Recorder()
    train(
        TrainConfig(
            inputs=(rows,),
            model="pqr",
            order="auto",
            checkpoint=tmp_path / "checkpoint",
            every=150,
            output=tmp_path / "model.pqr",
        ),
        monitor,
    )
    assert monitor.titles == ["training"]
    assert monitor.orders == [0, 4, 14]
    assert monitor.rows == [0, 150, 300]  # each time of the batches before


# The loop.


def test_the_loop_gives_every_batch_after_it_is_learned() -> None:
    batches = [cut(ROWS, 0, 150), cut(ROWS, 150, 160), cut(ROWS, 160, len(ROWS))]
    model, twin = PQR(SEPARATION), PQR(SEPARATION)
    with Loop(model, batches) as loop:
        learned = [(model.rows, len(batch)) for batch in loop]
    assert [size for _, size in learned] == [150, 10, 240]
    assert learned[0][0] < learned[1][0] < learned[2][0] == model.rows
    assert loop.result().metrics == learn(twin, batches).metrics
    assert model.to_bytes() == twin.to_bytes()


def test_an_error_in_the_body_of_the_loop_is_raised_as_it_is() -> None:
    def fail() -> None:
        with Loop(PQR(SEPARATION), [ROWS]) as loop:
            for _ in loop:
                raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()


# Names that the reader has added before their rows are learned.


def done(*arguments: Any) -> None:
    result = run(*arguments)
    assert result.code == 0, result.err


@pytest.mark.parametrize("kind", ["lr", "pqr", "cfm"])
@pytest.mark.parametrize("way", ["held out", "after the checkpoint"])
def test_a_model_has_no_names_of_rows_that_it_has_not_learned(
    tmp_path: Path, kind: str, way: str
) -> None:
    lines = [f"{row % 2},site {row % 7},user {row}\n" for row in range(400)]
    schema = tmp_path / "schema.toml"
    for name, rows in (("all", 400), ("first", 300)):
        (tmp_path / f"{name}.csv").write_text("click,site,user\n" + "".join(lines[:rows]))
    kinds = ["--label", "click", "--categories", "site,user"]
    done("schema", tmp_path / "all.csv", *kinds, "-o", schema)
    given = ["--schema", schema, "--model", kind]
    if kind == "pqr":  # otherwise rows would be counted that are not learned
        done("separate", tmp_path / "first.csv", "--schema", schema, "-o", tmp_path / "first.sep")
        given += ["--separation", tmp_path / "first.sep"]
    done("train", tmp_path / "first.csv", *given, "-o", tmp_path / "first.pqr")
    found = tmp_path / "found.pqr"
    if way == "held out":
        done("train", tmp_path / "all.csv", *given, "--holdout", 0.25, "-o", found)
    else:
        kept = ["--checkpoint", found, "--every", 300]
        done("train", tmp_path / "all.csv", *given, *kept, "-o", tmp_path / "all.pqr")
        assert pqrlearn.load(tmp_path / "all.pqr").names.find("user=user 399") is not None
    assert pqrlearn.load(found).to_bytes() == pqrlearn.load(tmp_path / "first.pqr").to_bytes()
