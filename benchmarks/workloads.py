"""What the contenders learn from: a seeded click stream, as libsvm and as Vowpal Wabbit text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from benchmarks.measure import near
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.files import atomic_path
from pqrlearn.metrics import Metrics
from pqrlearn.readers.libsvm import format_batch


@dataclass(frozen=True)
class Shape:
    """A kind of stream, and the order of PQR that suits it."""

    stream: Callable[[], ClickStream]
    order: int
    rows: int
    few_rows: int
    """For contenders that would take minutes with all of them."""
    all_pairs_rows: int
    """For one that takes time for every pair: less than a minute's."""


SHAPES = {
    "avazu": Shape(
        ClickStream.avazu,
        order=8000,
        rows=5_000_000,
        few_rows=1_000_000,
        all_pairs_rows=5_000_000,
    ),
    "criteo": Shape(
        ClickStream.criteo, order=1000, rows=5_000_000, few_rows=200_000, all_pairs_rows=200_000
    ),
}


@dataclass(frozen=True)
class Workload:
    """The first rows of a stream, in files that `prepare` writes once.

    Their name has a digest of the first rows in it: when the stream changes, so do the files.
    """

    name: str
    rows: int
    folder: Path

    @cached_property
    def stream(self) -> ClickStream:
        return SHAPES[self.name].stream()

    @property
    def order(self) -> int:
        return SHAPES[self.name].order

    @property
    def few_rows(self) -> int:
        return min(SHAPES[self.name].few_rows, self.rows)

    @property
    def all_pairs_rows(self) -> int:
        return min(SHAPES[self.name].all_pairs_rows, self.rows)

    @property
    def features(self) -> int:
        return self.stream.features

    @property
    def bits(self) -> int:
        """The smallest power of two with room for every feature."""
        return math.ceil(math.log2(self.features))

    @property
    def libsvm(self) -> str:
        return near(self._file("svm"))

    @property
    def vw(self) -> str:
        return near(self._file("vw"))

    @property
    def cache(self) -> str:
        return near(self._file("cache"))

    @property
    def vw_cache(self) -> str:
        return near(self._file("vw.cache"))

    def model(self, contender: str) -> str:
        """Where a contender saves its model."""
        return near(self.folder / f"{contender}.model")

    def prepare(self) -> dict[str, Any]:
        """Writes what is missing, reads all of it once, and returns what is known of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        about = self._file("json")
        if not about.exists():
            about.write_text(json.dumps(self._write()))
        for path in (self._file("svm"), self._file("vw")):
            keep_at_hand(path)
        known: dict[str, Any] = json.loads(about.read_text())
        return known

    def _write(self) -> dict[str, Any]:
        stream, metrics = self.stream, Metrics("logistic")
        with (
            atomic_path(self._file("svm")) as svm,
            atomic_path(self._file("vw")) as vw,
            svm.open("wb") as svm_file,
            vw.open("wb") as vw_file,
        ):
            for batch in stream.batches(self.rows):
                text = format_batch(batch)
                svm_file.write(text)
                vw_file.write(vw_text(text))
                metrics.update(stream.margins(batch), batch.labels)
        figures = metrics.result()
        return {
            "name": self.name,
            "rows": self.rows,
            "stream": asdict(stream),
            "libsvm_bytes": self._file("svm").stat().st_size,
            "vw_bytes": self._file("vw").stat().st_size,
            "constant_logloss": figures["constant_logloss"],
            "true_logloss": figures["logloss"],
        }

    def _file(self, suffix: str) -> Path:
        return self.folder / f"{self.name}-{self.rows}-{self._digest}.{suffix}"

    @cached_property
    def _digest(self) -> str:
        return blake2b(format_batch(self.stream.batch(0, 100)), digest_size=4).hexdigest()


def keep_at_hand(path: Path) -> None:
    """Reads a file once, so that everyone finds it in the page cache."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass


def vw_text(libsvm: bytes) -> bytes:
    """Rows whose values are all 1 as Vowpal Wabbit reads them: labels -1 and 1, one namespace.

    >>> vw_text(b"0 3:1 7:1\\n1 3:1 9:1\\n")
    b'-1 |f 3 7\\n1 |f 3 9\\n'
    """
    text = b"\n" + libsvm.replace(b":1 ", b" ").replace(b":1\n", b"\n")
    return text.replace(b"\n0 ", b"\n-1 |f ").replace(b"\n1 ", b"\n1 |f ")[1:]
