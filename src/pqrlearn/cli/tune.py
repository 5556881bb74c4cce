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

SHOWN = 10
READING = {*page.HEADINGS["Table"], *page.HEADINGS["Files"]}
"""Options that say how files are read."""


@click.command(
    cls=page.Command, short_help="Find settings for a model on a validation part of the rows."
)
@options.files
@options.schema
@click.option(
    "--model",
    type=words.Choice(kind for kind in LEARNERS if kind != "auto"),
    metavar="KIND",
    default="pqr",
    show_default=True,
    help="What to find settings for: pqr, lr, qr, fm, difacto, cfm or ccfm.",
)
@options.loss
@click.option(
    "--order",
    type=words.Order(),
    metavar="K",
    help="pqr: use this order instead of searching for one.",
)
@click.option(
    "--interaction-scale",
    type=words.Scale(),
    metavar="F|none",
    help="pqr, qr: use this scale instead of searching for one.",
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of settings to try. Default: what the model needs, 54 to 216.",
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
    """Find settings for a model: trials learn from the first rows of FILEs in one pass and are
    compared on the last ones.

        pqr tune clicks.csv --label click --cache tuned

    Half of the trials are spread over all settings, the order of pqr among them (0: no
    interactions); the better ones learn more rows. The other half is near the best. FILEs are what
    pqr train reads; all rows are held in memory.
    """
    given = options.take_settings(rest)
    config = tuning.TuneConfig(
        inputs=files,
        order=options.one_order(order, "settings are found for one order"),
        settings=given,
        reading=options.take_reading(rest),
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
    words = ["pqr", "train", *files, *_reading(), "-o", "model.pqr"]
    words += ["--model", task.kind, "--loss", task.loss]
    for name, value in tuned.settings.items():
        words += ["--" + name.replace("_", "-"), _word(value)]
    return shlex.join(words)


def _reading() -> list[str]:
    """The options that say how files are read, as they were given."""
    context, found = click.get_current_context(), []
    for param in context.command.params:
        value = context.params.get(str(param.name))
        if param.name in READING and value is not None:
            found += [param.opts[0], str(value)]
    return found


def _word(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{count}:{rank}" for count, rank in value)
    return "none" if value is None else value if isinstance(value, str) else f"{value:g}"


def _report(tuned: tuning.Tuned, task: tuning.Task, command: str, *, as_json: bool) -> None:
    if math.isinf(tuned.score):
        raise DataError("all trials diverged: are some values or labels very large?")
    measure, beside = loss_named(task.loss).metrics.title, task.yardsticks()
    if as_json:
        show.print_json(_figures(tuned, task, measure, beside) | {"command": command})
        return
    whole = {
        tuple(trial.settings.items()): trial
        for trial in tuned.trials
        if trial.rows == len(task.train)
    }
    best = sorted(whole.values(), key=lambda trial: trial.score)[:SHOWN]
    rows = [[*map(_word, trial.settings.values()), f"{trial.score:.5f}"] for trial in best]
    tried = len({tuple(trial.settings.items()) for trial in tuned.trials})
    title = (
        f"{tried} settings tried; the best that learned all {len(task.train):,} training rows, "
        f"validated on {len(task.validation):,} others:\n"
    )
    show.table(title, [*tuned.settings, f"validation {measure}"], rows, text_columns=0)
    show.table("\non the same rows:\n", ["", measure], _beside(tuned, task, beside))
    for name, edge in tuned.edges.items():
        print(f"\n{name}={_word(tuned.settings[name])} is at the {edge} end of what was searched")
    print(f"\n{command}")


def _beside(
    tuned: tuning.Tuned, task: tuning.Task, beside: dict[str, float | None]
) -> list[list[str]]:
    scores = {
        f"{task.kind}, best settings": tuned.score,
        f"{task.kind}, defaults": beside["default"],
        "lr, defaults": beside["lr"],
        "best constant": beside["constant"],
    }
    return [[name, "diverged" if s is None else f"{s:.5f}"] for name, s in scores.items()]


def _figures(
    tuned: tuning.Tuned, task: tuning.Task, measure: str, beside: dict[str, float | None]
) -> dict[str, Any]:
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
        "beside": beside,
        "at_the_edge": tuned.edges,
        "training_rows": len(task.train),
        "validation_rows": len(task.validation),
        "trials": trials,
    }
