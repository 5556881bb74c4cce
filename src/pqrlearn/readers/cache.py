"""Caches: parsed rows in one safetensors file, read block by block.

The container and its checks are those of models, and every row passes the checks of a Batch. A
cache records the file it was made from, and is rejected if that file has changed. Values and
weights that are all 1 are omitted. Each block of rows has its own digests, which are checked when
the block is read, because a cache may be larger than memory.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import closing
from copy import copy
from pathlib import Path
from typing import IO, Any

import numpy as np

from pqrlearn import modelfile
from pqrlearn.container import CutOff
from pqrlearn.errors import DataError, ModelFileError, RowError
from pqrlearn.files import atomic_path, file_digest
from pqrlearn.hyper import check_whole
from pqrlearn.loss import loss_named
from pqrlearn.readers.base import BadRowFile, Reader
from pqrlearn.rows import Batch

KIND = "cache"
BATCH_ROWS = 32_768
_MOST_BATCH_ROWS = 1 << 24

_COLUMNS: dict[str, type[np.generic]] = {
    "indptr": np.int64,
    "indices": np.uint32,
    "values": np.float32,
    "labels": np.float64,
    "weights": np.float32,
}
_ONES = ("values", "weights")


def kept(
    path: str | os.PathLike[str], batches: Iterable[Batch], source: str | None = None
) -> Generator[Batch, None, None]:
    """Passes batches through and writes them to a cache at `path` once all have been consumed.

    Needs bounded memory. `source` is the file that the rows come from.
    """
    with atomic_path(path) as temporary:
        with closing(_Columns(temporary.parent)) as columns:
            for batch in batches:
                columns.add(batch)
                yield batch
        settings: dict[str, Any] = {"rows": columns.rows, "source": None, "block_rows": BATCH_ROWS}
        if source is not None and os.path.isfile(source):
            settings["source"] = {"name": os.path.basename(source), "mark": file_digest(source)}
        modelfile.assemble(temporary, KIND, settings, columns.kept())


class _Columns:
    """One temporary file per tensor, and the digests of each block."""

    def __init__(self, folder: Path) -> None:
        self.rows = self._entries = 0
        self._paths = {name: folder / f"column-{name}" for name in _COLUMNS}
        self._digests_path = folder / "column-digests"
        self._files: dict[str, IO[bytes]] = {n: p.open("wb") for n, p in self._paths.items()}
        self._files["indptr"].write(np.zeros(1, np.int64).tobytes())
        self._all_ones = dict.fromkeys(_ONES, True)
        self._blocks: list[dict[str, modelfile.Digest]] = []

    def add(self, batch: Batch) -> None:
        start = 0
        while start < len(batch):
            stop = min(len(batch), start + BATCH_ROWS - self.rows % BATCH_ROWS)
            self._add(batch if stop - start == len(batch) else batch.part(start, stop))
            start = stop

    def _add(self, batch: Batch) -> None:
        """Adds rows of one block."""
        indptr = batch.indptr + self._entries
        if self.rows % BATCH_ROWS == 0:
            self._blocks.append({name: modelfile.Digest() for name in _COLUMNS})
            self._blocks[-1]["indptr"].update(indptr[:1])
        columns = {name: getattr(batch, name) for name in _COLUMNS} | {"indptr": indptr[1:]}
        for name, column in columns.items():
            self._files[name].write(column.data)
            self._blocks[-1][name].update(column)
        for name in _ONES:
            self._all_ones[name] &= bool((columns[name] == 1).all())
        self.rows += len(batch)
        self._entries += len(batch.indices)

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def kept(self) -> dict[str, tuple[type[np.generic], Path]]:
        columns = {
            name: (dtype, self._paths[name])
            for name, dtype in _COLUMNS.items()
            if not self._all_ones.get(name, False)
        }
        digests = [[block[name].value() for name in columns] for block in self._blocks]
        self._digests_path.write_bytes(np.array(digests, np.uint64).tobytes())
        return columns | {modelfile.BLOCKS: (np.uint64, self._digests_path)}


def looks_like_a_cache(head: bytes) -> bool:
    """Whether a file with these first bytes is a cache; text cannot start with them."""
    return head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 27


class CacheReader(Reader):
    """The rows of a cache. There are no bad rows: these were handled when the cache was made.

    If a `loss` is given, it must accept all labels, and labels are converted as it stores them.
    """

    ready = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        loss: str | None = None,
        on_bad_row: str = "stop",
        keep_bad: BadRowFile | None = None,
    ) -> None:
        super().__init__(path, on_bad_row=on_bad_row, keep_bad=keep_bad)
        self._path = str(path)
        self._loss = None if loss is None else loss_named(loss)
        try:
            kind, settings, self._tensors = modelfile.stored(path)
        except ModelFileError as error:
            raise DataError(str(error)) from None
        if kind != KIND:
            raise DataError(f"{path}: a {kind} of pqrlearn, not rows")
        try:
            self._rows = self._checked(settings)
            self._block_rows = check_whole(
                "block_rows", settings.get("block_rows", BATCH_ROWS), least=1, most=_MOST_BATCH_ROWS
            )
            self._digests = self._block_digests()
        except (KeyError, ValueError, TypeError, OSError) as error:
            raise DataError(f"{path}: a damaged cache ({error})") from None
        self._check_source(settings["source"])
        self._start, self._stop, self._done = 0, self._rows, 0
        self._ones = np.ones(0, np.float32)  # for omitted values and weights, shared by all Batches

    def _checked(self, settings: dict[str, Any]) -> int:
        shapes = {
            name: self._length(name, dtype)
            for name, dtype in _COLUMNS.items()
            if name in self._tensors or name not in _ONES
        }
        rows, entries = settings["rows"], shapes["indices"]
        expected = {"indptr": rows + 1, "values": entries, "labels": rows, "weights": rows}
        if any(shapes.get(name, size) != size for name, size in expected.items()):
            raise ValueError("its tensors differ in length")
        if settings["source"] is not None:
            settings["source"]["name"], settings["source"]["mark"]
        return int(rows)

    def _length(self, name: str, dtype: type[np.generic]) -> int:
        column = self._tensors[name]
        if column.dtype != dtype or len(column.shape) != 1:
            raise ValueError(f"{name} is {column.dtype} with {len(column.shape)} dimensions")
        return column.size

    def _block_digests(self) -> dict[str, Any]:
        """The digests of all blocks, by column; empty for files of format 2."""
        if modelfile.BLOCKS not in self._tensors:
            return {}
        digests = self._tensors[modelfile.BLOCKS].part(0, self._length(modelfile.BLOCKS, np.uint64))
        columns = [name for name in _COLUMNS if name in self._tensors]
        blocks = -(-self._rows // self._block_rows)
        return dict(zip(columns, digests.reshape(blocks, len(columns)).T, strict=True))

    def _check_source(self, source: Any) -> None:
        if source is None:
            return
        original = Path(self._path).parent / str(source["name"])
        if original.is_file() and file_digest(original) != source["mark"]:
            error = DataError(f"{self._path}: {original} has changed since this cache was made")
            error.case = ("stale cache", str(original), self._path)
            raise error

    def fraction(self) -> float:
        return (self._done - self._start) / max(self._stop - self._start, 1)

    @property
    def enterable(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return self._rows

    def estimated_rows(self) -> float:
        return self._rows

    def part(self, start: int, stop: int) -> CacheReader:
        part = copy(self)
        part._start, part._stop = start, min(stop, self.size)
        return part

    def _read(self) -> Generator[Batch, None, None]:
        """Each Batch has rows of one block."""
        first = self._start
        while first < self._stop:
            last = min((first // self._block_rows + 1) * self._block_rows, self._stop)
            try:
                batch = self._batch(first, last)
            except CutOff as error:
                raise DataError(f"{self._path}: {error}; make it again") from None
            except OSError as error:
                raise DataError(f"{self._path}: {error.strerror or error}") from None
            yield batch
            self._done = first = last

    def _batch(self, first: int, last: int) -> Batch:
        start, columns = self._block(first, last)
        rows = slice(first - start, last - start)
        indptr = columns["indptr"][rows.start : rows.stop + 1]
        entries = slice(*(indptr[[0, -1]] - columns["indptr"][0]).tolist())
        parts = {name: columns[name][entries] for name in ("indices", "values")}
        try:
            return Batch._owned(
                indptr - indptr[0],
                parts["indices"],
                parts["values"],
                self._labels(columns["labels"][rows], first),
                columns["weights"][rows],
                np.arange(first + 1, last + 1),
                self._path,
            )
        except RowError as error:
            raise RowError(f"rows from {first + 1} on: {error}", path=self._path) from None

    def _block(self, first: int, last: int) -> tuple[int, dict[str, Any]]:
        """The first row of the block with these rows, and its columns, once they are verified.

        What is verified is what is used, in memory: the file may change meanwhile. A file without
        digests gives just the rows.
        """
        block = first // self._block_rows
        if self._digests:
            first = block * self._block_rows
            last = min(first + self._block_rows, self._rows)
        columns = {"indptr": self._tensors["indptr"].part(first, last + 1)}
        self._verify("indptr", columns["indptr"], block, first, last)  # it locates the entries
        begin, end = columns["indptr"][[0, -1]].tolist()
        if not 0 <= begin <= end <= self._tensors["indices"].size:
            raise RowError("indptr points outside the file", path=self._path)
        for name in ("indices", "values", "labels", "weights"):
            place = (begin, end) if name in ("indices", "values") else (first, last)
            columns[name] = self._part(name, *place)
            self._verify(name, columns[name], block, first, last)
        return first, columns

    def _verify(self, name: str, column: Any, block: int, first: int, last: int) -> None:
        digests = self._digests.get(name)
        if digests is not None and modelfile.digest_of(column).value() != digests[block]:
            raise DataError(
                f"{self._path}: the file is damaged: the digest of rows {first + 1} to {last} "
                f"does not match their {name}; make it again"
            )

    def _part(self, name: str, begin: int, end: int) -> Any:
        kept = self._tensors.get(name)
        if kept is not None:
            return kept.part(begin, end)
        if len(self._ones) < end - begin:
            self._ones = np.ones(end - begin, np.float32)
        return self._ones[: end - begin]

    def _labels(self, labels: Any, first: int) -> Any:
        if self._loss is None:
            return labels
        good = self._loss.check_label(labels)
        if not good.all():
            row = first + int(np.argmin(good))
            message = f"label {labels[row - first]:g} {self._loss.wants}"
            raise RowError(message, path=self._path, line=row + 1)
        return self._loss.kept(labels)
