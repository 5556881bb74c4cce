"""pqr train: from files to a model."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from os.path import samefile
from typing import IO, Any

import click
import numpy as np

from pqrlearn import hyper
from pqrlearn.cli import options, show
from pqrlearn.cli.inputs import Inputs
from pqrlearn.errors import HyperError
from pqrlearn.files import check_writable
from pqrlearn.learners import LEARNERS, LR, PQR, QR, Learner, load
from pqrlearn.progressive import Pass, finite, learn, peak_memory
from pqrlearn.readers import read_names
from pqrlearn.rows import Batch
from pqrlearn.separation import Counts, Separation, at_most, enterable, first_rows

# What a model file decides by itself: giving another value with --resume is an error.
_SETTINGS = ("model", "loss", "order", "min_count", "separation", "interaction_scale", "bias")
_RATES = ("alpha", "beta", "l1", "l2")


@click.command(short_help="Learn a model from files, one row at a time.")
@options.files
@click.option("-o", "--output", required=True, metavar="MODEL", help="Where to save the model.")
@click.option("--model", type=click.Choice(list(LEARNERS)), help="Default: pqr.")
@options.loss
@options.order
@options.min_count
@click.option("--separation", metavar="SEP", help="Use this separation, from pqr separate.")
@options.sample_rows
@click.option("--alpha", type=float, help=f"Learning rate. Default: {hyper.Ftrl.alpha}.")
@click.option("--beta", type=float, help=f"Damps the first steps. Default: {hyper.Ftrl.beta}.")
@click.option("--l1", type=float, help="Keeps weights at zero. Default: 0.")
@click.option("--l2", type=float, help="Pulls weights towards zero. Default: 0.")
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
    default=1,
    show_default=True,
    metavar="N",
    help="How often to go over the files; the figures are those of the first pass.",
)
@click.option("--resume", metavar="MODEL", help="Go on with this model and its settings.")
@options.bad_rows
@options.quiet
@options.as_json
def train(files: tuple[str, ...], **given: Any) -> None:
    """Learn a model from libsvm FILEs (- is stdin; .gz and .zst are read as they are).

    A row is `label[:weight] index:value index:value ...`. Each row is predicted, scored and then
    learned, so the figures shown are those of rows the model had not seen.
    """
    if given["passes"] > 1 and "-" in files:
        raise click.UsageError("--passes needs files that can be read again, not - (stdin)")
    if given["bad_rows"] and given["on_bad_row"] != "skip":
        raise click.UsageError("--bad-rows needs --on-bad-row skip")
    _refuse_to_overwrite(files, given["output"], given["bad_rows"])
    check_writable(given["output"])
    run = _Run(list(files), given)
    run.learn()
    run.save(given["output"])
    run.report(as_json=given["as_json"])


class _Run:
    """One training run: a model, its inputs, and what each pass showed."""

    def __init__(self, files: list[str], given: dict[str, Any]) -> None:
        self.given = given
        self.passes: list[Pass] = []
        self.counted: tuple[Counts, float] | None = None
        self._buffered: list[Batch] = []
        self._rest: Iterator[Batch] = iter(())
        resumed = load(given["resume"]) if given["resume"] else None
        if resumed is not None:
            _refuse_contradictions(resumed, given)
        self.loss: str = resumed.loss if resumed else given["loss"] or "logistic"
        self._stack = ExitStack()
        keep: IO[bytes] | None = None
        if given["bad_rows"]:
            keep = self._stack.enter_context(open(given["bad_rows"], "wb"))  # noqa: SIM115
        self.inputs = Inputs(
            files,
            clicks=self.loss == "logistic",
            on_bad_row=given["on_bad_row"],
            keep_bad=keep,
        )
        self.learner = resumed or self._new_learner()

    def _new_learner(self) -> Learner:
        given = self.given
        rates = {name: given[name] for name in _RATES if given[name] is not None}
        optimizer = hyper.Ftrl(**rates)
        bias = True if given["bias"] is None else given["bias"]
        scale = given["interaction_scale"]
        factor = hyper.INTERACTION_SCALE if scale is None else None if scale == "none" else scale
        kind = given["model"] or "pqr"
        if kind != "pqr":
            _refuse_separation_options(kind, given)
        model: Learner
        if kind == "lr":
            if scale is not None:
                raise click.UsageError("--interaction-scale needs a model with interactions")
            model = LR(self.loss, optimizer, bias=bias)
        elif kind == "qr":
            model = QR(self.loss, optimizer, interaction_scale=factor, bias=bias)
        else:
            separation = self._separation()
            model = PQR(separation, self.loss, optimizer, interaction_scale=factor, bias=bias)
        if given["names"]:
            model.use_names(read_names(given["names"]))
        return model

    def _separation(self) -> Separation:
        given = self.given
        ways = [name for name in ("separation", "order", "min_count") if given[name] is not None]
        if len(ways) > 1 and "separation" in ways:
            raise click.UsageError("--separation already says which features are high")
        if given["separation"]:
            return Separation.load(given["separation"])
        start = time.perf_counter()
        counts = self._count()
        self.counted = counts, time.perf_counter() - start
        separation = counts.separate(order=given["order"], min_count=given["min_count"])
        if sys.stderr.isatty() and not given["quiet"] and not given["as_json"]:
            show.note(
                f"order {separation.order:,}: of {counts.distinct:,} features in "
                f"{counts.rows:,} rows counted ({self.counted[1]:.1f} s)"
            )
        return separation

    def _count(self) -> Counts:
        """Counts a sample; what cannot be read twice is kept and learned from memory."""
        sample_rows = self.given["sample_rows"]
        if all(enterable(path) for path in self.inputs.paths):
            clicks = self.loss == "logistic"
            return Counts.of_files(self.inputs.paths, sample_rows, "skip", clicks=clicks)
        self._rest = self.inputs.batches()
        if sample_rows is None:
            self._buffered = list(self._rest)
            return Counts.of(self._buffered)
        self._buffered = list(first_rows(self._rest, sample_rows))
        return Counts.of(at_most(self._buffered, sample_rows))

    def learn(self) -> None:
        with self._stack:
            for number in range(self.given["passes"]):
                title = f"pass {number + 1}" if self.given["passes"] > 1 else "training"
                quiet = self.given["quiet"] or self.given["as_json"]
                with show.progress(title, self.inputs.fraction, quiet=quiet) as watch:
                    skip = self.given["on_bad_row"] == "skip"
                    self.passes.append(
                        learn(self.learner, self._batches(), watch, skip_refused=skip)
                    )

    def _batches(self) -> Iterator[Batch]:
        """All rows: in the first pass those already read for counting come from memory."""
        if not self._buffered:
            return self.inputs.batches()
        buffered, self._buffered = self._buffered, []
        return chain(_emptied(buffered), self._rest)

    def save(self, path: str) -> None:
        self.learner.save(path)

    def report(self, *, as_json: bool) -> None:
        first = self.passes[0]
        show.note_bad_rows(self.inputs, first)
        warning = first.worse_than_constant()
        if warning:
            show.note(f"warning: {warning}")
        if as_json:
            show.print_json(self._json())
        else:
            self._tables()

    def _json(self) -> dict[str, Any]:
        first = self.passes[0]
        figures: dict[str, Any] = {
            "model": self.learner.kind,
            "settings": self.learner.settings(),
            **finite(first.figures),
            "seconds": first.seconds,
            "rows_per_second": first.rows_per_second,
            "nonzeros": self.learner.nonzeros(),
            "peak_memory_bytes": peak_memory(),
            "bad_rows": self.inputs.bad_rows + len(first.refused),
            "passes": [{**finite(p.figures), "seconds": p.seconds} for p in self.passes],
        }
        if isinstance(self.learner, PQR):
            figures["order"] = self.learner.separation.order
        if self.counted is not None:
            counts, seconds = self.counted
            figures["counted"] = {
                "rows": counts.rows,
                "distinct": counts.distinct,
                "seconds": seconds,
            }
        return figures

    def _order_line(self) -> list[tuple[str, str]]:
        if not isinstance(self.learner, PQR):
            return []
        return [("order", f"{self.learner.separation.order:,}")]

    def _tables(self) -> None:
        first = self.passes[0]
        nonzeros = self.learner.nonzeros()
        lines = [
            ("model", self.learner.kind.upper() + f", {self.loss} loss"),
            *self._order_line(),
            ("rows", f"{first.rows:,}"),
            ("seconds", f"{first.seconds:.2f}  ({first.rows_per_second:,.0f} rows/s)"),
            *((f"progressive {name}", cell) for name, cell in show.figure_cells(first.figures)),
            *(
                (f"pass {at}: {name}", cell)
                for at, later in enumerate(self.passes[1:], 2)
                for name, cell in show.figure_cells(later.figures)[:1]
            ),
            ("non-zero weights", f"{sum(nonzeros.values()):,}"),
            *((f"  {block}", f"{count:,}") for block, count in nonzeros.items()),
            ("peak memory", show.megabytes(peak_memory())),
            ("saved as", self.given["output"]),
        ]
        show.table("", ["", ""], lines, text_columns=2)


def _emptied(batches: list[Batch]) -> Iterator[Batch]:
    """Lets go of each batch once it has been learned."""
    batches.reverse()
    while batches:
        yield batches.pop()


def _refuse_to_overwrite(files: tuple[str, ...], *outputs: str | None) -> None:
    """A slip of the hand must not cost the data."""
    for output in filter(None, outputs):
        if any(os.path.exists(f) and os.path.exists(output) and samefile(f, output) for f in files):
            raise click.UsageError(f"{output} is an input: it would be overwritten")


def _refuse_separation_options(kind: str, given: dict[str, Any]) -> None:
    for name in ("separation", "order", "min_count"):
        if given[name] is not None:
            raise click.UsageError(
                f"--{name.replace('_', '-')} needs --model pqr: {kind} has no separation"
            )


def _refuse_contradictions(model: Learner, given: dict[str, Any]) -> None:
    """With --resume the settings are the model's; a flag may only repeat them."""
    kept = model.settings()
    optimizer = kept.get("optimizer", {})
    scale = kept.get("interaction_scale")
    known = {
        "model": model.kind,
        "loss": kept["loss"],
        "order": model.separation.order if isinstance(model, PQR) else None,
        "separation": _repeated_separation(model, given["separation"]),
        "interaction_scale": "none" if scale is None else scale,
        "bias": kept["bias"],
        **{name: optimizer.get(name) for name in _RATES},
    }
    for name in (*_SETTINGS, *_RATES):
        value = given[name]
        if value is not None and (name not in known or value != known[name]):
            flag = "--" + name.replace("_", "-")
            has = f"; the model has {known[name]}" if known.get(name) is not None else ""
            raise HyperError(f"{flag} {value} contradicts --resume {given['resume']}{has}")
    if given["names"]:
        raise HyperError("--names contradicts --resume: names travel in the model")


def _repeated_separation(model: Learner, path: str | None) -> str | None:
    """`path` if the same features are high in it as in the model."""
    if path is None or not isinstance(model, PQR):
        return None
    same = np.array_equal(Separation.load(path).features, model.separation.features)
    return path if same else "another"
