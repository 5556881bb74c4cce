"""A Schema from the first rows of a table, by rules that can be said in a sentence each.

Text, booleans and dictionaries are categories. Whole numbers are categories if they have at most 20
values, or more than 400 and at least half of the cells have one that comes again, as ids do; they
are bins otherwise. Other numbers are bins at quantiles of the rows looked at, with their place.
Dates and times are times, lists are lists. A missing cell is a feature if a row looked at has one.
A column of text or whole numbers whose values are all different is ignored, and so is one without
values. In text files, which have no types, a column is of whole numbers, of numbers or of times if
all of its cells are, and of text otherwise or if a number begins with 0; in JSON, which has no type
for times, text is of times in the same way. Decision 15 says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pqrlearn.errors import DataError, HyperError, SettingsConflict
from pqrlearn.names import Texts
from pqrlearn.quantities import numbers, times
from pqrlearn.schema import Column, Schema, first_twice
from pqrlearn.values import Array, Codes, coded, is_text, plain

SAMPLE_ROWS: Final = 50_000
SAMPLE_BYTES: Final = 32 << 20
BINS: Final = 20
"""Quantiles of the sample at which numbers are cut."""
MOST_AMOUNTS: Final = 400
"""Whole numbers with more values than this are ids if they come again; with fewer, down to the
number of bins, ages or prices."""
LEAST_ROWS: Final = 100
"""A sample with fewer cells does not tell that values never come again."""
EXACT: Final = 2.0**53
"""Whole numbers from here on are not all different as floats."""
_FEW = 100
_MOST_SHOWN = 5


@dataclass(frozen=True)
class Choices:
    """What a person says of the columns; all else is guessed.

    A list may be given with its separator, as in "genres=|", and a time with its format, as in
    "hour=%y%m%d%H".
    """

    label: str | None = None
    weight: str | None = None
    positive: str | None = None
    ignore: Sequence[str] = ()
    categories: Sequence[str] = ()
    numbers: Sequence[str] = ()
    bins: Sequence[str] = ()
    lists: Sequence[str] = ()
    times: Sequence[str] = ()
    nulls: Sequence[str] = ()
    hash_bits: int | None = None
    max_features: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            given = getattr(self, field.name)
            if isinstance(given, str) and field.default == ():
                object.__setattr__(self, field.name, tuple(given.split(",")))
            if field.name in ("label", "weight") and not isinstance(given, str | None):
                raise HyperError(f"{field.name}={given!r} must be the name of a column, a text")
        if self.positive is not None and self.label is None:
            raise HyperError("positive needs a label")

    @property
    def given(self) -> list[str]:
        return [field.name for field in fields(self) if getattr(self, field.name) != field.default]

    @property
    def of_columns(self) -> list[str]:
        """Those given that only a table can have."""
        return [name for name in self.given if name not in ("hash_bits", "max_features")]

    def kinds(self, names: Sequence[str]) -> dict[str, tuple[str, str | None]]:
        """The kind of each column that is spoken of, and what was said behind its "="."""
        wanted = [(name, "label") for name in [self.label] if name is not None]
        wanted += [(name, "weight") for name in [self.weight] if name is not None]
        for kind, of_kind in (
            *(("ignored", self.ignore), ("category", self.categories), ("number", self.numbers)),
            *(("bins", self.bins), ("list", self.lists), ("time", self.times)),
        ):
            wanted += [(name, kind) for name in of_kind]
        found = [(*_split(name, kind, names), kind) for name, kind in wanted]
        if twice := first_twice(name for name, _, _ in found):
            raise HyperError(f"column {twice!r} is said to be two things")
        return {name: (kind, extra) for name, extra, kind in found}


def _split(
    given: str, kind: str, names: Sequence[str]
) -> tuple[
    str,
    str | None,
]:
    name, _, extra = given.partition("=")
    if given in names or kind not in ("list", "time") or not extra:
        name, extra = given, ""
    if name not in names:
        shown = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
        raise HyperError(f"there is no column {name!r}; the columns are {shown}")
    return name, extra or None


def guess(
    sample: Any,
    choices: Choices,
    *,
    typed: bool = True,
    has_times: bool = True,
    header: bool = True,
    known: Schema | None = None,
) -> Schema:
    """The schema of a table whose first rows are `sample`, an Arrow table.

    Without `typed` all columns are text, and the text tells what they are; without `has_times` it
    tells what is a time. Of a schema that is `known` all is kept that the choices do not speak of.
    """
    names = sample.schema.names
    if twice := first_twice(names):
        raise DataError(f"column {twice!r} occurs twice")
    kinds = choices.kinds(names)
    kept = {} if known is None else {c.name: c for c in known.columns if c.name not in kinds}
    base = Schema((), header=header) if known is None else known
    nulls = tuple(choices.nulls) or base.nulls
    notes: dict[str, str] = {}
    columns = []
    for name in names if known is None else [c.name for c in known.columns]:
        if name in kept:
            columns.append(kept[name])
            continue
        looked = _Look(name, plain(sample.column(name)), nulls, typed, typed and has_times)
        try:
            column, notes[name] = (
                looked.as_chosen(*kinds[name], choices) if name in kinds else looked.guess()
            )
        except (DataError, HyperError) as error:
            raise error.located(f"column {name!r}") from None
        columns.append(column)
    return Schema(
        tuple(columns),
        header=base.header,
        nulls=nulls,
        hash_bits=choices.hash_bits or base.hash_bits,
        max_features=choices.max_features or base.max_features,
        notes=notes,
    )


def loss_of(schema: Schema, sample: Any) -> str:
    """Clicks if the label has two values, ratings if it is another number."""
    label = schema.label
    if label is None or label.positive is not None:
        return "logistic"
    found, _ = numbers(sample.column(label.name), schema.nulls)
    values = set(_different(found[np.isfinite(found)]).tolist())
    if values <= {0, 1} or values <= {-1, 1}:
        return "logistic"
    if len(values) == 2:
        raise SettingsConflict(
            f"label {label.name!r} is {' or '.join(f'{v:g}' for v in sorted(values))}: "
            "say which of them is {positive}, or {loss} squared for ratings"
        )
    return "squared"


class _Look:
    """One column of the sample."""

    def __init__(
        self, name: str, array: Array, nulls: tuple[str, ...], typed: bool, has_times: bool
    ) -> None:
        self._name, self._array, self._nulls = name, array, nulls
        self._typed, self._has_times = typed, has_times

    def guess(self) -> tuple[Column, str]:
        import pyarrow as pa

        kind, types = self._array.type, pa.types
        if self._array.null_count == len(self._array):
            return self._ignored("no cell has a value")
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            if types.is_nested(kind.value_type):
                return self._ignored(f"lists of {kind.value_type} are no features")
            return self._made("list", ""), "a list"
        if types.is_temporal(kind) and not types.is_duration(kind):
            return self._time(None), f"of type {kind}"
        if types.is_floating(kind) or types.is_decimal(kind) or types.is_integer(kind):
            return self._number()
        if types.is_dictionary(kind) and not is_text(kind.value_type):
            return self._category(f"a dictionary of {kind.value_type}")
        if types.is_boolean(kind):
            return self._category("true or false")
        if not (types.is_dictionary(kind) or is_text(kind)):
            return self._ignored(f"cells of type {kind} are no features")
        return self._text()

    def _text(self) -> tuple[Column, str]:
        if not self._typed and self._may_be_numbers():
            found, bad = numbers(self._array, self._nulls)
            if bad is None and np.isfinite(found).any() and not self._starts_with_zero():
                return self._number()
        if not self._has_times and self._looks_like_times():
            return self._time(None), "dates or times"
        return self._category("text")

    def _may_be_numbers(self) -> bool:
        """Not so if one of the first cells is none: the others need not be read then."""
        return numbers(self._array.slice(0, _FEW), self._nulls)[1] is None

    @cached_property
    def _coded(self) -> tuple[Texts, Codes]:
        return coded(self._array, self._nulls)

    def _category(self, why: str) -> tuple[Column, str]:
        texts, codes = self._coded
        counts = np.bincount(codes[codes >= 0], minlength=len(texts))
        if not counts.sum():
            return self._ignored("no cell has a value")
        distinct = int(np.count_nonzero(counts))
        if counts.sum() >= LEAST_ROWS and counts.max() == 1:
            return self._ignored("all values are different")
        return self._made("category", ""), f"{why}: {counted(distinct)}"

    def _number(self) -> tuple[Column, str]:
        found, _ = numbers(self._array, self._nulls)
        cells = found[np.isfinite(found)]
        if not len(cells):
            return self._ignored("no cell has a value")
        if (cells != np.floor(cells)).any():
            return self._binned(cells, "numbers")
        counts = self._counts(cells)
        if len(cells) >= LEAST_ROWS and len(counts) == len(cells):
            return self._ignored("whole numbers, all different")
        if BINS < len(counts) <= MOST_AMOUNTS:
            return self._binned(cells, f"whole numbers: {counted(len(counts))}")
        if counts[counts > 1].sum() * 2 >= len(cells):
            why = f"whole numbers that repeat: {counted(len(counts))}"
            return self._made("category", ""), why
        return self._binned(cells, "whole numbers that seldom repeat")

    def _counts(self, cells: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """How often each value occurs. Of large ids, which floats cannot tell apart, by text."""
        if np.abs(cells).max() >= EXACT:
            codes = self._coded[1]
            return np.unique(codes[codes >= 0], return_counts=True)[1]
        return np.unique(cells, return_counts=True)[1]

    def _binned(self, cells: npt.NDArray[np.float64], why: str) -> tuple[Column, str]:
        edges = quantiles(cells, BINS)
        if not edges:
            return self._made("category", ""), f"{why}, nearly all the same"
        return self._bins(edges), why

    def _bins(self, edges: tuple[float, ...]) -> Column:
        return Column(self._name, "bins", self._missing(), edges=edges, place=True)

    def _ignored(self, why: str) -> tuple[Column, str]:
        return Column(self._name, "ignored"), why

    def _made(self, kind: str, extra: str | None) -> Column:
        options: Mapping[str, Any] = {"separator": extra} if kind == "list" and extra else {}
        return Column(self._name, kind, self._missing(), **options)

    def _missing(self) -> bool:
        """Whether a cell of the sample is missing: the feature is worth having then."""
        import pyarrow as pa

        if pa.types.is_nested(self._array.type):
            return bool(self._array.null_count)
        if pa.types.is_floating(self._array.type):  # texts of a million floats take seconds
            return bool(np.isnan(numbers(self._array, self._nulls)[0]).any())
        return bool((self._coded[1] < 0).any())

    # -- text files --------------------------------------------------------------

    def _starts_with_zero(self) -> bool:
        texts, codes = self._coded
        used = _different(codes[codes >= 0])
        first, end = texts.offsets[used], texts.offsets[used + 1]
        first = first[end - first > 1]
        then = texts.data[first + 1]
        digit = (ord("0") <= then) & (then <= ord("9"))
        return bool((digit & (texts.data[first] == ord("0"))).any())

    def _looks_like_times(self) -> bool:
        """All cells, and not only by chance: a date is at least as long as 2024-01-31."""
        texts, codes = self._coded
        used = _different(codes[codes >= 0]).tolist()
        if not used or any(len(texts[code]) < 10 for code in used[:100]):
            return False
        _, bad = times(self._array, None, self._nulls)
        return bad is None

    def _time(self, form: str | None) -> Column:
        """With the hour, unless all are at midnight."""
        import pyarrow as pa
        import pyarrow.compute as pc

        moments, _ = times(self._array, form, self._nulls)
        day = ("weekday",) if not pa.types.is_time(self._array.type) else ()
        hours = pc.max(pc.hour(moments)).as_py() or 0
        parts = (*(("hour",) if hours or not day else ()), *day)
        return Column(self._name, "time", self._missing(), parts=parts, format=form)

    # -- what a person has said --------------------------------------------------

    def as_chosen(self, kind: str, extra: str | None, choices: Choices) -> tuple[Column, str]:
        if kind == "label":
            return self._label(choices.positive)
        if kind in ("weight", "ignored"):
            return Column(self._name, kind), "given"
        if kind == "time":
            return self._time(extra), "given"
        if kind == "number":
            return self._scaled(), "given"
        if kind == "bins":
            found, _ = numbers(self._array, self._nulls)
            cells = found[np.isfinite(found)]
            edges = quantiles(cells, BINS) if len(cells) else ()
            if not edges:
                raise DataError("bins need at least two different numbers")
            return self._bins(edges), "given"
        return self._made(kind, extra), "given"

    def _scaled(self) -> Column:
        """Centred and scaled to a variance of 1 in the sample."""
        found, _ = numbers(self._array, self._nulls)
        cells = found[np.isfinite(found)]
        center = float(np.mean(cells)) if len(cells) else 0.0
        spread = float(np.std(cells)) if len(cells) else 0.0
        scale = spread if spread > 0 and np.isfinite(spread) else 1.0
        return Column(self._name, "number", self._missing(), center=center, scale=scale)

    def _label(self, positive: str | None) -> tuple[Column, str]:
        texts, codes = self._coded
        values = [texts[code] for code in _different(codes[codes >= 0]).tolist()]
        if positive is None and _are_truths(values):
            positive = "true"
        if positive is None:
            _, bad = numbers(self._array, self._nulls)
            if bad is None or bad.mean() < 0.5:  # a few bad rows do not make it text
                return Column(self._name, "label"), "a number"
            error = HyperError(f"the label is {_several(values)}: say which is positive")
            error.case = ("text label",)
            raise error
        others = [value for value in values if value != positive]
        if len(others) == len(values):
            raise HyperError(f"no label is {positive!r} in the rows looked at: {_several(values)}")
        if len(others) > 1:
            raise DataError(
                f"a label has two values, this one more: {_several(values)}; a schema with "
                f"positive = {positive!r} takes all others as 0"
            )
        negative = others[0] if others else None
        return Column(self._name, "label", positive=positive, negative=negative), "two values"


def counted(values: int) -> str:
    """
    >>> counted(1), counted(2000)
    ('1 value', '2,000 values')
    """
    return f"{values:,} value{'' if values == 1 else 's'}"


def _are_truths(values: list[str]) -> bool:
    return bool(values) and {*values} <= {"true", "false"}


def _several(values: list[str]) -> str:
    shown = ", ".join(map(ascii, values[:_MOST_SHOWN]))
    return shown + (", ..." if len(values) > _MOST_SHOWN else "")


def _different(cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """As np.unique, which by itself would import numpy.ma."""
    found: npt.NDArray[Any] = np.unique(cells, return_counts=True)[0]
    return found


def quantiles(cells: npt.NDArray[np.float64], bins: int) -> tuple[float, ...]:
    """Edges of bins that have about equally many cells; fewer where values come again.

    >>> quantiles(np.array([1.0, 2, 3, 4]), 4), quantiles(np.zeros(5), 4)
    ((2.0, 3.0, 4.0), ())
    """
    ordered = np.sort(cells)
    places = np.arange(1, bins) * len(ordered) // bins
    edges = _different(ordered[places])
    return tuple(edges[edges > ordered[0]].tolist())
