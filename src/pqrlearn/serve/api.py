"""The endpoints that are asked often: bytes of a request -> bytes of an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pqrlearn.serve import arrow, batches, columns
from pqrlearn.serve.committer import Committer
from pqrlearn.serve.errors import Refused
from pqrlearn.serve.messages import (
    Failed,
    Learn,
    Learned,
    Predict,
    Predicted,
    Rows,
    Score,
    Scored,
    decoder,
    encode,
)
from pqrlearn.serve.replica import Replica
from pqrlearn.serve.scoring import score
from pqrlearn.serve.service import Service
from pqrlearn.serve.settings import Settings

JSON = b"application/json"
_predict, _learn, _score = decoder(Predict), decoder(Learn), decoder(Score)
_decoders = {of: decoder(Rows[of]) for of in (Predict, Learn, Score)}  # type: ignore[valid-type]


class Answer(NamedTuple):
    body: bytes
    kind: bytes = JSON


class Asked(NamedTuple):
    """A batch: what its rows say beside features, as far as there is any, and the rows."""

    ids: Sequence[Any] | None
    labels: Sequence[float]
    weights: Sequence[float]
    rows: batches.Rows


class Scores:
    """What every process answers, readers too: predictions that nobody remembers."""

    def __init__(self, replica: Callable[[], Replica], settings: Settings) -> None:
        self._replica, self.settings = replica, settings

    async def score(self, body: bytes, kind: bytes) -> Answer:
        margin, prediction = score(self._replica().model, _score(body).features, self.settings)
        return Answer(encode(Scored(prediction, margin)))

    async def score_batch(self, body: bytes, kind: bytes) -> Answer:
        rows = self.asked(body, kind, Score).rows
        return self.answer(kind, Scored, rows.refused, *self._predictions(rows))

    def _predictions(self, rows: batches.Rows) -> tuple[list[float], list[float]]:
        """Predictions and margins."""
        predictions = self._replica().model._linked(np.array(rows.margins, np.float64))
        return predictions.tolist(), rows.margins

    def asked(self, body: bytes, kind: bytes, of: Any) -> Asked:
        """The rows of a batch, in JSON or as an Arrow stream."""
        settings, kept = self.settings, of is not Score
        if arrow.is_arrow(kind):
            table = arrow.table_in(body, settings.max_rows, settings.max_body)
            if (found := self._columns(table, of)) is not None:
                return found
            requests = arrow.requests(table, of)
        else:
            requests = _decoders[of](body).rows
            if len(requests) > settings.max_rows:
                most = settings.max_rows
                raise Refused(f"a batch of {len(requests):,} rows; at most {most:,}")
        features = [row.features for row in requests]
        rows = batches.scored(self._replica().model, features, settings, kept=kept)
        ids = [row.id for row in requests] if kept else None
        if of is not Learn:
            return Asked(ids, [], [], rows)
        weights = [row.weight for row in requests]
        return Asked(ids, [row.label for row in requests], weights, rows)

    def _columns(self, table: Any, of: Any) -> Asked | None:
        """A batch that needs no look at each of its cells."""
        if (own := arrow.own(table, of)) is None:
            return None
        rows: batches.Rows | None = batches.without_features(table.num_rows)
        if own.features is not None:
            model, kept = self._replica().model, of is not Score
            rows = columns.scored(model, own.features, self.settings, kept=kept)
        return None if rows is None else Asked(own.ids, own.labels, own.weights, rows)

    def answer(
        self, kind: bytes, of: Any, refused: batches.Refusals, *fields: Sequence[Any]
    ) -> Answer:
        """The fields of answers of this type; a row that was refused has an error instead."""
        if arrow.is_arrow(kind):
            named = dict(zip(of.__struct_fields__, fields, strict=True))
            return Answer(arrow.answers(named, refused), arrow.MEDIA_TYPE)
        found: list[Any] = list(map(of, *fields))
        for row, error in refused.items():
            found[row] = Failed(str(error), error.status)
        return Answer(encode({"rows": found}))


class Api(Scores):
    """What only the process answers that owns the log."""

    def __init__(self, service: Service, committer: Committer) -> None:
        super().__init__(lambda: service.replica, service.settings)
        self._service, self._committer = service, committer

    async def predict(self, body: bytes, kind: bytes) -> Answer:
        row = _predict(body)
        found = Predicted(*self._service.predict(row.features, row.id))
        await self._committer.durable()
        return Answer(encode(found))

    async def predict_batch(self, body: bytes, kind: bytes) -> Answer:
        ids, _, _, rows = self.asked(body, kind, Predict)
        self._service.check_room(len(rows.margins))
        names = batches.predict(self._service, ids, rows)
        predictions = self._predictions(rows)
        await self._committer.durable()
        return self.answer(kind, Predicted, rows.refused, names, *predictions)

    async def learn(self, body: bytes, kind: bytes) -> Answer:
        row = _learn(body)
        found = Learned(self._service.learn(row.id, row.label, row.weight, row.features))
        await self._committer.durable()
        return Answer(encode(found))

    async def learn_batch(self, body: bytes, kind: bytes) -> Answer:
        ids, labels, weights, rows = self.asked(body, kind, Learn)
        self._service.check_room(len(rows.margins))
        learned = batches.learn(self._service, ids or [], labels, weights, rows)
        await self._committer.durable()
        return self.answer(kind, Learned, rows.refused, learned)
