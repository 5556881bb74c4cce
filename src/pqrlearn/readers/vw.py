"""Vowpal Wabbit text: `[label [importance]] ['tag]|namespace[:scale] feature[:value] ...`."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from pqrlearn import _core
from pqrlearn.encoder import labelled_batch, numbered
from pqrlearn.errors import RowError
from pqrlearn.loss import ANY_NUMBER, loss_named
from pqrlearn.names import Coded, Texts
from pqrlearn.readers.base import KEPT_ERRORS, AnyPath, BadRowFile, LineReader
from pqrlearn.readers.source import lines_between
from pqrlearn.readers.tables import TableOptions
from pqrlearn.rows import Batch
from pqrlearn.schema import Schema

CHUNK_BYTES: Final = 1 << 22
_SHOWN_BYTES = 20


class VwReader(LineReader):
    """The feature f of namespace n is called `n=f`, so that it is that of a table's column n.

    Without a namespace it is called `f`; a value without a name, as in `|price :2.5`, belongs to
    the feature `n`. Tags are read and not used. Namespaces are crossed by the model's order.
    """

    named = True

    def __init__(
        self,
        path: AnyPath,
        *,
        loss: str | None = None,
        on_bad_row: str = "stop",
        keep_bad: BadRowFile | None = None,
        table: TableOptions = TableOptions(),  # noqa: B008
    ) -> None:
        super().__init__(path, on_bad_row=on_bad_row, keep_bad=keep_bad)
        self._loss, self._table = loss_named(loss or ANY_NUMBER), table

    def _read(self) -> Generator[Batch, None, None]:
        with self._opened() as source:
            self._reading = source
            line = 1 if self._start == 0 else 2  # only line 1 may begin with a byte order mark
            for _, text in lines_between(source, CHUNK_BYTES, self._start, self._stop):
                yield from self._parse(source.name, text, line)
                line += bytes(text).count(b"\n")

    def _parse(self, name: str, text: memoryview, line: int) -> Iterator[Batch]:
        found: Any = _core.parse_vw(text, self._skip, line)
        offsets, data, codes, values, first, labels, weights, lines, _, bad = found
        errors = [self._error(name, text, *one) for one in bad]
        good = self._fit(labels)
        if not good.all():
            errors += [self._unfit(name, labels[at], lines[at]) for at in np.flatnonzero(~good)]
            errors.sort(key=lambda error: error.line or 0)
            if not self._skip:
                good[int(np.argmin(good)) :] = False
        self._note(errors if self._skip else errors[:1], lines[good], text, line)
        if good.any():
            features = _only(good, codes, values, first)
            labels = np.where(np.isnan(labels), labels, self._loss.kept(labels))[good]
            column = Coded(Texts(offsets, data), *features)
            rows = numbered([column], len(labels), self.names, self.schema)
            self.replaced += rows.replaced
            yield labelled_batch(rows, labels, weights[good], lines[good], name)
        if errors and not self._skip:
            raise errors[0]

    @property
    def schema(self) -> Schema | None:
        """Without columns: only bounds on names."""
        return self._table.schema

    def use(self, schema: Schema) -> None:
        self._table = replace(self._table, schema=schema)

    def _fit(self, labels: Any) -> Any:
        missing = np.isnan(labels)
        fits = self._loss.check_label(np.where(missing, 1.0, labels))
        return fits & ~missing if self._table.labelled else fits | missing

    def _error(self, name: str, text: memoryview, kind: int, line: int, byte: int, *at: int) -> Any:
        begin, length = at
        rest = bytes(text[begin + byte - 1 : begin + length])
        word = rest.split(b" ", 1)[0].split(b"|", 1)[0][: _SHOWN_BYTES + 1]
        shown = repr(word[:_SHOWN_BYTES])[1:] + ("..." if len(word) > _SHOWN_BYTES else "")
        message = str(_core.BAD_VW_MESSAGES[kind]).replace("{}", shown)
        error = RowError(message, path=name, line=line, byte=byte)
        error.case = ("bad row",)
        return error

    def _unfit(self, name: str, label: float, line: int) -> RowError:
        message = f"label {label:g} {self._loss.wants}"
        if np.isnan(label):
            message = "there is no label; a word that touches '|' is a tag"
        error = RowError(message, path=name, line=int(line), byte=1)
        error.case = ("unfit label",)
        return error

    def _note(self, errors: list[RowError], good: Any, text: memoryview, first: int) -> None:
        self.bad_rows += len(errors)
        self.first_bad += errors[: max(0, KEPT_ERRORS - len(self.first_bad))]
        if self.keep_bad is not None and errors:
            lines = bytes(text).split(b"\n")
            for line in (error.line or first for error in errors):
                self._ahead = int(np.searchsorted(good, line))
                self.keep_bad.write(lines[line - first] + b"\n")


def _only(rows: Any, codes: Any, values: Any, first: Any) -> tuple[Any, Any, Any]:
    """The features of some of the rows."""
    if rows.all():
        return codes, values, first
    lengths = np.diff(first)
    kept = np.repeat(rows, lengths)
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[rows])])
    return codes[kept], values[kept], begins
