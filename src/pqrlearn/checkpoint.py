"""How far a run has come: what a checkpoint adds to a model.

A checkpoint is a model file that also says which inputs it has learned from, and how many of their
rows. Going on from it on the same inputs gives the bytes of a run that was never interrupted.
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
    """`rows` of the current pass (counted from 0) are done; `inputs` are digests."""

    inputs: tuple[str, ...]
    passes: int
    done_passes: int = 0
    rows: int = 0

    def settings(self) -> dict[str, Any]:
        return asdict(self)

    def after(self, rows: int) -> Progress:
        return replace(self, rows=self.rows + rows)

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
            if numbers["done_passes"] >= numbers["passes"]:
                raise ValueError("all passes are done")
        except (KeyError, TypeError, ValueError) as error:
            raise Corrupt(f"{name}: a damaged checkpoint ({error})") from None
        return Progress(tuple(inputs), **numbers)

    def check_inputs(self, inputs: Inputs, name: str) -> None:
        """The inputs must be those it has learned from: skipping rows of others would lose them."""
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
    if rows:  # stdin has no mark to tell it by
        raise DataError("the input has fewer rows than the checkpoint has learned")


def cut(batches: Iterable[Batch], every: int, done: int = 0) -> Iterator[Batch]:
    """The same rows in batches that end wherever the number of rows is a multiple of `every`."""
    for batch in batches:
        start = 0
        while start < len(batch):
            stop = min(len(batch), start + every - done % every)
            yield batch if stop - start == len(batch) else batch.part(start, stop)
            done += stop - start
            start = stop
