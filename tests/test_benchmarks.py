"""The benchmark without the peers: measuring, texts, tables, and a small run of our own."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import cost, cost_page, results, workloads
from benchmarks.contenders import Reading, VwLinear, contenders
from benchmarks.measure import ROOT, BenchmarkError, Outcome, measure
from benchmarks.workloads import Workload


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


@pytest.mark.parametrize("module", [cost_page, results, workloads])
def test_examples_in_docstrings_run(module):
    assert doctest.testmod(module).failed == 0


def test_peak_memory_is_that_of_the_command_and_not_of_who_started_it():
    ballast = bytearray(200_000_000)
    small = measure(python("pass")).peak_bytes
    large = measure(python("x = b'1' * 100_000_000")).peak_bytes
    assert small < 30_000_000 < 100_000_000 < large < 150_000_000
    del ballast


def test_time_is_that_of_the_whole_process():
    outcome = measure(python("import time; time.sleep(0.2); print('done')"))
    assert outcome.seconds > 0.2
    assert outcome.user_seconds + outcome.system_seconds < outcome.seconds
    assert outcome.stdout == "done\n"


@pytest.mark.parametrize("command", [python("raise SystemExit('broken')"), ["no-such-command"]])
def test_a_command_that_fails_is_an_error_that_shows_why(command):
    with pytest.raises(BenchmarkError, match=r"broken|no-such-command"):
        measure(command)


def test_both_texts_hold_the_same_rows(tmp_path):
    workload = Workload("avazu", 300, tmp_path)
    about = workload.prepare()
    libsvm = [line.split() for line in Path(workload.libsvm).read_text().splitlines()]
    vw = [line.split() for line in Path(workload.vw).read_text().splitlines()]
    assert len(libsvm) == about["rows"] == 300
    for (label, *pairs), (sign, namespace, *names) in zip(libsvm, vw, strict=True):
        assert (sign, namespace) == ("-1" if label == "0" else "1", "|f")
        assert pairs == [f"{name}:1" for name in names]
    assert 0 < about["true_logloss"] < about["constant_logloss"]


def test_rows_are_written_once(tmp_path):
    first = Workload("avazu", 100, tmp_path)
    about = first.prepare()
    Path(first.vw).write_bytes(b"kept")
    assert Workload("avazu", 100, tmp_path).prepare() == about
    assert Path(first.vw).read_bytes() == b"kept"


def test_the_report_of_vowpal_wabbit_is_read():
    report = "finished run\nnumber of examples = 300\naverage loss = 0.398735\n"
    assert VwLinear().figures(Outcome(1.0, 1, 1.0, 0.0, "", report)) == (300, 0.398735)
    with pytest.raises(BenchmarkError, match="vw did not print its number of examples"):
        VwLinear().figures(Outcome(1.0, 1, 1.0, 0.0, "", "finished run\n"))


def test_ratios_are_of_rows_per_second_and_paired_by_round(tmp_path):
    workload = Workload("avazu", 100, tmp_path)
    lr, _, vw, *_ = contenders(8000)
    fast = [Reading(seconds, 100, 0.4, 10, 1.0, 0.0) for seconds in (1.0, 2.0, 4.0)]
    slow = [Reading(seconds, 50, 0.4, 10, 1.0, 0.0) for seconds in (4.0, 4.0, 4.0)]
    summaries = [results.summary(lr, workload, fast), results.summary(vw, workload, slow)]
    [found] = results.comparisons(summaries)
    assert (found["of"], found["to"]) == ("LR", "VW --ftrl")
    assert found["ratio_of_medians"] == (100 / 2.0) / (50 / 4.0)
    assert (found["least"], found["median_of_ratios"], found["most"]) == (2.0, 4.0, 8.0)


def test_a_small_run_writes_a_page_and_every_reading(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "--rows", "500", "--repeats", "1"]
    folders = ["--cache", str(tmp_path / "cache"), "--output", str(tmp_path)]
    chosen = ["--only", "lr", "--only", "pqr"]
    done = subprocess.run([*command, *folders, *chosen], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "results-avazu.json").read_text())
    assert [contender["key"] for contender in result["contenders"]] == ["lr", "pqr"]
    for contender in result["contenders"]:
        assert [reading["rows"] for reading in contender["readings"]] == [500]
        assert 0 < contender["loss"] < 1
    assert {"command", "machine", "date", "commit", "versions"} <= set(result)
    page = (tmp_path / "RESULTS.md").read_text()
    assert results.tables(result) in page
    assert results.tables(result) in done.stdout


def test_an_unknown_contender_is_an_error_that_names_them_all():
    command = [sys.executable, "-m", "benchmarks", "--only", "nobody"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "lr, pqr, vw, vw-q, sklearn, river" in done.stderr


def test_the_cost_of_a_row_is_read_for_every_model():
    place = cost.Place("nonzeros", 5, cost.stream_of(5, 50), cost.everyone(50), learned=2**8 - 1)
    readings = {reading.model: reading for reading in cost.measure(place, rounds=2)}
    seven = {"LR", "FM", "DiFacto", "PQR", "QR", "CFM", "CCFM"}
    assert set(readings) == seven | {"CFM, B = 1", "CCFM, B = 1"}
    assert all(len(reading.microseconds) == 2 for reading in readings.values())
    assert readings["CFM"].pairs == readings["CCFM, B = 1"].pairs == readings["QR"].pairs > 0
    assert readings["LR"].features == readings["CFM"].features


def test_the_page_about_cost_has_the_median_and_the_growth(tmp_path):
    readings = [
        {"sweep": "rank", "x": rank, "model": "FM", "microseconds": [1.0 * rank, 9e9, 0.0]}
        for rank in (2, 4, 8)
    ]
    machine = dict.fromkeys(("cpu", "cores", "memory_gb", "system", "python", "compiler"), "?")
    facts = {"command": "c", "date": "d", "commit": "e", "rounds": 3}
    result = {**facts, "machine": machine | {"load": 0.5}, "readings": readings}
    cost_page.write_page(result, tmp_path)
    page = (tmp_path / "cost.md").read_text()
    assert "| FM     | 2.00 | 4.00 | 8.00 |  ^1.00 |" in page
    assert (tmp_path / "cost.svg").exists()
