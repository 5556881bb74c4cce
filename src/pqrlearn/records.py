"""One row as a Mapping becomes features by name, by a Schema: what `frames` does for tables."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time
from functools import cached_property
from typing import Any

import numpy as np

from pqrlearn.encoder import LARGEST, WEEKDAYS, batch_of
from pqrlearn.errors import DataError, RowError
from pqrlearn.names import Coded, Names
from pqrlearn.quantities import number_in, time_in
from pqrlearn.rows import Batch
from pqrlearn.schema import MISSING, UNIX, Column, Schema
from pqrlearn.values import is_null, python_text

Feature = tuple[str, str, float]
"""What its name begins with, the rest of it, and its value."""
Features = Iterator[Feature]


class Records:
    """Rows that are Mappings from column to value. A column that a row lacks is missing in it."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @cached_property
    def _columns(self) -> list[tuple[Column, Callable[[Column, Any], Features]]]:
        makers = {
            "category": self._category,
            "number": self._number,
            "bins": self._bins,
            "list": self._list,
            "time": self._time,
        }
        return [(column, makers[column.kind]) for column in self.schema.features]

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(column.name for column in self.schema.columns)

    @cached_property
    def _bin_names(self) -> dict[str, list[str]]:
        return {c.name: c.bin_names() for c in self.schema.features if c.kind == "bins"}

    def features(self, row: Mapping[str, Any]) -> list[Feature]:
        """In the order of the schema."""
        if not self._known.issuperset(row):
            new = next(key for key in row if key not in self._known)
            raise RowError(f"field {new!r} is not in the schema")
        found: list[Feature] = []
        for column, make in self._columns:
            before = len(found)
            value = row.get(column.name)
            value = None if is_null(value) else value
            if value is not None:
                try:
                    found += make(column, value)
                except DataError as error:
                    raise RowError(f"field {column.name!r}: {error}") from None
            if column.missing and len(found) == before and self._is_missing(column, value):
                found.append((f"{column.name}=", MISSING, 1.0))
        return found

    def batch(
        self, row: Any, names: Names, fresh: Names, label: float = math.nan, weight: float = 1.0
    ) -> Batch:
        """A Batch of this row alone."""
        if not isinstance(row, Mapping):
            raise TypeError(f"a row must be a dict, not {type(row).__name__}")
        columns = self._coded(self.features(row))
        return batch_of(columns, names, [label], [weight], fresh=fresh, schema=self.schema)

    def _coded(self, features: list[Feature]) -> list[Coded]:
        """One column of all; where values may have to share a name, one for each of them."""
        if self.schema.max_features is not None and len(features) > 1:
            return [one for feature in features for one in self._coded([feature])]
        prefix = features[0][0] if len(features) == 1 else ""
        names = [f"{head}{text}".removeprefix(prefix) for head, text, _ in features]
        codes = np.arange(len(names), dtype=np.int32)
        values = np.array([value for _, _, value in features], np.float32)
        return [Coded(names, codes, values, np.array([0, len(names)], np.int64), prefix)]

    def _text(self, value: Any) -> str | None:
        text = python_text(value)
        return None if text in self.schema.nulls else text

    def _is_missing(self, column: Column, value: Any) -> bool:
        """A number of 0 has no feature, but is not missing."""
        if column.kind != "number" or value is None:
            return True
        return math.isnan(self._real(value))

    def _real(self, value: Any) -> float:
        """NaN where it is missing."""
        if isinstance(value, str):
            read = math.nan if value in self.schema.nulls else number_in(value)
            number = math.inf if read is None else read
        else:
            try:
                number = float(value)
            except (TypeError, ValueError, OverflowError):
                number = math.inf
        if math.isinf(number):
            raise DataError(f"{value!r} is not a finite number")
        return number

    def _category(self, column: Column, value: Any) -> Features:
        text = self._text(value)
        if text is not None:
            yield f"{column.name}=", text, 1.0

    def _number(self, column: Column, value: Any) -> Features:
        number = self._real(value)
        if math.isnan(number):
            return
        scaled = (number - column.center) / column.scale
        if abs(scaled) > LARGEST:
            raise DataError(f"{value!r} is too large for a 32-bit float")
        if scaled != 0:
            yield column.name, "", scaled

    def _bins(self, column: Column, value: Any) -> Features:
        number = self._real(value)
        if not math.isnan(number):
            code = bisect_right(column.edges, number)
            yield f"{column.name}=", self._bin_names[column.name][code], 1.0
            if column.place and (place := column.place_of(code)):
                yield column.name, "", place

    def _list(self, column: Column, value: Any) -> Features:
        if isinstance(value, str) and column.separator is not None:
            values: Any = [part.strip() for part in value.split(column.separator)]
        else:
            values = value if isinstance(value, list | tuple | set | np.ndarray) else [value]
        for one in values:
            yield from self._category(column, one)

    def _time(self, column: Column, value: Any) -> Features:
        moment = self._moment(column, value)
        if moment is None:
            return
        parts = {"weekday": WEEKDAYS[moment.weekday()]}
        for part in column.parts:
            text = str(parts.get(part) or getattr(moment, part))
            yield f"{column.name}.{part}=", text, 1.0

    def _moment(self, column: Column, value: Any) -> datetime | None:
        if isinstance(value, np.datetime64):
            value = None if np.isnat(value) else value.astype("datetime64[us]").item()
        if isinstance(value, datetime):
            return None if value != value else value.replace(tzinfo=None)  # NaT differs from itself
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day)
        if isinstance(value, time):
            return datetime.combine(date(1970, 1, 1), value)
        if column.format in UNIX:
            seconds = self._real(value) / (1000 if UNIX[column.format] == "ms" else 1)
            bad = not math.isnan(seconds) and abs(seconds) > 1e11
            if bad:
                raise DataError(f"{value!r} is not a time")
            return None if math.isnan(seconds) else datetime.fromtimestamp(seconds, UTC)
        text = self._text(value)
        if text is None or math.isnan(number_in(text) or 0.0):
            return None
        found = time_in(text, column.format)
        if found is None:
            raise DataError(f"{value!r} is not a time")
        return found
