"""From paths to Readers of their formats."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy.typing as npt

from pqrlearn.errors import DataError, HyperError
from pqrlearn.frames import inputs_of, is_frame
from pqrlearn.guess import Choices, counted, guess
from pqrlearn.loss import LossName
from pqrlearn.readers.arrow import (
    ARROW_MAGIC,
    PARQUET_MAGIC,
    STREAM_MAGIC,
    ArrowReader,
    ParquetReader,
)
from pqrlearn.readers.base import AnyPath, BadRowFile, OnBadRow, Reader
from pqrlearn.readers.cache import CacheReader, looks_like_a_cache
from pqrlearn.readers.csv import CsvReader
from pqrlearn.readers.frame import FrameReader
from pqrlearn.readers.inputs import Inputs
from pqrlearn.readers.jsonl import JsonLinesReader
from pqrlearn.readers.libsvm import LibsvmReader
from pqrlearn.readers.log import LogReader
from pqrlearn.readers.source import first_bytes, is_file
from pqrlearn.readers.tables import TableOptions, TableReader
from pqrlearn.readers.vw import VwReader
from pqrlearn.rows import ArrowStream
from pqrlearn.schema import Column, Schema

FormatName = Literal["arrow", "cache", "csv", "jsonl", "libsvm", "log", "parquet", "tsv", "vw"]
FORMATS: Final[dict[str, type[Reader]]] = {
    "arrow": ArrowReader,
    "cache": CacheReader,
    "csv": CsvReader,
    "jsonl": JsonLinesReader,
    "libsvm": LibsvmReader,
    "log": LogReader,
    "parquet": ParquetReader,
    "tsv": CsvReader,
    "vw": VwReader,
}
_EXTENSIONS: Final = {
    **dict.fromkeys((".csv", ".psv"), "csv"),
    **dict.fromkeys((".tsv", ".tab"), "tsv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".arrows", ".feather", ".ipc"), "arrow"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    ".vw": "vw",
    **dict.fromkeys((".svm", ".libsvm", ".svmlight"), "libsvm"),
}
_MAGIC: Final = (
    ("parquet", PARQUET_MAGIC),
    ("arrow", ARROW_MAGIC),
    ("arrow", STREAM_MAGIC),
    ("jsonl", b"{"),
    ("jsonl", b"\xef\xbb\xbf{"),
)
_COMPRESSED: Final = (".gz", ".zst", ".bz2", ".xz")
_HEAD_BYTES = 16
LOG_MARK: Final = "pqr-log.json"
NO_TABLE: Final = TableOptions()


def open_reader(
    path: AnyPath,
    *,
    format: str | None = None,
    fallback: str = "libsvm",
    loss: str | None = None,
    on_bad_row: str = "stop",
    keep_bad: BadRowFile | None = None,
    table: TableOptions = NO_TABLE,
) -> Reader:
    """A file, or stdin when `path` is "-".

    Its format is given, or told by the end of its name or by its first bytes, or else the
    `fallback`. Labels must fit the `loss`, if one is given, and come as it keeps them.
    """
    if format is not None and format not in FORMATS:
        raise HyperError(f"format={format!r} must be one of {', '.join(FORMATS)}")
    known = format or format_of(path, fallback)
    kind: Any = FORMATS[known]
    options: dict[str, Any] = {"loss": loss, "on_bad_row": on_bad_row, "keep_bad": keep_bad}
    if known == "tsv" and table.delimiter is None:
        table = replace(table, delimiter="\t")
    if issubclass(kind, TableReader | VwReader | LogReader):
        options["table"] = table
    if not issubclass(kind, TableReader | LogReader) and table.schema and table.schema.columns:
        raise HyperError(f"{os.fspath(path)}: schemas belong to tables, and {known} has no columns")
    if not issubclass(kind, TableReader) and table.carried is not None:
        raise HyperError(f"{os.fspath(path)}: no column {table.carried!r}: this format has none")
    reader: Reader = kind(path, **options)
    return reader


def format_of(path: AnyPath, fallback: str = "libsvm") -> str:
    """By the end of the name, or else by the first bytes; the fallback when neither tells."""
    if is_log(path):
        return "log"
    ending = Path(path)
    if ending.suffix.lower() in _COMPRESSED:
        ending = ending.with_suffix("")
    if known := _EXTENSIONS.get(ending.suffix.lower()):
        return known
    if path != "-" and not is_file(path):  # the writer of a pipe would see it close
        return fallback
    try:
        head = first_bytes(path, _HEAD_BYTES)
    except DataError:  # reported when it is read
        return fallback
    for format, magic in _MAGIC:
        if head.startswith(magic):
            return format
    return "cache" if path != "-" and looks_like_a_cache(head) else fallback


def open_readers(paths: Iterable[Any], **options: Any) -> list[Reader]:
    """Like `open_reader`, with patterns, folders of Parquet parts and frames for some paths."""
    readers: list[Reader] = []
    given = list(paths)
    if sum(not is_frame(path) and path == "-" for path in given) > 1:
        raise HyperError("- (stdin) can be read only once")
    for path in given:
        if is_frame(path):
            kept = {key: options[key] for key in options if key not in ("format", "fallback")}
            readers.append(FrameReader(path, **kept))
            continue
        for found, root in _found(path):
            reader = open_reader(found, **options)
            if root is not None and isinstance(reader, ParquetReader):
                reader.root = root
            readers.append(reader)
    return readers


def _found(path: AnyPath) -> Iterator[tuple[AnyPath, Path | None]]:
    name = os.fspath(path)
    if is_log(path):
        yield path, None
    elif os.path.isdir(path):
        parts = sorted(p for p in Path(path).rglob("*.parquet") if not _is_hidden(p, Path(path)))
        if not parts:
            raise DataError(f"{name}: a folder without Parquet parts (*.parquet)")
        yield from ((part, Path(path)) for part in parts)
    elif not os.path.exists(path) and glob.has_magic(name):
        files = sorted(glob.glob(name))
        if not files:
            raise DataError(f"{name}: no file has such a name")
        yield from ((file, None) for file in files)
    else:
        yield path, None


def is_log(path: AnyPath) -> bool:
    """Whether it is the folder of a service."""
    return os.path.exists(os.path.join(path, LOG_MARK))


def _is_hidden(part: Path, root: Path) -> bool:
    """Files that Spark and others leave beside the parts."""
    return any(name.startswith(("_", ".")) for name in part.relative_to(root).parts)


@dataclass(frozen=True)
class Reading:
    """How inputs are read; what is not given is told by the inputs.

    `choices` help to guess the schema, if none is given. `accept` takes tables that lack columns of
    the schema or have others. `columns` are the names of those of text without a header; the cells
    of `carried` travel with the rows.
    """

    format: str | None = None
    schema: Schema | None = None
    choices: Choices = field(default_factory=Choices)
    accept: bool = False
    columns: tuple[str, ...] = ()
    delimiter: str | None = None
    encoding: str = "utf-8"
    carried: str | None = None

    @staticmethod
    def of(**given: Any) -> Reading:
        """From flat options, of which None is as good as not given; those of Choices among them."""
        known = {key: value for key, value in given.items() if value is not None}
        own = {key: known.pop(key) for key in Reading.__dataclass_fields__ if key in known}
        if "schema" in own:
            own["schema"] = Schema.of(own["schema"])
        if isinstance(columns := own.get("columns", ()), str):
            own["columns"] = tuple(columns.split(","))
        if "delimiter" in own:
            own["delimiter"] = _delimiter(own["delimiter"])
        if foreign := [key for key in known if key not in Choices.__dataclass_fields__]:
            raise HyperError(f"{foreign[0]}: reading has no such option")
        return Reading(**{"choices": Choices(**known), **own})

    @property
    def fallback(self) -> str:
        """The format of inputs that do not tell it: columns are those of a table, so of CSV."""
        known = self.schema is not None and self.schema.columns
        said = known or self.columns or self.delimiter or self.choices.of_columns
        return "csv" if said else "libsvm"

    def table(self, *, labelled: bool) -> TableOptions:
        text: dict[str, Any] = {"columns": tuple(self.columns), "delimiter": self.delimiter}
        text |= {"encoding": self.encoding, "carried": self.carried}
        return TableOptions(self.schema, labelled, self.accept, **text)


def _delimiter(given: Any) -> str:
    """A character; the tab may be written \\t, as shells have no easy way to type it."""
    found = "\t" if given == "\\t" else given
    if not isinstance(found, str) or len(found) != 1 or found in '"\r\n' or not found.isascii():
        raise HyperError(f"delimiter={given!r} must be one ASCII character, and no quote")
    return found


def read(
    paths: AnyPath | ArrowStream | npt.NDArray[Any] | Iterable[AnyPath | ArrowStream],
    *,
    schema: Schema | AnyPath | None = None,
    loss: LossName | None = None,
    format: FormatName | None = None,
    on_bad_row: OnBadRow = "stop",
    labelled: bool = True,
    **reading: Any,
) -> Inputs:
    """The rows of one or more inputs, as Batches.

    An input is a path ("-" is stdin, compressed files are read as they are, a folder holds Parquet
    parts) or a frame. `format` is one of csv, tsv, parquet, arrow, jsonl, vw, libsvm and cache; by
    default it is told by the end of the name or the first bytes. Of a table the `schema` says what
    the columns are: a Schema, or the path of one as TOML. Without it, it is guessed from the first
    rows, given at least the `label`; more can be said by `weight`, `positive`, `ignore`,
    `categories`, `numbers`, `bins`, `lists`, `times`, `nulls`, `hash_bits` and `max_features`. Text
    without a first line of names needs `columns`; `delimiter` and `encoding` are those of text.
    With `labelled=False` rows need no label, with `accept=True` a table may lack columns of the
    schema, or have others.

    Labels must fit the `loss`, if one is given. `on_bad_row="skip"` leaves bad rows out and counts
    them.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "clicks.csv")
    ...     _ = file.write_text("click,site\\n1,news\\n0,sport\\nx,news\\n")
    ...     rows = read(file, label="click", loss="logistic", on_bad_row="skip")
    ...     [batch.labels.tolist() for batch in rows], rows.bad_rows, rows.names.name(1)
    ([[1.0, 0.0]], 1, 'site=sport')
    """
    how = Reading.of(schema=schema, format=format, **reading)
    return read_inputs(inputs_of(paths), how, loss=loss, on_bad_row=on_bad_row, labelled=labelled)


def read_inputs(
    inputs: Iterable[Any],
    reading: Reading,
    *,
    loss: str | None = None,
    on_bad_row: str = "stop",
    labelled: bool = True,
) -> Inputs:
    """`read` with its options in one piece."""
    options: dict[str, Any] = {"format": reading.format, "fallback": reading.fallback}
    options |= {"loss": loss, "on_bad_row": on_bad_row}
    readers = open_readers(inputs, table=reading.table(labelled=labelled), **options)
    tables = [reader for reader in readers if isinstance(reader, TableReader)]
    choices = reading.choices
    if tables and (reading.schema is None or choices.given):
        _guess(tables, choices, reading.schema)
    elif choices.of_columns:
        paths = ", ".join(reader.path for reader in readers)
        raise HyperError(
            f"{', '.join(choices.of_columns)}: only tables have columns, and {paths} is none; say "
            "its format if it is one"
        )
    elif choices.given:
        _limit(readers, choices)
    if labelled and tables and tables[0].schema is not None and tables[0].schema.label is None:
        raise _no_label(f"{tables[0].name}: the schema has no label")
    return Inputs(readers)


def _limit(readers: list[Reader], choices: Choices) -> None:
    """Bounds the names of formats that have names but no columns."""
    if not all(isinstance(reader, VwReader) for reader in readers):
        raise HyperError(f"{', '.join(choices.given)}: this format has no names for features")
    schema = Schema((), hash_bits=choices.hash_bits, max_features=choices.max_features)
    for reader in readers:
        if isinstance(reader, VwReader):
            reader.use(schema)


def _guess(tables: list[TableReader], choices: Choices, known: Schema | None) -> None:
    """Guesses the schema of the first table, for all of them; what is known of it is kept."""
    first = tables[0]
    sample = first.sample()
    if choices.label is None and known is None and first.table.labelled:
        names = ", ".join(map(repr, sample.schema.names[:20]))
        raise _no_label(f"{first.name}: which column is the label? There are {names}")
    try:
        told = {"typed": first.typed, "has_times": first.has_times, "header": first.header}
        schema = guess(sample, choices, **told, known=known)
    except (DataError, HyperError) as error:
        raise error.located(first.name) from None
    if known is None:
        schema = _with_partitions(schema, tables, {*choices.kinds(sample.schema.names)})
    for reader in tables:
        reader.use(schema)


def _with_partitions(schema: Schema, tables: list[TableReader], given: set[str]) -> Schema:
    """Columns that folders name are categories, of which the first table has a single value."""
    found: dict[str, set[str | None]] = {}
    for reader in tables:
        for name, value in reader.partitions.items() if isinstance(reader, ParquetReader) else ():
            found.setdefault(name, set()).add(value)
    made = {n: Column(n, "category", None in found[n]) for n in found if n not in given}
    notes = {name: f"a partition: {counted(len(found[name] - {None}))}" for name in made}
    columns = tuple(made.get(column.name, column) for column in schema.columns)
    return replace(schema, columns=columns, notes={**schema.notes, **notes})


def _no_label(message: str) -> HyperError:
    error = HyperError(message)
    error.case = ("no label",)
    return error
