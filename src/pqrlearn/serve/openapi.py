"""The OpenAPI document, made from the types of requests and answers."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Final

import msgspec

from pqrlearn.serve.arrow import MEDIA_TYPE
from pqrlearn.serve.messages import (
    Explained,
    Failed,
    Learn,
    Learned,
    Predict,
    Predicted,
    Rows,
    Score,
    Scored,
)
from pqrlearn.serve.settings import Settings

ARROW: Final = MEDIA_TYPE.decode()
HOT: Final[dict[str, tuple[str, Any, Any, tuple[int, ...]]]] = {
    "/v1/predict": ("Predict a row and keep it for its label.", Predict, Predicted, (409, 410)),
    "/v1/learn": ("Learn the label of a row.", Learn, Learned, (404, 409, 410)),
    "/v1/score": ("Predict a row and forget it.", Score, Scored, ()),
}
"""What is asked often, each with a :batch form: summary, request, answer, statuses of its own."""
USUAL: Final = (400, 401, 403, 413, 415, 421, 422, 503)
"""Statuses that every request with a body may get."""
_TYPES: Final = (Predict, Learn, Score, Predicted, Learned, Scored, Failed, Explained)
_TEXTS: Final = {
    400: "Not JSON, or not an Arrow stream.",
    401: "No token, or one for something else.",
    403: "A page of another site.",
    404: "Unknown.",
    409: "The id belongs to another row, or has another label.",
    410: "Too late: the row does not wait any more.",
    413: "Too large.",
    415: "An encoding that is not supported.",
    421: "A Host that is no name of this service.",
    422: "A row, label or id that is not accepted, and why.",
    503: "Not now: try again after Retry-After seconds.",
}


def document(settings: Settings) -> dict[str, Any]:
    many: Any = Rows
    batches = [many[one] for _, request, answer, _ in HOT.values() for one in (request, answer)]
    _, components = msgspec.json.schema_components(
        [*_TYPES, *batches], ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, Any] = {}
    for path, (summary, request, answer, own) in HOT.items():
        one = _operation(path, summary, _content(request.__name__), answer.__name__, own)
        all_of = f"{summary[:-1]}: many rows, each with an answer or an error of its own."
        body = _content(f"Rows_{request.__name__}_")
        body[ARROW] = {"schema": {"type": "string", "format": "binary"}}
        batch = _operation(f"{path}:batch", all_of, body, f"Rows_{answer.__name__}_", ())
        batch["responses"]["200"]["content"][ARROW] = body[ARROW]
        paths |= {path: {"post": one}, f"{path}:batch": {"post": batch}}
    explain = "Say what the prediction of a row comes from."
    content = _content("Score")
    paths["/v1/explain"] = {"post": _operation("/v1/explain", explain, content, "Explained", ())}
    return {
        "openapi": "3.1.0",
        "info": {"title": "pqr serve", "version": version("pqrlearn")},
        "security": [{}, {"token": []}],
        "paths": paths | _others(),
        "components": {
            "schemas": _with_errors(components),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "x-limits": {"rows": settings.max_rows, "bytes": settings.max_body},
    }


def _with_errors(components: dict[str, Any]) -> dict[str, Any]:
    """Rows of an answer are answers, or say why there is none."""
    for _, _, answer, _ in HOT.values():
        rows = components[f"Rows_{answer.__name__}_"]["properties"]["rows"]
        rows["items"] = {"anyOf": [_reference(answer.__name__), _reference("Failed")]}
    return components


def _operation(
    path: str, summary: str, content: dict[str, Any], answer: str, own: tuple[int, ...]
) -> dict[str, Any]:
    return {
        "summary": summary,
        "operationId": path.removeprefix("/v1/").replace(":", "_"),
        "requestBody": {"required": True, "content": content},
        "responses": _responses(_content(answer), (*USUAL, *own)),
    }


def _others() -> dict[str, Any]:
    thing = {"application/json": {"schema": {"type": "object"}}}
    text = {"text/plain": {"schema": {"type": "string"}}}
    model = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    id = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    top = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 20}
    query = [
        {"name": "top", "in": "query", "schema": top},
        {"name": "search", "in": "query", "schema": {"type": "string"}},
    ]
    swap = _get("Swap in another model: the bytes of its file.", "swap", thing, USUAL)
    swap["requestBody"] = {"required": True, "content": model}
    erase = _get("Erase the records of an id.", "erase", thing, (401, 404, 421, 503))
    weights = _get("The strongest weights, by block.", "weights", thing, (401, 421, 422))
    return {
        "/v1/model": {
            "get": _get("Settings, sizes and the position.", "model", thing, (401, 421)),
            "post": swap,
        },
        "/v1/weights": {"get": weights | {"parameters": query}},
        "/v1/status": {"get": _get("Everything the page shows.", "status", thing, (401, 421))},
        "/v1/snapshot": {"post": _get("Write a snapshot.", "snapshot", thing, (401, 421, 503))},
        "/v1/rows/{id}": {"delete": erase | {"parameters": [id]}},
        "/healthz": {"get": _get("Whether the process runs.", "healthz", text, (421,))},
        "/readyz": {"get": _get("Whether it takes requests.", "readyz", text, (421, 503))},
        "/metrics": {"get": _get("Figures for Prometheus.", "metrics", text, (401, 421))},
    }


def _get(summary: str, name: str, content: Any, statuses: tuple[int, ...]) -> dict[str, Any]:
    return {
        "summary": summary,
        "operationId": name,
        "responses": _responses(content, statuses),
    }


def _responses(content: dict[str, Any], statuses: tuple[int, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {"200": {"description": "Done.", "content": dict(content)}}
    for status in statuses:
        found[str(status)] = {"description": _TEXTS[status], "content": _content("Failed")}
    return found


def _content(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": _reference(name)}}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}
