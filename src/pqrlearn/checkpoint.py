"""Checkpoints: model files that also record the progress of a run.

A checkpoint stores which inputs the model learns from and how many of their rows it has learned.
Resuming from it on the same inputs gives the same bytes as a run that was never interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from pqrlearn.errors import Corrupt, DataError
from pqrlearn.hyper import check_whole
from pqrlearn.readers import Inputs
from pqrlearn.rows import Batch


@dataclass(frozen=True)
class Progress:
    """How many passes are done, and how many rows of the next; `inputs` are digests.

    `refused` counts rows of the first pass that the model has refused; `bad_bytes` is the size of
    the file of bad rows, None if there is none.
    """

    inputs: tuple[str, ...]
    passes: int
    done_passes: int = 0
    rows: int = 0
    refused: int = 0
    bad_bytes: int | None = None

    def settings(self) -> dict[str, Any]:
        optional = {"refused": 0, "bad_bytes": None}
        return {key: value for key, value in asdict(self).items() if value != optional.get(key, "")}

    def after(self, rows: int, refused: int = 0, bad_bytes: int | None = None) -> Progress:
        refused += self.refused
        return replace(self, rows=self.rows + rows, refused=refused, bad_bytes=bad_bytes)

    def next_pass(self) -> Progress:
        return replace(self, done_passes=self.done_passes + 1, rows=0)

    @staticmethod
    def of(inputs: Inputs, passes: int) -> Progress:
        return Progress(inputs.digests(), passes)

    @staticmethod
    def restored(settings: Any, name: str) -> Progress:
        try:
            inputs = settings["inputs"]
            if not isinstance(inputs, list) or not all(isinstance(i, str) for i in inputs):
                raise ValueError("inputs are not digests")
            numbers = {
                key: check_whole(key, settings[key], least=least)
                for key, least in (("passes", 1), ("done_passes", 0), ("rows", 0))
            }
            numbers |= {
                key: check_whole(key, settings[key], least=0)
                for key in ("refused", "bad_bytes")
                if key in settings
            }
            if numbers["done_passes"] >= numbers["passes"]:
                raise ValueError("all passes are done")
        except (KeyError, TypeError, ValueError) as error:
            raise Corrupt(f"{name}: a damaged checkpoint ({error})") from None
        return Progress(tuple(inputs), **numbers)

    def check_inputs(self, inputs: Inputs, name: str) -> None:
        """Rejects other inputs than those of the checkpoint, whose first rows would be lost."""
        if inputs.digests() != self.inputs:
            raise DataError(
                f"{name} is a checkpoint of other inputs than {', '.join(inputs.paths)}; "
                "give the same files in the same order"
            )


def skip(batches: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """The batches without their first `rows` rows."""
    for batch in batches:
        if rows >= len(batch):
            rows -= len(batch)
        else:
            yield batch.part(rows, len(batch)) if rows else batch
            rows = 0
    if rows:  # possible with stdin, which has no digest
        raise DataError("the input has fewer rows than the checkpoint has learned")


def cut(batches: Iterable[Batch], every: int, done: int = 0) -> Iterator[Batch]:
    """The same rows, in batches that end at every multiple of `every` rows."""
    for batch in batches:
        start = 0
        while start < len(batch):
            stop = min(len(batch), start + every - done % every)
            yield batch if stop - start == len(batch) else batch.part(start, stop)
            done += stop - start
            start = stop
