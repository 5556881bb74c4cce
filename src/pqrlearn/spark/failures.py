"""What goes wrong on the cluster becomes one sentence on the driver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PythonException

from pqrlearn import errors
from pqrlearn.errors import PqrError

_SENTENCE = re.compile(r"^pqrlearn\.errors\.(\w+): (.*)$", re.MULTILINE)
_MISSING = re.compile(r"^ModuleNotFoundError: .*\bpqrlearn\b", re.MULTILINE)


@contextmanager
def in_a_sentence(doing: str) -> Iterator[None]:
    """Raises what tasks have raised as if it had been raised here; `doing` names the work."""
    try:
        yield
    except PythonException as error:
        found = _raised(str(error))
        if found is None:
            raise
        raise found from None
    except Py4JJavaError as error:
        raise PqrError(f"Spark failed {doing}: {reason_of(error)}") from error


def _raised(trace: str) -> PqrError | None:
    """The error of ours that a task's trace ends with.

    >>> _raised("Traceback ...\\npqrlearn.errors.RowError: row 5: no label")
    RowError('row 5: no label')
    """
    if _MISSING.search(trace):
        return PqrError(
            "the executors have no pqrlearn: install it on all nodes, in the Python that "
            "PYSPARK_PYTHON names"
        )
    found = _SENTENCE.findall(trace)
    if not found:
        return None
    name, message = found[-1]
    kind: Any = getattr(errors, name)
    made: PqrError = PqrError(message) if kind is errors.MissingExtra else kind(message)
    return made


def reason_of(error: Exception) -> str:
    """The first line of an error, or of its first cause, if it comes from Java.

    >>> reason_of(KeyError("uid"))
    "KeyError: 'uid'"
    """
    if not isinstance(error, Py4JJavaError):
        return f"{type(error).__name__}: {error}".splitlines()[0]
    cause: Any = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    text: str = cause.toString()
    return text.splitlines()[0]
