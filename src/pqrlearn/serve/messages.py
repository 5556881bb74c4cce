"""What requests and answers look like. The OpenAPI document is made from these types."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from pqrlearn.serve.errors import Refused
from pqrlearn.serve.service import LONGEST_ID

Cell = str | int | float | bool | None
Value = Cell | list[Cell]
Features = Annotated[
    dict[str, Value],
    Meta(
        description="A text is the feature key=value, a number the feature key with that value, "
        "null is absent. A model with a schema reads the row as one of its table."
    ),
]
Id = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID, description="Chosen by the client.")]
Label = Annotated[float, Meta(description="1 or 0 of a click; a number of a rating or a count.")]
Weight = Annotated[float, Meta(ge=0, description="How much the row counts.")]


class Request(Struct, forbid_unknown_fields=True):
    """Base of requests: a field that nobody knows is an error."""


class Predict(Request):
    """A row to be predicted, that will wait for its label."""

    features: Features
    id: Id | None = None


class Learn(Request):
    """The label of a row; with features also the row itself, if it is new."""

    id: Id
    label: Label
    weight: Weight = 1.0
    features: Features | None = None


class Score(Request):
    """A row to be predicted and forgotten."""

    features: Features


class Predicted(Struct):
    """An answer to predict."""

    id: str
    prediction: float
    margin: float


class Learned(Struct):
    """An answer to learn: whether the label was new."""

    learned: bool


class Scored(Struct):
    """An answer to score."""

    prediction: float
    margin: float


class Failed(Struct):
    """Why a request was refused."""

    error: str
    status: int


R = TypeVar("R")


class Rows(Struct, Generic[R]):
    """Many of them. In answers a row that was refused has an error instead."""

    rows: list[R]


class Term(Struct):
    """A part of a margin."""

    block: str
    names: list[str]
    value: float
    weight: float
    contribution: float
    count: int | None


class Explained(Struct):
    """What a prediction comes from, the largest contributions first."""

    prediction: float
    margin: float
    terms: list[Term]


class BadRequest(Refused):
    """A body that is not JSON, or not Arrow."""

    status = 400


encode = msgspec.json.Encoder().encode


def decoder(kind: Any) -> Any:
    """Bytes -> a request of this type, with errors that say where."""
    decode = msgspec.json.Decoder(kind).decode

    def decoded(body: bytes) -> Any:
        try:
            return decode(body)
        except msgspec.ValidationError as error:
            raise Refused(str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadRequest(f"not JSON: {error}") from None

    return decoded
