"""Samples of large inputs: the first rows, or parts spread over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pqrlearn.hyper import check_whole
from pqrlearn.names import Names
from pqrlearn.readers.base import Reader
from pqrlearn.rows import Batch

_PARTS = 64  # of an input that is too large to be read entirely


class Sample:
    """About `rows` rows of some inputs, in parts spread evenly; None means all.

    Of inputs that are not enterable (stdin, compressed files) the first rows.
    """

    def __init__(self, readers: Sequence[Reader], rows: int | None) -> None:
        self._readers, self._most = list(readers), None
        if rows is None:
            return
        check_whole("sample_rows", rows, least=1)
        if not all(reader.enterable for reader in readers):
            self._most = rows
            return
        estimated = sum(reader.estimated_rows() for reader in readers)
        if estimated > 1.5 * rows:  # the estimate is rough: if in doubt, read all
            self._readers = [p for reader in readers for p in _spread(reader, rows / estimated)]

    def batches(self, names: Names | None = None) -> Iterator[Batch]:
        """Names are added to `names`, unless rows may be read that do not belong to the sample."""
        store = names if names is not None and self._most is None else Names()
        batches = (batch for reader in self._readers for batch in reader.batches(store))
        return batches if self._most is None else at_most(batches, self._most)

    @property
    def bad_rows(self) -> int:
        return sum(reader.bad_rows for reader in self._readers)


def _spread(reader: Reader, share: float) -> Iterator[Reader]:
    """Evenly spread parts, which together are about `share` of an input."""
    size, starts = reader.size, reader.starts(_PARTS)
    length = max(1, round(share * size / max(len(starts), 1)))
    for start in starts:
        yield reader.part(start, min(size, start + length))


def first_rows(batches: Iterable[Batch], rows: int | None) -> Iterator[Batch]:
    """Whole batches with at least `rows` rows."""
    passed = 0
    for batch in batches:
        yield batch
        passed += len(batch)
        if rows is not None and passed >= rows:
            return


def at_most(batches: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """The first `rows` rows; the last batch is cut."""
    for batch in batches:
        yield batch if len(batch) <= rows else batch.part(0, rows)
        rows -= len(batch)
        if rows <= 0:
            return
