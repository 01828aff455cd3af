"""OpenAPI documents over HTTP."""

import asyncio
import re
import threading
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from quorate.local.objects.protobuf.table import read_varint
from quorate.local.server.discovery.openapi_v2 import PROTOBUF
from tests.local.api_client import ApiClient, connect, run_with_server
from tests.local.clusters import api_server
from tests.local.server.test_custom_resources import define

pytestmark = pytest.mark.slow

Json = dict[str, Any]
PATCHES = ("json-patch+json", "merge-patch+json")


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and value of the fields of bytes of a message in protobuf."""
    at = 0
    while at < len(message):
        tag, at = read_varint(message, at)
        size, at = read_varint(message, at)
        if tag & 7 == 2:
            yield tag >> 3, message[at : at + size]
            at += size


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


@pytest.mark.parametrize("document", ["v3/api/v1", "v3/apis/batch/v1", "v3/apis/example.com/v1", "v2"])
def test_the_parameters_of_each_path_are_declared(document: str) -> None:
    async def scenario(client: ApiClient) -> None:
        await define(client)
        _, content = await client.send("GET", f"/openapi/{document}")
        assert content["paths"]
        for path, item in content["paths"].items():
            parameters = item.get("parameters", ())
            declared = {each["name"] for each in parameters if each["in"] == "path" and each["required"]}
            assert declared == set(re.findall(r"{(\w+)}", path))
            types = {each.get("type") or each["schema"]["type"] for each in parameters}
            assert types <= {"string"}

    run_with_server(scenario)


@pytest.mark.parametrize(
    "path",
    ["apis/rbac.authorization.k8s.io/v1", "apis/apiextensions.k8s.io/v1", "apis/metrics.k8s.io/v1beta1"],
)
def test_a_document_that_go_reads_and_writes_again_stays_equal(path: str) -> None:
    """Empty lists and objects would be left out."""

    async def scenario(client: ApiClient) -> None:
        _, document = await client.send("GET", f"/openapi/v3/{path}")
        schemas = document["components"].get("schemas", {}).values()
        parts = [document["components"], *document["paths"].values(), *schemas]
        assert not [part for part in parts if [] in part.values() or {} in part.values()]

    run_with_server(scenario)


def test_the_documents_name_the_media_types_of_patches() -> None:
    async def scenario(client: ApiClient) -> None:
        await define(client)
        _, version_2 = await client.send("GET", "/openapi/v2")
        for group, plural, want in (
            ("apis/batch/v1", "jobs", ["apply-patch+yaml", *PATCHES, "strategic-merge-patch+json"]),
            ("apis/example.com/v1", "widgets", ["apply-patch+yaml", *PATCHES]),
        ):
            path = f"/{group}/namespaces/{{namespace}}/{plural}/{{name}}"
            types = [f"application/{name}" for name in want]
            _, version_3 = await client.send("GET", f"/openapi/v3/{group}")
            item = version_3["paths"][path]
            assert list(item["patch"]["requestBody"]["content"]) == types
            assert list(item["put"]["requestBody"]["content"]) == ["*/*"]
            assert "requestBody" not in item["get"]
            assert version_2["paths"][path]["patch"]["consumes"] == types

    run_with_server(scenario)


def test_version_2_describes_all_kinds() -> None:
    async def scenario(client: ApiClient) -> None:
        await define(client)
        _, content = await client.send("GET", "/openapi/v2")
        definitions = content["definitions"]
        assert references(content) <= {f"#/definitions/{name}" for name in definitions}
        kinds = {
            (each["group"], each["version"], each["kind"])
            for definition in definitions.values()
            for each in definition.get("x-kubernetes-group-version-kind", ())
        }
        assert {("", "v1", "Pod"), ("batch", "v1", "Job"), ("example.com", "v1", "Widget")} <= kinds
        assert definitions["JobSpec"]["properties"]["parallelism"] == {"type": "integer", "format": "int32"}
        strategy = definitions["DeploymentSpec"]["properties"]["strategy"]
        assert strategy["x-kubernetes-patch-strategy"] == "retainKeys"
        assert "labels" in definitions["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]
        widget = keys(definitions["com.example.v1.Widget"])
        assert not {"oneOf", "anyOf", "allOf", "not", "nullable"} & widget

    run_with_server(scenario)


def test_the_protobuf_form_of_version_2_has_the_same_definitions() -> None:
    async def scenario() -> None:
        async with api_server() as server, connect(server) as client:
            _, content = await client.send("GET", "/openapi/v2")
            headers = {"Authorization": f"Bearer {server.token}", "Accept": PROTOBUF}
            async with (
                aiohttp.ClientSession(headers=headers) as session,
                session.get(f"{server.url}/openapi/v2") as response,
            ):
                message = dict(fields(await response.read()))
        names = [dict(fields(each))[1].decode() for _, each in fields(message[9])]
        assert (message[1].decode(), names) == ("2.0", list(content["definitions"]))
        definitions = [dict(fields(each))[2] for _, each in fields(message[9])]
        job = dict(zip(names, definitions, strict=True))["Job"]
        properties = [dict(fields(each))[1].decode() for _, each in fields(dict(fields(job))[25])]
        assert properties == list(content["definitions"]["Job"]["properties"])

    asyncio.run(scenario())


def keys(part: Any) -> set[str]:
    match part:
        case dict():
            return set(part).union(*map(keys, part.values()))
        case list():
            return set().union(*map(keys, part))
    return set()


def references(part: Any) -> set[str]:
    match part:
        case {"$ref": str(name)}:
            return {name}
        case dict():
            return set().union(*map(references, part.values()))
        case list():
            return set().union(*map(references, part))
    return set()


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/api/v1"])
def test_a_document_is_made_beside_the_event_loop(path: str) -> None:
    async def scenario(client: ApiClient) -> None:
        others = set(threading.enumerate())
        assert (await client.send("GET", path))[0] == 200
        assert any(thread.name.startswith("asyncio") for thread in set(threading.enumerate()) - others)

    run_with_server(scenario)
