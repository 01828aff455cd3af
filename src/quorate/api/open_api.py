"""Schemas of typed objects for OpenAPI documents."""

from collections.abc import Iterable
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
