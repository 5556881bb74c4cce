"""Readers turn files into Batches: one module per format, all with the same one verb."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from pqrlearn.readers.ahead import ahead
from pqrlearn.readers.libsvm import LibsvmReader, format_batch
from pqrlearn.readers.names import Names, format_names, read_names
from pqrlearn.readers.source import Source, open_source
from pqrlearn.rows import Batch

__all__ = [
    "LibsvmReader",
    "Names",
    "Reader",
    "Source",
    "ahead",
    "format_batch",
    "format_names",
    "open_source",
    "read_names",
]


class Reader(Protocol):
    """Whatever yields Batches. Memory does not grow with the file."""

    def batches(self) -> Iterator[Batch]:
        """In file order, none of them empty; raises RowError with the line."""
        ...
