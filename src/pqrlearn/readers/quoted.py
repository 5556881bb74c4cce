"""Text with quotes, in which a cell may hold line ends: rows are counted instead of lines."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from pqrlearn.readers.cells import Layout, check_text, options, parsed

_END = "\x00end of file\x00"


class OpenQuote(Exception):
    """The last row goes on to the end of the file."""


def _last_row(layout: Layout) -> bytes:
    """A row behind the last one: it is found again unless a quote is open before it."""
    return f"\n{layout.delimiter.join([_END] * layout.width)}\n".encode()


def closed(text: bytes, layout: Layout, wanted: list[str]) -> Any:
    """The rows of a text in which all quotes are closed, or None if there is more to it."""
    import pyarrow as pa

    if text.count(b'"') % 2:
        return None
    with suppress(pa.ArrowInvalid, UnicodeDecodeError):
        check_text(text)
        table = parsed(text + _last_row(layout), layout, wanted, quoted=True)
        if table.column(0)[-1].as_py() == _END:
            return table.slice(0, table.num_rows - 1)
    return None


def quoted_rows(
    text: bytes,
    more: Iterator[bytes],
    layout: Layout,
    wanted: list[str],
    bad: list[Any],
    *,
    whole: bool,
) -> Iterator[tuple[Any, Any]]:
    """The rows of a text and of what comes after it: record batches, and numbers of rows from 1 on.

    Bad rows are put into a list, with their numbers. A text that is not `whole` may end within
    quotes.
    """
    import pyarrow as pa
    from pyarrow.csv import open_csv

    check_text(text)
    last = _last_row(layout) if whole else b""
    file = pa.PythonFile(_Joined(text, more, last), mode="r")
    row = 1
    for batch in _before(last, open_csv(file, *options(layout, wanted, bad, quoted=True))):
        rows = np.arange(row, row + batch.num_rows + len(bad))
        rows = np.setdiff1d(rows, [one.number for one in bad])[: batch.num_rows]
        row = int(rows[-1]) + 1 if len(rows) else row
        yield batch, rows


def _before(last: bytes, batches: Iterator[Any]) -> Iterator[Any]:
    """All rows before the `last` one, if there is one, without a row whose quote is open."""
    held = None
    for batch in filter(len, batches):
        if held is not None:
            yield held
        held = batch
    if held is not None:
        yield held.slice(0, len(held) - bool(last))
    if last and (held is None or held.column(0)[-1].as_py() != _END):
        raise OpenQuote


class _Joined(io.RawIOBase):
    """Some bytes, then more of them, then a last row, as one file."""

    def __init__(self, text: bytes, more: Iterator[bytes], last: bytes) -> None:
        self._ready, self._more, self._last = memoryview(text), more, last

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            text = next(self._more, None)
            if text is None:
                text, self._last = self._last, b""
                if not text:
                    return 0
            check_text(text)
            self._ready = memoryview(text)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
