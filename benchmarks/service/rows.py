"""Rows of 15 categories that follow power laws, as requests and as Vowpal Wabbit text."""

from __future__ import annotations

import json
from random import Random
from typing import Any

FIELDS = 15
VALUES = 100_000

Row = dict[str, str]


def rows(count: int, seed: int = 1) -> list[Row]:
    """
    >>> [sorted(row) == [f"C{field:02}" for field in range(15)] for row in rows(2)]
    [True, True]
    """
    random = Random(seed)
    return [
        {f"C{field:02}": _value(random, field) for field in range(FIELDS)} for _ in range(count)
    ]


def _value(random: Random, field: int) -> str:
    rank = int(random.paretovariate(0.7)) % VALUES
    return f"{(rank * FIELDS + field) * 2_654_435_761 % 2**32:08x}"


def label(number: int) -> int:
    """Of a row: one in five is a click."""
    return int(number % 5 == 0)


def vw_text(given: list[Row], labelled: bool) -> bytes:
    """
    >>> vw_text([{"C00": "a1"}], labelled=True)
    b'1 |f C00=a1\\n'
    """
    lines = []
    for number, row in enumerate(given):
        features = " ".join(f"{name}={value}" for name, value in row.items())
        start = f"{'1' if label(number) else '-1'} " if labelled else ""
        lines.append(f"{start}|f {features}\n")
    return "".join(lines).encode()


def body(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def features(given: list[Row]) -> list[bytes]:
    """Requests to predict and to score."""
    return [body({"features": row}) for row in given]


def labels(first: int, count: int) -> list[bytes]:
    """Requests to learn, of ids by `name_of`."""
    return [body(label_of(number)) for number in range(first, first + count)]


def label_of(number: int) -> dict[str, Any]:
    return {"id": name_of(number), "label": label(number)}


def name_of(number: int) -> str:
    """An id as long as a UUID in hexadecimal digits.

    >>> len(name_of(7))
    32
    """
    return f"{number:032x}"


def batches(given: list[Any], size: int) -> list[bytes]:
    """Requests of many rows at a time."""
    return [body({"rows": given[at : at + size]}) for at in range(0, len(given), size)]


def arrow_batches(given: list[Any], size: int) -> list[bytes]:
    """The same, as Arrow streams."""
    import pyarrow as pa

    found = []
    for at in range(0, len(given), size):
        table = pa.Table.from_pylist(given[at : at + size])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        found.append(sink.getvalue().to_pybytes())
    return found
