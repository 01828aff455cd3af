"""Schemas of typed objects for OpenAPI documents, and the discovery documents of API groups."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

_TEMPLATE: Final = "#/components/schemas/{name}"


def components(types: Iterable[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the schema of each type, mostly a reference, and the named schemas that they refer to."""
    schemas, named = msgspec.json.schema_components(types, ref_template=_TEMPLATE)
    return list(schemas), named


def json_content(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a body in JSON."""
    return {"application/json": {"schema": schema}}


def api_group(name: str, versions: Sequence[str]) -> dict[str, Any]:
    """Return an API group as an entry of ``/apis``; the first of ``versions`` is preferred."""
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def group_documents(
    group: dict[str, Any], resources: Iterable[tuple[str, str, str, bool, list[str]]]
) -> dict[str, dict[str, Any]]:
    """Return the discovery documents of an API group, all versions of which have the same ``resources``.

    ``resources``: plural with subresource, singular, kind, whether the resource is namespaced, and its verbs.
    """
    listed = [
        {"name": name, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": verbs}
        for name, singular, kind, namespaced, verbs in resources
    ]
    documents = {f"/apis/{group['name']}": {"kind": "APIGroup", "apiVersion": "v1", **group}}
    for version in group["versions"]:
        name = version["groupVersion"]
        documents[f"/apis/{name}"] = {
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": listed,
        }  # fmt: skip
    return documents
