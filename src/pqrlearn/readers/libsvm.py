"""libsvm text: `label[:weight] [qid:N] index:value index:value ... [# comment]`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import IO, Final

from pqrlearn import _core
from pqrlearn.errors import HyperError, RowError
from pqrlearn.loss import ANY_NUMBER, loss_named
from pqrlearn.readers.source import Source, lines_between, open_source
from pqrlearn.rows import Batch

KEPT_ERRORS: Final = 10
"""How many bad rows are described; the others are counted."""

_TOKEN = re.compile(rb":?[^ \t\n:#]*")
_SHOWN_BYTES = 20
_WAY_OUT = "; --on-bad-row skip leaves such rows out"


class LibsvmReader:
    """Batches of the rows of a file or Source, in file order, in bounded memory.

    Labels must fit the `loss`, if one is given, and come as it keeps them. With
    `on_bad_row="skip"` bad rows are counted in `bad_rows`, the first few described in `first_bad`,
    and their lines written to `keep_bad`. With `start` and `stop`, only lines that start within
    these byte offsets of a plain file are read, and line numbers are not known.
    """

    def __init__(
        self,
        source: Source | str | os.PathLike[str],
        *,
        loss: str | None = None,
        on_bad_row: str = "stop",
        keep_bad: IO[bytes] | None = None,
        chunk_bytes: int = 1 << 21,
        start: int = 0,
        stop: int | None = None,
    ) -> None:
        if on_bad_row not in ("stop", "skip"):
            raise HyperError(f"on_bad_row={on_bad_row!r} must be 'stop' or 'skip'")
        self._source, self._skip = source, on_bad_row == "skip"
        self._loss = loss_named(loss or ANY_NUMBER)
        self._keep_bad, self._chunk_bytes = keep_bad, chunk_bytes
        self._start, self._stop = start, stop
        self._forget()

    def batches(self) -> Iterator[Batch]:
        """In file order, none of them empty; RowError at a bad row, after the rows before it.

        A path is opened anew by each call, a Source is read on from where it stands.
        """
        self._forget()
        with self._opened() as source:
            texts = lines_between(source, self._chunk_bytes, self._start, self._stop)
            for offset, text in texts:
                yield from self._parse(source.name, offset, text)

    def _forget(self) -> None:
        self.rows = self.lines = self.bad_rows = 0
        self.first_bad: list[RowError] = []

    def _opened(self) -> AbstractContextManager[Source]:
        if isinstance(self._source, Source):
            return nullcontext(self._source)
        return open_source(self._source)

    def _parse(self, name: str, offset: int, text: memoryview) -> Iterator[Batch]:
        # Only line 1 may begin with a byte order mark, and a range from the middle has no line 1.
        first_line = self.lines + (1 if self._start == 0 else 2)
        indptr, indices, values, labels, weights, lines, _, line_count, bad = _core.parse_libsvm(
            text, True, self._loss.name, first_line, self._skip
        )
        self.lines += line_count
        self.rows += len(labels)
        errors = self._note(bad, name, offset, text)
        if len(labels):
            known = None if self._in_range else lines
            yield Batch._unchecked(indptr, indices, values, labels, weights, known, name)
        if errors and not self._skip:
            raise errors[0]

    @property
    def _in_range(self) -> bool:
        return self._start > 0 or self._stop is not None

    def _note(
        self, bad: list[tuple[int, int, int, int, int]], name: str, offset: int, text: memoryview
    ) -> list[RowError]:
        """Counts and keeps bad rows; describes as many as will be shown."""
        self.bad_rows += len(bad)
        errors = []
        for kind, line, byte, begin, length in bad:
            if self._keep_bad is not None:
                self._keep_bad.write(bytes(text[begin : begin + length]) + b"\n")
            if len(self.first_bad) < KEPT_ERRORS:
                message = self._describe(kind, text[begin + byte - 1 : begin + length])
                errors.append(self._locate(message, name, line, byte, offset + begin))
                self.first_bad.append(errors[-1])
        return errors

    def _describe(self, kind: int, rest: memoryview) -> str:
        message = str(_core.BAD_ROW_MESSAGES[kind])
        if kind == _core.LABEL_UNFIT:
            message += self._loss.wants
        if not self._skip and ";" not in message:  # a message may name its own way out
            message += _WAY_OUT
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
    """The token that `rest` begins with, for a message: short, and safe on a terminal."""
    match = _TOKEN.match(rest)
    token = match.group() if match else b""
    shown = repr(bytes(token[:_SHOWN_BYTES]))[1:]
    return shown if len(token) <= _SHOWN_BYTES else f"{shown}..."
