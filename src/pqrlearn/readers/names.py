"""Names of numbered features: one `index name` per line, separated by a space or a tab."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain

from pqrlearn.errors import RowError
from pqrlearn.names import Names
from pqrlearn.readers.source import open_source, whole_lines


def read_names(path: str | os.PathLike[str]) -> Names:
    """The dictionary in a file; blank lines are ignored, names may contain spaces."""
    names = Names()
    with open_source(path) as source:
        texts = (bytes(text) for _, text in whole_lines(source, 1 << 20))
        lines = chain.from_iterable(text.splitlines() for text in texts)
        for number, line in enumerate(lines, 1):
            if line.strip():
                _add(names, line, source.name, number)
    return names


def format_names(names: Names) -> Iterator[bytes]:
    """Lines for `read_names`, for names numbered from 0 on."""
    for index in range(len(names)):
        yield f"{index} {names.name(index)}\n".encode()


def _add(names: Names, line: bytes, path: str, number: int) -> None:
    def wrong(message: str, byte: int = 1) -> RowError:
        return RowError(message, path=path, line=number, byte=byte)

    parts = line.split(None, 1)
    if len(parts) != 2:
        raise wrong("expected an index and a name, separated by a space or a tab")
    try:
        name = parts[1].rstrip().decode()
    except UnicodeDecodeError as error:
        raise wrong("the name is not UTF-8", len(line) - len(parts[1]) + error.start + 1) from None
    if not (parts[0].isdigit() and len(parts[0]) <= 10 and int(parts[0]) < 2**32):
        raise wrong(f"index {parts[0][:20].decode(errors='replace')!r} is not in 0 to 4294967295")
    if not names.add(int(parts[0]), name):
        taken = "name" if names.find(name) is not None else "index"
        raise wrong(f"duplicate {taken}")
