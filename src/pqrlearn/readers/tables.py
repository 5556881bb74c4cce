"""What readers of tables share: a schema, a sample to guess it from, and bad rows."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pqrlearn.arrow import joined
from pqrlearn.encoder import Bad, Encoder
from pqrlearn.errors import ROW, DataError, RowError
from pqrlearn.guess import SAMPLE_BYTES, SAMPLE_ROWS
from pqrlearn.loss import ANY_NUMBER, loss_named
from pqrlearn.readers.base import KEPT_ERRORS, AnyPath, BadRowFile, Reader
from pqrlearn.rows import Batch, Tagged
from pqrlearn.schema import Schema


@dataclass(frozen=True)
class TableOptions:
    """How tables are read. Without a schema only a sample of them can be had.

    `labelled` is whether rows must have a label, `accept` whether columns may lack or be new.
    `columns` names those of text without a header; `delimiter` and `encoding` are those of text.
    """

    schema: Schema | None = None
    labelled: bool = True
    accept: bool = False
    columns: tuple[str, ...] = ()
    delimiter: str | None = None
    encoding: str = "utf-8"
    carried: str | None = None
    """A column whose cells travel with the rows, as they are: see `rows.Tagged`."""


@dataclass(frozen=True)
class Piece:
    """Some rows of an input: an Arrow table, the number of each row, and what they count.

    `source` is where these rows are, and `raw` gives a row as it stands there, if it does.
    """

    table: Any
    lines: npt.NDArray[np.int64]
    source: str
    raw: Callable[[int], bytes] | None = None

    def part(self, start: int, stop: int) -> Piece:
        rows = slice(start, stop)
        return replace(self, table=self.table.slice(start, stop - start), lines=self.lines[rows])

    def without(self, rows: Sequence[int]) -> Piece:
        import pyarrow as pa

        good = np.ones(len(self.lines), bool)
        good[list(rows)] = False
        return replace(self, table=self.table.filter(pa.array(good)), lines=self.lines[good])

    def row_as_bytes(self, row: int) -> bytes:
        if self.raw is not None:
            return self.raw(int(self.lines[row]))
        return json.dumps(self.table.slice(row, 1).to_pylist()[0], default=str).encode()


class TableReader(Reader):
    """A table as a stream of Batches, by a schema."""

    named = True
    typed: ClassVar[bool] = True
    """Whether columns have types; otherwise they are text, and the text tells what it is."""
    has_times: ClassVar[bool] = True
    """Whether the types know times; otherwise they are text, which tells that."""

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
        self.table = table
        self._loss = loss_named(loss or ANY_NUMBER)
        self._held: list[Piece] = []
        self._rest: Generator[Piece, None, None] | None = None
        self._early: list[tuple[int, RowError, bytes]] = []  # bad rows of the sample, by piece
        self._sampling = False

    @property
    def schema(self) -> Schema | None:
        return self.table.schema

    def use(self, schema: Schema, loss: str | None = None) -> None:
        """Reads by this schema; before the first pass, or after `sample`."""
        self.table = replace(self.table, schema=schema)
        if loss is not None:
            self._loss = loss_named(loss)

    @property
    def header(self) -> bool:
        """Whether the input names its columns."""
        return not self.table.columns

    def sample(self) -> Any:
        """The first rows as an Arrow table; held in memory, the next pass begins with them."""
        if not self._held:
            self._rest = self._rest or self._pieces()
            self._sampling = True
            try:
                self._hold(self._rest)
            finally:
                self._sampling = False
        if not self._held:
            raise DataError(f"{self.name}: no rows")
        return joined([piece.table for piece in self._held]).slice(0, SAMPLE_ROWS)

    def _hold(self, pieces: Iterator[Piece]) -> None:
        rows = size = 0
        for piece in pieces:
            self._held.append(piece)
            rows, size = rows + len(piece.lines), size + piece.table.nbytes
            if rows >= SAMPLE_ROWS or size >= SAMPLE_BYTES:
                return

    @abstractmethod
    def _pieces(self) -> Generator[Piece, None, None]:
        """All rows, in pieces of bounded size; with the columns that `wanted` says."""

    def wanted(self, names: Sequence[str]) -> list[str]:
        """Those of the columns that are needed; all as long as there is no schema."""
        schema = self.schema
        if schema is None:
            return list(names)
        ignored = {column.name for column in schema.columns if column.kind == "ignored"}
        return [n for n in names if n not in ignored or n == self.table.carried]

    def _read(self) -> Generator[Batch, None, None]:
        encoder = self._encoder()
        rest, self._rest = self._rest or self._pieces(), None
        held, self._held = self._held[::-1], []
        early, self._early = self._early[::-1], []
        done = 0
        try:
            while held or early:  # each is let go once it has been handed out
                while early and early[-1][0] == done:
                    self._note_error(*early.pop()[1:])
                if held:
                    yield from self._batches(encoder, held.pop())
                done += 1
            for piece in rest:
                yield from self._batches(encoder, piece)
        finally:
            rest.close()

    def _encoder(self) -> Encoder:
        table = self.table
        if table.schema is None:
            raise DataError(f"{self.name}: a table needs a schema, or a label to guess one with")
        return Encoder(table.schema, self._loss, labelled=table.labelled, accept=table.accept)

    def _batches(self, encoder: Encoder, piece: Piece) -> Iterator[Batch]:
        try:
            encoder.check(self._known(piece.table.schema.names))
            columns, labels, weights, bad = encoder.encode(piece.table)
            if bad:
                encoder.forget()
                good = self._without(piece, bad)
                if len(good.lines):
                    yield from self._batches(encoder, good)
                if not self._skip:
                    raise self.first_bad[0]
                return
            where: Any = {"lines": piece.lines, "source": piece.source}
            batch = encoder.numbered(columns, labels, weights, self.names, **where)
            self.replaced = encoder.replaced
            yield batch if self.table.carried is None else self._tagged(batch, piece)
        except RowError:
            raise
        except DataError as error:
            located = DataError(f"{piece.source.removesuffix(ROW)}: {error}")
            located.case = error.case
            raise located from None

    def _known(self, names: Sequence[str]) -> Sequence[str]:
        """The columns to be checked: the one that is carried need not be in the schema."""
        carried, schema = self.table.carried, self.schema
        if carried is None or (schema is not None and carried in schema):
            return names
        return [name for name in names if name != carried]

    def _tagged(self, batch: Batch, piece: Piece) -> Batch:
        carried, names = self.table.carried, piece.table.schema.names
        if carried not in names:
            raise DataError(f"there is no column {carried!r} to be the id, only {', '.join(names)}")
        return Tagged._unchecked(*batch._columns(), piece.table.column(carried).to_pylist())

    def _without(self, piece: Piece, bad: Sequence[Bad]) -> Piece:
        """The rows before the first bad one, or all that are good; notes the others."""
        if not self._skip:
            self._note(piece, bad[:1])
            return piece.part(0, bad[0].row)
        self._note(piece, bad)
        return piece.without([one.row for one in bad])

    def _note(self, piece: Piece, bad: Sequence[Bad]) -> None:
        for one in bad:
            line = int(piece.lines[one.row])
            error = self._bad_row(one.message, piece.source, line, unfit=one.unfit)
            self._note_error(error, b"" if self.keep_bad is None else piece.row_as_bytes(one.row))

    def _note_error(self, error: RowError, row: bytes) -> None:
        """Counts and keeps a bad row; one that the sample meets, when the pass gets there."""
        if self._sampling:
            self._early.append((len(self._held), error, row))
            return
        if self.keep_bad is not None:
            self.keep_bad.write(row + b"\n")
        self.bad_rows += 1
        if len(self.first_bad) < KEPT_ERRORS:
            self.first_bad.append(error)

    def _bad_row(self, message: str, source: str, line: int, *, unfit: bool = False) -> RowError:
        error = RowError(message, path=source, line=line)
        fits = unfit and self._loss.name != ANY_NUMBER
        error.case = ("unfit label",) if fits else ("bad row",)
        return error
