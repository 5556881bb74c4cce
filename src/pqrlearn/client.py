"""A client of `pqr serve`: retries what may be retried, and sends many rows at a time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Self
from uuid import uuid4

from pqrlearn.errors import MissingExtra, PqrError

try:
    import httpx
except ModuleNotFoundError:
    raise MissingExtra("clients of a service", "serve") from None

Features = Mapping[str, Any]
_AGAIN = frozenset({429, 502, 503, 504})


class ServiceError(PqrError):
    """The service has refused a request: `status` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(f"{status}: {message}")


class Prediction(NamedTuple):
    """The answer to `predict`."""

    id: str
    prediction: float
    margin: float


class Client:
    """Asks a service that `pqr serve` runs.

    A request that fails on its way, or for which the service has no room, is sent again up to
    `retries` times, after a pause that doubles. That is safe: rows and labels have ids, which are
    made here if they are not given, and the service takes each of them once.

    >>> from pqrlearn.serve.example import running
    >>> with running() as url, Client(url) as client:
    ...     found = client.predict({"site": "news"})
    ...     print(found.prediction, client.learn(found.id, 1), client.learn(found.id, 1))
    0.5 True False
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        token: str | None = None,
        timeout: float = 30.0,
        retries: int = 5,
        pause: float = 0.1,
        batch_rows: int = 1000,
    ) -> None:
        self.url = url
        self._retries, self._pause, self._batch_rows = retries, pause, batch_rows
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._client = httpx.Client(base_url=url, timeout=timeout, headers=headers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections.

        >>> Client().close()
        """
        self._client.close()

    def predict(self, features: Features, id: str | None = None) -> Prediction:
        """A prediction; the row waits for its label, by id.

        >>> from pqrlearn.serve.example import running
        >>> with running() as url, Client(url) as client:
        ...     client.predict({"site": "news"}, id="a")
        Prediction(id='a', prediction=0.5, margin=0.0)
        """
        row = {"id": uuid4().hex if id is None else id, "features": features}
        return Prediction(**self._ask("POST", "/v1/predict", row))

    def learn(
        self, id: str, label: float, weight: float = 1.0, features: Features | None = None
    ) -> bool:
        """Brings the label of a row; whether it is new. With features, also the row itself.

        >>> from pqrlearn.serve.example import running
        >>> with running() as url, Client(url) as client:
        ...     client.learn("a", 1, features={"site": "news"}), client.learn("a", 1)
        (True, False)
        """
        row = _label(id, label, weight) | ({} if features is None else {"features": features})
        return bool(self._ask("POST", "/v1/learn", row)["learned"])

    def score(self, features: Features) -> float:
        """A prediction that the service forgets.

        >>> from pqrlearn.serve.example import running
        >>> with running() as url, Client(url) as client:
        ...     client.score({"site": "news"})
        0.5
        """
        return float(self._ask("POST", "/v1/score", {"features": features})["prediction"])

    def predict_many(
        self, rows: Iterable[Features], ids: Sequence[str] | None = None
    ) -> list[Prediction]:
        """`predict` for each row, many at a time; ServiceError at the first that is refused.

        >>> from pqrlearn.serve.example import running
        >>> with running() as url, Client(url) as client:
        ...     [one.id for one in client.predict_many([{"site": "news"}, {}], ids="ab")]
        ['a', 'b']
        """
        given = list(rows)
        called = [uuid4().hex for _ in given] if ids is None else ids
        asked = ({"id": id, "features": row} for id, row in zip(called, given, strict=True))
        return [Prediction(**one) for one in self._many("/v1/predict:batch", asked)]

    def learn_many(
        self, ids: Iterable[str], labels: Iterable[float], weights: Iterable[float] | None = None
    ) -> list[bool]:
        """`learn` for each label, many at a time; ServiceError at the first that is refused.

        >>> from pqrlearn.serve.example import running
        >>> with running() as url, Client(url) as client:
        ...     rows = client.predict_many([{"site": "news"}, {"site": "shop"}])
        ...     client.learn_many([row.id for row in rows], [1, 0])
        [True, True]
        """
        called = list(ids)
        amounts = [1.0] * len(called) if weights is None else weights
        asked = (_label(*row) for row in zip(called, labels, amounts, strict=True))
        return [bool(one["learned"]) for one in self._many("/v1/learn:batch", asked)]

    def score_many(self, rows: Iterable[Features]) -> list[float]:
        """`score` for each row, many at a time; ServiceError at the first that is refused.

        >>> from pqrlearn.serve.example import running
        >>> with running() as url, Client(url) as client:
        ...     client.score_many([{"site": "news"}, {"site": "shop"}])
        [0.5, 0.5]
        """
        asked = ({"features": row} for row in rows)
        return [float(one["prediction"]) for one in self._many("/v1/score:batch", asked)]

    def explain(self, features: Features) -> dict[str, Any]:
        """What the prediction of a row comes from.

        >>> from pqrlearn.serve.example import running
        >>> with running() as url, Client(url) as client:
        ...     [term["block"] for term in client.explain({"site": "news"})["terms"]]
        ['bias', 'linear', 'mixing']
        """
        return self._ask("POST", "/v1/explain", {"features": features})

    def model(self) -> dict[str, Any]:
        """Settings and sizes of the model, and how far it has learned.

        >>> from pqrlearn.serve.example import running
        >>> with running() as url, Client(url) as client:
        ...     client.model()["kind"]
        'auto'
        """
        return self._ask("GET", "/v1/model")

    def status(self) -> dict[str, Any]:
        """How the service is doing.

        >>> from pqrlearn.serve.example import running
        >>> with running() as url, Client(url) as client:
        ...     client.status()["ids"]["waiting"]
        0
        """
        return self._ask("GET", "/v1/status")

    def _many(self, path: str, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        number = 0
        while block := list(islice(rows, self._batch_rows)):
            for found in self._ask("POST", path, {"rows": block})["rows"]:
                if "error" in found:
                    raise ServiceError(found["status"], f"row {number}: {found['error']}")
                yield found
                number += 1

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        for attempt in range(self._retries + 1):
            try:
                found = self._client.request(method, path, json=body)
            except httpx.TransportError as error:
                failure: PqrError = PqrError(f"{self.url}: cannot be reached: {error}")
            else:
                if found.is_success:
                    answer: dict[str, Any] = found.json()
                    return answer
                failure = ServiceError(found.status_code, _message(found))
                if found.status_code not in _AGAIN:
                    raise failure
            if attempt < self._retries:
                time.sleep(self._pause * 2**attempt)
        raise failure


def _label(id: str, label: float, weight: float) -> dict[str, Any]:
    return {"id": id, "label": label, "weight": weight}


def _message(found: httpx.Response) -> str:
    try:
        return str(found.json()["error"])
    except (ValueError, KeyError, TypeError):
        return found.reason_phrase
