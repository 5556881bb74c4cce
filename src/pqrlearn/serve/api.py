"""The endpoints that are asked often: bytes of a request -> bytes of an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pqrlearn.serve import arrow
from pqrlearn.serve.committer import Committer
from pqrlearn.serve.errors import Refused, Unavailable
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
_predicts, _learns, _scores = decoder(Rows[Predict]), decoder(Rows[Learn]), decoder(Rows[Score])


class Answer(NamedTuple):
    body: bytes
    kind: bytes = JSON


class Scores:
    """What every process answers, readers too: predictions that nobody remembers."""

    def __init__(self, replica: Callable[[], Replica], settings: Settings) -> None:
        self._replica, self.settings = replica, settings

    async def score(self, body: bytes, kind: bytes) -> Answer:
        return Answer(encode(self._scored(_score(body).features)))

    async def score_batch(self, body: bytes, kind: bytes) -> Answer:
        rows = self.rows(body, kind, Score, _scores)
        return self.answer([self.each(self._scored, row.features) for row in rows], kind, Scored)

    def _scored(self, features: Any) -> Scored:
        margin, prediction = score(self._replica().model, features, self.settings)
        return Scored(prediction, margin)

    def rows(self, body: bytes, kind: bytes, of: Any, decode: Callable[[bytes], Any]) -> list[Any]:
        """The rows of a batch, in JSON or as an Arrow stream."""
        most = self.settings.max_rows
        if arrow.is_arrow(kind):
            return arrow.requests(body, of, most, self.settings.max_body)
        rows: list[Any] = decode(body).rows
        if len(rows) > most:
            raise Refused(f"a batch of {len(rows):,} rows; at most {most:,}")
        return rows

    def each(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """The answer to one row of a batch, or why it was refused."""
        try:
            return call(*arguments)
        except Unavailable:
            raise
        except Refused as error:
            return Failed(str(error), error.status)

    def answer(self, found: list[Any], kind: bytes, of: Any) -> Answer:
        if arrow.is_arrow(kind):
            return Answer(arrow.answers(found, of), arrow.MEDIA_TYPE)
        return Answer(encode({"rows": found}))


class Api(Scores):
    """What only the process answers that owns the log."""

    def __init__(self, service: Service, committer: Committer) -> None:
        super().__init__(lambda: service.replica, service.settings)
        self._service, self._committer = service, committer

    async def predict(self, body: bytes, kind: bytes) -> Answer:
        found = self._predicted(_predict(body))
        await self._committer.durable()
        return Answer(encode(found))

    async def predict_batch(self, body: bytes, kind: bytes) -> Answer:
        rows = self.rows(body, kind, Predict, _predicts)
        self._service.check_room(len(rows))
        found = [self.each(self._predicted, row) for row in rows]
        await self._committer.durable()
        return self.answer(found, kind, Predicted)

    async def learn(self, body: bytes, kind: bytes) -> Answer:
        found = self._learned(_learn(body))
        await self._committer.durable()
        return Answer(encode(found))

    async def learn_batch(self, body: bytes, kind: bytes) -> Answer:
        rows = self.rows(body, kind, Learn, _learns)
        self._service.check_room(len(rows))
        found = [self.each(self._learned, row) for row in rows]
        await self._committer.durable()
        return self.answer(found, kind, Learned)

    def _predicted(self, row: Predict) -> Predicted:
        return Predicted(*self._service.predict(row.features, row.id))

    def _learned(self, row: Learn) -> Learned:
        return Learned(self._service.learn(row.id, row.label, row.weight, row.features))
