"""What the tasks of a run need to know: small, and pickled with each of them."""

from __future__ import annotations

from dataclasses import dataclass

from pqrlearn.merging.rounds import cuts
from pqrlearn.merging.states import Common
from pqrlearn.schema import Schema
from pqrlearn.spark.folder import Folder
from pqrlearn.spark.shards import Ranges

ORDER, PART, LOCAL = "pqr_order", "pqr_part", "pqr_local"
"""Columns of rows in order: what they are ordered by, their partition, their number within it."""


def quoted(name: str) -> str:
    """The name of a column as Spark reads it, whatever is in it.

    >>> quoted("device.os")
    '`device.os`'
    """
    return f"`{name.replace('`', '``')}`"


@dataclass(frozen=True)
class Columns:
    """Where features, labels and weights are: in a vector column, or in columns by a schema."""

    label: str
    weight: str | None
    vector: str | None
    inputs: tuple[str, ...]
    schema: Schema | None = None

    @property
    def all(self) -> list[str]:
        features = [self.vector] if self.vector is not None else [*self.inputs]
        return [*features, self.label, *([] if self.weight is None else [self.weight])]

    @property
    def stored(self) -> list[str]:
        """What they are called in our tables: mapInArrow takes `a.b` for a field of a struct."""
        return [f"column_{number}" for number in range(len(self.all))]


@dataclass(frozen=True)
class Cuts:
    """Which rows a worker learns in a round; the last `held` ones are nobody's.

    Rows of one round and worker are a piece; those that are held are the last piece.

    >>> Cuts(rows=12, workers=2, rounds=2, held=2).ends
    [0, 2, 5, 7, 10, 12]
    """

    rows: int
    workers: int
    rounds: int
    held: int

    @property
    def ends(self) -> list[int]:
        taught = self.rows - self.held
        inner = [end for ends in cuts(taught, self.rounds, self.workers) for end in ends[1:]]
        return [0, *inner, *([self.rows] if self.held else [])]

    def judging(self, number: int) -> tuple[list[int], int]:
        """Pieces whose first rows judge the merge of a round, and how many rows."""
        last = self.rounds * self.workers
        first = (number + 1) * self.workers if number < self.rounds else last
        return [*range(first, last + 1)], self.held


@dataclass(frozen=True)
class Point:
    """A state between two rounds: where its shards are, and what has been counted.

    Once the next state is there, all of `home` can go.
    """

    home: Folder
    table: Folder
    choice: int
    rows: int
    next_feature: int


@dataclass(frozen=True)
class Job:
    """All that stays the same over the rounds."""

    rows: Folder
    ends: list[int]
    """Where the pieces of rows end."""
    common: Common
    ranges: Ranges
