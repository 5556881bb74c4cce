"""pqr train through the real command: what it learns, what it prints, what it goes on from."""

from __future__ import annotations

import gzip
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from sklearn.metrics import log_loss, mean_squared_error, roc_auc_score

import pqrlearn
from command import PQR as COMMAND
from command import SECONDS, clicks, failure, fed_slowly, figures, ok, run, write_rows
from pqrlearn import LR, PQR, QR, Batch, Counts, Ftrl, Mixture, Separation
from pqrlearn.learners import Learner
from strategies import cut

ROWS = clicks(seed=21)
HALF = 170
DISTINCT = len(np.unique(ROWS.indices))
ORDER = math.ceil(math.sqrt(DISTINCT))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """rows.svm, its two parts, it compressed, its separation, and a model of it."""
    folder = tmp_path_factory.mktemp("train")
    rows = write_rows(folder / "rows.svm", ROWS)
    write_rows(folder / "a.svm", cut(ROWS, 0, HALF))
    write_rows(folder / "b.svm", cut(ROWS, HALF, len(ROWS)))
    (folder / "rows.svm.gz").write_bytes(gzip.compress(rows.read_bytes()))
    (folder / "rows.svm.zst").write_bytes(zstandard.compress(rows.read_bytes()))
    Separation.from_file(rows, order=5).save(folder / "sep")
    ok("train", "--model", "pqr", rows, "-o", folder / "model.pqr")
    return folder


def trained(folder: Path, *arguments: object, stdin: bytes = b"") -> bytes:
    """The bytes of the model that a command line gives."""
    path = folder / "trained.pqr"
    path.unlink(missing_ok=True)
    model = () if "--resume" in arguments or "--model" in arguments else ("--model", "pqr")
    result = run("train", *model, *arguments, "--json", "-o", path, stdin=stdin)
    assert result.code == 0, result.err
    return path.read_bytes()


def learned(model: Learner, *batches: Batch) -> tuple[bytes, Any]:
    predictions = [model.learn_many(batch) for batch in batches]
    return model.to_bytes(), predictions[0]


# What is learned.


def test_the_command_learns_what_the_library_learns(folder: Path) -> None:
    model = PQR(
        Separation.top_k(ROWS, 6),
        "squared",
        Ftrl(alpha=0.2, beta=0.5, l1=0.1, l2=0.3),
        interaction_scale=None,
        bias=False,
    )
    settings = "--order 6 --loss squared --alpha 0.2 --beta 0.5 --l1 0.1 --l2 0.3 --no-bias"
    given = [*settings.split(), "--interaction-scale", "none"]
    assert trained(folder, folder / "rows.svm", *given) == learned(model, ROWS)[0]


@pytest.mark.parametrize("model", [LR(), QR(), QR(interaction_scale=0.5)], ids=["lr", "qr", "0.5"])
def test_other_models_are_chosen_by_name(folder: Path, model: Learner) -> None:
    scale = ["--interaction-scale", "0.5"] * (getattr(model, "interaction_scale", None) == 0.5)
    given = ["--model", model.kind, *scale]
    assert trained(folder, folder / "rows.svm", *given) == learned(model, ROWS)[0]


def test_logistic_loss_and_the_root_of_the_features_are_the_defaults(folder: Path) -> None:
    model = PQR(Separation.top_k(ROWS, ORDER), "logistic")
    assert (folder / "model.pqr").read_bytes() == learned(model, ROWS)[0]


def test_the_line_may_be_drawn_by_count(folder: Path) -> None:
    model = PQR(Separation.threshold(ROWS, 60))
    given = ["--min-count", 60]
    assert trained(folder, folder / "rows.svm", *given) == learned(model, ROWS)[0]


def test_a_separation_may_come_from_a_file(folder: Path) -> None:
    model = PQR(Separation.top_k(ROWS, 5))
    given = ["--separation", folder / "sep"]
    assert trained(folder, folder / "rows.svm", *given) == learned(model, ROWS)[0]


def test_passes_go_over_the_files_again(folder: Path) -> None:
    found = figures(
        "train", "--model", "pqr", folder / "rows.svm", "--passes", 3, "-o", folder / "three.pqr"
    )
    expected, predictions = learned(PQR(Separation.top_k(ROWS, ORDER)), ROWS, ROWS, ROWS)
    assert (folder / "three.pqr").read_bytes() == expected
    assert [p["rows"] for p in found["passes"]] == [len(ROWS)] * 3
    losses = [p["logloss"] for p in found["passes"]]
    assert found["logloss"] == losses[0] == pytest.approx(weighted_log_loss(predictions))
    assert losses[2] < losses[1] < losses[0]


def test_row_weights_are_read_from_the_file(folder: Path) -> None:
    text = b"1:0.5 1:1 2:1\n0:0 7:1 1:1\n0:3 2:1\n"
    model = LR()
    for x, y, weight in [({1: 1.0, 2: 1.0}, 1, 0.5), ({2: 1.0}, 0, 3.0)]:
        model.learn_one(x, y, weight=weight)
    assert trained(folder, "-", "--model", "lr", stdin=text) == model.to_bytes()


# Where rows come from.


@pytest.mark.parametrize(
    "files", [["rows.svm.gz"], ["rows.svm.zst"], ["a.svm", "b.svm"]], ids=["gz", "zst", "parts"]
)
def test_rows_give_the_same_model_however_they_are_kept(folder: Path, files: list[str]) -> None:
    paths = [folder / name for name in files]
    assert trained(folder, *paths) == (folder / "model.pqr").read_bytes()


@pytest.mark.parametrize("name", ["rows.svm", "rows.svm.gz", "rows.svm.zst"])
def test_stdin_gives_the_same_model(folder: Path, name: str) -> None:
    text = (folder / name).read_bytes()
    assert trained(folder, "-", stdin=text) == (folder / "model.pqr").read_bytes()


def test_stdin_may_stand_among_files(folder: Path) -> None:
    text = (folder / "b.svm").read_bytes()
    model = trained(folder, folder / "a.svm", "-", stdin=text)
    assert model == (folder / "model.pqr").read_bytes()


def test_rows_of_stdin_are_counted_and_then_learned_each_once(folder: Path) -> None:
    """The first 90 rows are counted, kept in memory, and learned before the rest."""
    text = (folder / "rows.svm").read_bytes()
    ok("separate", "-", "--sample-rows", 90, "-o", folder / "first.sep", stdin=text)
    expected = trained(folder, folder / "rows.svm", "--separation", folder / "first.sep")
    assert trained(folder, "-", "--sample-rows", 90, stdin=text) == expected
    packed = folder / "rows.svm.gz"
    assert trained(folder, packed, "--sample-rows", 90) == expected
    slow = folder / "slow.pqr"
    with fed_slowly(
        text, "train", "--model", "pqr", "-", "--sample-rows", 90, "-o", slow
    ) as process:
        assert process.communicate(timeout=SECONDS)[1] == b""
    assert slow.read_bytes() == expected
    first = Separation.load(folder / "first.sep")
    assert (first.rows, first.order) == (90, math.ceil(math.sqrt(first.distinct)))


def test_all_rows_may_be_counted(folder: Path) -> None:
    text = (folder / "rows.svm").read_bytes()
    expected = (folder / "model.pqr").read_bytes()
    assert trained(folder, "-", "--sample-rows", "all", stdin=text) == expected
    assert trained(folder, folder / "rows.svm", "--sample-rows", "all") == expected


def test_a_named_pipe_is_read_like_stdin(folder: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    arguments = [COMMAND, "train", "--model", "pqr", str(pipe), "-o", str(tmp_path / "model.pqr")]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL) as process:
        pipe.write_bytes((folder / "rows.svm").read_bytes())
        assert process.wait(SECONDS) == 0
    assert (tmp_path / "model.pqr").read_bytes() == (folder / "model.pqr").read_bytes()


# What is printed.


def weighted_log_loss(predictions: Any) -> float:
    return float(log_loss(ROWS.labels, predictions, sample_weight=ROWS.weights))


def test_json_tells_what_happened(folder: Path) -> None:
    found = figures("train", "--model", "pqr", folder / "rows.svm", "-o", folder / "json.pqr")
    model = pqrlearn.load(folder / "json.pqr")
    assert found["model"] == "pqr"
    assert found["settings"] == model.settings()
    assert found["rows"] == len(ROWS)
    assert found["seconds"] > 0
    assert found["rows_per_second"] == pytest.approx(len(ROWS) / found["seconds"])
    assert found["nonzeros"] == model.nonzeros()
    assert found["order"] == ORDER
    assert found["counted"]["distinct"] == DISTINCT
    assert found["peak_memory_bytes"] > 1e6
    assert found["bad_rows"] == 0


def test_progressive_figures_of_clicks_are_those_of_scikit_learn(folder: Path) -> None:
    found = figures("train", "--model", "pqr", folder / "rows.svm", "-o", folder / "json.pqr")
    predictions = learned(PQR(Separation.top_k(ROWS, ORDER)), ROWS)[1]
    auc = roc_auc_score(ROWS.labels, predictions, sample_weight=ROWS.weights)
    assert found["logloss"] == pytest.approx(weighted_log_loss(predictions), rel=1e-9)
    assert abs(found["auc"] - auc) <= found["auc_error"] + 1e-12
    assert found["mean_label"] == pytest.approx(np.average(ROWS.labels, weights=ROWS.weights))
    mean = np.full(len(ROWS), found["mean_label"])
    assert found["constant_logloss"] == pytest.approx(weighted_log_loss(mean))


def test_progressive_figures_of_ratings_are_those_of_scikit_learn(folder: Path) -> None:
    given = ["--loss", "squared", "--separation", folder / "sep"]
    found = figures(
        "train", "--model", "pqr", folder / "rows.svm", *given, "-o", folder / "json.pqr"
    )
    predictions = learned(PQR(Separation.top_k(ROWS, 5), "squared"), ROWS)[1]
    error = mean_squared_error(ROWS.labels, predictions, sample_weight=ROWS.weights)
    assert found["rmse"] == pytest.approx(math.sqrt(error), rel=1e-9)
    assert "logloss" not in found


def test_people_are_told_the_same_in_a_table(folder: Path) -> None:
    out = ok("train", "--model", "pqr", folder / "rows.svm", "-o", folder / "table.pqr")
    cells = [line.split(maxsplit=1) for line in out.splitlines()]
    assert ["model", "PQR, logistic loss"] in [[first, *map(str.strip, r)] for first, *r in cells]
    assert ["order", str(ORDER)] in [line.split() for line in out.splitlines()]
    assert ["rows", str(len(ROWS))] in [line.split() for line in out.splitlines()]
    for word in ("rows/s", "progressive LogLoss", "AUC", "pair", "shared", "peak memory"):
        assert word in out


def test_the_peak_of_memory_is_its_own_and_not_that_of_the_shell(folder: Path) -> None:
    rows, model = folder / "rows.svm", folder / "peak.pqr"
    ballast = "import subprocess, sys; held = bytearray(300 << 20); subprocess.run(sys.argv[1:])"
    arguments = [COMMAND, "train", "--model", "pqr", str(rows), "-o", str(model), "--json"]
    done = subprocess.run([sys.executable, "-c", ballast, *arguments], capture_output=True)
    assert json.loads(done.stdout)["peak_memory_bytes"] < 200e6


def test_a_loss_worse_than_the_best_constants_is_a_warning(folder: Path) -> None:
    rng = np.random.default_rng(5)
    noise = Batch.from_rows([([i % 7], [1.0]) for i in range(300)], labels=rng.integers(0, 2, 300))
    path = write_rows(folder / "noise.svm", noise)
    result = run("train", "--model", "pqr", path, "-o", folder / "noise.pqr", "--alpha", 50)
    assert result.code == 0
    assert result.err.startswith("pqr: warning: the progressive LogLoss of ")
    assert "the best constant's; try a smaller --alpha" in result.err
    assert result.err.count("\n") == 1
    result = run(
        "train", "--model", "pqr", path, "-o", folder / "n.pqr", "--alpha", 50, "--loss", "squared"
    )
    assert "warning: the progressive RMSE of " in result.err


def test_names_come_back_where_weights_are_shown(folder: Path) -> None:
    names = folder / "names"
    names.write_text("0 banner=top\n1\tsite=ü ✓ [b]\n\n2 hour 9 \n")
    ok("train", "--model", "pqr", folder / "rows.svm", "--names", names, "-o", folder / "named.pqr")
    found = figures("inspect", folder / "named.pqr", "--top", 100)
    shown = {name for weight in found["strongest"]["linear"] for name in weight["features"]}
    assert {"banner=top", "site=ü ✓ [b]", "hour 9", "3"} <= shown
    pairs = [weight["features"] for weight in found["strongest"]["pair"]]
    assert ["banner=top", "site=ü ✓ [b]"] in pairs
    assert "banner=top × site=ü ✓ [b]" in ok("inspect", folder / "named.pqr", "--top", 100)
    more = trained(folder, folder / "b.svm", "--resume", folder / "named.pqr")
    assert pqrlearn.from_bytes(more).name_of(2) == "hour 9"


# Going on.


@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
@pytest.mark.parametrize("kind", ["pqr", "lr", "qr"])
def test_a_resumed_run_ends_with_the_bytes_of_an_uninterrupted_one(
    folder: Path, kind: str, loss: str
) -> None:
    first = ["--model", kind, "--loss", loss, "--alpha", 0.3, "--l1", 0.05]
    first += ["--separation", folder / "sep"] * (kind == "pqr")
    whole = trained(folder, folder / "a.svm", folder / "b.svm", *first)
    ok("train", "--model", "pqr", folder / "a.svm", *first, "-o", folder / "half.pqr")
    assert trained(folder, folder / "b.svm", "--resume", folder / "half.pqr") == whole


def test_a_model_may_be_resumed_in_place(folder: Path) -> None:
    path = folder / "place.pqr"
    ok("train", "--model", "pqr", folder / "a.svm", "--separation", folder / "sep", "-o", path)
    ok("train", folder / "b.svm", "--resume", path, "-o", path)
    whole = trained(folder, folder / "rows.svm", "--separation", folder / "sep")
    assert path.read_bytes() == whole


def test_settings_may_be_repeated_when_resuming(folder: Path) -> None:
    settings = "--model pqr --loss logistic --alpha 0.1 --beta 1 --l1 0 --l2 0 --bias --order 5"
    given = [*settings.split(), "--separation", folder / "sep"]
    given += ["--interaction-scale", pqrlearn.PQR(Separation.top_k(ROWS, 5)).interaction_scale]
    ok(
        "train",
        "--model",
        "pqr",
        folder / "a.svm",
        "--separation",
        folder / "sep",
        "-o",
        folder / "half.pqr",
    )
    resumed = ["--resume", folder / "half.pqr"]
    plain = trained(folder, folder / "b.svm", *resumed)
    assert trained(folder, folder / "b.svm", *resumed, *given) == plain


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--model", ["lr"]),
        ("--loss", ["squared"]),
        ("--order", [17]),
        ("--separation", ["sep"]),
        ("--min-count", [1_000_000]),
        ("--alpha", [0.2]),
        ("--beta", [2]),
        ("--l1", [1]),
        ("--l2", [1]),
        ("--interaction-scale", ["none"]),
        ("--no-bias", []),
        ("--names", ["names"]),
        ("--optimizer", ["ogd"]),
        ("--eta", [0.1]),
    ],
)
def test_settings_that_contradict_the_model_are_refused(
    folder: Path, flag: str, value: list[object]
) -> None:
    (folder / "names").write_text("1 one\n")
    given = [folder / item if item in ("sep", "names") else item for item in value]
    output = folder / "refused.pqr"
    arguments = ["--resume", folder / "model.pqr", flag, *given, "-o", output]
    said = failure(2, "train", folder / "b.svm", *arguments)
    assert f"{flag.replace('no-', '')} " in said
    assert "contradicts --resume" in said
    assert not output.exists()


# Memory.

MEASURED = """
import re, sys
from pqrlearn.cli import main
main()
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_largest_index_costs_kilobytes(tmp_path: Path) -> None:
    peaks = []
    for index in (1, 2**32 - 1):
        path = tmp_path / f"{index}.svm"
        path.write_text(f"1 {index}:1\n0 2:1\n")
        arguments = ["train", "--model", "pqr", str(path), "-o", str(tmp_path / "model.pqr")]
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, *arguments], capture_output=True, check=True
        )
        peaks.append(1024 * int(done.stderr.split()[-1]))
    assert peaks[1] - peaks[0] < 2e6


# Several orders.


def test_order_auto_mixes_orders(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.pqr"
    found = figures("train", folder / "rows.svm", "--model", "pqr", "--order", "auto", "-o", path)
    orders = Counts.of_files([folder / "rows.svm"]).orders()
    assert len(orders) > 2
    assert [one["order"] for one in found["posterior"]] == orders
    assert sum(one["share"] for one in found["posterior"]) == pytest.approx(1)
    assert found["model"] == "mixture"
    assert found["regret"] <= found["bound"]
    model = pqrlearn.load(path)
    assert isinstance(model, Mixture)
    assert model.posterior() == [one["share"] for one in found["posterior"]]
    assert [one.separation.order for one in model.learners if isinstance(one, PQR)] == orders
    singles = map(alone(folder, tmp_path), orders)
    totals = [one["logloss"] * one["weight"] for one in (found, *singles)]
    assert totals[0] - min(totals[1:]) == pytest.approx(found["regret"], abs=1e-3)
    looked = figures("inspect", path)
    assert looked["posterior"] == found["posterior"]
    assert "pqr, order 0" in ok("inspect", path)


def alone(folder: Path, tmp_path: Path) -> Callable[[int], dict[str, Any]]:
    """What training with one order shows."""
    output = tmp_path / "alone.pqr"
    return lambda order: figures(
        "train", "--model", "pqr", folder / "rows.svm", "--order", order, "-o", output
    )


def test_order_auto_is_gone_on_with(folder: Path, tmp_path: Path) -> None:
    rows, start = folder / "rows.svm", ["--model", "pqr", "--order", "auto"]
    text = ok("train", rows, *start, "--alpha", 0.2, "--passes", 2, "-o", tmp_path / "twice.pqr")
    assert "posterior" in text
    assert "order 0" in text
    assert "loss beyond the best of them" in text
    ok("train", rows, *start, "--alpha", 0.2, "-o", tmp_path / "once.pqr")
    again = ["--resume", tmp_path / "once.pqr", "-o", tmp_path / "again.pqr"]
    ok("train", rows, *again, *start, "--alpha", 0.2)
    assert (tmp_path / "again.pqr").read_bytes() == (tmp_path / "twice.pqr").read_bytes()
    for flags, has in (("--order 3", "auto"), ("--alpha 0.1", "0.2"), ("--model lr", "pqr")):
        message = failure(2, "train", rows, *again, *flags.split())
        assert message.endswith(f"; the model has {has}")


def test_order_auto_goes_on_from_a_checkpoint(folder: Path, tmp_path: Path) -> None:
    rows, kept = folder / "rows.svm", tmp_path / "kept"
    ok("train", rows, "--model", "pqr", "--order", "auto", "-o", tmp_path / "model.pqr")
    often = ["--checkpoint", kept, "--every", 150]
    ok("train", rows, "--model", "pqr", "--order", "auto", *often, "-o", tmp_path / "kept.pqr")
    assert pqrlearn.load(kept).rows < len(ROWS)
    assert trained(tmp_path, rows, "--resume", kept) == (tmp_path / "model.pqr").read_bytes()
