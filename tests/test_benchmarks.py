"""The benchmark without the peers: measuring, texts, tables, and a small run of our own."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import kdd, kdd_pass, memory, page, results, table_rows, workloads
from benchmarks.contenders import Linear, LinearInMemory, Reading, VwFromCache, VwLinear, XLearn
from benchmarks.measure import ROOT, BenchmarkError, Outcome, measure
from benchmarks.table_contenders import OurFrame, VwCsv
from benchmarks.table_rows import Sampled, Simulated
from benchmarks.targets import TARGETS, targets_table
from benchmarks.workloads import Workload


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


@pytest.mark.parametrize("module", [results, table_rows, workloads])
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


@pytest.mark.parametrize("kind", [Simulated, Sampled])
def test_all_files_of_a_table_hold_the_same_rows(tmp_path, monkeypatch, kind):
    header = "id,click,hour,site_id"
    cells = [f"{n},{n % 2},1410210{n % 3},{n % 7:08x}" for n in range(80)]
    (tmp_path / "avazu").mkdir()
    (tmp_path / Sampled.FILE).write_text("\n".join([header, *cells]) + "\n")
    monkeypatch.setenv("PQRLEARN_DATA", str(tmp_path))
    rows = kind(200, tmp_path)
    about = rows.prepare()
    head, *lines = [line.split(",") for line in Path(rows.path("csv")).read_text().splitlines()]
    at = head.index("click")
    assert head[at + 1 :] == rows.columns
    assert len(lines) == about["rows"] == 200
    assert len({line[0] for line in lines}) == 200 or kind is Simulated
    table = pq.read_table(rows.path("parquet"))
    assert table.column_names == head
    assert [[str(cell) for cell in row.values()] for row in table.to_pylist()] == lines
    texts = {
        suffix: Path(rows.path(suffix)).read_text().splitlines() for suffix in ("vw", "vw.csv")
    }
    named = [[f"{n}={v}" for n, v in zip(head, line, strict=True)][at + 1 :] for line in lines]
    signs = ["1" if line[at] == "1" else "-1" for line in lines]
    expected = [" ".join([sign, "|f", *names]) for sign, names in zip(signs, named, strict=True)]
    assert texts["vw"] == expected
    quoted = [
        ",".join([s, *(f'"{v}"' for v in r[at + 1 :])]) for s, r in zip(signs, lines, strict=True)
    ]
    assert texts["vw.csv"] == [",".join(["_label", *rows.columns]), *quoted]
    numbers = [line.split() for line in Path(rows.path("svm")).read_text().splitlines()]
    assert [row[0] for row in numbers] == [line[at] for line in lines]
    number_of = {
        name: n
        for row, names in zip(numbers, named, strict=True)
        for n, name in zip(row[1:], names, strict=True)
    }
    assert len(set(number_of.values())) == len(number_of)
    assert all(
        [number_of[name] for name in names] == row[1:]
        for row, names in zip(numbers, named, strict=True)
    )


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


def test_vowpal_wabbit_must_say_that_it_reads_its_cache():
    report = "number of examples = 300\naverage loss = 0.398735\n"
    cached = "using cache_file = x\nignoring text input in favor of cache input\n"
    assert VwFromCache().reading(Outcome(1.0, 1, 1.0, 0.0, "", cached + report)).rows == 300
    with pytest.raises(BenchmarkError, match="vw-cache did not say that it reads its cache"):
        VwFromCache().reading(Outcome(1.0, 1, 1.0, 0.0, "", "creating cache_file = x\n" + report))


def test_the_report_of_xlearn_is_read_without_its_colours():
    line = "[  100%      ]     1            0.424467                0.04"
    report = f'{{"rows": 300}}\n[------------] Epoch      Train log_loss\n\x1b[32m{line}\x1b[0m\n'
    assert XLearn().figures(Outcome(1.0, 1, 1.0, 0.0, report, "")) == (300, 0.424467)
    with pytest.raises(BenchmarkError, match="xlearn did not print its loss"):
        XLearn().figures(Outcome(1.0, 1, 1.0, 0.0, '{"rows": 300}\n', ""))


def test_in_memory_the_times_are_those_of_learning_and_not_of_the_process():
    own = {"rows": 9, "logloss": 0.5, "seconds": 0.1, "user_seconds": 0.2, "system_seconds": 0.0}
    outcome = Outcome(5.0, 7, 6.0, 1.0, json.dumps(own), "")
    assert LinearInMemory().reading(outcome) == Reading(0.1, 9, 0.5, 7, 0.2, 0.0)


def test_ratios_are_of_rows_per_second_and_paired_by_round(tmp_path):
    workload = Workload("avazu", 100, tmp_path)
    fast = [Reading(seconds, 100, 0.4, 10, 1.0, 0.0) for seconds in (1.0, 2.0, 4.0)]
    slow = [Reading(seconds, 50, 0.4, 10, 1.0, 0.0) for seconds in (4.0, 4.0, 4.0)]
    readings = {Linear(): fast, VwLinear(): slow}
    [found] = results.comparisons(readings)
    assert (found["of"], found["to"]) == ("LR", "VW --ftrl")
    assert found["ratio_of_medians"] == (100 / 2.0) / (50 / 4.0)
    assert (found["least"], found["median_of_ratios"], found["most"]) == (2.0, 4.0, 8.0)
    median = results.summary(Linear(), workload, fast)
    assert (median["seconds"], median["rows_per_second"]) == (2.0, 100 / 2.0)
    assert (median["least_seconds"], median["most_seconds"]) == (1.0, 4.0)


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_a_small_run_writes_a_page_and_the_medians(tmp_path):
    ours = ["lr", "pqr", "fm", "lr-cache", "lr-memory"]
    size = ["--part", "avazu", "--rows", "500", "--repeats", "1"]
    folders = ["--cache", str(tmp_path / "cache"), "--output", str(tmp_path)]
    done = bench(*size, *folders, *(word for name in ours for word in ("--only", name)))
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "results.json").read_text())["avazu"]
    found = {contender["key"]: contender for contender in result["contenders"]}
    assert list(found) == ours
    for contender in found.values():
        assert contender["rows"] == 500
        assert contender["least_seconds"] == contender["seconds"] == contender["most_seconds"] > 0
        assert 0 < contender["loss"] < 1
    losses = [found[name]["loss"] for name in ("lr", "lr-cache", "lr-memory")]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-12)
    assert {"command", "machine", "date", "commit", "versions"} <= set(result)
    written = (tmp_path / "RESULTS.md").read_text()
    assert results.tables(result) in written
    assert results.tables(result) in done.stdout
    assert targets_table({"avazu": result}) in written
    assert targets_table({"avazu": result}) in done.stdout


def test_a_small_run_of_tables_reads_the_same_rows_from_all_of_them(tmp_path, monkeypatch):
    monkeypatch.delenv("PQRLEARN_DATA", raising=False)
    ours = ["csv", "parquet", "svm", "pqr-parquet", "pqr-svm", "polars", "pandas"]
    size = ["--part", "tables", "--rows", "500", "--repeats", "1"]
    folders = ["--cache", str(tmp_path / "cache"), "--output", str(tmp_path)]
    done = bench(*size, *folders, *(word for name in ours for word in ("--only", name)))
    assert done.returncode == 0, done.stderr
    assert "A real sample of Avazu, repeated is left out" in done.stderr
    result = json.loads((tmp_path / "results.json").read_text())["tables"]
    found = {contender["key"]: contender for contender in result["contenders"]}
    assert list(found) == ours
    assert {contender["rows"] for contender in found.values()} == {500}
    losses = [found[name]["loss"] for name in ("csv", "parquet", "svm", "polars", "pandas")]
    assert losses == pytest.approx([losses[0]] * 5, rel=1e-5)
    memory = result["memory"]
    assert memory["growth"] == memory["twice"] / memory["once"]
    assert 0 < memory["names"] < 500 * 15
    written = (tmp_path / "RESULTS.md").read_text()
    assert "## Tables\n" in written
    assert targets_table({"tables": result}) in done.stdout


def test_of_frames_the_times_are_those_of_learning():
    own = {"rows": 9, "loss": 0.5, "seconds": 0.1, "user_seconds": 0.2, "system_seconds": 0.0}
    outcome = Outcome(5.0, 7, 6.0, 1.0, json.dumps(own), "")
    assert OurFrame("polars").reading(outcome) == Reading(0.1, 9, 0.5, 7, 0.2, 0.0)


def test_vowpal_wabbit_reads_its_own_csv(tmp_path):
    command = VwCsv().command(Simulated(300, tmp_path))
    assert command[command.index("-d") + 1].endswith("tables-300.vw.csv")
    assert "--csv" in command


def test_an_unknown_contender_is_an_error_that_names_them_all():
    done = bench("--only", "nobody")
    assert done.returncode == 2
    assert (
        "lr, vw, pqr, auto, vw-q, fm, xlearn, lr-cache, vw-cache, lr-memory, sklearn, river"
        in done.stderr
    )


def test_dicts_have_the_names_of_the_stream_and_river_is_not_needed(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "PEERS_PYTHON", tmp_path / "nobody")
    rows = memory.named_rows(workloads.ClickStream.criteo(), 10)
    assert [len(x) for x, _ in rows] == [39] * 10
    assert all(len({"C9=0", "C9=1", "C9=2"} & set(x)) == 1 for x, _ in rows)
    assert {y for _, y in rows} == {0, 1}
    first, second, *_ = memory.column_rows(300)
    assert list(first[0]) == list(second[0])
    assert len(first[0]) == 39
    assert first != second
    found = memory.learn_one(300, 2, tmp_path)
    assert list(found) == ["columns", "clicks"]
    for kind in found.values():
        assert list(kind) == ["LR", "PQR(1000)"]
        assert all(each["microseconds"] > 0 for each in kind.values())


def test_what_is_learned_in_memory_is_predicted_too():
    found = memory.learn_and_predict("avazu", 300, repeats=3)
    for rates in found.values():
        assert min(rates[kind] for kind in ("learn", "first", "predict")) > 0
        assert rates["ratio"] == rates["predict"] / rates["learn"]


def test_a_pass_over_kdd2012_knows_its_state_and_its_calibration():
    stream = workloads.ClickStream.kdd2012()
    seen = len(set(stream.batch(0, 2000).indices.tolist()))
    lr, pqr = (kdd_pass.one_pass(name, 2000) for name in ("lr", "pqr"))
    assert lr["rows"] == pqr["rows"] == 2000
    assert lr["state_bytes"] == 8 * (seen + 1)  # the bias
    assert pqr["state_bytes"] > lr["state_bytes"] + 4 * kdd_pass.ORDER
    assert lr["mean_label"] == pqr["mean_label"] == stream.batch(0, 2000).labels.mean()
    assert lr["count_seconds"] == 0 < pqr["count_seconds"]
    assert lr["learn_seconds"] < lr["total_seconds"]


def test_a_target_is_met_at_its_bound_and_what_was_not_measured_is_not_claimed():
    rates = {"lr": 5.0, "vw": 1.0, "pqr": 1.0}
    contenders = [{"key": key, "rows_per_second": rate} for key, rate in rates.items()]
    parts = {
        "avazu": {"contenders": contenders},
        "memory": {"learn_one": {"columns": {"LR": {"microseconds": 3.01}}}},
    }
    found = {target.what: target.cells(parts)[1:] for target in TARGETS}
    assert len(found) == len(TARGETS)
    assert found["LR : VW --ftrl, Avazu"] == ["≥ 5 ×", "5.00 ×", "yes"]
    assert found["PQR(8000) : VW --ftrl, Avazu"] == ["≥ 2 ×", "1.00 ×", "no"]
    assert found["time of PQR(8000) : LR, Avazu"] == ["≤ 3 ×", "5.00 ×", "no"]
    assert found["LR: learn_one, the same names"] == ["≤ 3 µs", "3.01 µs", "no"]
    assert found["LR: learn_one, new names all the time"] == ["≤ 3 µs", "–", "–"]
    assert found["LR : VW --ftrl, Criteo"] == ["≥ 5 ×", "–", "–"]
    assert found["LR: one pass over KDD2012"] == ["≥ 149,009,105 rows", "–", "–"]


def test_the_page_has_every_part_that_its_folder_has(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "PEERS_PYTHON", tmp_path / "nobody")
    parts = page.save(memory.compare(100, 1, tmp_path), tmp_path)
    assert list(parts) == ["memory"]
    parts = page.save(kdd.compare(500, rounds=2), tmp_path)
    assert list(parts) == ["memory", "kdd"]
    written = (tmp_path / "RESULTS.md").read_text()
    titles = ["## Targets\n", "## In memory\n", "## The shape of KDD2012\n"]
    assert [line for line in written.splitlines(keepends=True) if line[:3] == "## "] == titles
    assert "- kdd: 500 rows, 2 rounds, " in written
    assert "| LR: one pass over KDD2012 " in written


def test_the_page_follows_from_the_medians_in_the_repository():
    parts = page.known(ROOT / "benchmarks")
    written = (ROOT / "benchmarks/RESULTS.md").read_text()
    assert list(parts) == [part for part in page.SECTIONS if part in parts]
    assert page.page(parts) == written, "python -m benchmarks.page writes it again"
