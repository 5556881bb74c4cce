"""The paper's protocol and tables, on simulated streams that are small enough for a test."""

from __future__ import annotations

import contextlib
import json
import math
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import failure, figures, ok
from pqrlearn import datasets, hyper
from pqrlearn.errors import DataError
from pqrlearn.paper import printed, tables, work
from pqrlearn.paper.plan import FULL, QUICK, Plan, cell
from pqrlearn.paper.protocol import Contender, contenders, measure, pqr
from pqrlearn.paper.results import Row
from pqrlearn.paper.sources import Source
from pqrlearn.paper.study import study
from pqrlearn.paper.work import Workspace, accuracy, training_times

TINY = Source("avazu", 2e-5)
PLAN = Plan(splits=3, repeats=2, trials=3, timings=2)


# What the paper prints.


@pytest.mark.parametrize("data", printed.FIGURES)
def test_every_printed_column_has_a_contender_and_the_other_way_round(data: str) -> None:
    columns = {column for models in printed.FIGURES[data].values() for column in models}
    found = [contender.printed for contender in contenders(data)]
    assert {*found} - {None} == columns
    assert found.count(f"pqr {printed.ORDERS[data][2]}") == found.count("fm") == 2
    titles = [contender.title for contender in contenders(data)]
    assert len({*titles}) == len(titles)
    assert titles[-1] == "Auto, untouched"


def test_the_printed_figures_are_those_of_the_paper() -> None:
    assert printed.printed("ml-1m", "rmse", "pqr 2000") == (1.0190, None)
    assert printed.printed("avazu", "auc", "fm") == (0.7752, 1.8e-4)
    assert printed.printed("kdd2012", "size", "difacto") == (72.2e6, None)
    assert printed.printed("ml-1m", "rmse", None) is None


# The protocol.


def test_the_parts_are_80_10_and_10_percent_and_no_row_is_in_two() -> None:
    parts, rows = TINY.parts(3), TINY.rows()
    sizes = [len(part) for part in (parts.train, parts.validation, parts.test)]
    assert sizes == [648, 81, 82]
    together = np.concatenate([p.indices.reshape(-1, 15) for p in (parts.train, parts.validation)])
    together = np.concatenate([together, parts.test.indices.reshape(-1, 15)])
    assert sorted(map(tuple, together)) == sorted(map(tuple, rows.batch.indices.reshape(-1, 15)))


def test_a_split_follows_from_its_number() -> None:
    first = TINY.parts(3).test.digest()
    assert TINY.parts(4).test.digest() != first
    assert TINY.parts(3).test.digest() == first


def test_a_simulated_stream_says_so_everywhere() -> None:
    assert "simulated" in TINY.title
    assert "SIMULATED: 811 rows (2e-05 of the paper's)" in TINY.rows().note


def test_counting_sees_the_training_part_only() -> None:
    task = cell(PLAN, TINY, pqr(50, "none"), 0).task()
    high = task.separation({"order": 50})
    assert high is not None
    assert high.rows == len(task.train) == 648
    assert high.order == 50


def test_a_cell_is_measured_once_for_every_seed_of_a_model_that_has_one() -> None:
    fm = measure(cell(PLAN, TINY, Contender("FM", "fm"), 0))
    assert len(fm["tests"]) == 2
    assert fm["tests"][0] != fm["tests"][1]
    lr = measure(cell(PLAN, TINY, Contender("LR", "lr"), 0))
    assert len(lr["tests"]) == 1
    assert {*lr["tests"][0]} == {"auc", "logloss"}


def test_the_test_part_does_not_choose_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = cell(PLAN, TINY, Contender("LR", "lr"), 0)
    task, parts = mine.task(), TINY.parts(mine.split)
    assert task.validation.digest() == parts.validation.digest()
    flipped = replace(parts, test=replace(parts.test, labels=1 - parts.test.labels))
    before = measure(mine)
    monkeypatch.setattr(Source, "parts", lambda self, split: flipped)
    after = measure(mine)
    assert before["settings"] == after["settings"]
    assert before["tests"] != after["tests"]


def test_a_quick_plan_is_a_smaller_one() -> None:
    real = Source("ml-100k")
    assert (FULL.splits_of(real), FULL.repeats_of(real)) == (5, 20)
    assert QUICK.splits_of(real) < FULL.splits_of(real)
    assert QUICK.repeats_of(real) < FULL.repeats_of(real)
    assert QUICK.trials is FULL.trials is None  # fewer trials would cost the hungry most


# Getting it done.


def entries() -> list[tuple[Source, Contender]]:
    return [(TINY, Contender("LR", "lr")), (TINY, Contender("CCFM", "ccfm"))]


def test_costly_models_are_tuned_on_the_first_splits_only() -> None:
    linear, costly = accuracy(Workspace(None), PLAN, entries())
    assert [result["validation"] is None for result in linear] == [False, False, False]
    assert [result["validation"] is None for result in costly] == [False, False, True]
    assert costly[0]["settings"] == costly[2]["settings"]


def test_orders_from_the_number_of_features_on_are_one_model_that_is_tuned_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = TINY.features()
    several = [pqr(k, "none") for k in (count - 1, count, count + 1, hyper.MAX_ORDER)]
    one = Contender("also called so", "pqr", several[1].fixed, printed="pqr 7")
    measured: list[Any] = []
    monkeypatch.setattr(work, "measure", lambda m, t: measured.append(m) or measure(m, t))
    plan = replace(PLAN, splits=1)
    found = accuracy(Workspace(tmp_path), plan, [(TINY, one) for one in [*several, one]])
    assert len(measured) == 2
    assert found[1] == found[2] == found[3] == found[4]
    assert found[1][0]["settings"]["order"] == count


def test_with_tuned_all_contenders_keep_the_settings_of_the_first_splits() -> None:
    entries = [(TINY, Contender("LR", "lr")), (TINY, pqr(50, "none"))]
    for results in accuracy(Workspace(None), PLAN, entries, tuned=1):
        assert [result["validation"] is None for result in results] == [False, True, True]
        assert len({json.dumps(result["settings"]) for result in results}) == 1
        assert len({result["tests"][0]["logloss"] for result in results}) == 3


def test_large_data_sets_have_fewer_splits_and_costly_models_fewest() -> None:
    large, costly = Source("ml-1m"), Contender("CFM", "cfm")
    assert [FULL.splits_of(Source(name)) for name in ("ml-100k", "ml-1m", "criteo")] == [5, 3, 3]
    assert [FULL.splits_of(Source(name), costly) for name in ("ml-100k", "ml-1m")] == [5, 2]
    assert (FULL.repeats_of(large), FULL.splits_of(TINY), FULL.repeats_of(TINY)) == (5, 1, 1)
    assert replace(FULL, splits=4).splits_of(large) == replace(FULL, splits=4).splits_of(TINY) == 4


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    given = f"table binary --simulated --fraction 0.001 --data avazu --jobs 2 --cache {tmp_path}"
    command = [sys.executable, "-m", "pqrlearn", "paper", *given.split(), "--quiet"]
    with subprocess.Popen(command, start_new_session=True) as parent:
        workers = wait_for(lambda: [one for one in session(parent.pid) if "spawn_main" in one[1]])
        parent.terminate()
    assert parent.returncode == -signal.SIGTERM
    assert workers
    assert wait_for(lambda: not session(parent.pid))


def session(leader: int) -> list[tuple[int, str]]:
    """The processes that a session leader has started, with their command lines."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ProcessLookupError):
            fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append((int(process.name), (process / "cmdline").read_text()))
    return found


def wait_for(what: Callable[[], Any], seconds: float = 60.0) -> Any:
    """The first true value, or the last one."""
    end = time.monotonic() + seconds
    while not (value := what()) and time.monotonic() < end:
        time.sleep(0.05)
    return value


def test_finished_cells_are_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = accuracy(Workspace(tmp_path), PLAN, entries())
    monkeypatch.setattr(work, "measure", lambda *_: pytest.fail("measured again"))
    assert accuracy(Workspace(tmp_path), PLAN, entries()) == whole


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = accuracy(Workspace(None), PLAN, entries())
    done: list[str] = []

    def interrupted(mine: Any, trials: Path | None) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(mine.contender.title)
        return measure(mine, trials)

    monkeypatch.setattr(work, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        accuracy(Workspace(tmp_path), PLAN, entries())
    done[:] = [""]
    monkeypatch.setattr(work, "measure", lambda m, t: done.append(m.split) or measure(m, t))
    assert accuracy(Workspace(tmp_path), PLAN, entries()) == whole
    assert len(done) - 1 == 6 - 2


def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    alone = accuracy(Workspace(None), PLAN, entries())
    assert accuracy(Workspace(tmp_path, jobs=2), PLAN, entries()) == alone


def test_progress_ends_at_all_of_it() -> None:
    seen: list[float] = []
    accuracy(Workspace(None, watch=lambda done, text: seen.append(done)), PLAN, entries()[:1])
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1)


def test_times_are_kept_too(tmp_path: Path) -> None:
    result = measure(cell(PLAN, TINY, Contender("LR", "lr"), 0))
    pairs = [(Contender("LR", "lr"), result)]
    first = training_times(Workspace(tmp_path), PLAN, TINY, pairs)
    assert [len(seconds) for seconds in first] == [PLAN.timings]
    assert training_times(Workspace(tmp_path), PLAN, TINY, pairs) == first


# What a table says.


def row(contender: Contender, *splits: list[float], seconds: tuple[float, ...] = ()) -> Row:
    def result(losses: list[float]) -> dict[str, Any]:
        tests = [{"rmse": loss} for loss in losses]
        return {
            "settings": {},
            "edges": {},
            "tests": tests,
            "nonzeros": 7,
            "order": None,
        }

    linear = [result([1.04]), result([1.06])]
    mine = [result(losses) for losses in splits]
    return Row(Source("ml-1m"), contender, mine, linear, seconds, (1.0, 2.0, 1.0)[: len(seconds)])


def test_a_row_is_compared_with_the_paper_and_split_by_split_with_lr() -> None:
    fm = row(Contender("FM", "fm", printed="fm"), [1.01, 1.03], [1.03, 1.05])
    found = fm.summary("rmse")
    assert found["mean"] == pytest.approx(1.03)
    assert found["minus_lr"] == pytest.approx(-0.02)
    assert found["minus_lr_error"] == pytest.approx(0, abs=1e-12)
    assert found["seeds_std"] == pytest.approx(0.02 / math.sqrt(2))
    assert found["splits_std"] == pytest.approx(0.02 / math.sqrt(2))
    assert (found["paper"], found["paper_std"]) == (1.0434, 5.0e-4)
    assert found["minus_paper"] == pytest.approx(1.03 - 1.0434)


def test_rows_are_compared_on_the_splits_that_both_have() -> None:
    fm = row(Contender("FM", "fm"), [1.01, 1.03], [1.03, 1.05], [2.0])
    other = row(Contender("PQR", "pqr"), [1.0], [1.01])
    mean, error = fm.minus(other, "rmse")
    assert mean == pytest.approx(0.025)
    assert error == pytest.approx(0.005)
    assert fm.minus(fm, "rmse") == (None, None)


def test_one_split_and_one_seed_have_no_deviation() -> None:
    alone = row(Contender("CCFM", "ccfm"), [1.01])
    alone = replace(alone, linear=alone.linear[:1])
    found = alone.summary("rmse")
    assert found["seeds_std"] is None
    assert found["splits_std"] is None
    assert found["minus_lr_error"] is None
    assert found["minus_paper"] is None


def test_time_is_the_median_multiple_of_lr_in_the_same_round() -> None:
    assert row(Contender("FM", "fm"), [1.0], [1.0], seconds=(3.0, 4.0, 5.0)).time() == 3.0
    assert row(Contender("FM", "fm"), [1.0], [1.0]).time() is None


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PQRLEARN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.usefixtures("no_data")
def test_what_could_not_run_is_said_beside_the_papers_figures() -> None:
    glance, table = tables.rmse(Workspace(None), PLAN, ["ml-10m"])
    assert ["FM (AdaGrad)", "0.9605 ± 1.7e-03", "–"] in list(glance.rows)
    assert glance.columns == ["", "ML10M paper", "here"]
    assert "could not run: MovieLens 10M was not found" in table.notes[0]
    assert ["PQR k=2000", "0.9536"] in list(table.rows)
    (table,) = tables.binary(Workspace(None), PLAN, ["kdd2012"])
    assert ["LR", "0.7944", "0.1541", "1.0", "9,110,000"] in list(table.rows)


@pytest.mark.usefixtures("no_data")
def test_statistics_of_absent_data_are_the_papers_alone() -> None:
    (table,) = tables.stats(["ml-1m"])
    assert table.rows == [["ML1M", "1,000,209", "–", "100,000", "–", "–", "numerical"]]
    with pytest.raises(DataError):
        datasets.get("ml-1m").load()


def test_a_simulated_table_shows_no_accuracy_and_calls_itself_simulated() -> None:
    table, chosen = tables.binary(Workspace(None), PLAN, ["avazu"], fraction=2e-5)
    assert table.title == "Avazu, simulated: training time and model size"
    assert table.columns == ["", "time × LR paper", "here", "non-zeros paper", "here"]
    assert [line[0] for line in table.rows] == [one.title for one in contenders("avazu")]
    assert {len(line) for line in table.rows} == {len(table.columns)}
    assert not re.search("auc|logloss|tests|validation", json.dumps(table.data))
    assert {line[0] for line in chosen.rows} >= {"LR", "FM (AdaGrad)", "PQR k=8000 (none)"}


def test_finished_measures_nothing_and_says_what_is_missing(tmp_path: Path) -> None:
    linear = Contender("LR", "lr")
    (mine,) = accuracy(Workspace(tmp_path), PLAN, [(TINY, linear)])
    done = Workspace(tmp_path, finished=True)
    table, chosen = tables.binary(done, PLAN, ["avazu"], fraction=2e-5)
    sizes = {line[0]: line[-1] for line in table.rows}
    assert sizes["LR"] == f"{np.mean([result['nonzeros'] for result in mine]):,.0f}"
    assert {sizes[title] for title in sizes if title != "LR"} == {"–"}
    assert "splits: 3; seeds on each, for FM and DiFacto: 1" in table.notes
    missing = next(note for note in table.notes if note.startswith("not finished: "))
    assert missing.startswith("not finished: FM (AdaGrad), FM (OGD + l1, as the paper), DiFacto")
    assert {line[0] for line in chosen.rows} <= {"LR", ""}
    two = replace(PLAN, splits=2)
    accuracy(Workspace(tmp_path), two, [(TINY, pqr(2000, "none"))])
    done = Workspace(tmp_path, finished=True)
    table, _ = tables.binary(done, PLAN, ["avazu"], fraction=2e-5)
    sizes = {line[0]: line[-1] for line in table.rows}
    assert sizes["PQR k=2000 (none)"] != "–"
    assert "only the first 2 splits: PQR k=2000 (none)" in table.notes
    (line,), _ = study(done, PLAN, [TINY])
    assert line.title == "Avazu, simulated: not finished"
    assert len(done.journal._known) == 3 + 2


# The command.

QUICKLY = ("--fraction", "1e-5", "--splits", 1, "--repeats", 1, "--trials", 2, "--jobs", 1)


def test_the_command_prints_a_table_and_the_same_as_json(tmp_path: Path) -> None:
    given = ("paper", "table", "binary", "--simulated", "--data", "kdd2012", *QUICKLY)
    kept = ("--cache", tmp_path)
    out = ok(*given, *kept, "--quiet")
    assert "KDD2012, simulated: training time and model size" in out
    assert "How it was measured" in out
    data = figures(*given, *kept)
    assert data["choices"][0].startswith("Random splits: 1, seeds from 1 on")
    found = data["tables"]["binary kdd2012 simulated"]
    assert found["columns"][1] == "time × LR paper"
    titles = [line[0] for line in found["rows"]]
    assert titles[:3] == ["LR", "FM (AdaGrad)", "FM (OGD + l1, as the paper)"]
    assert found["data"][0]["settings"][0].keys() == {"alpha", "beta", "l1", "l2"}


def test_another_seed_is_another_split(tmp_path: Path) -> None:
    given = ("paper", "table", "binary", "--simulated", "--data", "kdd2012", *QUICKLY)
    first, second = (figures(*given, "--cache", tmp_path, "--split-seed", seed) for seed in (1, 7))
    assert second["choices"][0].startswith("Random splits: 1, seeds from 7 on")
    assert first["tables"] != second["tables"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("table rmse --data avazu", "--data avazu: choose from ml-100k, ml-1m, ml-10m"),
        ("table rmse --simulated", "--simulated is for the table binary"),
        ("table binary --simulated --fraction 2", "Invalid value for '--fraction'"),
    ],
)
def test_what_would_not_be_heard_is_refused(flags: str, said: str) -> None:
    assert said in failure(2, "paper", *flags.split())
