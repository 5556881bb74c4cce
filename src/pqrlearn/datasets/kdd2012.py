"""KDD Cup 2012, track 2: clicks on advertisements next to search results.

A line of the table counts how often an ad was shown in one setting (impressions) and clicked. Here,
as in the LIBSVM version that the paper used, it is one row, labelled 1 if there was any click.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pqrlearn.datasets.base import DataSet, Layout, Printed
from pqrlearn.datasets.table import Columns, Rows, matching, read_columns, shown, whole
from pqrlearn.names import Names
from pqrlearn.readers import Source
from pqrlearn.rows import Batch

NAMES = ("advertiser", "depth", "position", "query", "keyword", "title", "description", "user")
SAMPLE_HEADER = (
    "click,impression,url_hash,ad_id,advertiser_id,depth,position,query_id,keyword_id,title_id,"
    "description_id,user_id"
)


def any_click(cell: str) -> float:
    if not (cell.isascii() and cell.isdigit()):
        raise ValueError(f"label {shown(cell)} is not a number of clicks")
    return float(int(cell) > 0)


FIELDS = [
    # Some programs have converted the hash to a float, as in 1.42e+19.
    matching("url", r"[0-9]{1,20}|[0-9](\.[0-9]+)?e\+[0-9]{2}", "a hash in digits"),
    *(whole(name) for name in ("ad", *NAMES)),
]


def read(sources: Sequence[Source], names: Names) -> Iterator[Batch]:
    """training.txt, as it was published."""
    rows = _rows(names)
    for table in read_columns(sources[0], 2 + len(FIELDS), "\t"):
        yield rows.batch(table)


def read_sample(sources: Sequence[Source], names: Names) -> Iterator[Batch]:
    """A CSV file with a header and some quoted cells."""
    rows = _rows(names)
    for table in read_columns(sources[0], 2 + len(FIELDS), ",", header=SAMPLE_HEADER):
        yield rows.batch(_unquoted(table))


def _rows(names: Names) -> Rows:
    return Rows(names, (0, any_click), list(enumerate(FIELDS, 2)), digits={1: "impression"})


def _unquoted(table: Columns) -> Columns:
    return replace(table, cells=[[cell.strip('"') for cell in column] for column in table.cells])


KDD2012 = DataSet(
    name="kdd2012",
    title="KDD2012",
    loss="logistic",
    rows=149_639_105,
    features=None,
    licence="competition rules",
    source="https://www.kaggle.com/c/kddcup2012-track2",
    folders=("kdd2012",),
    layouts=(
        Layout(("training.txt",), read),
        Layout(("training.txt.gz",), read),
        Layout(("Click_prediction_small.csv",), read_sample, sample=True),
    ),
    paper=Printed("KDD2012", rows=149_009_105, features=54_686_452),
)
