"""libsvm text: `label[:weight] [qid:N] index:value index:value ... [# comment]`."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np

from pqrlearn import _core
from pqrlearn.errors import RowError
from pqrlearn.loss import ANY_NUMBER, loss_named
from pqrlearn.readers.base import KEPT_ERRORS, AnyPath, BadRowFile, LineReader
from pqrlearn.readers.source import Source, is_plain_file, lines_between
from pqrlearn.rows import Batch

_TOKEN = re.compile(rb":?[^ \t\n:#]*")
_SHOWN_BYTES = 20


class LibsvmReader(LineReader):
    """The rows of a file or Source.

    If a `loss` is given, it must accept all labels, and labels are converted as it stores them.
    With `start` and `stop`, only the lines that begin between these byte offsets of a plain file
    are read, and line numbers are unknown.
    """

    def __init__(
        self,
        source: Source | AnyPath,
        *,
        loss: str | None = None,
        on_bad_row: str = "stop",
        keep_bad: BadRowFile | None = None,
        chunk_bytes: int = 1 << 21,
        start: int = 0,
        stop: int | None = None,
    ) -> None:
        super().__init__(
            source.name if isinstance(source, Source) else source,
            on_bad_row=on_bad_row,
            keep_bad=keep_bad,
        )
        self._source = source
        self._loss = loss_named(loss or ANY_NUMBER)
        self._chunk_bytes, self._start, self._stop = chunk_bytes, start, stop
        self.lines = 0

    def _read(self) -> Generator[Batch, None, None]:
        self.lines = 0
        with self._opened() as source:
            self._reading = source
            texts = lines_between(source, self._chunk_bytes, self._start, self._stop)
            for offset, text in texts:
                yield from self._parse(source.name, offset, text)

    def _opened(self) -> AbstractContextManager[Source]:
        """Opens a path each time; a Source is read from its current position."""
        if isinstance(self._source, Source):
            return nullcontext(self._source)
        return super()._opened()

    @cached_property
    def enterable(self) -> bool:
        return not isinstance(self._source, Source) and is_plain_file(self._source)

    def _parse(self, name: str, offset: int, text: memoryview) -> Iterator[Batch]:
        # Only line 1 may begin with a byte order mark; a range from the middle has no line 1.
        first_line = self.lines + (1 if self._start == 0 else 2)
        indptr, indices, values, labels, weights, lines, _, line_count, bad = _core.parse_libsvm(
            text, True, self._loss.name, first_line, self._skip
        )
        self.lines += line_count
        errors = self._note(bad, lines, name, offset, text)
        if len(labels):
            known = None if self._in_range else lines
            yield Batch._unchecked(indptr, indices, values, labels, weights, known, name)
        if errors and not self._skip:
            raise errors[0]

    @property
    def _in_range(self) -> bool:
        return self._start > 0 or self._stop is not None

    def _note(
        self,
        bad: list[tuple[int, int, int, int, int]],
        lines: Any,
        name: str,
        offset: int,
        text: memoryview,
    ) -> list[RowError]:
        """Counts and keeps bad rows; describes the first few."""
        self.bad_rows += len(bad)
        errors = []
        for kind, line, byte, begin, length in bad:
            if self.keep_bad is not None:
                self._ahead = int(np.searchsorted(lines, line))
                self.keep_bad.write(bytes(text[begin : begin + length]) + b"\n")
            if len(self.first_bad) < KEPT_ERRORS:
                message = self._describe(kind, text[begin + byte - 1 : begin + length])
                error = self._locate(message, name, line, byte, offset + begin)
                unfit = kind == _core.LABEL_UNFIT and self._loss.name != ANY_NUMBER
                error.case = ("unfit label",) if unfit else ("bad row",)
                errors.append(error)
                self.first_bad.append(error)
        return errors

    def _describe(self, kind: int, rest: memoryview) -> str:
        message = str(_core.BAD_ROW_MESSAGES[kind])
        if kind == _core.LABEL_UNFIT:
            message += self._loss.wants
        return message.replace("{}", _quoted(rest))

    def _locate(self, message: str, name: str, line: int, byte: int, offset: int) -> RowError:
        if self._in_range:
            return RowError(f"at byte {offset + byte}: {message}", path=name)
        return RowError(message, path=name, line=line, byte=byte)


def format_batch(batch: Batch) -> bytes:
    """The rows as libsvm text; reading it gives the same rows, bit for bit.

    >>> format_batch(Batch.from_rows([([3, 7], [1.0, 0.5])], labels=[1], weights=[2]))
    b'1:2 3:1 7:0.5\\n'
    """
    return _core.format_libsvm(
        batch.indptr, batch.indices, batch.values, batch.labels, batch.weights
    )


def _quoted(rest: memoryview) -> str:
    """The first token of `rest` for a message: short, and safe to print."""
    match = _TOKEN.match(rest)
    token = match.group() if match else b""
    shown = repr(bytes(token[:_SHOWN_BYTES]))[1:]
    return shown if len(token) <= _SHOWN_BYTES else f"{shown}..."
