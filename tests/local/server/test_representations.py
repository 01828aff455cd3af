"""Representations of responses: tables and partial metadata, in lists and watches."""

import json
from typing import Any

import pytest

from tests.local.api_client import ApiClient, run_with_server

pytestmark = pytest.mark.slow

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PATH = "/api/v1/namespaces/default/configmaps"


async def create(client: ApiClient, name: str) -> None:
    await client.create(PATH, {"metadata": {"name": name}})


async def watch(client: ApiClient, frames: int, accept: str) -> list[Any]:
    """Return the first events of a watch."""
    async with client.stream(f"{PATH}?watch=true&labelSelector=!none", Accept=accept) as content:
        return [json.loads(await content.readline()) for _ in range(frames)]


def names(table: Any) -> list[str]:
    return [row["cells"][0] for row in table["rows"]]


def test_lists_objects_and_watches_support_tables() -> None:
    async def scenario(client: ApiClient) -> None:
        await create(client, "a")
        await create(client, "b")
        _, listed = await client.send("GET", PATH, Accept=TABLE)
        assert [column["name"] for column in listed["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert {"a", "b"} <= set(names(listed))
        _, single = await client.send("GET", f"{PATH}/a", Accept=TABLE)
        assert names(single) == ["a"]
        first, second = await watch(client, 2, TABLE)
        assert first["object"]["columnDefinitions"] is not None
        assert second["object"]["columnDefinitions"] is None
        assert len(names(first["object"])) == len(names(second["object"])) == 1

    run_with_server(scenario)


@pytest.mark.parametrize("kind", ["api/v1/pods", "apis/certificates.k8s.io/v1/certificatesigningrequests"])
def test_a_bookmark_of_a_watch_of_tables_is_a_table(kind: str) -> None:
    async def scenario(client: ApiClient) -> None:
        query = "watch=1&allowWatchBookmarks=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan"
        async with client.stream(f"/{kind}?{query}", Accept=TABLE) as content:
            bookmark = json.loads(await content.readline())
        table = bookmark["object"]
        assert (bookmark["type"], table["kind"]) == ("BOOKMARK", "Table")
        assert table["columnDefinitions"][0]["name"] == "Name"
        (row,) = table["rows"]
        assert len(row["cells"]) == len(table["columnDefinitions"])
        assert row["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert row["object"]["metadata"]["resourceVersion"] == table["metadata"]["resourceVersion"]

    run_with_server(scenario)


def test_a_kind_that_is_not_stored_has_no_table() -> None:
    async def scenario(client: ApiClient) -> None:
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
        only_table = TABLE.partition(",")[0]
        assert (await client.send("POST", path, review, Accept=only_table))[0] == 406
        code, answer = await client.send("POST", path, review, Accept=TABLE)
        assert (code, answer["status"]["allowed"]) == (201, True)

    run_with_server(scenario)


def test_lists_objects_and_watches_support_partial_metadata() -> None:
    async def scenario(client: ApiClient) -> None:
        await create(client, "a")
        _, single = await client.send("GET", f"{PATH}/a", Accept=METADATA)
        assert (single["kind"], single["metadata"]["name"]) == ("PartialObjectMetadata", "a")
        assert "data" not in single
        _, listed = await client.send("GET", PATH, Accept=METADATA.replace("Metadata;", "MetadataList;"))
        assert {item["kind"] for item in listed["items"]} == {"PartialObjectMetadata"}
        (frame,) = await watch(client, 1, METADATA)
        assert frame["object"]["kind"] == "PartialObjectMetadata"

    run_with_server(scenario)


@pytest.mark.parametrize(
    ("path", "accept", "code"),
    [
        pytest.param(f"{PATH}?includeObject=Sofa", TABLE, 400, id="an invalid includeObject"),
        pytest.param(PATH, METADATA, 406, id="a single-object representation of a list"),
        pytest.param(f"{PATH}/missing", TABLE, 404, id="an error is a Status, not a table"),
    ],
)
def test_an_unsupported_representation_is_an_error(path: str, accept: str, code: int) -> None:
    async def scenario(client: ApiClient) -> None:
        status, body = await client.send("GET", path, Accept=accept)
        assert (status, body["kind"]) == (code, "Status")

    run_with_server(scenario)
