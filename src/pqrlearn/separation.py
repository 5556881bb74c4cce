"""Counting features, and deciding which are high.

Counting and learning are separate steps. `Counts` counts rows; `Counts.separate` chooses the high
features by order (top-k) or by count; the resulting Separation can be saved, inspected and reused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn import _core, modelfile
from pqrlearn.encoder import Encoder
from pqrlearn.errors import Corrupt, DataError, HyperError, NotAModel, RowError
from pqrlearn.frames import Frame, is_frame
from pqrlearn.guess import Choices, guess
from pqrlearn.hyper import MAX_ORDER, ORDERS, SAMPLE_ROWS, check_whole
from pqrlearn.names import Texts
from pqrlearn.readers import AnyPath, Reader, Sample, open_reader, prefetch
from pqrlearn.records import Records
from pqrlearn.rows import Batch, Features, NewNames, RowsLike, check_array, plain_error
from pqrlearn.schema import Schema

KIND = "separation"
CountedRows = RowsLike | Iterable[Batch] | Iterable[Features]
"""What `learn_many` takes, or an iterable of Batches or dicts, such as `pqrlearn.read`."""


@dataclass(frozen=True, eq=False)
class Separation:
    """Which features are high, by rank (most frequent first); all others are low.

    >>> rows = [{"site": "a", "hour": "9"}, {"site": "a", "hour": "10"}]
    >>> separation = Separation.top_k(rows, order=1)
    >>> separation.high_names(), separation.counts.tolist()
    (['site=a'], [2])
    """

    features: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint64]
    rows: int
    distinct: int
    names: _core.Names = field(default_factory=_core.Names, repr=False)
    schema: Schema | None = None
    """Of the tables that were counted; a model made of it reads tables in the same way."""

    def __post_init__(self) -> None:
        check_array("Separation", "features", self.features, np.uint32)
        check_array("Separation", "counts", self.counts, np.uint64)
        if len(self.features) != len(self.counts):
            raise HyperError("a separation needs one count per high feature")
        if len(np.unique(self.features)) != len(self.features):
            raise HyperError("a feature is high twice")

    def __repr__(self) -> str:
        return f"Separation(order={self.order}, rows={self.rows}, distinct={self.distinct})"

    @property
    def order(self) -> int:
        """How many features are high.

        >>> Separation.top_k([{"site": "a", "hour": "9"}], order=1).order
        1
        """
        return len(self.features)

    @cached_property
    def snapshot(self) -> _core.Separation:
        """The native lookup table, built once and shared by models and prepared rows.

        >>> separation = Separation.top_k([{"site": "a"}], order=1)
        >>> separation.snapshot is separation.snapshot
        True
        """
        return _core.Separation(self.features)

    def high_names(self) -> list[str]:
        """Names of the high features, by rank.

        >>> Separation.top_k([{"site": "a", "hour": "9"}, {"site": "a"}], order=1).high_names()
        ['site=a']
        """
        return [self.names.name(f) or str(f) for f in self.features.tolist()]

    def named(self, names: _core.Names) -> Separation:
        """The same separation with these names.

        >>> one, other = (Separation.top_k([{site: 1.0}]) for site in (7, "news"))
        >>> one.high_names(), one.named(other.names).high_names()
        (['7'], ['7'])
        """
        return replace(self, names=names)

    @staticmethod
    def top_k(
        rows: CountedRows, order: int | None = None, schema: Schema | None = None
    ) -> Separation:
        """The `order` most frequent features; by default ⌈√d⌉ of d. Ties go to the smaller index.

        `rows` are what `learn_many` takes, or Batches. All columns of a frame are features unless a
        schema says otherwise.

        >>> Separation.top_k([{"site": "a", "hour": "9"}, {"site": "a", "hour": "10"}])
        Separation(order=2, rows=2, distinct=3)
        """
        return Counts.of(rows, schema).separate(order=order)

    @staticmethod
    def threshold(rows: CountedRows, min_count: int, schema: Schema | None = None) -> Separation:
        """Every feature that is non-zero in at least `min_count` rows.

        >>> rows = [{"site": "a", "hour": "9"}, {"site": "a", "hour": "10"}]
        >>> Separation.threshold(rows, min_count=2).high_names()
        ['site=a']
        """
        return Counts.of(rows, schema).separate(min_count=min_count)

    @staticmethod
    def from_file(
        path: AnyPath,
        *,
        order: int | None = None,
        min_count: int | None = None,
        sample_rows: int | None = SAMPLE_ROWS,
    ) -> Separation:
        """From a libsvm file; `sample_rows=None` counts all rows (see `Counts.of_files`).

        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "rows.svm").write_text("1 3:1 7:1\\n0 3:1\\n")
        ...     Separation.from_file(Path(folder, "rows.svm"), order=1).features.tolist()
        [3]
        """
        return Counts.of_files([path], sample_rows).separate(order=order, min_count=min_count)

    def settings(self) -> dict[str, Any]:
        """How much was counted, as a model file has it.

        >>> Separation.top_k([{"site": "a"}]).settings()
        {'rows': 1, 'distinct': 1}
        """
        return {"rows": self.rows, "distinct": self.distinct}

    def tensors(self) -> modelfile.Tensors:
        """The high features and their counts, as a model file has them.

        >>> Separation.top_k([{7: 1.0}]).tensors()["features"].tolist()
        [7]
        """
        return {"features": self.features, "counts": self.counts}

    @staticmethod
    def restored(
        settings: dict[str, Any], tensors: modelfile.Tensors, names: _core.Names
    ) -> Separation:
        """The inverse of `settings` and `tensors`; KeyError or ValueError if they are invalid.

        >>> one = Separation.top_k([{7: 1.0}])
        >>> Separation.restored(one.settings(), one.tensors(), one.names).high_names()
        ['7']
        """
        return Separation(
            modelfile.tensor(tensors, "features", np.uint32, 1),
            modelfile.tensor(tensors, "counts", np.uint64, 1),
            check_whole("rows", settings["rows"], least=0),
            check_whole("distinct", settings["distinct"], least=0),
            names,
        )

    def save(self, path: AnyPath) -> None:
        """Writes it to `path`, atomically; `pqr train --separation` and `load` read it.

        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     Separation.top_k([{"site": "a"}]).save(Path(folder, "sites.sep"))
        ...     Separation.load(Path(folder, "sites.sep"))
        Separation(order=1, rows=1, distinct=1)
        """
        modelfile.write(path, KIND, *self._parts())

    def _parts(self) -> tuple[dict[str, Any], modelfile.Tensors]:
        schema = {} if self.schema is None else {"schema": self.schema.to_json()}
        return self.settings() | schema, self.tensors() | name_tensors(self.names)

    @staticmethod
    def load(path: AnyPath) -> Separation:
        """The separation that `save` or `pqr separate` wrote.

        >>> Separation.load("nowhere.sep")
        Traceback (most recent call last):
        pqrlearn.errors.ModelFileError: nowhere.sep: No such file or directory
        """
        return Separation._from_parts(str(path), *modelfile.read(path))

    def __reduce__(self) -> tuple[Any, ...]:
        return Separation._from_bytes, (modelfile.to_bytes(KIND, *self._parts()),)

    @staticmethod
    def _from_bytes(data: bytes) -> Separation:
        return Separation._from_parts("<bytes>", *modelfile.from_bytes(data))

    @staticmethod
    def _from_parts(
        path: str, kind: str, settings: dict[str, Any], tensors: modelfile.Tensors
    ) -> Separation:
        if kind != KIND:
            error = NotAModel(f"{path}: a {kind} model, not a separation")
            error.case = ("not a separation",)
            raise error
        try:
            separation = Separation.restored(settings, tensors, names_from(tensors))
            if "schema" in settings:
                return replace(separation, schema=Schema.from_json(settings["schema"]))
            return separation
        except (KeyError, ValueError, TypeError) as error:
            raise Corrupt(f"{path}: a damaged separation ({error})") from None


class Counts:
    """In how many rows each feature is non-zero; `bad_rows` were skipped.

    >>> counts = Counts.of([{"site": "a", "hour": "9"}, {"site": "a"}])
    >>> counts, counts.separate(order=1).high_names()
    (Counts(rows=2, distinct=2), ['site=a'])
    """

    def __init__(self, schema: Schema | None = None) -> None:
        self._counter = _core.Counter()
        self.bad_rows, self.schema = 0, schema

    def __repr__(self) -> str:
        return f"Counts(rows={self.rows}, distinct={self.distinct})"

    @property
    def rows(self) -> int:
        """How many rows were counted.

        >>> Counts.of([{"site": "a"}, {"site": "a"}]).rows
        2
        """
        return self._counter.rows

    @property
    def distinct(self) -> int:
        """How many features occurred.

        >>> Counts.of([{"site": "a"}, {"site": "a"}]).distinct
        1
        """
        return self._counter.distinct

    def add(self, row: Batch | Features) -> None:
        """Counts the rows of a Batch, or one row given as a dict.

        >>> counts = Counts()
        >>> counts.add({"site": "a"})
        >>> counts.rows
        1
        """
        if isinstance(row, Batch):
            if row.new_names is not None:
                add_names(self._counter.names, row.new_names)
            self._counter.add(row.indptr, row.indices, row.values)
            return
        if self.schema is not None:
            fresh = self._fresh()
            self.add(Records(self.schema).batch(row, self._counter.names, fresh))
            return
        try:
            self._counter.add_dict(row)
        except ValueError as error:
            raise RowError(str(error)) from None
        except TypeError as error:
            raise plain_error(error, row) from None

    def add_frame(self, X: Any) -> None:
        """Counts a table in memory; its schema is guessed if there is none.

        >>> counts = Counts()
        >>> counts.add_frame(np.array([("a",), ("b",)], [("site", "U1")]))
        >>> counts.distinct
        2
        """
        frame = Frame(X)
        if self.schema is None:
            self.schema = guess(frame.sample(), Choices())
        encoder = Encoder(self.schema, labelled=False)
        for _, table in frame.slices():
            encoder.check(table.schema.names)
            self.add(encoder.batch(table, self._counter.names, self._fresh()))

    def _fresh(self) -> _core.Names:
        """Where new names go until they are counted."""
        fresh = _core.Names()
        fresh.start_at(self._counter.names.next_feature)
        return fresh

    @staticmethod
    def of(rows: CountedRows, schema: Schema | None = None) -> Counts:
        """Of what `learn_many` takes, or of Batches.

        All columns of a frame are features unless a schema says otherwise.

        >>> Counts.of([{"site": "a"}, {"site": "b"}])
        Counts(rows=2, distinct=2)
        """
        counts = Counts(schema)
        if is_frame(rows):
            counts.add_frame(rows)
            return counts
        if hasattr(rows, "tocsr"):
            rows = Batch.from_csr(rows.tocsr())
        for row in _each_row(rows):
            counts.add(row)
        return counts

    @staticmethod
    def of_files(
        paths: Sequence[AnyPath],
        sample_rows: int | None = SAMPLE_ROWS,
        on_bad_row: str = "stop",
        *,
        loss: str | None = None,
    ) -> Counts:
        """Counts the rows of files, or a sample of about `sample_rows` spread over them.

        From stdin and compressed files, which are not seekable, the sample is the first rows. With
        a `loss`, a row whose label it does not accept is a bad row.

        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "rows.svm").write_text("1 3:1 7:1\\n0 3:1\\n")
        ...     Counts.of_files([Path(folder, "rows.svm")])
        Counts(rows=2, distinct=2)
        """
        readers = [open_reader(path, loss=loss, on_bad_row=on_bad_row) for path in paths]
        return Counts.of_readers(readers, sample_rows)

    @staticmethod
    def of_readers(readers: Sequence[Reader], sample_rows: int | None = SAMPLE_ROWS) -> Counts:
        """The same for inputs in any format.

        >>> from pqrlearn import read
        >>> frame = np.array([(1, "a"), (0, "b")], [("click", "i4"), ("site", "U1")])
        >>> Counts.of_readers(read(frame, label="click").readers)
        Counts(rows=2, distinct=2)
        """
        sample = Sample(readers, sample_rows)
        schemas = (reader.schema for reader in readers)
        counts = Counts(next((s for s in schemas if s), None))
        for batch in prefetch(sample.batches(counts._counter.names)):
            counts.add(batch)
        counts.bad_rows = sample.bad_rows
        return counts

    def separate(self, *, order: int | None = None, min_count: int | None = None) -> Separation:
        """Chooses the high features; by default ⌈√d⌉ of d distinct ones, as the paper suggests.

        >>> Counts.of([{"site": "a", "hour": "9"}, {"site": "a"}]).separate(min_count=2).order
        1
        """
        if order is None and min_count is None:
            order = self.default_order()
        if order is not None:
            check_whole("order", order, least=0, most=MAX_ORDER)
        if min_count is not None:
            check_whole("min_count", min_count, least=1)
        features, counts = self._counter.top(MAX_ORDER if order is None else order, min_count or 1)
        names = self._counter.names.copy()  # they live in the counter
        return Separation(features, counts, self.rows, self.distinct, names, self.schema)

    def orders(self) -> list[int]:
        """The orders to mix (`hyper.ORDERS`), increasing; none above the number of features.

        >>> Counts.of([{number: 1.0} for number in range(100)]).orders()
        [0, 10, 40, 100]
        """
        return sorted({min(n * self.default_order(), self.distinct) for n in ORDERS})

    def default_order(self) -> int:
        """⌈√d⌉ of d distinct features.

        >>> Counts.of([{number: 1.0} for number in range(101)]).default_order()
        11
        """
        return math.isqrt(max(self.distinct, 1) - 1) + 1 if self.distinct else 0


def _each_row(rows: Any) -> Iterable[Batch | Features]:
    if isinstance(rows, Batch):
        return [rows]
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise TypeError(
            "rows must be a Batch, a frame, an array, a SciPy sparse matrix or dicts, "
            f"not {type(rows).__name__}"
        )
    return rows


def add_names(names: _core.Names, new: NewNames) -> None:
    """Adds names that come with rows; those that are there already must have the same number."""
    if new.store is names:
        return
    texts = new.names if isinstance(new.names, Texts) else Texts.of(new.names)
    good = names.add_each(new.indices, texts.offsets, texts.data)
    if good == len(texts):
        return
    index, name = int(new.indices[good]), texts[good]
    known = names.name(index)
    has = f"{known!a} has that number" if known else f"it has number {names.find(name)}"
    raise DataError(
        f"these rows number {name!a} as feature {index}, but {has} here; "
        "read them with the names of the model"
    )


def name_tensors(names: _core.Names, below: int | None = None) -> modelfile.Tensors:
    """The dictionary of names as arrays, or its part `below` a number; empty without names."""
    if not len(names):
        return {}
    indices, ends, text = names.arrays()
    if below is not None:
        count = int(np.searchsorted(indices, below))
        if not count:
            return {}
        indices, ends, text = indices[:count], ends[:count], text[: int(ends[count - 1])]
    return {"names.indices": indices, "names.ends": ends, "names.bytes": text}


def names_from(tensors: modelfile.Tensors) -> _core.Names:
    """The inverse of `name_tensors`; KeyError or ValueError if they are invalid."""
    names = _core.Names()
    if "names.indices" in tensors:
        names.restore(
            modelfile.tensor(tensors, "names.indices", np.uint32, 1),
            modelfile.tensor(tensors, "names.ends", np.uint64, 1),
            modelfile.tensor(tensors, "names.bytes", np.uint8, 1),
        )
    return names
