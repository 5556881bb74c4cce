"""What each column of a table is: the label, a weight, a kind of feature, or nothing.

A Schema is guessed from the first rows (`guess.py`), written as TOML to be read and edited by a
person, and kept in the model as JSON, so that later tables are read in the same way.
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pqrlearn.errors import DataError, HyperError, SettingsConflict
from pqrlearn.files import atomic_path

KINDS: Final = {
    "label": "what is to be predicted",
    "weight": "how much a row counts",
    "ignored": "left out",
    "category": "a feature column=value",
    "number": "a feature column with a value",
    "bins": "a feature column=low..high, for the interval that holds the value",
    "list": "features column=value, one for each of several values",
    "time": "features column.hour, column.weekday and others",
}
UNIX: Final = {"unix": "s", "unix-ms": "ms"}
"""Formats of times that count from 1970, and their units."""
TIME_PARTS: Final = ("hour", "weekday", "day", "month", "year")
MISSING: Final = "∅"
"""The value of a missing cell, where that is a feature."""
MOST_COLUMNS: Final = 1 << 16
MOST_EDGES: Final = 1 << 12
_SHOWN_COLUMNS = 12  # by repr

_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "label": ("positive", "negative"),
    "category": ("missing",),
    "number": ("missing", "center", "scale"),
    "bins": ("missing", "edges", "place"),
    "list": ("missing", "separator"),
    "time": ("missing", "parts", "format"),
}


@dataclass(frozen=True)
class Column:
    """One column and what its cells stand for.

    A label with `positive` is 1 where the cell is that text and 0 where it is `negative` (or
    anything else, if that is not given). A number v is the value (v - center) / scale. The bins of
    `edges` are the intervals between them, each with its lower edge; with `place` there is also the
    feature column, whose value is the place of the interval, from -1 for the first to 1 for the
    last. A list is one cell with several values between `separator`, or an Arrow list. A time is
    split into `parts`; text is read by `format`, as strptime does, "unix" or "unix-ms", or as ISO
    8601. With `missing`, a missing cell is the feature column=∅; otherwise it is absent.
    """

    name: str
    kind: str
    missing: bool = False
    positive: str | None = None
    negative: str | None = None
    center: float = 0.0
    scale: float = 1.0
    edges: tuple[float, ...] = ()
    place: bool = False
    separator: str | None = None
    parts: tuple[str, ...] = TIME_PARTS[:2]
    format: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise HyperError(f"a column must have a name, not {self.name!r}")
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise self._wrong(f"kind={self.kind!r} must be one of {', '.join(KINDS)}")
        self._refuse_foreign()
        self._check_types()
        if self.kind == "number" and not (math.isfinite(self.center) and 0 < self.scale < math.inf):
            raise self._wrong("center must be finite, and scale finite and positive")
        if self.kind == "bins":
            self._check_edges()
        if self.kind == "time" and not (self.parts and {*self.parts} <= {*TIME_PARTS}):
            raise self._wrong(f"parts must be some of {', '.join(TIME_PARTS)}")
        if self.format is not None:
            self._check_format(self.format)
        if self.separator == "":
            raise self._wrong("separator must not be empty")

    def _refuse_foreign(self) -> None:
        allowed = {"name", "kind", *_OPTIONS.get(self.kind, ())}
        for option in fields(self):
            if option.name not in allowed and getattr(self, option.name) != option.default:
                raise self._wrong(f"{option.name} is not an option of {self.kind}")

    def _check_types(self) -> None:
        texts = (self.positive, self.negative, self.separator, self.format)
        if not all(text is None or isinstance(text, str) for text in texts):
            raise self._wrong("positive, negative, separator and format are texts")
        for name in ("missing", "place"):
            if type(getattr(self, name)) is not bool:
                raise self._wrong(f"{name} is true or false")
        if self.negative is not None and self.positive in (None, self.negative):
            raise self._wrong("negative needs a positive that differs from it")

    def _check_format(self, form: str) -> None:
        """strptime complains of a format itself before it reads a text."""
        if form in UNIX:
            return
        wrong = "it has no directive" if "%" not in form else ""
        try:
            datetime.strptime("", form)
        except ValueError as error:
            wrong = wrong or ("" if "does not match" in str(error) else str(error))
        if wrong:
            ways = f"as strptime has it, such as %y%m%d%H, {' or '.join(UNIX)}"
            raise self._wrong(f"format={form!r} is no format of times: {wrong}; give one {ways}")

    def _check_edges(self) -> None:
        rising = all(a < b for a, b in pairwise(self.edges))
        if not (rising and all(map(math.isfinite, self.edges))):
            raise self._wrong("edges must be finite and rise")
        if not 1 <= len(self.edges) <= MOST_EDGES:
            raise self._wrong(f"bins need 1 to {MOST_EDGES:,} edges")

    def _wrong(self, message: str) -> HyperError:
        return HyperError(f"column {self.name!r}: {message}")

    @property
    def is_feature(self) -> bool:
        """Whether its cells become features.

        >>> Column("site", "category").is_feature, Column("click", "label").is_feature
        (True, False)
        """
        return self.kind not in ("label", "weight", "ignored")

    def bin_names(self) -> list[str]:
        """What the intervals are called: the lower edge belongs to each, the upper does not.

        >>> Column("age", "bins", edges=(18, 65.5)).bin_names()
        ['..18', '18..65.5', '65.5..']
        """
        edges = ["", *map(number_text, self.edges), ""]
        return [f"{a}..{b}" for a, b in pairwise(edges)]

    def place_of(self, code: Any) -> Any:
        """The place of the interval with this number, or of an array of them.

        >>> [Column("age", "bins", edges=(18, 65.5)).place_of(code) for code in range(3)]
        [-1.0, 0.0, 1.0]
        """
        return 2 * code / len(self.edges) - 1

    def options(self) -> dict[str, Any]:
        """What is not as usual, as plain values.

        >>> Column("age", "bins", edges=(18, 65)).options()
        {'edges': [18, 65]}
        """
        names = [option for option in fields(self) if option.name in _OPTIONS.get(self.kind, ())]
        given = {option.name: getattr(self, option.name) for option in names}
        return {
            option.name: list(value) if isinstance(value, tuple) else value
            for option in names
            if (value := given[option.name]) != option.default
        }

    @staticmethod
    def restored(name: Any, described: Any) -> Column:
        """From its kind, or from a table with its kind and options.

        >>> Column.restored("age", {"kind": "bins", "edges": [18]}).edges
        (18.0,)
        """
        table = {"kind": described} if isinstance(described, str) else described
        if not isinstance(table, Mapping) or "kind" not in table:
            raise HyperError(f"column {name!r}: expected its kind, or a table with a kind")
        known = {option.name for option in fields(Column)} - {"name"}
        if foreign := [key for key in table if key not in known]:
            raise HyperError(f"column {name!r}: no option is called {foreign[0]!r}")
        options = {key: _plain(name, key, value) for key, value in table.items()}
        return Column(name, **options)


def _plain(name: Any, key: str, value: Any) -> Any:
    """Lists as tuples and whole numbers as floats, where those are wanted; else as it is."""
    try:
        if key in ("center", "scale"):
            return _real(value)
        if key == "edges":
            return tuple(map(_real, value))
        if key == "parts":
            return tuple(map(str, value)) if isinstance(value, list | tuple) else ()
    except (TypeError, ValueError, OverflowError):
        raise HyperError(f"column {name!r}: {key} must be numbers") from None
    return value


def _real(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError
    return float(value)


def number_text(value: float) -> str:
    """A number as the text of a category: 1 and 1.0 are "1".

    >>> number_text(1.0), number_text(-0.0), number_text(0.1), number_text(1e300)
    ('1', '0', '0.1', '1e+300')
    """
    return str(int(value)) if value == int(value) and abs(value) < 2**63 else repr(float(value))


@dataclass(frozen=True)
class Schema:
    """All columns of a table, in order; feature names are numbered in this order.

    `header=False` is for text without a line of column names, `nulls` are texts that mean a missing
    cell everywhere. `hash_bits` makes numbers of hashes instead of names; `max_features` bounds the
    names, and what finds no room counts as column=*.

    >>> schema = Schema.from_toml('[columns]\\nclick = "label"\\nsite = "category"')
    >>> schema.label.name, [column.name for column in schema.features]
    ('click', ['site'])
    """

    columns: tuple[Column, ...]
    header: bool = True
    nulls: tuple[str, ...] = ()
    hash_bits: int | None = None
    max_features: int | None = None
    notes: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Why a column was guessed to be what it is; not saved."""

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(names) > MOST_COLUMNS:
            raise HyperError(f"a schema has at most {MOST_COLUMNS:,} columns")
        if twice := first_twice(names):
            raise HyperError(f"column {twice!r} occurs twice")
        for kind in ("label", "weight"):
            if sum(column.kind == kind for column in self.columns) > 1:
                raise HyperError(f"a schema has at most one {kind}")
        if type(self.header) is not bool or not all(isinstance(n, str) for n in self.nulls):
            raise HyperError("header is true or false, and nulls are texts")
        _check_whole("hash_bits", self.hash_bits, 1, 32)
        _check_whole("max_features", self.max_features, 1, 2**32)
        if self.hash_bits is not None and self.max_features is not None:
            raise SettingsConflict(
                "{hash_bits} and {max_features} exclude each other: hashes have no names"
            )

    def __repr__(self) -> str:
        shown = [f"{column.name}: {column.kind}" for column in self.columns[:_SHOWN_COLUMNS]]
        more = len(self.columns) - len(shown)
        return f"Schema({', '.join([*shown, *([f'and {more} more'] if more else [])])})"

    def __getitem__(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def __contains__(self, name: str) -> bool:
        return any(column.name == name for column in self.columns)

    @property
    def label(self) -> Column | None:
        """The column to predict, if there is one.

        >>> Schema((Column("click", "label"), Column("site", "category"))).label.name
        'click'
        """
        return next((column for column in self.columns if column.kind == "label"), None)

    @property
    def weight(self) -> Column | None:
        """The column that says how much a row counts, if there is one.

        >>> Schema((Column("n", "weight"),)).weight.name
        'n'
        """
        return next((column for column in self.columns if column.kind == "weight"), None)

    @property
    def features(self) -> tuple[Column, ...]:
        """The columns that become features.

        >>> schema = Schema((Column("click", "label"), Column("site", "category")))
        >>> schema, [column.name for column in schema.features]
        (Schema(click: label, site: category), ['site'])
        """
        return tuple(column for column in self.columns if column.is_feature)

    def used(self) -> list[str]:
        """The columns that are not ignored.

        >>> Schema((Column("click", "label"), Column("id", "ignored"))).used()
        ['click']
        """
        return [column.name for column in self.columns if column.kind != "ignored"]

    def without_label(self) -> Schema:
        """The same table with its label and weight left out, for rows that have none.

        >>> Schema((Column("click", "label"),)).without_label()
        Schema(click: ignored)
        """
        kept = [replace(c, **_IGNORED) if not c.is_feature else c for c in self.columns]
        return replace(self, columns=tuple(kept))

    # -- JSON, in model files ----------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Plain values; equal schemas are equal texts.

        >>> Schema((Column("site", "category"),)).to_json()
        {'columns': [{'name': 'site', 'kind': 'category'}]}
        """
        columns = [{"name": c.name, "kind": c.kind, **c.options()} for c in self.columns]
        return {"columns": columns, **self._settings()}

    def _settings(self) -> dict[str, Any]:
        given: dict[str, Any] = {} if self.header else {"header": False}
        given |= {"nulls": list(self.nulls)} if self.nulls else {}
        limits = {"hash_bits": self.hash_bits, "max_features": self.max_features}
        return given | {key: value for key, value in limits.items() if value is not None}

    @staticmethod
    def from_json(described: Any) -> Schema:
        """The inverse; HyperError if it is not what `to_json` gives.

        >>> Schema.from_json({"columns": [{"name": "site", "kind": "category"}]})
        Schema(site: category)
        """
        if not isinstance(described, Mapping) or not isinstance(described.get("columns"), list):
            raise HyperError("a schema must have a list of columns")
        columns = [dict(c) if isinstance(c, Mapping) else {} for c in described["columns"]]
        named = [(column.pop("name", None), column) for column in columns]
        return _restored(described, named)

    # -- TOML, for people --------------------------------------------------------

    def to_toml(self) -> str:
        """As text to be read and edited by a person.

        >>> print(Schema((Column("age", "number", scale=10.0),)).to_toml())
        [columns]
        age = { kind = "number", scale = 10.0 }
        <BLANKLINE>
        """
        lines = [f"{key} = {_toml(value)}" for key, value in self._settings().items()]
        lines += [*([""] if lines else []), "[columns]"]
        for column in self.columns:
            options = column.options()
            parts = ", ".join(f"{key} = {_toml(value)}" for key, value in options.items())
            kind = _toml(column.kind)
            line = f"{{ kind = {kind}, {parts} }}" if options else kind
            why = self.notes.get(column.name)
            note = f"  # {_one_line(why)}" if why else ""
            lines.append(f"{_toml_key(column.name)} = {line}{note}")
        return "\n".join([*lines, ""])

    @staticmethod
    def from_toml(text: str) -> Schema:
        """The inverse; HyperError if it is no schema.

        >>> Schema.from_toml('[columns]\\nsite = "category"')
        Schema(site: category)
        """
        try:
            described = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise HyperError(f"not TOML: {error}") from None
        columns = described.get("columns")
        if not isinstance(columns, dict):
            raise HyperError("a schema must have a table called [columns]")
        return _restored(described, list(columns.items()))

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Schema:
        """From a TOML file.

        >>> Schema.read("nowhere.toml")
        Traceback (most recent call last):
        pqrlearn.errors.HyperError: schema nowhere.toml: No such file or directory
        """
        try:
            return Schema.from_toml(Path(path).read_text("utf-8"))
        except OSError as error:
            raise HyperError(f"schema {path}: {error.strerror or error}") from None
        except (HyperError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: {error}") from None

    @staticmethod
    def of(given: Schema | Mapping[str, Any] | str | os.PathLike[str]) -> Schema:
        """A Schema, its JSON, or the path of its TOML.

        >>> Schema.of({"columns": [{"name": "site", "kind": "category"}]})
        Schema(site: category)
        """
        if isinstance(given, Schema):
            return given
        return Schema.from_json(given) if isinstance(given, Mapping) else Schema.read(given)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes it as TOML, atomically.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     Schema((Column("site", "category"),)).write(Path(folder, "sites.toml"))
        ...     Schema.read(Path(folder, "sites.toml"))
        Schema(site: category)
        """
        with atomic_path(path) as temporary:
            temporary.write_text(self.to_toml(), "utf-8")


_IGNORED: Final[dict[str, Any]] = {"kind": "ignored", "positive": None, "negative": None}
_SETTINGS: Final = ("header", "nulls", "hash_bits", "max_features")


def _restored(described: Mapping[str, Any], columns: list[tuple[Any, Any]]) -> Schema:
    if foreign := [key for key in described if key not in ("columns", *_SETTINGS)]:
        raise HyperError(f"no setting of a schema is called {foreign[0]!r}")
    settings = {key: described[key] for key in _SETTINGS if key in described}
    if "nulls" in settings:
        nulls = settings["nulls"]
        settings["nulls"] = tuple(nulls) if isinstance(nulls, list) else (None,)
    return Schema(tuple(Column.restored(*column) for column in columns), **settings)


def _check_whole(name: str, value: Any, least: int, most: int) -> None:
    if value is not None and (type(value) is not int or not least <= value <= most):
        raise HyperError(f"{name}={value!r} must be a whole number from {least} to {most:,}")


def first_twice(names: Iterable[str]) -> str | None:
    """The first name that has occurred before."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
