"""Parameters of the query string: booleans, integers and lists as kube-apiserver 1.36 reads them."""

import json
from typing import Any

import pytest

from tests.local.api_client import ApiClient, run_with_server

pytestmark = pytest.mark.slow

PATH = "/api/v1/namespaces/default/configmaps"
ENDS = "timeoutSeconds=1&labelSelector=test"


async def kind_of(client: ApiClient, path: str) -> str:
    """Return the type of the first event of a watch, or the kind of a single document."""
    async with client.stream(path) as content:
        body = json.loads(await content.readline())
    return str(body.get("type") or body["kind"])


@pytest.mark.parametrize("value", ["true", "True", "TRUE", "1", "yes", "00", ""])
def test_every_other_value_of_watch_is_true(value: str) -> None:
    async def scenario(client: ApiClient) -> None:
        await client.create(PATH, {"metadata": {"name": "a", "labels": {"test": ""}}})
        assert await kind_of(client, f"{PATH}?watch={value}&{ENDS}") == "ADDED"

    run_with_server(scenario)


@pytest.mark.parametrize("query", ["watch=false", "watch=False", "watch=fALSE", "watch=0", "watch=0&watch=1"])
def test_false_and_zero_are_a_list(query: str) -> None:
    async def scenario(client: ApiClient) -> None:
        assert await kind_of(client, f"{PATH}?{query}") == "ConfigMapList"

    run_with_server(scenario)


def test_a_get_of_one_object_is_a_watch_only_below_the_watch_path() -> None:
    async def scenario(client: ApiClient) -> None:
        await client.create(PATH, {"metadata": {"name": "a", "labels": {"test": ""}}})
        assert await kind_of(client, f"{PATH}/a?watch=true") == "ConfigMap"
        assert await kind_of(client, f"/api/v1/watch{PATH.removeprefix('/api/v1')}/a?{ENDS}") == "ADDED"

    run_with_server(scenario)


@pytest.mark.parametrize(
    ("query", "last_event"),
    [
        pytest.param("sendInitialEvents=TRUE&allowWatchBookmarks=yes", "BOOKMARK", id="other values"),
        pytest.param("sendInitialEvents=&allowWatchBookmarks=", "BOOKMARK", id="empty values"),
        pytest.param("sendInitialEvents=1&allowWatchBookmarks=False", "ADDED", id="no bookmarks"),
        pytest.param("sendInitialEvents=0&allowWatchBookmarks=true", "", id="no initial events"),
    ],
)
def test_other_options_of_a_watch(query: str, last_event: str) -> None:
    async def scenario(client: ApiClient) -> None:
        await client.create(PATH, {"metadata": {"name": "a", "labels": {"test": ""}}})
        options = f"watch=true&resourceVersionMatch=NotOlderThan&{ENDS}"
        async with client.stream(f"{PATH}?{options}&{query}") as content:
            frames = (await content.read()).split(b"\n")[:-1]
        assert (frames[-1] if frames else b"").startswith(
            f'{{"type":"{last_event}"'.encode() * bool(last_event)
        )
        assert bool(frames) is bool(last_event)

    run_with_server(scenario)


@pytest.mark.parametrize(
    ("method", "query", "want"),
    [
        pytest.param("POST", "dryRun=", (422, 'Unsupported value: [""]'), id="an empty dryRun"),
        pytest.param("POST", "dryRun=All&dryRun=All", (201, ""), id="dryRun is a list"),
        pytest.param(
            "POST", "dryRun=All&dryRun=x", (422, 'Unsupported value: ["All","x"]'), id="one wrong dryRun"
        ),
        pytest.param("PATCH", "force=false", (422, "force: Forbidden"), id="force without apply"),
        pytest.param("DELETE", "dryRun=All&orphanDependents=0", (200, "Success"), id="no orphans"),
        pytest.param("DELETE", "dryRun=All&orphanDependents=", (200, "ConfigMap"), id="orphans"),
        pytest.param("DELETE", "gracePeriodSeconds=", (400, "invalid syntax"), id="an empty integer"),
        pytest.param("DELETE", "propagationPolicy=", (422, "Unsupported value"), id="an empty policy"),
        pytest.param("GET", "limit=", (400, "invalid syntax"), id="an empty limit"),
        pytest.param("GET", "timeoutSeconds=x", (400, "invalid syntax"), id="timeout of a list"),
        pytest.param("GET", "timeout=x", (400, 'invalid duration "x"'), id="timeout of a request"),
        pytest.param("GET", "timeout=1h30m", (200, ""), id="a long timeout of a request"),
        pytest.param("GET", "timeout=", (200, ""), id="an empty timeout of a request"),
    ],
)
def test_options_of_other_requests(method: str, query: str, want: tuple[int, str]) -> None:
    async def scenario(client: ApiClient) -> None:
        await client.create(PATH, {"metadata": {"name": "a"}})
        path = f"{PATH}/a" if method in ("PATCH", "DELETE") else PATH
        body: Any = {"metadata": {"name": "b"}} if method == "POST" else {} if method == "PATCH" else None
        code, answer = await client.send(method, f"{path}?{query}", body)
        text = str(answer.get("message") or answer.get("status") or answer["kind"])
        assert (code, want[1] in f"{text} {answer['kind']}") == (want[0], True), answer

    run_with_server(scenario)
