"""Arrow tables become Batches by a Schema, column by column, without a loop over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn.categories import Categories
from pqrlearn.errors import DataError, RowError
from pqrlearn.loss import Loss
from pqrlearn.names import Coded, Lookup, Names, Numbered, Texts, number
from pqrlearn.quantities import Numbers, times
from pqrlearn.rows import Batch, NewNames
from pqrlearn.schema import MISSING, Column, Schema, first_twice
from pqrlearn.values import Array, Codes, Mask, coded, is_text, plain

LARGEST = float(np.finfo(np.float32).max)
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SHOWN = 20
_NOWHERE: Mask = np.zeros(0, np.bool_)


def batch_of(
    columns: Sequence[Coded],
    names: Names,
    labels: Any,
    weights: Any = None,
    lines: Any = None,
    source: str | None = None,
    *,
    fresh: Names | None = None,
    schema: Schema | None = None,
) -> Batch:
    """One row of each column after the other; new names are added to `names`, or to `fresh`.

    >>> site = Coded(["site=a", "site=b"], np.array([1, 0], np.int32))
    >>> batch = batch_of([site], Names(), labels=[1, 0])
    >>> list(batch.new_names.names), list(batch.part(1, 2).new_names.names)
    (['site=b', 'site=a'], ['site=a'])
    """
    rows = numbered(columns, len(labels), names, schema, fresh)
    return labelled_batch(rows, labels, weights, lines, source)


def numbered(
    columns: Sequence[Coded],
    rows: int,
    names: Names,
    schema: Schema | None,
    fresh: Names | None = None,
) -> Numbered:
    """`number`, with the limits of a schema."""
    if schema is None:
        return number(columns, rows, names, fresh)
    limits: dict[str, Any] = {"hash_bits": schema.hash_bits, "most": schema.max_features}
    return number(columns, rows, names, fresh, **limits)


def labelled_batch(
    rows: Numbered, labels: Any, weights: Any = None, lines: Any = None, source: str | None = None
) -> Batch:
    new = None
    if rows.new_names:
        new = NewNames(rows.new_indices, rows.new_names, rows.new_rows, rows.store)
    return Batch._unchecked(
        rows.indptr,
        rows.indices,
        rows.values,
        np.array(labels, np.float64),
        np.ones(len(labels), np.float32) if weights is None else np.array(weights, np.float32),
        lines,
        source,
        new,
    )


@dataclass(frozen=True)
class Bad:
    """A row of a table that cannot be read, and why; a label that fits no loss is apart."""

    row: int
    message: str
    unfit: bool = False


class Encoder:
    """Turns tables into coded columns, labels and weights, by a schema.

    A table is an Arrow RecordBatch or Table. With `labelled` it must have labels and weights, if
    the schema has; otherwise they are left alone. `accept` takes tables that lack columns of the
    schema, or have others. Names are looked up once for all tables: they must be numbered in the
    order in which they were encoded, by the same names, or else `forget` comes in between. So far
    `replaced` values have found no room in the dictionary and count as column=*.
    """

    def __init__(
        self, schema: Schema, loss: Loss | None = None, *, labelled: bool, accept: bool = False
    ) -> None:
        self.schema, self.labelled = schema, labelled
        self.loss, self._accept = loss, accept
        self.replaced = 0
        self._kept: dict[str, _Kept] = {}

    def forget(self) -> None:
        """To be called when a table that was encoded is not numbered."""
        self._kept.clear()

    def check(self, names: Sequence[str]) -> None:
        """The columns of a table must be those of the schema, in any order."""
        if twice := first_twice(names):
            raise DataError(f"column {twice!r} occurs twice")
        needed = [c.name for c in self.schema.columns if self._needs(c)]
        given, known = set(names), {column.name for column in self.schema.columns}
        lacking = [name for name in needed if name not in given]
        label = self.schema.label
        if label is not None and label.name in lacking and (self._accept or len(lacking) == 1):
            wanted = f"there is no column {label.name!r} with labels"
            needs = "they are needed to learn and to evaluate"
            raise DataError(f"{wanted}, only {_columns(names)}; {needs}")
        if self._accept:
            return
        if lacking:
            some = "are" if len(lacking) > 1 else "is"
            raise _other_columns(f"there {some} no {_columns(lacking)}", names)
        if new := [name for name in names if name not in known]:
            raise _other_columns(f"{_columns(new)} not in the schema", ())

    def _needs(self, column: Column) -> bool:
        return column.is_feature or (self.labelled and column.kind != "ignored")

    def encode(self, table: Any) -> tuple[list[Coded], Any, Any, list[Bad]]:
        """Coded columns, labels, weights and bad rows; all else counts if there are none."""
        bad: dict[int, Bad] = {}
        size, found = table.num_rows, set(table.schema.names)
        labels, weights = np.full(size, np.nan), np.ones(size, np.float32)
        columns: list[Coded] = []
        for column in self.schema.columns:
            if not self._needs(column) or column.name not in found:
                continue
            if column.name not in self._kept:
                self._kept[column.name] = _Kept(column, self.schema)
            cells = _Cells(column, table.column(column.name), self._kept[column.name], bad)
            if column.kind == "label":
                labels = cells.labels(self.loss)
            elif column.kind == "weight":
                weights = cells.weights()
            else:
                columns += cells.features()
        if self.labelled and self.loss is not None:
            labels = self.loss.kept(labels)
        return columns, labels, weights, sorted(bad.values(), key=lambda b: b.row)

    def batch(self, table: Any, names: Names, fresh: Names | None = None, **where: Any) -> Batch:
        """A table without bad rows; RowError at the first one otherwise."""
        columns, labels, weights, bad = self.encode(table)
        if bad:
            raise RowError(f"row {bad[0].row}: {bad[0].message}")
        return self.numbered(columns, labels, weights, names, fresh, **where)

    def numbered(
        self,
        columns: list[Coded],
        labels: Any,
        weights: Any,
        names: Names,
        fresh: Names | None = None,
        **where: Any,
    ) -> Batch:
        rows = numbered(columns, len(labels), names, self.schema, fresh)
        self.replaced += rows.replaced
        return labelled_batch(rows, labels, weights, **where)


def _columns(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"column{'s' if len(names) > 1 else ''} {shown}{more}"


def _other_columns(message: str, names: Sequence[str]) -> DataError:
    if names:
        message += f"; the table has {_columns(names)}"
    error = DataError(message)
    error.case = ("other columns",)
    return error


class _Kept:
    """What is remembered of one column from table to table."""

    def __init__(self, column: Column, schema: Schema) -> None:
        self.nulls = schema.nulls
        keep = schema.max_features is None  # else each cell without a name is counted
        self.categories = Categories(schema.nulls, f"{column.name}=", keep=keep)
        self.numbers = Numbers(schema.nulls)
        self.bins = Lookup() if keep else None
        self.places = Lookup() if keep else None
        self.bin_names = Texts.of(column.bin_names() if column.kind == "bins" else [])


class _Cells:
    """One column of a table, on its way to features; notes bad cells."""

    def __init__(self, column: Column, array: Array, kept: _Kept, bad: dict[int, Bad]):
        self._column, self._kept, self._bad = column, kept, bad
        self._nulls, self._array = kept.nulls, plain(array)

    def features(self) -> list[Coded]:
        try:
            make = getattr(self, f"_{self._column.kind}")
            columns, missing = make()
        except DataError as error:
            raise DataError(f"column {self._column.name!r}: {error}") from None
        if self._column.missing and missing.any():
            codes = np.where(missing, np.int32(0), np.int32(-1))
            columns.append(Coded([MISSING], codes, prefix=self._prefix))
        return list(columns)

    @property
    def _prefix(self) -> str:
        return f"{self._column.name}="

    def _category(self) -> tuple[list[Coded], Mask]:
        found = self._kept.categories.code(self._array)
        return [found], found.codes < 0 if self._column.missing else _NOWHERE

    def _numbers(self) -> npt.NDArray[np.float64]:
        values, bad, codes = self._kept.numbers.read(self._array)
        self._note(_each(bad, codes), "is not a finite number")
        return values if codes is None else values[codes]

    def _number(self) -> tuple[list[Coded], Mask]:
        values = self._numbers()
        missing = np.isnan(values)
        with np.errstate(over="ignore"):
            scaled = (values - self._column.center) / self._column.scale
        with np.errstate(invalid="ignore"):
            self._note(np.abs(scaled) > LARGEST, "is too large for a 32-bit float")
        safe = np.where(np.abs(np.nan_to_num(scaled)) <= LARGEST, np.nan_to_num(scaled), 0)
        codes = np.where(missing, np.int32(-1), np.int32(0))
        name = self._column.name  # a prefix: it is kept, however many names there are
        return [Coded([""], codes, safe.astype(np.float32), prefix=name)], missing

    def _bins(self) -> tuple[list[Coded], Mask]:
        codes = self._bin_codes()
        column, names = self._column, self._kept.bin_names
        found = [Coded(names, codes, prefix=self._prefix, lookup=self._kept.bins)]
        if column.place:
            places = np.append(0, column.place_of(np.arange(len(names)))).astype(np.float32)
            same = Texts.of([""] * len(names))
            more: Any = {"lookup": self._kept.places, "values_of_codes": places}
            found.append(Coded(same, codes, prefix=column.name, **more))
        return found, codes < 0 if column.missing else _NOWHERE

    def _bin_codes(self) -> Codes:
        """The number of each cell's interval; -1 where it is missing."""
        values, bad, codes = self._kept.numbers.read(self._array)
        self._note(_each(bad, codes), "is not a finite number")
        if codes is not None and len(values) > len(codes):
            values, codes = values[codes], None
        bins = np.searchsorted(self._column.edges, values, side="right").astype(np.int32)
        bins[np.isnan(values)] = -1
        return bins if codes is None else bins[codes]

    def _list(self) -> tuple[list[Coded], Mask]:
        import pyarrow as pa
        import pyarrow.compute as pc

        array = self._split() if self._column.separator is not None else self._array
        kind = array.type
        lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        if not (lists or pa.types.is_fixed_size_list(kind)):
            return self._category()  # a list of one
        lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        first = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
        texts, codes = coded(array.flatten(), self._nulls)
        known = np.concatenate([np.zeros(1, np.int64), np.cumsum(codes >= 0)])
        missing = known[first[1:]] == known[first[:-1]]
        return [Coded(texts, codes, first=first, prefix=self._prefix)], missing

    def _split(self) -> Array:
        """Cells of text as lists."""
        import pyarrow as pa
        import pyarrow.compute as pc

        array = self._array
        if not pa.types.is_dictionary(array.type):
            if not is_text(array.type):
                return array
            array = array.dictionary_encode()
        parts = pc.split_pattern(array.dictionary.cast(pa.large_string()), self._column.separator)
        trimmed = pc.utf8_trim_whitespace(parts.values)
        return pa.ListArray.from_arrays(parts.offsets, trimmed).take(array.indices)

    def _time(self) -> tuple[list[Coded], Mask]:
        moments, bad = times(self._array, self._column.format, self._nulls)
        self._note(bad, f"is not a time{self._expected()}")
        missing = moments.is_null().to_numpy(zero_copy_only=False)
        if bad is not None:
            missing = missing & ~bad
        return [self._part(part, moments) for part in self._column.parts], missing

    def _expected(self) -> str:
        form = self._column.format
        return " such as 2024-01-31 12:00:00" if form is None else f" of the form {form}"

    def _part(self, part: str, moments: Array) -> Coded:
        import pyarrow as pa
        import pyarrow.compute as pc

        prefix = f"{self._column.name}.{part}="
        take = pc.day_of_week if part == "weekday" else getattr(pc, part)
        values = take(moments).cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
        if part == "year":
            texts, codes = coded(take(moments))
            return Coded(texts, codes, prefix=prefix)
        names = WEEKDAYS if part == "weekday" else [str(n) for n in range(32)]
        return Coded(names, np.ascontiguousarray(values, np.int32), prefix=prefix)

    # -- labels and weights ------------------------------------------------------

    def labels(self, loss: Loss | None) -> npt.NDArray[np.float64]:
        found = self._numbers() if self._column.positive is None else self._of_two()
        self._note(np.isnan(found), "is missing")
        if loss is not None:
            self._note(~np.isnan(found) & ~loss.check_label(found), loss.wants, unfit=True)
        return found

    def _of_two(self) -> npt.NDArray[np.float64]:
        """1 for the positive text, 0 for the negative one."""
        texts, codes = coded(self._array, self._nulls)
        column = self._column
        wanted = (
            [column.positive] if column.negative is None else [column.positive, column.negative]
        )
        meaning = np.array([*(float(t == column.positive) for t in texts), np.nan])
        if column.negative is not None:
            known = np.array([*(t in wanted for t in texts), True])
            message = f"is neither {column.positive!r} nor {column.negative!r}"
            self._note(~known[codes], message)
        found: npt.NDArray[np.float64] = meaning[codes]
        return found

    def weights(self) -> npt.NDArray[np.float32]:
        found = self._numbers()
        self._note(np.isnan(found), "is missing")
        with np.errstate(invalid="ignore"):
            self._note((found < 0) | (found > LARGEST), "must be finite and not negative")
        good = np.where((found >= 0) & (found <= LARGEST), found, 0)
        return good.astype(np.float32)

    def _note(self, bad: Mask | None, message: str, *, unfit: bool = False) -> None:
        if bad is None or not bad.any():
            return
        kind = self._column.kind if not self._column.is_feature else "column"
        for row in np.flatnonzero(bad).tolist():
            cell = _shown(self._array[row].as_py())
            said = f"{kind} {self._column.name!r}: {cell} {message}".replace("None is", "it is")
            self._bad.setdefault(row, Bad(row, said, unfit))


def _each(mask: Mask | None, codes: Codes | None) -> Mask | None:
    """A mask of codes as one of cells."""
    return mask if mask is None or codes is None else mask[codes]


def _shown(value: Any) -> str:
    """A cell for a message: short, and safe on a terminal."""
    text = ascii(value)
    return text if len(text) <= _SHOWN + 2 else f"{text[: _SHOWN + 1]}..."
