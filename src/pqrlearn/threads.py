"""How many threads one call into the native core may use.

Learning runs on the thread that calls it. Predictions of more than 8,192 rows, and saving and
copying many pairs, use all cores unless bounded: by `set_threads`, by `pqr --threads`, or by the
environment variable `PQRLEARN_THREADS`. Results do not depend on it.
"""

from __future__ import annotations

import os

from pqrlearn import _core
from pqrlearn.hyper import check_whole

VARIABLE = "PQRLEARN_THREADS"
MOST = 65536  # more than any machine has cores


def set_threads(count: int | None) -> None:
    """Bounds the threads of every call from now on, the calling thread included; None: all cores.

    >>> import pqrlearn
    >>> pqrlearn.set_threads(1)  # no thread but the caller's
    >>> pqrlearn.set_threads(None)
    >>> pqrlearn.set_threads(0)
    Traceback (most recent call last):
        ...
    pqrlearn.errors.HyperError: threads=0 must be a whole number from 1 to 65536
    """
    bound = 0 if count is None else check_whole("threads", count, least=1, most=MOST)
    _core.set_thread_bound(bound)


def from_environment() -> int | None:
    """The bound that PQRLEARN_THREADS sets, or None where it is unset or empty."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    count = int(text) if text.isascii() and text.isdigit() else text
    return check_whole(VARIABLE, count, least=1, most=MOST)


set_threads(from_environment())
