"""Many rows or labels at once: what `Service` does for one, with little to do for each.

Margins of a whole batch are computed first, and its records are put in line together. Every row has
an answer of its own, or a reason why it was refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pqrlearn.learners import Learner
from pqrlearn.logfile import HEADER, Kind, pack_labelled, pack_outcome, pack_row
from pqrlearn.serve.errors import Refused, Unavailable, UnknownId
from pqrlearn.serve.ids import LONGEST_KEY
from pqrlearn.serve.scoring import margin_of
from pqrlearn.serve.service import Service, new_ids, text_of
from pqrlearn.serve.settings import Settings

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
    again: list[int] = []
    if ids is None:  # no such id can have been there
        new = [at for at, text in enumerate(rows.texts) if text and at not in rows.refused]
        keys = [names[at].encode() for at in new]
    else:
        names = [made if id is None else id for id, made in zip(ids, names, strict=True)]
        found, again = _new_rows(service, names, rows)
        keys, new = list(found), list(found.values())
    margins, texts = rows.margins, rows.texts
    payloads = [pack_row(names[at].encode(), margins[at], texts[at] or b"") for at in new]
    records = service.put(Kind.PREDICT, payloads)
    places = [record.position for record in records]
    service.ids.waiting.update(zip(keys, places, strict=True))
    for at in again:
        _repeat(service, names[at], at, rows)
    return names


def _new_rows(
    service: Service, names: Sequence[str], rows: Rows
) -> tuple[dict[bytes, int], list[int]]:
    """The keys and numbers of rows that are new; the numbers of those that are not."""
    new: dict[bytes, int] = {}
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
        if key in new or known(key):
            again.append(at)
        elif at not in rows.refused:
            new[key] = at
    return new, again


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
    bad = service.bad_labels(labels, weights)
    if not bad and not rows.refused and _learn_together(service, ids, labels, weights, rows):
        return [True] * len(ids)
    line, learned = _Line(service), list[bool]()
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


def _learn_together(
    service: Service,
    ids: Sequence[str],
    labels: Sequence[float],
    weights: Sequence[float],
    rows: Rows,
) -> bool:
    """Learns a batch of good labels, if all of their rows wait, or all are new and come with them;
    and if no id occurs twice."""
    known, texts = service.ids, [text for text in rows.texts if text is not None]
    keys = [id.encode(errors="replace") for id in ids]
    short = max(map(len, keys), default=0) <= LONGEST_KEY and all(map(str.isprintable, ids))
    if not short or not all(keys) or len({*keys}) < len(keys):
        return False
    if not texts and known.waiting.keys() >= {*keys}:
        kind, places = Kind.LABEL, [known.waiting[key] for key in keys]
        service.put(kind, map(pack_outcome, keys, places, labels, weights))
    elif len(texts) == len(keys) and not any(map(known.knows, keys)):
        kind, payloads = Kind.BOTH, map(pack_labelled, keys, rows.margins, labels, weights, texts)
        places = [record.position for record in service.put(kind, payloads)]
    else:
        return False
    for key, place, label in zip(keys, places, labels, strict=True):
        known.finish(key, kind, place, label)
    return True


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
