"""FM and DiFacto on the real Criteo sample, beside the factorization machines of others.

Everyone gets the same rows in the same order, rank 8. Ours have their defaults; peers have the best
of a few settings tried by hand. Prints a Markdown table. Ten minutes, most of them River's.

    make .venv-bench/.installed
    PQRLEARN_DATA=... python -m benchmarks.studies.criteo_peer
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from benchmarks.contenders import PEERS, VwLinear
from benchmarks.machine import circumstances
from benchmarks.measure import PEERS_PYTHON, ROOT, measure
from benchmarks.results import table
from benchmarks.studies.sets import rows_of
from benchmarks.workloads import vw_text
from pqrlearn import FM, LR, Batch, DiFacto
from pqrlearn.learners import Learner
from pqrlearn.progressive import evaluate, learn
from pqrlearn.readers import format_batch

BUILD = ROOT / "build" / "bench"
RANK = "8"
FEW = 10_000
"""Rows for River, which takes minutes for them."""

VW_FACTORS = f"--lrq ff{RANK} -l 0.05 --adaptive --invariant -b 22".split()
"""Its own rates (-l 0.5, --normalized) end above 1; -l from 0.01 to 0.5 were tried."""
VW_SCALE = b"0.05"
"""Of all values: its factors start at 0.2 or so, too far for the 741 pairs of a row of ones."""


def ours(name: str, make: type[Learner], batch: Batch) -> list[str]:
    """Progressive loss on all and on few rows; loss on the last tenth after one pass before it."""
    cut = len(batch) * 9 // 10
    held = make()
    learn(held, [batch.part(0, cut)])
    passes = [
        learn(make(), [batch]),
        learn(make(), [batch.part(0, FEW)]),
        evaluate(held, [batch.part(cut, len(batch))]),
    ]
    return [name, *(f"{each.metrics['logloss']:.4f}" for each in passes)]


def constant(batch: Batch) -> list[str]:
    """The best one number for all rows."""
    cut = len(batch) * 9 // 10
    parts = (batch, batch.part(0, FEW), batch.part(cut, len(batch)))
    losses = [evaluate(LR(), [part]).metrics["constant_logloss"] for part in parts]
    return ["the best constant", *(f"{loss:.4f}" for loss in losses)]


def vowpal_wabbit(vw: Path) -> str:
    loss = ["--loss_function", "logistic", "--link", "logistic", "--no_stdin"]
    outcome = measure([str(PEERS_PYTHON), "-m", "vowpalwabbit", "-d", str(vw), *loss, *VW_FACTORS])
    return f"{VwLinear().figures(outcome)[1]:.4f}"


def script(name: str, path: Path, rows: int) -> str:
    outcome = measure([str(PEERS_PYTHON), str(PEERS / name), str(path), str(rows), RANK])
    return f"{json.loads(outcome.stdout)['loss']:.4f}"


@click.command()
def main() -> None:
    """Compares LogLoss on the Criteo sample in $PQRLEARN_DATA."""
    batch = rows_of("criteo")
    BUILD.mkdir(parents=True, exist_ok=True)
    libsvm, vw = BUILD / "criteo-sample.svm", BUILD / "criteo-sample.vw"
    libsvm.write_bytes(text := format_batch(batch))
    vw.write_bytes(vw_text(text).replace(b"|f", b"|f:" + VW_SCALE))
    rows = [
        constant(batch),
        ours("lr", LR, batch),
        ours("fm", FM, batch),
        ours("difacto", DiFacto, batch),
        [f"Vowpal Wabbit `--lrq ff{RANK}`", vowpal_wabbit(vw), "–", "–"],
        ["River `FMClassifier`", "–", script("river_fm.py", libsvm, FEW), "–"],
        ["myFM (30 Gibbs rounds)", "–", "–", script("myfm_gibbs.py", libsvm, len(batch) * 9 // 10)],
    ]
    columns = ["LogLoss", "progressive", f"progressive, first {FEW:,}", "last tenth"]
    print(table(columns, rows))
    now = circumstances()
    print(f"{now['date']}, commit {now['commit']}, {now['machine']['cpu']}; {now['versions']}")
    print(f"{len(batch):,} rows", file=sys.stderr)


if __name__ == "__main__":
    main()
