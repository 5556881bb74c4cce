"""Readers turn inputs into Batches: one module per format, one interface (base), one opener."""

from __future__ import annotations

from pqrlearn.encoder import batch_of
from pqrlearn.readers.base import AnyPath, Reader
from pqrlearn.readers.cache import CacheReader
from pqrlearn.readers.inputs import Inputs
from pqrlearn.readers.libsvm import LibsvmReader, format_batch
from pqrlearn.readers.names import format_names, read_names
from pqrlearn.readers.opener import FORMATS, Reading, open_reader, read, read_inputs
from pqrlearn.readers.prefetch import prefetch
from pqrlearn.readers.sample import Sample, at_most
from pqrlearn.readers.source import Source, open_source
from pqrlearn.readers.tables import TableReader

__all__ = [
    "FORMATS",
    "AnyPath",
    "CacheReader",
    "Inputs",
    "LibsvmReader",
    "Reader",
    "Reading",
    "Sample",
    "Source",
    "TableReader",
    "at_most",
    "batch_of",
    "format_batch",
    "format_names",
    "open_reader",
    "open_source",
    "prefetch",
    "read",
    "read_inputs",
    "read_names",
]
