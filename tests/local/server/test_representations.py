"""Representations of responses: tables and partial metadata, in lists and watches."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from tests.local.clusters import RunningServer, api_server

pytestmark = pytest.mark.slow

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PATH = "/api/v1/namespaces/default/configmaps"


class ApiClient:
    """A client of one server."""

    def __init__(self, server: RunningServer, session: aiohttp.ClientSession) -> None:
        self._url, self._session = server.url, session
        session.headers["Authorization"] = f"Bearer {server.token}"

    async def create(self, name: str) -> None:
        async with self._session.post(self._url + PATH, json={"metadata": {"name": name}}) as response:
            assert response.status == 201, await response.text()

    async def get(self, path: str, accept: str) -> tuple[int, Any]:
        async with self._session.get(self._url + path, headers={"Accept": accept}) as response:
            return response.status, await response.json()

    async def watch(self, frames: int, accept: str) -> list[Any]:
        """Return the first events of a watch."""
        url = f"{self._url}{PATH}?watch=true&labelSelector=!none"
        async with self._session.get(url, headers={"Accept": accept}) as response:
            return [json.loads(await response.content.readline()) for _ in range(frames)]


def names(table: Any) -> list[str]:
    return [row["cells"][0] for row in table["rows"]]


def run_with_server(scenario: Callable[[ApiClient], Awaitable[None]]) -> None:
    """Run a scenario with a client and a new server."""

    async def run() -> None:
        async with api_server() as server, aiohttp.ClientSession() as session:
            await scenario(ApiClient(server, session))

    asyncio.run(run())


def test_lists_objects_and_watches_support_tables() -> None:
    async def scenario(client: ApiClient) -> None:
        await client.create("a")
        await client.create("b")
        _, listed = await client.get(PATH, TABLE)
        assert [column["name"] for column in listed["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert {"a", "b"} <= set(names(listed))
        _, single = await client.get(f"{PATH}/a", TABLE)
        assert names(single) == ["a"]
        first, second = await client.watch(2, TABLE)
        assert first["object"]["columnDefinitions"] is not None
        assert second["object"]["columnDefinitions"] is None
        assert len(names(first["object"])) == len(names(second["object"])) == 1

    run_with_server(scenario)


def test_lists_objects_and_watches_support_partial_metadata() -> None:
    async def scenario(client: ApiClient) -> None:
        await client.create("a")
        _, single = await client.get(f"{PATH}/a", METADATA)
        assert (single["kind"], single["metadata"]["name"]) == ("PartialObjectMetadata", "a")
        assert "data" not in single
        _, listed = await client.get(PATH, METADATA.replace("Metadata;", "MetadataList;"))
        assert {item["kind"] for item in listed["items"]} == {"PartialObjectMetadata"}
        (frame,) = await client.watch(1, METADATA)
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
        status, body = await client.get(path, accept)
        assert (status, body["kind"]) == (code, "Status")

    run_with_server(scenario)
