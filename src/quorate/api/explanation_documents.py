"""The documents of the API group of explanations: its entries of the discovery, and its OpenAPI schema."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from quorate.api.explanation import (
    API_VERSION,
    ESTIMATES,
    EXPLAINED,
    EXPLANATIONS,
    GROUP,
    SUBRESOURCE,
    VERSION,
    Explanation,
    ExplanationSummaryList,
    StartAnswer,
    StartEstimateList,
    list_path,
    path_of,
)
from quorate.api.meta import Key
from quorate.api.open_api import api_group, components, group_documents, json_content

API_GROUP: Final = api_group(GROUP, (VERSION,))  # an entry of /apis


def discovery() -> dict[str, dict[str, Any]]:
    """Return the discovery documents of the group, by path.

    Of workloads and queues only subresources are listed, so that ``kubectl get workloads`` means Kueue's.
    """
    lists = (
        (ESTIMATES, "StartEstimate", ["create", "list"]),
        (EXPLANATIONS, "ExplanationSummary", ["list"]),
    )
    return group_documents(
        API_GROUP,
        [
            *((f"{plural}/{SUBRESOURCE}", "", "Explanation", is_namespaced, ["get"])
              for plural, is_namespaced, _ in EXPLAINED),
            *((plural, plural[:-1], kind, True, verbs) for plural, kind, verbs in lists),
        ],
    )  # fmt: skip


def open_api() -> dict[str, dict[str, Any]]:
    """Return the OpenAPI v3 documents of the group, by path: the index, and the schema."""
    document = f"/openapi/v3/apis/{API_VERSION}"
    index = {"paths": {f"apis/{API_VERSION}": {"serverRelativeURL": document}}}
    return {"/openapi/v3": index, document: _open_api_document()}


def _open_api_document() -> dict[str, Any]:
    (explanation, answered, *lists), schemas = components(
        [Explanation, StartAnswer, StartEstimateList, ExplanationSummaryList]
    )
    explanations = {
        path: _operation(f"readExplanationOf{plural}", explanation, _parameters(plural, namespaced))
        for path, plural, namespaced in _paths()
    }
    listed: dict[str, dict[str, Any]] = {}
    for plural, answer in zip((ESTIMATES, EXPLANATIONS), lists, strict=True):
        name = f"list{plural.capitalize()}"
        query = _query_parameters("kind", "limit", "continue") if plural == EXPLANATIONS else []
        of_namespace = [_path_parameter("namespace"), *query]
        listed[list_path(plural, "{namespace}")] = _operation(name, answer, of_namespace)
        listed[list_path(plural, "")] = _operation(f"{name}OfAllNamespaces", answer, query)
    question = _operation("createEstimates", answered, [_path_parameter("namespace")])["get"]
    workload = {"schema": {"type": "object"}}
    question["requestBody"] = {"required": True, "content": {"application/json": workload}}
    listed[list_path(ESTIMATES, "{namespace}")]["post"] = question
    return {
        "openapi": "3.0.0",
        "info": {"title": "Quorate", "version": VERSION},
        "paths": {**explanations, **listed},
        "components": {"schemas": {name: _as_open_api(schema) for name, schema in schemas.items()}},
    }


def _operation(name: str, answer: dict[str, Any], parameters: Iterable[dict[str, Any]]) -> dict[str, Any]:
    responses = {"200": {"description": "OK", "content": json_content(answer)}}
    return {"get": {"operationId": name, "parameters": list(parameters), "responses": responses}}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _paths() -> Iterator[tuple[str, str, bool]]:
    for plural, namespaced, _ in EXPLAINED:
        yield path_of(plural, Key("{namespace}" if namespaced else "", "{name}")), plural, namespaced


def _parameters(plural: str, namespaced: bool) -> Iterator[dict[str, Any]]:
    for name in ("namespace", "name") if namespaced else ("name",):
        yield _path_parameter(name)
    if plural == "jobs":
        yield from _query_parameters("group", "resource", "kind", "queue", "suspended")


def _query_parameters(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]


def _as_open_api(schema: Any) -> Any:
    """Return a JSON schema in the form of OpenAPI 3.0, which has ``nullable`` instead of the type null.

    Absent fields stand for null here, so the alternative is left out.
    """
    if isinstance(schema, list):
        return [_as_open_api(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    given = {name: _as_open_api(value) for name, value in schema.items() if value is not None}
    alternatives = [alternative for alternative in given.pop("anyOf", ()) if alternative != {"type": "null"}]
    if len(alternatives) == 1 and "$ref" in alternatives[0]:
        return {"allOf": alternatives}
    return given | (alternatives[0] if alternatives else {})
