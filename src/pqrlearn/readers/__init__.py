"""Readers turn inputs into Batches: one module per format, one seam (base), one opener."""

from __future__ import annotations

from pqrlearn.readers.ahead import ahead
from pqrlearn.readers.base import AnyPath, Reader
from pqrlearn.readers.cache import CacheReader
from pqrlearn.readers.columns import batch_of
from pqrlearn.readers.inputs import Inputs
from pqrlearn.readers.libsvm import LibsvmReader, format_batch
from pqrlearn.readers.names import format_names, read_names
from pqrlearn.readers.opener import FORMATS, open_reader, read
from pqrlearn.readers.sample import Sample, at_most
from pqrlearn.readers.source import Source, open_source

__all__ = [
    "FORMATS",
    "AnyPath",
    "CacheReader",
    "Inputs",
    "LibsvmReader",
    "Reader",
    "Sample",
    "Source",
    "ahead",
    "at_most",
    "batch_of",
    "format_batch",
    "format_names",
    "open_reader",
    "open_source",
    "read",
    "read_names",
]
