"""The last rows of a run, kept out of learning for the finished model to be judged on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from pqrlearn.errors import DataError
from pqrlearn.rows import Batch


class HoldOut:
    """Lets all rows through but the last `share`, which are in `batches` at the end.

    The number of rows need not be known: of n rows read, the last share of n is in memory.

    >>> rows = Batch.from_rows([([0], [1.0])] * 10)
    >>> hold_out = HoldOut(0.2)
    >>> sum(len(batch) for batch in hold_out.training([rows.part(0, 4), rows.part(4, 10)]))
    8
    >>> sum(len(batch) for batch in hold_out.batches)
    2
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.batches: list[Batch] = []

    def training(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The rows to learn."""
        held: deque[Batch] = deque()
        seen = given = 0
        for batch in batches:
            held.append(batch)
            seen += len(batch)
            while held and given + len(held[0]) <= self.learned_of(seen):
                given += len(held[0])
                yield held.popleft()
        if not self.learned_of(seen):
            raise DataError(f"{seen} rows are too few to hold some of them out")
        left = self.learned_of(seen) - given
        if left:
            border = held.popleft()
            held.appendleft(border.part(left, len(border)))
            yield border.part(0, left)
        self.batches = list(held)

    def learned_of(self, rows: int) -> int:
        """How many rows are learned, of so many; it never falls as there are more."""
        return rows - max(1, round(self.share * rows))
