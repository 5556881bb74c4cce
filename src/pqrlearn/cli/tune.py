"""pqr tune: find settings for some rows."""

from __future__ import annotations

import math
import os
import shlex
from typing import Any

import click

from pqrlearn import tune as tuning
from pqrlearn.cli import options, page, show, words
from pqrlearn.errors import DataError
from pqrlearn.learners import LEARNERS
from pqrlearn.loss import loss_named


@click.command(
    cls=page.Command, short_help="Find settings for a model on a validation part of the rows."
)
@options.files
@click.option(
    "--model",
    type=words.Choice(kind for kind in LEARNERS if kind != "auto"),
    metavar="KIND",
    default="pqr",
    show_default=True,
    help="What to find settings for: pqr, lr, qr, fm, difacto, cfm or ccfm.",
)
@options.loss
@options.single_order
@click.option(
    "--interaction-scale",
    type=words.Scale(),
    metavar="F|none",
    help="Use this scale instead of searching for one.",
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=tuning.TRIALS,
    show_default=True,
    metavar="N",
    help="Number of settings to try; the best third learns three times the rows.",
)
@click.option(
    "--seed",
    "search_seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="SEED",
    help="Random seed for choosing trials.",
)
@click.option(
    "--validation",
    type=click.FloatRange(0, 0.5, min_open=True),
    default=0.1,
    show_default=True,
    metavar="SHARE",
    help="Share of the rows, the last ones, on which settings are compared.",
)
@click.option(
    "--shuffle",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Shuffle the rows first, for files that are not in order of time.",
)
@click.option(
    "--rows", type=click.IntRange(min=1), metavar="N", help="Use the first N rows. Default: all."
)
@click.option("--cache", metavar="DIR", help="Store finished trials in DIR, and reuse them.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    metavar="N",
    help="Trials that run at a time. Default: one per core.",
)
@page.config
@options.quiet
@options.as_json
def tune(
    files: tuple[str, ...],
    order: int | str | None,
    search_seed: int,
    quiet: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Find settings for a model: trials learn from the first rows of libsvm FILEs in one pass and
    are compared on the last ones.

    Most trials learn a ninth of the rows, the better ones a third, the best all of them. All rows
    are held in memory.
    """
    config = tuning.TuneConfig(
        inputs=files,
        order=options.one_order(order, "settings are found for one order"),
        settings=options.take_settings(rest),
        seed=search_seed,
        **rest,
    )
    task = config.task()
    tuned = _search(config, task, quiet=quiet or as_json)
    _report(tuned, task, _command(files, tuned, task), as_json=as_json)


def _search(config: tuning.TuneConfig, task: tuning.Task, *, quiet: bool) -> tuning.Tuned:
    with show.steps(f"tuning {config.model}", quiet=quiet) as step:
        return tuning.tune(
            task,
            trials=config.trials,
            seed=config.seed,
            journal=config.journal(),
            jobs=config.jobs,
            watch=lambda done, best: step(done, f"best {best:.5f}"),
        )


def _command(files: tuple[str, ...], tuned: tuning.Tuned, task: tuning.Task) -> str:
    """The command that trains with the best settings."""
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
        raise DataError("all trials diverged: are some values or labels very large?")
    measure = loss_named(task.loss).metrics.title
    if as_json:
        show.print_json(_figures(tuned, task, measure) | {"command": command})
        return
    whole = [trial for trial in tuned.trials if trial.rows == len(task.train)]
    rows = [
        [*map(_word, trial.settings.values()), f"{trial.score:.5f}"]
        for trial in sorted(whole, key=lambda trial: trial.score)
    ]
    title = (
        f"{len(tuned.trials)} trials; those that learned all {len(task.train):,} training rows, "
        f"validated on {len(task.validation):,} others:\n"
    )
    show.table(title, [*tuned.settings, f"validation {measure}"], rows, text_columns=0)
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
