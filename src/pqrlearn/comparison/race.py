"""The race: models that learn the same rows, one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np

from pqrlearn.errors import RefusedRow
from pqrlearn.rows import Batch, FloatArray


class Racer(Protocol):
    """What takes part: a Learner, or what predicts like one and learns nothing."""

    def learn_margins(self, batch: Batch) -> FloatArray:
        """Margins of rows, made before they are learned."""


class Race:
    """Learners that learn the same batches, one after the other.

    Iterating gives each batch with the margins of all learners, one line for each, made before they
    learned its rows. A row that a learner refuses as too large is an error, or is left out for all.

    >>> from pqrlearn import LR, Auto
    >>> rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 50, labels=[1, 0] * 50)
    >>> [(len(batch), margins.shape) for batch, margins in Race([LR(), Auto()], [rows])]
    [(100, (2, 100))]
    """

    def __init__(
        self, learners: Sequence[Racer], batches: Iterable[Batch], *, skip_refused: bool = False
    ) -> None:
        self._learners, self._batches, self._skip = learners, batches, skip_refused
        self.seconds = [0.0] * len(learners)
        self.refused: list[RefusedRow] = []
        self._rows = 0

    def __iter__(self) -> Iterator[tuple[Batch, FloatArray]]:
        for batch in self._batches:
            margins = np.empty((len(self._learners), len(batch)))
            refused: dict[int, RefusedRow] = {}
            for at, learner in enumerate(self._learners):
                start = time.perf_counter()
                self._learn(learner, batch, margins[at], refused)
                self.seconds[at] += time.perf_counter() - start
            self.refused += [error for _, error in sorted(refused.items())]
            self._rows += len(batch)
            if refused:
                kept = np.array([row for row in range(len(batch)) if row not in refused], int)
                batch, margins = batch.take(kept), margins[:, kept]
            yield batch, margins

    def _learn(
        self, learner: Racer, batch: Batch, margins: FloatArray, refused: dict[int, RefusedRow]
    ) -> None:
        done = 0
        while done < len(batch):
            rest = batch.part(done, len(batch)) if done else batch
            try:
                margins[done:] = learner.learn_margins(rest)
                return
            except RefusedRow as error:
                if not self._skip:
                    raise
                margins[done : done + error.row] = error.margins
                done += error.row + 1
                error.number = self._rows + done - 1
                refused[done - 1] = error
