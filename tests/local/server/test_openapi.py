"""OpenAPI documents over HTTP."""

from typing import Any

import pytest

from tests.local.api_client import ApiClient, run_with_server
from tests.local.server.test_custom_resources import define

pytestmark = pytest.mark.slow

Json = dict[str, Any]


def test_the_schema_of_a_custom_resource_includes_metadata() -> None:
    async def scenario(client: ApiClient) -> None:
        await define(client)
        _, document = await client.send("GET", "/openapi/v3/apis/example.com/v1beta1")
        schema = document["components"]["schemas"]["com.example.v1beta1.Widget"]
        assert schema["x-kubernetes-group-version-kind"] == [
            {"group": "example.com", "version": "v1beta1", "kind": "Widget"}
        ]
        assert list(schema["properties"]) == ["spec", "apiVersion", "kind", "metadata"]
        assert schema["properties"]["spec"]["properties"]["size"] == {"type": "integer", "maximum": 9}

    run_with_server(scenario)


@pytest.mark.parametrize("path", ["api/v1", "apis/batch/v1", "apis/rbac.authorization.k8s.io/v1"])
def test_every_schema_reference_resolves(path: str) -> None:
    async def scenario(client: ApiClient) -> None:
        _, document = await client.send("GET", f"/openapi/v3/{path}")
        known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert references(document) <= known
        assert references(document)

    run_with_server(scenario)


def references(part: Any) -> set[str]:
    match part:
        case {"$ref": str(name)}:
            return {name}
        case dict():
            return set().union(*map(references, part.values()))
        case list():
            return set().union(*map(references, part))
    return set()
