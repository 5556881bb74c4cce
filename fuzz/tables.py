"""Hostile tables and schemas: small files of each format, damaged, read and learned from.

    python fuzz/tables.py [--runs N] [--seconds S] [--seed S] [--core FOLDER]

Whatever the bytes are, reading must end in rows or in a PqrError. The same seed gives the same
files.
"""

from __future__ import annotations

import argparse
import faulthandler
import io
import json
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from pqrlearn import LR, read
from pqrlearn.errors import PqrError
from pqrlearn.schema import Column, Schema

PATIENCE = 120.0  # seconds for one file
WORDS = [
    *(b'"', b",", b"\n", b"\r\n", b"\x00", b"\xff", b"nan", b"1e999", b"-", b"{", b"}", b"[", b"]"),
    *(b"kind", b"label", b"edges", b"=", b"null", b"true", b":", b"|", b"\xef\xbb\xbf", b"\\u0000"),
]

SCHEMA = Schema(
    (
        Column("y", "label"),
        Column("w", "weight"),
        Column("site", "category", missing=True),
        Column("price", "number", center=1.0, scale=2.0),
        Column("age", "bins", edges=(10.0, 20.5)),
        Column("tags", "list", separator="|"),
        Column("at", "time", parts=("hour", "weekday", "year")),
        Column("id", "ignored"),
    )
)


def table() -> pa.Table:
    rows = range(12)
    return pa.table(
        {
            "y": [float(n % 2) for n in rows],
            "w": [1.0 + n for n in rows],
            "site": pa.array(["a", "b", None, "né"] * 3).dictionary_encode(),
            "price": [None if n == 3 else n / 3 for n in rows],
            "age": pa.array([n * 7 for n in rows], pa.int32()),
            "tags": ["x|y", "", "y"] * 4,
            "at": [f"2024-01-{n + 1:02} 1{n % 10}:00:00" for n in rows],
            "id": list(rows),
        }
    )


def seeds() -> dict[str, bytes]:
    """A small file of each format, under the end of its name."""
    found = {}
    for name, write in (
        ("csv", pyarrow.csv.write_csv),
        ("parquet", pyarrow.parquet.write_table),
        ("feather", pyarrow.feather.write_feather),
    ):
        file = io.BytesIO()
        write(table(), file)
        found[name] = file.getvalue()
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table().schema) as writer:
        writer.write_table(table())
    found["arrows"] = stream.getvalue()
    found["jsonl"] = "".join(json.dumps(row) + "\n" for row in table().to_pylist()).encode()
    found["toml"] = SCHEMA.to_toml().encode()
    found["vw"] = b"1 2 'a|site a b:2 |at:0.5 x | price:2\n-1 |site b\n" * 3
    return found


def damaged(chance: np.random.Generator, data: bytes) -> bytes:
    """Bytes flipped, cut out, put in, repeated, or all behind a point cut off."""
    found = bytearray(data)
    for _ in range(int(chance.integers(1, 5))):
        at = int(chance.integers(0, len(found) + 1))
        match int(chance.integers(0, 5)):
            case 0 if found:
                found[at % len(found)] = int(chance.integers(0, 256))
            case 1:
                del found[at : at + int(chance.integers(1, 20))]
            case 2:
                found[at:at] = WORDS[int(chance.integers(0, len(WORDS)))]
            case 3:
                found[at:at] = found[at : at + int(chance.integers(1, 50))]
            case 4 if chance.random() < 0.2:
                del found[at:]
    return bytes(found)


def try_file(data: bytes, path: Path) -> bool:
    """Whether there were rows; anything but a PqrError is a failure."""
    try:
        path.write_bytes(data)
        if path.suffix == ".toml":
            schema = Schema.read(path)
            assert Schema.from_toml(schema.to_toml()) == schema
            assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
            return True
        schema = None if path.suffix == ".vw" else SCHEMA
        model = LR("squared")
        for batch in read(path, schema=schema, loss="squared", on_bad_row="skip", accept=True):
            model.learn_many(batch)
        if path.suffix != ".vw":
            for _ in read(path, label="y", on_bad_row="skip"):
                pass
        return True
    except PqrError:
        return False


def files(seed: int) -> Iterator[tuple[str, bytes]]:
    chance = np.random.default_rng(seed)
    kept = list(seeds().items())
    while True:
        name, data = kept[int(chance.integers(0, len(kept)))]
        yield name, damaged(chance, data)


def run(seed: int, runs: int | None, seconds: float | None, scratch: Path) -> Counter[str]:
    """How many files of each format were read or refused, and how many failed."""
    start, tally = time.monotonic(), Counter[str]()
    for count, (name, data) in enumerate(files(seed)):
        if count == runs or (seconds is not None and time.monotonic() - start >= seconds):
            break
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        path = scratch / f"last.{name}"
        try:
            tally[f"{name} {'read' if try_file(data, path) else 'refused'}"] += 1
        except Exception:
            kept = path.rename(scratch / f"failed-{count}.{name}")
            print(f"{kept}:\n{traceback.format_exc()}", file=sys.stderr)
            tally["failed"] += 1
        faulthandler.cancel_dump_traceback_later()
    return tally


def check_core(folder: str) -> None:
    """That the native module is the one of `folder`."""
    core: Any = sys.modules["pqrlearn._core"]
    if not Path(str(core.__file__)).is_relative_to(Path(folder).resolve()):
        raise SystemExit(f"the core is not in {folder}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--core", help="the folder where the sanitized core must come from")
    given = parser.parse_args()
    warnings.simplefilter("error")
    if given.core:
        check_core(given.core)
    runs = 2_000 if given.runs is None and given.seconds is None else given.runs
    tally = run(given.seed, runs, given.seconds, Path(tempfile.mkdtemp(prefix="tables-")))
    for what, count in sorted(tally.items()):
        print(f"{count:6} {what}")
    return 1 if tally["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
