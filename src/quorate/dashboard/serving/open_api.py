"""The OpenAPI document of the API; ``python -m quorate.dashboard.serving.open_api`` prints it."""

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from quorate.api.open_api import components, json_content
from quorate.dashboard.schema import LoginMethods, Problem
from quorate.dashboard.serving.operations import CSRF_HEADER, OPERATIONS, PREFIX, Operation


@cache
def open_api_document() -> dict[str, Any]:
    """Return the document in the form of OpenAPI 3.1, with JSON schemas."""
    types = [Problem, LoginMethods]
    types += [type_ for one in OPERATIONS for type_ in (one.answer, one.body) if type_ is not None]
    references, schemas = components(types)
    by_type = dict(zip(map(repr, types), references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        described = _described(operation, by_type)
        paths.setdefault(f"{PREFIX}{operation.path}", {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Quorate dashboard", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _described(operation: Operation, by_type: dict[str, Any]) -> dict[str, Any]:
    problem = {"description": "Refused.", "content": json_content(by_type[repr(Problem)])}
    responses: dict[str, Any] = {"default": problem}
    if operation.answer is None:
        responses["204"] = {"description": "Done."}
    else:
        content = {operation.content_type: {"schema": by_type[repr(operation.answer)]}}
        responses["200"] = {"description": "OK", "content": content}
    if operation.needs_session:
        content = json_content(by_type[repr(LoginMethods)])
        responses["401"] = {"description": "Without a session: how to log in.", "content": content}
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": list(_parameters(operation)),
        "responses": responses,
    }
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": json_content(by_type[repr(operation.body)])}
    return described


def _parameters(operation: Operation) -> Iterator[dict[str, Any]]:
    for name in operation.path_parameters:
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    for parameter in operation.parameters:
        (schema,), _ = components([parameter.type])
        yield {"name": parameter.name, "in": "query", "schema": schema}
    if operation.changes and operation.needs_session:
        yield {"name": CSRF_HEADER, "in": "header", "required": True, "schema": {"type": "string"}}


if __name__ == "__main__":
    encoded = msgspec.json.format(msgspec.json.encode(open_api_document()), indent=2)
    sys.stdout.buffer.write(encoded + b"\n")
