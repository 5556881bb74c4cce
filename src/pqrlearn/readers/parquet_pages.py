"""Columns of a Parquet row group whose cells are codes into a dictionary, page by page.

pyarrow can read them too, but looks up all texts of a dictionary in a hash table of its own, and
copies the dictionary for each batch.
"""

from __future__ import annotations

from sys import byteorder
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from pqrlearn import _core
from pqrlearn.values import Array

_CODECS: Final = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "ZSTD": "zstd", "GZIP": "gzip"}
_DATA, _DICTIONARY = 0, 2  # kinds of pages
_PLAIN, _OLD_CODES, _RLE, _CODES = 0, 2, 3, 8  # encodings


def coded_columns(
    file: Any, group: int, wanted: list[str], source: BinaryIO
) -> dict[str, CodedColumn]:
    """Those of a row group's columns that can be read in this way, by name.

    `file` is a ParquetFile, and `source` the same file.
    """
    fields, leaves = file.schema_arrow, file.schema
    nested = len(fields) != len(leaves)
    if nested or len(set(fields.names)) < len(fields) or byteorder != "little":
        return {}
    about, found = file.metadata.row_group(group), dict[str, CodedColumn]()
    for at, field in enumerate(fields):
        nullable = leaves.column(at).max_definition_level == 1
        if field.name in wanted and _may_be_coded(field, leaves.column(at), about.column(at)):
            try:
                found[field.name] = CodedColumn(about.column(at), nullable, source)
            except ValueError:  # another encoding, or damaged: pyarrow will know
                continue
    return found


def _may_be_coded(field: Any, leaf: Any, about: Any) -> bool:
    import pyarrow as pa

    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    flat = leaf.path == field.name and leaf.max_repetition_level == 0
    known = about.compression in _CODECS and about.has_dictionary_page and not about.file_path
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(flat and known and text)


class CodedColumn:
    """The cells of one column, in order, with so many different `texts`.

    ValueError if they are not all codes.
    """

    def __init__(self, about: Any, nullable: bool, source: BinaryIO) -> None:
        import pyarrow as pa

        codec = _CODECS[about.compression]
        self._codec = None if codec is None else pa.Codec(codec)
        self._chunk = _bytes_of(about, source)
        first, *pages = _core.page_headers(self._chunk, about.num_values)
        kind, encoding, _, self.texts, *place = first
        good = kind == _DICTIONARY and encoding in (_PLAIN, _OLD_CODES)
        for kind, encoding, levels, *_ in pages:
            good = good and kind == _DATA and encoding in (_OLD_CODES, _CODES) and levels == _RLE
        if not good:
            raise ValueError("other pages than a dictionary and codes")
        ends, data = _core.page_texts(self._page(*place), self.texts)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
        self._dictionary = pa.Array.from_buffers(pa.string(), self.texts, buffers)
        self._dictionary.validate(full=True)
        self._pages, self._nullable = pages[::-1], nullable
        self._codes = _core.PageCodes()

    def _page(self, size: int, begin: int, end: int) -> npt.NDArray[np.uint8]:
        page = self._chunk[begin:end]
        if self._codec is None:
            return page
        return np.frombuffer(self._codec.decompress(page, size), np.uint8)

    def read(self, rows: int) -> Array:
        """The next cells, as an array with a dictionary."""
        import pyarrow as pa

        buffer = pa.allocate_buffer(4 * rows)  # numpy's would be fresh memory each time
        codes, done = np.frombuffer(buffer, np.int32), 0
        while done < rows:
            if not self._codes.left:
                if not self._pages:
                    raise ValueError("a column has fewer cells than rows")
                _, _, _, values, *place = self._pages.pop()
                self._codes.open(self._page(*place), values, self._nullable, self.texts)
            done = self._codes.read(codes, done)
        missing = codes < 0 if self._nullable else None
        if missing is not None and missing.any():
            indices = pa.array(codes, mask=missing)
        else:
            indices = pa.Array.from_buffers(pa.int32(), rows, [None, buffer])
        return pa.DictionaryArray.from_arrays(indices, self._dictionary, safe=False)


def _bytes_of(about: Any, source: BinaryIO) -> npt.NDArray[np.uint8]:
    source.seek(about.dictionary_page_offset)
    size = about.total_compressed_size
    left = source.seek(0, 2) - about.dictionary_page_offset
    if not 0 <= size <= left:
        raise ValueError("the column is longer than the file")
    source.seek(about.dictionary_page_offset)
    return np.frombuffer(source.read(size), np.uint8)
