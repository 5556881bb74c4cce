"""Many rows or labels at once: what `Service` does for one, with little to do for each.

Margins of a whole batch are computed first, and its records are put in line together. Every row has
an answer of its own, or a reason why it was refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from pqrlearn.learners import Learner
from pqrlearn.logfile import HEADER, Kind, pack_labelled, pack_outcome, pack_row
from pqrlearn.serve.errors import Refused, Unavailable, UnknownId
from pqrlearn.serve.ids import LONGEST_KEY
from pqrlearn.serve.scoring import margin_of
from pqrlearn.serve.service import Service, new_ids, text_of
from pqrlearn.serve.settings import Settings

_POSITION = attrgetter("position")
Refusals = dict[int, Refused]
"""Why rows were refused, by their numbers."""


class Rows(NamedTuple):
    """Rows with their margins, and as the log keeps them: None if one has no features, or is too
    long. A row that is refused may still be one that was there before."""

    margins: list[float]
    texts: Sequence[bytes | None]
    refused: Refusals


def scored(
    model: Learner, rows: Sequence[dict[str, Any] | None], settings: Settings, *, kept: bool = True
) -> Rows:
    """Rows one by one; `kept` ones are to be logged."""
    found = Rows([], texts := [], {})
    for at, features in enumerate(rows):
        margin, text = 0.0, None
        if features is not None:
            try:
                text = text_of(features) if kept else None
                margin = margin_of(model, features, settings)
            except Refused as error:
                found.refused[at] = error
        found.margins.append(margin)
        texts.append(text)
    return found


def without_features(count: int) -> Rows:
    """Rows that were there before."""
    return Rows([0.0] * count, [None] * count, {})


def predict(service: Service, ids: Sequence[str | None] | None, rows: Rows) -> list[str]:
    """The ids of rows, which now wait for labels. A row that was there before has its old margin,
    which replaces the one in `rows`; what is refused is added to `rows.refused`."""
    names: list[str] = new_ids(len(rows.margins))
    if ids is not None:
        names = [new if id is None else id for id, new in zip(ids, names, strict=True)]
    keys: dict[bytes, int] = {}
    """Of new rows."""
    again: list[int] = []
    known = service.ids.knows
    for at, (name, text) in enumerate(zip(names, rows.texts, strict=True)):
        if text is None:
            continue
        try:
            key = _key(service, name)
        except Refused as error:
            rows.refused[at] = error
            continue
        if key in keys or known(key):
            again.append(at)
        elif at not in rows.refused:
            keys[key] = at
    payloads = map(_payload(names, rows), keys.values())
    records = service.put(Kind.PREDICT, payloads)
    service.ids.waiting.update(zip(keys, map(_POSITION, records), strict=True))
    for at in again:
        _repeat(service, names[at], at, rows)
    return names


def _payload(names: Sequence[str], rows: Rows) -> Callable[[int], bytes]:
    margins, texts = rows.margins, rows.texts
    return lambda at: pack_row(names[at].encode(), margins[at], texts[at] or b"")


def _repeat(service: Service, id: str, at: int, rows: Rows) -> None:
    """A row that was there before."""
    try:
        before = service.before(_key(service, id))
        rows.margins[at] = service.same_row(id, rows.texts[at] or b"", before or 0)
        rows.refused.pop(at, None)
    except Refused as error:
        rows.refused[at] = error


class _Line:
    """Records that are put in line together, as far as they are of one kind."""

    def __init__(self, service: Service) -> None:
        service.log.check()
        self._service = service
        self._kind, self._payloads = Kind.LABEL, list[bytes]()
        self._at = service.log.appended

    def add(self, kind: Kind, payload: bytes) -> int:
        """The position that the record will have."""
        if kind is not self._kind:
            self.flush()
            self._kind = kind
        self._payloads.append(payload)
        position = self._at
        self._at += HEADER.size + len(payload)
        return position

    def flush(self) -> None:
        if self._payloads:
            self._service.put(self._kind, self._payloads)
            self._payloads = []
        self._at = self._service.log.appended


def learn(
    service: Service,
    ids: Sequence[str],
    labels: Sequence[float],
    weights: Sequence[float],
    rows: Rows,
) -> list[bool]:
    """Which labels are learned; what is refused is added to `rows.refused`."""
    line, learned = _Line(service), list[bool]()
    bad = service.bad_labels(labels, weights)
    for at, (id, label, weight) in enumerate(zip(ids, labels, weights, strict=True)):
        new = False
        try:
            if at in bad:
                service.check_label(label, weight)
            new = _learn(service, line, id, label, weight, at, rows)
            rows.refused.pop(at, None)  # it was there before: its old margin counts
        except Unavailable:
            raise
        except Refused as error:
            rows.refused[at] = error
        learned.append(new)
    line.flush()
    return learned


def _learn(
    service: Service, line: _Line, id: str, label: float, weight: float, at: int, rows: Rows
) -> bool:
    key, text, known = _key(service, id), rows.texts[at], service.ids
    if (row := known.waiting.get(key)) is not None and at not in rows.refused:
        if text is not None:
            service.same_row(id, text, row)
        line.add(Kind.LABEL, pack_outcome(id.encode(), row, label, weight))
        known.finish(key, Kind.LABEL, row, label)
        return True
    if text is None and at in rows.refused:
        raise rows.refused[at]
    if row is not None or known.knows(key):
        line.flush()
        learned = service.learn_known(id, key, label, weight, text)
        line.flush()
        return bool(learned)
    if text is None:
        raise UnknownId(f"no row is known by the id {id!r}")
    if at in rows.refused:
        raise rows.refused[at]
    both = pack_labelled(id.encode(), rows.margins[at], label, weight, text)
    known.finish(key, Kind.BOTH, line.add(Kind.BOTH, both), label)
    return True


def _key(service: Service, id: str) -> bytes:
    if 0 < len(id) <= LONGEST_KEY and id.isascii() and id.isprintable():
        return id.encode()
    return service.key(id)
