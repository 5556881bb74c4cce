"""One training run, from its configuration to a saved model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

from pqrlearn.checkpoint import Progress, cut, skip
from pqrlearn.errors import RefusedRow, RowError, SettingsConflict
from pqrlearn.files import temporary_folder
from pqrlearn.learners import Learner
from pqrlearn.metrics import Metrics
from pqrlearn.progressive import Loop, OnBatch, Pass, evaluate
from pqrlearn.readers import AnyPath, Inputs
from pqrlearn.rows import Batch
from pqrlearn.schema import Schema
from pqrlearn.separation import Separation
from pqrlearn.training.bad_rows import BadRows
from pqrlearn.training.config import TrainConfig, check_passes
from pqrlearn.training.holdout import HoldOut
from pqrlearn.training.model import Counted, new_learner, open_inputs, resumed_learner


class Monitor:
    """Follows a run while it goes on. This one shows nothing."""

    def guessed(self, schema: Schema, loss: str) -> None:
        """A table will be read by this schema."""

    def counted(self, separation: Separation, seconds: float) -> None:
        """Features were counted for this separation."""

    def progress(
        self, title: str, fraction: Callable[[], float | None]
    ) -> AbstractContextManager[OnBatch]:
        """A pass starts; the function is called after every batch, until the pass ends."""
        return nullcontext(_ignore)


def _ignore(metrics: Metrics) -> None:
    pass


SILENT = Monitor()


@dataclass(frozen=True)
class TrainResult:
    """The trained learner and what each pass showed.

    `passes` are numbered from 1. Those that a checkpoint had finished are missing; there is none if
    the checkpoint was of the last row. `start` is where the run began; `held_out` is what the
    finished model shows on rows that were held out.
    """

    learner: Learner
    start: Progress
    passes: dict[int, Pass]
    counted: Counted | None
    held_out: Pass | None
    bad_rows: int
    first_bad: list[RowError]
    replaced: int
    """Values that count as column=*, for want of room for names."""

    @property
    def first(self) -> Pass | None:
        """The first pass of this run, whose figures are those of rows not seen before."""
        return next(iter(self.passes.values()), None)


def train(config: TrainConfig, monitor: Monitor = SILENT) -> TrainResult:
    """Learns all rows of the inputs, writing checkpoints on the way, and saves the model."""
    config.check_files()
    resumed = resumed_learner(config)
    inputs, loss = open_inputs(config, resumed)
    if inputs.schema is not None and resumed is None:
        monitor.guessed(inputs.schema, loss)
    start = _start(config, inputs, resumed)
    with ExitStack() as stack:
        if start.passes > 1:
            inputs.keep_in(stack.enter_context(_room(config.output)))
        bad_rows = None
        if config.bad_rows is not None:
            bad_rows = stack.enter_context(BadRows(config.bad_rows, inputs, start))
            inputs.keep_bad(bad_rows)
        learner, counted = resumed, None
        if learner is None:
            learner, counted = new_learner(config, inputs, loss, monitor.counted)
        inputs.use_names(learner._lend_names(), shared=True)
        hold_out = None if config.holdout is None else HoldOut(config.holdout)
        passes, end = _learn(config, learner, inputs, start, bad_rows, monitor, hold_out)
        learner._take_names_back()
        held_out = _judged(config, learner, hold_out)
    if config.output is not None:
        learner.save(config.output)
    refused = next(iter(passes.values())).refused if passes else []
    found = inputs.bad_rows + end.refused
    first_bad = [*inputs.first_bad, *refused]
    replaced = inputs.replaced
    return TrainResult(learner, start, passes, counted, held_out, found, first_bad, replaced)


def _judged(config: TrainConfig, learner: Learner, hold_out: HoldOut | None) -> Pass | None:
    """What the finished model, which learns no more, shows on the rows that were held out."""
    if hold_out is None:
        return None
    return evaluate(learner, hold_out.batches, skip_refused=config.on_bad_row == "skip")


def _start(config: TrainConfig, inputs: Inputs, resumed: Learner | None) -> Progress:
    """Where to begin: at the first row, or behind the last one of a checkpoint."""
    if resumed is None or resumed.progress is None:
        start = Progress.of(inputs, config.passes or 1)
    else:
        start = Progress.restored(resumed.progress, str(config.resume))
        start.check_inputs(inputs, str(config.resume))
        if config.holdout is not None:
            raise SettingsConflict("{holdout} needs a finished model to {resume}, no checkpoint")
        if config.passes not in (None, start.passes):
            raise SettingsConflict(f"the checkpoint is of a run with {start.passes} passes")
    if start.passes > 1 and "-" in inputs.paths:
        raise SettingsConflict("{passes} needs files that can be read again, not - (stdin)")
    check_passes(start.passes, resumed.kind if resumed else config.kind)
    return start


def _room(output: AnyPath | None) -> AbstractContextManager[Path]:
    """A folder for what is needed during the run, on the disk of the model if it has one."""
    return temporary_folder(Path(output if output is not None else Path(gettempdir(), "pqr")))


def _learn(
    config: TrainConfig,
    learner: Learner,
    inputs: Inputs,
    progress: Progress,
    bad_rows: BadRows | None,
    monitor: Monitor,
    hold_out: HoldOut | None,
) -> tuple[dict[int, Pass], Progress]:
    """All passes that are left. What is durable is written here: checkpoints and bad rows."""
    results: dict[int, Pass] = {}
    skip_refused = config.on_bad_row == "skip"
    for number in range(progress.done_passes + 1, progress.passes + 1):
        title = f"pass {number}" if progress.passes > 1 else "training"
        batches = _batches(config, learner, inputs, progress.rows)
        if hold_out is not None:
            batches = hold_out.training(batches)
        before = progress.rows
        with (
            monitor.progress(title, inputs.fraction) as show,
            Loop(learner, batches, skip_refused=skip_refused, start=before) as loop,
        ):
            refused = 0
            for batch in loop:
                new = loop.refused[refused:] if number == 1 else []
                refused = len(loop.refused)
                progress = _after(progress, len(batch), new, bad_rows)
                if config.checkpoint and progress.rows % config.checkpoint_rows == 0:
                    if bad_rows is not None:
                        bad_rows.sync()
                    learner.save(config.checkpoint, progress=progress.settings())
                show(loop.metrics)
        if bad_rows is not None:
            bad_rows.finish()
        if progress.rows > before:  # otherwise the checkpoint was of the last row
            results[number] = loop.result()
        progress = progress.next_pass()
    return results, progress


def _after(
    progress: Progress, rows: int, refused: list[RefusedRow], bad_rows: BadRows | None
) -> Progress:
    """The progress after these rows, whose bad ones are written."""
    size = None
    if bad_rows is not None:
        bad_rows.advance(progress.rows + rows, refused)
        size = bad_rows.size
    return progress.after(rows, len(refused), size)


def _batches(config: TrainConfig, learner: Learner, inputs: Inputs, done: int) -> Iterator[Batch]:
    """The rows of a pass that are left, prepared on the thread that reads.

    They are cut where a checkpoint is due.
    """
    batches = inputs.batches(learner._prepared)
    if done:
        batches = skip(batches, done)
    return cut(batches, config.checkpoint_rows, done) if config.checkpoint else batches
