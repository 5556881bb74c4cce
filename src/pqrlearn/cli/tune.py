"""pqr tune: which settings suit these rows?"""

from __future__ import annotations

import math
import os
import shlex
from typing import Any

import click
import numpy as np

from pqrlearn import tune as tuning
from pqrlearn.cli import options, show
from pqrlearn.errors import DataError
from pqrlearn.journal import Journal
from pqrlearn.learners import LEARNERS
from pqrlearn.loss import loss_named
from pqrlearn.readers import at_most, read
from pqrlearn.rows import Batch
from pqrlearn.separation import Counts


@click.command(short_help="Find settings for a model on a validation part of the rows.")
@options.files
@click.option(
    "--model",
    type=click.Choice([kind for kind in LEARNERS if kind != "auto"]),
    default="pqr",
    show_default=True,
    help="What to find settings for.",
)
@options.loss
@options.order
@click.option(
    "--interaction-scale",
    type=options.Scale(),
    help="Keep this scale; otherwise it is one of the settings tried.",
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=tuning.TRIALS,
    show_default=True,
    metavar="N",
    help="How many settings to try; one in three goes on to three times the rows.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the settings tried.",
)
@click.option(
    "--validation",
    type=click.FloatRange(0, 0.5, min_open=True),
    default=0.1,
    show_default=True,
    metavar="SHARE",
    help="How much of the rows judges the settings: the last ones, as in use.",
)
@click.option(
    "--shuffle",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Shuffle the rows first, for files that are not in the order of time.",
)
@click.option(
    "--rows", type=click.IntRange(min=1), metavar="N", help="Use the first N rows. Default: all."
)
@click.option("--cache", metavar="DIR", help="Keep finished trials here, and go on from them.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    metavar="N",
    help="How many trials run at a time. Default: one per core.",
)
@options.quiet
@options.as_json
def tune(files: tuple[str, ...], **given: Any) -> None:
    """Find settings for a model: trials learn from the first rows of libsvm FILEs in one pass and
    are judged on the last ones.

    Most trials see a ninth of the rows, the better ones a third, the best all of them. The rows are
    held in memory.
    """
    loss = given["loss"] or "logistic"
    rows = _read(files, loss, given["rows"])
    if given["shuffle"] is not None:
        rows = rows.take(np.random.default_rng(given["shuffle"]).permutation(len(rows)))
    task = _task(rows, loss, given)
    journal = Journal(os.path.join(given["cache"], "trials.jsonl") if given["cache"] else None)
    quiet = given["quiet"] or given["as_json"]
    with show.steps(f"tuning {given['model']}", quiet=quiet) as step:
        tuned = tuning.tune(
            task,
            trials=given["trials"],
            seed=given["seed"],
            journal=journal,
            jobs=given["jobs"],
            watch=lambda done, best: step(done, f"best {best:.5f}"),
        )
    _report(tuned, task, _command(files, tuned, task), as_json=given["as_json"])


def _read(files: tuple[str, ...], loss: str, limit: int | None) -> Batch:
    batches = read(files, loss=loss)
    return Batch.joined(batches if limit is None else at_most(batches, limit))


def _task(rows: Batch, loss: str, given: dict[str, Any]) -> tuning.Task:
    """The separation is counted on the training part only, as it would be in use."""
    cut = len(rows) - max(1, round(given["validation"] * len(rows)))
    if cut < 1:
        raise DataError(f"{len(rows)} rows are too few for a training and a validation part")
    train, validation = rows.part(0, cut), rows.part(cut, len(rows))
    kind, scale, fixed = given["model"], given["interaction_scale"], {}
    if kind != "pqr" and given["order"] is not None:
        raise click.UsageError(f"--order needs --model pqr: {kind} has no separation")
    order = options.one_order(given["order"], "settings are found for one order")
    if scale is not None and kind not in ("pqr", "qr"):
        raise click.UsageError("--interaction-scale needs --model pqr or qr")
    if scale is not None:
        fixed = {"interaction_scale": None if scale == "none" else scale}
    separation = Counts.of(train).separate(order=order) if kind == "pqr" else None
    return tuning.Task(kind, loss, train, validation, fixed, separation)


def _command(files: tuple[str, ...], tuned: tuning.Tuned, task: tuning.Task) -> str:
    """The line that trains with the winning settings."""
    words = ["pqr", "train", *files, "-o", "model.pqr", "--model", task.kind, "--loss", task.loss]
    if task.separation is not None:
        words += ["--order", str(task.separation.order)]
    for name, value in tuned.settings.items():
        words += ["--" + name.replace("_", "-"), _word(value)]
    return shlex.join(words)


def _word(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{count}:{rank}" for count, rank in value)
    return "none" if value is None else f"{value:g}"


def _report(tuned: tuning.Tuned, task: tuning.Task, command: str, *, as_json: bool) -> None:
    if math.isinf(tuned.score):
        raise DataError("every trial has diverged: are some values or labels very large?")
    measure = loss_named(task.loss).metrics.title
    if as_json:
        show.print_json(_figures(tuned, task, measure) | {"command": command})
        return
    names = list(tuned.settings)
    whole = [trial for trial in tuned.trials if trial.rows == len(task.train)]
    rows = [
        [*(_word(trial.settings[name]) for name in names), f"{trial.score:.5f}"]
        for trial in sorted(whole, key=lambda trial: trial.score)
    ]
    title = (
        f"{len(tuned.trials)} trials; those that learned all {len(task.train):,} training rows, "
        f"judged on {len(task.validation):,} others:\n"
    )
    show.table(title, [*names, f"validation {measure}"], rows, text_columns=0)
    print(f"\n{command}")


def _figures(tuned: tuning.Tuned, task: tuning.Task, measure: str) -> dict[str, Any]:
    trials = [
        {
            "settings": trial.settings,
            "rows": trial.rows,
            "score": trial.score if math.isfinite(trial.score) else None,
        }
        for trial in tuned.trials
    ]
    return {
        "model": tuned.kind,
        "settings": tuned.settings,
        f"validation_{measure.lower()}": tuned.score,
        "training_rows": len(task.train),
        "validation_rows": len(task.validation),
        "trials": trials,
    }
