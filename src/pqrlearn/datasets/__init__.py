"""Data sets, one module each: origin, features, and how to read them.

>>> get("ml-100k").title
'MovieLens 100K'
"""

from __future__ import annotations

from pqrlearn.datasets.avazu import AVAZU
from pqrlearn.datasets.base import DataSet, Loaded
from pqrlearn.datasets.criteo import CRITEO
from pqrlearn.datasets.kdd2012 import KDD2012
from pqrlearn.datasets.libsvm import LIBSVM
from pqrlearn.datasets.movielens import MOVIELENS
from pqrlearn.errors import DataError

__all__ = ["NAMES", "DataSet", "Loaded", "get"]

_ALL = {data.name: data for data in (*MOVIELENS, AVAZU, CRITEO, KDD2012, *LIBSVM)}
NAMES = tuple(_ALL)


def get(name: str) -> DataSet:
    """A data set by name; DataError with all names if it does not exist."""
    if name not in _ALL:
        raise DataError(f"no data set is called {name!r}: there are {', '.join(NAMES)}")
    return _ALL[name]
