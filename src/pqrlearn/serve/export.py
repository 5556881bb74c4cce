"""A log for other programs: its records as JSON, its learned rows as JSON lines or Parquet.

A learned row has its features as columns, and beside them `_id`, `_time`, `_label`, `_weight`,
`_margin` (what was served) and `_timeout`.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pqrlearn.errors import HyperError
from pqrlearn.files import atomic_path
from pqrlearn.logfile import Kind, Log, Record, labelled_in, outcome_in, row_in
from pqrlearn.readers.log import Learned, learned_rows

BLOCK_ROWS: Final = 1 << 14
_OWN: Final = ("_id", "_time", "_label", "_weight", "_margin", "_timeout")


def as_object(record: Record) -> dict[str, Any]:
    """What a record says, as plain values."""
    found: dict[str, Any] = {
        "position": record.position,
        "sequence": record.sequence,
        "time": _moment(record.time),
        "kind": Kind(record.kind).name.lower(),
    }
    if record.kind == Kind.PREDICT:
        row = row_in(record.payload)
        found |= {"id": row.id, "margin": row.margin, "features": json.loads(row.features)}
    elif record.kind == Kind.BOTH:
        both = labelled_in(record.payload)._asdict()
        found |= both | {"features": json.loads(both["features"])}
    elif record.kind in (Kind.LABEL, Kind.TIMEOUT, Kind.EXPIRED):
        outcome = outcome_in(record.payload)._asdict()
        found |= {key: value for key, value in outcome.items() if not _is_nan(value)}
    elif record.kind == Kind.SWAP:
        found["model"] = record.payload.decode()
    return found


def checked(folder: Path) -> dict[str, Any]:
    """Reads all of a log; figures of what is in it. Damage raises Corrupt with its place."""
    log, kinds = Log(folder), Counter[str]()
    last, first = None, None
    for record in log.records():
        first = first or record
        kinds[Kind(record.kind).name.lower()] += 1
        last = record
    end = log.segments[-1].end if log.segments else 0
    return {
        "records": sum(kinds.values()),
        "kinds": dict(kinds),
        "segments": len(log.segments),
        "first_position": log.first,
        "end_position": end if last is None else last.end,
        "torn_bytes": 0 if last is None else end - last.end,
        "first_time": None if first is None else _moment(first.time),
        "last_time": None if last is None else _moment(last.time),
        "ended_cleanly": last is not None and last.kind == Kind.END,
    }


def write_rows(folder: Path, target: Path) -> int:
    """Writes the rows that were learned, by the end of the name; how many there were."""
    writers = {".jsonl": _write_lines, ".ndjson": _write_lines, ".parquet": _write_parquet}
    if target.suffix not in writers:
        raise HyperError(f"{target}: must end in .jsonl or .parquet")
    with atomic_path(target) as temporary:
        return writers[target.suffix](Log(folder), temporary)


def _flat(row: Learned) -> dict[str, Any]:
    values = row.id, _moment(row.row_time), row.label, row.weight, row.margin, row.timeout
    features: dict[str, Any] = json.loads(row.features)
    return features | dict(zip(_OWN, values, strict=True))


def _write_lines(log: Log, path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for row in learned_rows(log):
            file.write(json.dumps(_flat(row), ensure_ascii=False) + "\n")
            count += 1
    return count


def _write_parquet(log: Log, path: Path) -> int:
    """Twice through the log: a column must have one type, which all of its rows decide."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, count = _schema(log), 0
    with pq.ParquetWriter(path, schema) as writer:
        rows = map(_flat, learned_rows(log))
        while block := list(islice(rows, BLOCK_ROWS)):
            columns = [
                pa.array([_cell(row.get(field.name), field.type) for row in block], field.type)
                for field in schema
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            count += len(block)
    return count


def _schema(log: Log) -> Any:
    import pyarrow as pa

    kinds: dict[str, set[type]] = {}
    for row in learned_rows(log):
        for name, value in json.loads(row.features).items():
            kinds.setdefault(name, set()).add(type(value))
    own = [pa.string(), pa.string(), *[pa.float64()] * 3, pa.bool_()]
    fields = list(zip(_OWN, own, strict=True))
    fields += [(name, _type(found)) for name, found in kinds.items() if name not in _OWN]
    return pa.schema(fields)


def _type(found: set[type]) -> Any:
    import pyarrow as pa

    found = found - {type(None)}
    if found == {bool}:
        return pa.bool_()
    if found and found <= {int, float}:
        return pa.float64()
    return pa.list_(pa.string()) if list in found else pa.string()


def _cell(value: Any, kind: Any) -> Any:
    """A value as its column has it."""
    import pyarrow as pa

    if value is None or pa.types.is_boolean(kind):
        return value
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_list(kind):
        values = value if isinstance(value, list) else [value]
        return [None if one is None else _text(one) for one in values]
    return _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _moment(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat(timespec="microseconds")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def records(folder: Path) -> Iterator[dict[str, Any]]:
    """All records of a log, as plain values."""
    return map(as_object, Log(folder).records())
