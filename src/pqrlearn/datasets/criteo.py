"""Criteo Display Advertising Challenge: seven days of clicks, 13 counts and 26 categories a row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pqrlearn.datasets.base import DataSet, Layout, Printed
from pqrlearn.datasets.table import Field, Rows, click, matching, optional, read_columns, whole
from pqrlearn.names import Names
from pqrlearn.readers import Source
from pqrlearn.rows import Batch


def count(name: str) -> Field:
    """Counts above 2 are binned by floor(log²) and named by their bin; others are kept.

    >>> count("I5")("9"), count("I5")("2"), count("I5")("-1")
    ('I5=8..9', 'I5=2', 'I5=-1')
    """
    checked = whole(name)

    def field(cell: str) -> str:
        feature, value = checked(cell), int(cell)
        return feature if value <= 2 else f"{name}={_bucket(value)}"

    return field


def _bucket(value: int) -> str:
    square = math.floor(math.log(value) ** 2)
    low, above = (math.ceil(math.exp(math.sqrt(edge))) for edge in (square, square + 1))
    return f"{low}..{above - 1}" if above - 1 > low else str(low)


FIELDS = [
    *(optional(count(f"I{at}")) for at in range(1, 14)),
    *(optional(matching(f"C{at}", "[0-9a-f]{8}", "8 hex digits")) for at in range(1, 27)),
]


def read(sources: Sequence[Source], names: Names) -> Iterator[Batch]:
    rows = Rows(names, (0, click), list(enumerate(FIELDS, 1)), digits={})
    for table in read_columns(sources[0], 1 + len(FIELDS), "\t"):
        yield rows.batch(table)


CRITEO = DataSet(
    name="criteo",
    title="Criteo",
    loss="logistic",
    rows=45_840_617,
    features=None,
    licence="Criteo's terms",
    source="https://www.kaggle.com/c/criteo-display-ad-challenge",
    folders=("criteo",),
    layouts=(
        *(Layout((name,), read) for name in ("train.txt", "train.txt.gz")),
        Layout(("train_sample.txt",), read, sample=True),
    ),
    paper=Printed("Criteo", rows=51_882_752, features=1_000_000),
)
