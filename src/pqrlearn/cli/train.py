"""pqr train: from files to a model."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from os.path import samefile
from pathlib import Path
from typing import IO, Any

import click

from pqrlearn import hyper
from pqrlearn.checkpoint import Progress, cut, skip
from pqrlearn.cli import options, show
from pqrlearn.cli.choose import new_learner, refuse_contradictions
from pqrlearn.files import check_writable, room_beside
from pqrlearn.learners import LEARNERS, PQR, Auto, Mixture, load
from pqrlearn.metrics import Metrics
from pqrlearn.progressive import Pass, finite, learn, peak_memory
from pqrlearn.readers import Inputs, Reader, at_most, format_batch, open_reader
from pqrlearn.rows import Batch
from pqrlearn.separation import Counts, Separation

EVERY = 1_000_000
"""Rows from one checkpoint to the next."""


@click.command(short_help="Learn a model from files, one row at a time.")
@options.files
@click.option("-o", "--output", required=True, metavar="MODEL", help="Where to save the model.")
@click.option(
    "--model", type=click.Choice(list(LEARNERS)), help="Default: auto, which needs no settings."
)
@options.memory
@options.loss
@options.order
@options.min_count
@click.option("--separation", metavar="SEP", help="Use this separation, from pqr separate.")
@options.sample_rows
@options.optimizer
@options.embedding
@options.block_rows
@click.option(
    "--interaction-scale",
    type=options.Scale(),
    help="Multiply interaction values by FACTOR/√(how many the row has), or by nothing (the "
    f"paper). Default: {hyper.INTERACTION_SCALE}.",
)
@click.option("--bias/--no-bias", default=None, help="An always-on coordinate. Default: on.")
@options.names
@click.option(
    "--passes",
    type=click.IntRange(min=1),
    metavar="N",
    help="How often to go over the files; the figures are those of the first pass. Default: 1.",
)
@click.option(
    "--resume",
    metavar="MODEL",
    help="Go on with this model and its settings; if it is a checkpoint, after its last row.",
)
@click.option("--checkpoint", metavar="FILE", help="Keep the state of the run here.")
@click.option(
    "--every",
    type=click.IntRange(min=1),
    metavar="ROWS",
    help=f"How often to write the checkpoint. Default: {EVERY:,}.",
)
@options.bad_rows
@options.quiet
@options.as_json
def train(files: tuple[str, ...], **given: Any) -> None:
    """Learn a model from libsvm FILEs (- is stdin; .gz and .zst are read as they are).

    A row is `label[:weight] index:value index:value ...`. Each row is predicted, scored and then
    learned, so the figures shown are those of rows the model had not seen.
    """
    if given["bad_rows"] and given["on_bad_row"] != "skip":
        raise click.UsageError("--bad-rows needs --on-bad-row skip")
    if given["every"] and not given["checkpoint"]:
        raise click.UsageError("--every needs --checkpoint")
    _refuse_to_overwrite(files, given["output"], given["bad_rows"], given["checkpoint"])
    for path in filter(None, (given["output"], given["checkpoint"])):
        check_writable(path)
    with ExitStack() as stack:
        run = _Run(list(files), given, stack)
        run.learn()
    run.learner.save(given["output"])
    run.report(as_json=given["as_json"])


class _Run:
    """One training run: a model, its inputs, and what each pass showed."""

    def __init__(self, files: list[str], given: dict[str, Any], stack: ExitStack) -> None:
        self.given = given
        self.every = given["every"] or EVERY
        self.results: dict[int, Pass] = {}  # by number of the pass, from 1
        self.counted: tuple[Counts, float] | None = None
        self._room: Any = None  # for pairs, made ready while features are counted
        resumed = load(given["resume"]) if given["resume"] else None
        if resumed is not None:
            refuse_contradictions(resumed, given)
        self.loss = resumed.loss if resumed else given["loss"] or "logistic"
        self.inputs = Inputs([self._opened(path, given["on_bad_row"]) for path in files])
        self.progress = self._start(resumed.progress if resumed else None)
        self.start = self.progress
        if self.progress.passes > 1:
            self.inputs.keep_in(stack.enter_context(room_beside(Path(given["output"]))))
        self._keep_bad: IO[bytes] | None = None
        if given["bad_rows"]:
            self._keep_bad = stack.enter_context(open(given["bad_rows"], "wb"))  # noqa: SIM115
            self.inputs.keep_bad(self._keep_bad)
        kind = resumed.kind if resumed else given["model"] or "auto"
        if self.progress.passes > 1 and kind == "auto":
            raise click.UsageError(
                "--passes needs --model pqr or another: auto takes every row as new evidence, "
                "and rows seen twice make it too sure of itself"
            )
        self.learner = resumed or new_learner(given, self.loss, self._separations())
        self.inputs.use_names(self.learner.names, self.learner.next_feature)
        self._use_room()

    def _opened(self, path: str, on_bad_row: str) -> Reader:
        return open_reader(path, loss=self.loss, on_bad_row=on_bad_row)

    def _start(self, kept: Any) -> Progress:
        """Where to begin: at the start, or where a checkpoint has stopped."""
        if kept is None:
            progress = Progress.of(self.inputs, self.given["passes"] or 1)
        else:
            progress = Progress.restored(kept, self.given["resume"])
            progress.check_inputs(self.inputs, self.given["resume"])
            if self.given["passes"] not in (None, progress.passes):
                raise click.UsageError(f"the checkpoint is of a run with {progress.passes} passes")
        if progress.passes > 1 and "-" in self.inputs.paths:
            raise click.UsageError("--passes needs files that can be read again, not - (stdin)")
        return progress

    def _separations(self) -> Iterator[Separation]:
        """One, or with --order auto one of each order; counted when the first is asked for."""
        given = self.given
        if given["separation"]:
            if given["order"] is not None or given["min_count"] is not None:
                raise click.UsageError("--separation already says which features are high")
            yield Separation.load(given["separation"])
            return
        start = time.perf_counter()
        several = given["order"] == options.AUTO
        if given["order"] and not several:  # the most there may be; the default needs little
            self._room = PQR.room(given["order"], self.inputs.bytes)
        counts = self._count()
        self.counted = counts, time.perf_counter() - start
        for order in counts.orders() if several else [given["order"]]:
            separation = counts.separate(order=order, min_count=given["min_count"])
            if sys.stderr.isatty() and not self._quiet:
                show.note(
                    f"order {separation.order:,}: of {counts.distinct:,} features in "
                    f"{counts.rows:,} rows counted ({self.counted[1]:.1f} s)"
                )
            yield separation

    def _use_room(self) -> None:
        """A model that has fewer high features than were asked for does without."""
        room, self._room = self._room, None
        learner, order = self.learner, self.given["order"]
        if room and isinstance(learner, PQR) and learner.separation.order == order:
            learner.use(room)

    def _count(self) -> Counts:
        """Counts a sample; what cannot be read twice is kept and learned from memory."""
        sample_rows = self.given["sample_rows"]
        if self.inputs.enterable:
            readers = [self._opened(path, "skip") for path in self.inputs.paths]
            return Counts.of_readers(readers, sample_rows)
        head = self.inputs.head(sample_rows)
        return Counts.of(head if sample_rows is None else at_most(head, sample_rows))

    def learn(self) -> None:
        skip_refused = self.given["on_bad_row"] == "skip"
        for number in range(self.progress.done_passes, self.progress.passes):
            title = f"pass {number + 1}" if self.progress.passes > 1 else "training"
            before = self.progress.rows
            with show.progress(title, self.inputs.fraction, quiet=self._quiet) as watch:
                result = learn(
                    self.learner,
                    self._batches(),
                    self._checkpointed(watch),
                    skip_refused=skip_refused,
                )
            if self.progress.rows > before:  # a checkpoint may be of the last row
                if not self.results:
                    self._keep_refused(result)
                self.results[number + 1] = result
            self.progress = Progress(self.progress.inputs, self.progress.passes, number + 1)

    def _keep_refused(self, result: Pass) -> None:
        """Rows that only the model refuses, behind those that could not be read."""
        if self._keep_bad is not None:
            self._keep_bad.writelines(format_batch(error.alone) for error in result.refused)

    @property
    def _quiet(self) -> bool:
        return bool(self.given["quiet"] or self.given["as_json"])

    def _batches(self) -> Iterator[Batch]:
        """All rows still to learn, prepared on the thread that reads."""
        batches = self.inputs.batches(self.learner.prepared)
        if self.progress.rows:
            batches = skip(batches, self.progress.rows)
        if self.given["checkpoint"]:
            batches = cut(batches, self.every, self.progress.rows)
        return self._counted_in(batches)

    def _counted_in(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self.progress = self.progress.after(len(batch))
            yield batch

    def _checkpointed(self, watch: Any) -> Any:
        """Writes the checkpoint after the last row of every `--every`, then shows progress."""

        def after_batch(metrics: Metrics) -> None:
            if self.given["checkpoint"] and self.progress.rows % self.every == 0:
                self.learner.save(self.given["checkpoint"], progress=self.progress.settings())
            watch(metrics)

        return after_batch

    def report(self, *, as_json: bool) -> None:
        first = next(iter(self.results.values()), None)
        if first is None:
            show.note("the checkpoint is of the last row: nothing was left to learn")
        else:
            self._note(first, as_json=as_json)
        if as_json:
            show.print_json(self._json(first))
        elif first is not None:
            show.table("", ["", ""], self._lines(first), text_columns=2)

    def _note(self, first: Pass, *, as_json: bool) -> None:
        if self.start.rows and not as_json:
            where = f" of pass {self.start.done_passes + 1}" if self.start.passes > 1 else ""
            show.note(
                f"went on after {self.start.rows:,} rows{where}; the figures are of those since"
            )
        show.note_bad_rows(self.inputs, first)
        warning = first.worse_than_constant()
        if warning and isinstance(self.learner, Auto):
            show.note(f"warning: {warning}")
        elif warning:
            learner = self.learner
            chosen = learner.learners[0] if isinstance(learner, Mixture) else learner
            optimizer = chosen.settings().get("optimizer", {})
            rate = "--alpha" if "alpha" in optimizer else "--eta"
            show.note(f"warning: {warning}; try a smaller {rate}")

    def _json(self, first: Pass | None) -> dict[str, Any]:
        figures: dict[str, Any] = {
            "model": self.learner.kind,
            "settings": self.learner.settings(),
            "rows": 0,
            "nonzeros": self.learner.nonzeros(),
            "peak_memory_bytes": peak_memory(),
            "resumed_after_rows": self.start.rows,
            "passes": [{**finite(p.figures), "seconds": p.seconds} for p in self.results.values()],
        }
        if first is not None:
            figures |= {
                **finite(first.figures),
                "seconds": first.seconds,
                "rows_per_second": first.rows_per_second,
                "bad_rows": self.inputs.bad_rows + len(first.refused),
            }
        if isinstance(self.learner, PQR):
            figures["order"] = self.learner.separation.order
        if isinstance(self.learner, Auto):
            figures["auto"] = self.learner.summary()
        if isinstance(self.learner, Mixture):
            figures |= show.mixture_figures(self.learner)
        if self.counted is not None:
            counts, seconds = self.counted
            figures["counted"] = {
                "rows": counts.rows,
                "distinct": counts.distinct,
                "seconds": seconds,
            }
        return figures

    def _lines(self, first: Pass) -> list[tuple[str, str]]:
        nonzeros = self.learner.nonzeros()
        order = []
        if isinstance(self.learner, PQR):
            order = [("order", f"{self.learner.separation.order:,}")]
        if isinstance(self.learner, Mixture):
            order = show.mixture_cells(self.learner)
        return [
            ("model", f"{self.learner.kind.upper()}, {self.learner.loss} loss"),
            *order,
            *(show.auto_cells(self.learner) if isinstance(self.learner, Auto) else ()),
            ("rows", f"{first.rows:,}"),
            ("seconds", f"{first.seconds:.2f}  ({first.rows_per_second:,.0f} rows/s)"),
            *((f"progressive {name}", cell) for name, cell in show.figure_cells(first)),
            *(
                (f"pass {number}: {name}", cell)
                for number, later in self.results.items()
                if later is not first
                for name, cell in show.figure_cells(later)[:1]
            ),
            ("non-zero weights", f"{sum(nonzeros.values()):,}"),
            *((f"  {block}", f"{count:,}") for block, count in nonzeros.items()),
            ("peak memory", show.megabytes(peak_memory())),
            ("saved as", self.given["output"]),
        ]


def _refuse_to_overwrite(files: tuple[str, ...], *outputs: str | None) -> None:
    """A slip of the hand must not cost the data, nor one result another."""
    written = [os.path.abspath(output) for output in outputs if output]
    if len(set(written)) < len(written):
        raise click.UsageError("--output, --bad-rows and --checkpoint must be different files")
    for output in filter(None, outputs):
        if any(os.path.exists(f) and os.path.exists(output) and samefile(f, output) for f in files):
            raise click.UsageError(f"{output} is an input: it would be overwritten")
