"""The rows of the part tables: columns of categories, in each format that takes part.

All files of one set hold the same rows: CSV, Parquet, libsvm, and Vowpal Wabbit's text and CSV.
"""

from __future__ import annotations

import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.measure import near
from benchmarks.workloads import keep_at_hand
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.files import atomic_path
from pqrlearn.readers.libsvm import format_batch
from pqrlearn.rows import Batch

LABEL = "click"
SUFFIXES = ("csv", "parquet", "svm", "vw", "vw.csv")
BLOCK_ROWS = 1 << 17
GROUP_ROWS = 1 << 20
DICTIONARY_BYTES = 1 << 23
"""Room for all different values of a row group's column; pyarrow's own limit is a megabyte."""

Codes = npt.NDArray[np.uint32]
"""Which value each cell has: one array row per column, and one column per row."""


@dataclass(frozen=True)
class TableRows(ABC):
    """Rows of categories, in files that `prepare` writes once."""

    rows: int
    folder: Path

    name = ""
    title = ""
    few_rows = 100_000
    """For contenders that would take minutes with all rows."""

    @property
    @abstractmethod
    def columns(self) -> list[str]: ...

    @property
    @abstractmethod
    def values(self) -> list[pa.Array]:
        """All values that each column can have, as text."""

    @abstractmethod
    def blocks(self) -> Iterator[tuple[Codes, npt.NDArray[np.float64]]]:
        """Codes and labels, in order."""

    def ids(self, start: int, rows: int) -> list[tuple[str, pa.Array]]:
        """A column without use for learning, if there is one."""
        return []

    @property
    def features(self) -> int:
        return sum(map(len, self.values))

    @property
    def bits(self) -> int:
        """Slots of Vowpal Wabbit: names are hashed, and at least three in four have one alone."""
        return math.ceil(math.log2(self.features)) + 2

    def path(self, suffix: str) -> str:
        return near(self._file(suffix))

    def model(self, contender: str) -> str:
        """Where a contender saves its model."""
        return near(self.folder / f"{contender}.model")

    def prepare(self) -> dict[str, Any]:
        """Writes what is missing, reads all of it once, and returns what is known of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        about = self._file("json")
        if not about.exists():
            self._write()
            sizes = {suffix: self._file(suffix).stat().st_size for suffix in SUFFIXES}
            known = {"name": self.name, "title": self.title, "rows": self.rows, "bytes": sizes}
            known |= {"columns": len(self.columns), "features": self.features}
            about.write_text(json.dumps(known))
        for suffix in SUFFIXES:
            keep_at_hand(self._file(suffix))
        found: dict[str, Any] = json.loads(about.read_text())
        return found

    def _file(self, suffix: str) -> Path:
        return self.folder / f"{self.name}-{self.rows}.{suffix}"

    def _write(self) -> None:
        with ExitStack() as stack:
            beside = {s: stack.enter_context(atomic_path(self._file(s))) for s in SUFFIXES}
            files = {
                suffix: stack.enter_context(beside[suffix].open("wb"))
                for suffix in SUFFIXES
                if suffix != "parquet"
            }
            groups = stack.enter_context(closing(_Groups(beside["parquet"])))
            done = 0
            for codes, labels in self.blocks():
                table = self._table(codes, labels, done)
                groups.add(pa.table(dict(zip(table.column_names, _plain(table), strict=True))))
                for suffix, text in self._texts(table, codes, labels, first=done == 0).items():
                    files[suffix].write(text)
                done += len(labels)

    def _table(self, codes: Codes, labels: npt.NDArray[np.float64], start: int) -> pa.Table:
        cells = [
            pa.DictionaryArray.from_arrays(pa.array(column.astype(np.int32)), values)
            for column, values in zip(codes, self.values, strict=True)
        ]
        named = zip(self.columns, cells, strict=True)
        label = (LABEL, pa.array(labels.astype(np.int8)))
        return pa.table(dict([*self.ids(start, len(labels)), label, *named]))

    def _texts(
        self, table: pa.Table, codes: Codes, labels: npt.NDArray[np.float64], *, first: bool
    ) -> dict[str, bytes]:
        """A block in the formats that are text; the first one with headers."""
        signs = pa.array(np.where(labels == 1, "1", "-1"))
        plain = [column.cast(pa.string()) for column in table.columns]
        named, quoted = (
            [values.take(pa.array(column)) for column, values in zip(codes, texts, strict=True)]
            for texts in (self._names, self._quoted)
        )
        heads = {"csv": ",".join(table.column_names), "vw.csv": ",".join(["_label", *self.columns])}
        texts = {
            "csv": _lines(plain, ","),
            "svm": format_batch(self._batch(codes, labels)),
            "vw": _lines([signs, pa.scalar("|f"), *named], " "),
            "vw.csv": _lines([signs, *quoted], ","),
        }
        return {
            suffix: f"{heads[suffix]}\n".encode() + text if first and suffix in heads else text
            for suffix, text in texts.items()
        }

    @cached_property
    def _names(self) -> list[pa.Array]:
        """Names of features, as every model here calls them."""
        return [
            pc.binary_join_element_wise(f"{column}=", values, "")
            for column, values in zip(self.columns, self.values, strict=True)
        ]

    @cached_property
    def _quoted(self) -> list[pa.Array]:
        """Text to Vowpal Wabbit, even where it is all digits."""
        return [pc.binary_join_element_wise('"', values, '"', "") for values in self.values]

    def _batch(self, codes: Codes, labels: npt.NDArray[np.float64]) -> Batch:
        """The same rows as numbers, one range of them for each column."""
        width, rows = codes.shape
        first = np.cumsum([0, *map(len, self.values)])[:-1].astype(np.uint32)
        return Batch(
            np.arange(0, (rows + 1) * width, width, dtype=np.int64),
            np.ascontiguousarray((codes + first[:, None]).T).reshape(-1),
            np.ones(rows * width, np.float32),
            labels,
            np.ones(rows, np.float32),
        )


def _plain(table: pa.Table) -> list[pa.ChunkedArray]:
    """Categories as text: each row group then has a dictionary of its own, as in most files."""
    kinds = [pa.string() if pa.types.is_dictionary(one) else one for one in table.schema.types]
    return [column.cast(kind) for column, kind in zip(table.columns, kinds, strict=True)]


class _Groups:
    """A Parquet file with row groups as large as pyarrow makes them by itself."""

    def __init__(self, path: Path) -> None:
        self._path, self._held = path, list[pa.Table]()
        self._writer: pq.ParquetWriter | None = None

    def add(self, table: pa.Table) -> None:
        self._held.append(table)
        if sum(map(len, self._held)) >= GROUP_ROWS:
            self._write()

    def _write(self) -> None:
        if not self._held:
            return
        table, self._held = pa.concat_tables(self._held), []
        if self._writer is None:
            options = {"dictionary_pagesize_limit": DICTIONARY_BYTES}
            self._writer = pq.ParquetWriter(self._path, table.schema, **options)
        self._writer.write_table(table, row_group_size=len(table))

    def close(self) -> None:
        self._write()
        if self._writer is not None:
            self._writer.close()


def _lines(columns: Sequence[pa.Array], between: str) -> bytes:
    """The cells of each row, and a line end behind the last one."""
    lines = pc.binary_join_element_wise(*columns, between)
    lines = lines.combine_chunks() if isinstance(lines, pa.ChunkedArray) else lines
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")
    return joined[0].as_py().encode() + b"\n"


class Simulated(TableRows):
    """The click stream in the shape of Avazu; values are eight hex digits, as Avazu's ids are."""

    name, title = "tables", "Rows of Avazu's shape"
    few_rows = 100_000

    @cached_property
    def _stream(self) -> ClickStream:
        return ClickStream.avazu()

    @property
    def columns(self) -> list[str]:
        return [field.name for field in self._stream.layout]

    @cached_property
    def values(self) -> list[pa.Array]:
        return [hex_texts(field.offset, field.size) for field in self._stream.layout]

    def blocks(self) -> Iterator[tuple[Codes, npt.NDArray[np.float64]]]:
        first = np.array([field.offset for field in self._stream.layout], np.uint32)
        for batch in self._stream.batches(self.rows, BLOCK_ROWS):
            codes = batch.indices.reshape(len(batch), -1) - first
            yield np.ascontiguousarray(codes.T), batch.labels


def hex_texts(first: int, count: int) -> pa.Array:
    """The numbers from `first` on, each as eight hex digits that do not show their order.

    >>> hex_texts(0, 2).to_pylist()
    ['85eb4f80', '0bd79f01']
    """
    numbers = np.arange(first + 1, first + 1 + count, dtype=np.uint64)
    numbers = numbers * np.uint64(0x85EBCA6B) & np.uint64(0xFFFFFFFF)  # odd: all stay different
    numbers ^= numbers >> np.uint64(16)
    return pa.array([f"{number:08x}" for number in numbers.tolist()])


class Sampled(TableRows):
    """A real sample of Avazu, again and again, with new ids each time."""

    name, title = "sample", "A real sample of Avazu, repeated"
    few_rows = 55_000
    FILE = "avazu/train_union_55662.csv"

    @classmethod
    def source(cls) -> Path | None:
        """The file, where this machine has it."""
        folder = os.environ.get("PQRLEARN_DATA")
        path = Path(folder, cls.FILE) if folder else None
        return path if path is not None and path.exists() else None

    @cached_property
    def _sample(self) -> pa.Table:
        source = self.source()
        assert source is not None
        with source.open() as file:
            head = file.readline().strip().split(",")
        texts = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(head, pa.string()))
        return pyarrow.csv.read_csv(source, convert_options=texts).combine_chunks()

    @cached_property
    def _encoded(self) -> list[pa.DictionaryArray]:
        return [self._sample.column(n).combine_chunks().dictionary_encode() for n in self.columns]

    @property
    def columns(self) -> list[str]:
        return [name for name in self._sample.column_names if name not in ("id", LABEL)]

    @cached_property
    def values(self) -> list[pa.Array]:
        return [column.dictionary for column in self._encoded]

    def ids(self, start: int, rows: int) -> list[tuple[str, pa.Array]]:
        return [("id", pa.array(np.arange(start, start + rows, dtype=np.int64) + 10**18))]

    def blocks(self) -> Iterator[tuple[Codes, npt.NDArray[np.float64]]]:
        codes = np.stack([column.indices.to_numpy() for column in self._encoded]).astype(np.uint32)
        labels = self._sample.column(LABEL).cast(pa.float64()).to_numpy()
        for start in range(0, self.rows, len(labels)):
            stop = min(len(labels), self.rows - start)
            yield codes[:, :stop], labels[:stop]
