"""Avazu: ten days of mobile advertising clicks, 22 categories a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pqrlearn.datasets.base import DataSet, Layout, Printed
from pqrlearn.datasets.table import Rows, click, matching, read_columns, whole
from pqrlearn.names import Names
from pqrlearn.readers import Source
from pqrlearn.rows import Batch

IDS = ("site_id", "site_domain", "site_category", "app_id", "app_domain", "app_category")
DEVICE = ("device_id", "device_ip", "device_model")
NUMBERS = ("device_type", "device_conn_type", *(f"C{at}" for at in range(14, 22)))
HEADER = ",".join(["id", "click", "hour", "C1", "banner_pos", *IDS, *DEVICE, *NUMBERS])


def hour(cell: str) -> str:
    """The hour of the day; the date is dropped, because it would not occur again.

    >>> hour("14102123")
    'hour=23'
    """
    _hour(cell)
    return f"hour={cell[-2:]}"


_hour = matching("hour", "[0-9]{6}([01][0-9]|2[0-3])", "of the form YYMMDDHH")
FIELDS = [
    hour,
    whole("C1"),
    whole("banner_pos"),
    *(matching(name, "[0-9a-f]{8}", "8 hex digits") for name in (*IDS, *DEVICE)),
    *(whole(name) for name in NUMBERS),
]


def read(sources: Sequence[Source], names: Names) -> Iterator[Batch]:
    rows = Rows(names, (1, click), list(enumerate(FIELDS, 2)), digits={0: "id"})
    for table in read_columns(sources[0], 2 + len(FIELDS), ",", header=HEADER):
        yield rows.batch(table)


AVAZU = DataSet(
    name="avazu",
    title="Avazu",
    loss="logistic",
    rows=40_428_967,
    features=None,
    licence="competition rules",
    source="https://www.kaggle.com/c/avazu-ctr-prediction",
    folders=("avazu",),
    layouts=(
        *(Layout((name,), read) for name in ("train", "train.csv", "train.gz")),
        Layout(("train_sample_23299.csv",), read, sample=True),
    ),
    paper=Printed("Avazu", rows=40_528_967, features=1_000_000),
)
