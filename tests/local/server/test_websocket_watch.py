"""Watches over WebSockets, as fabric8 (spark-submit, Flink) and other Java clients start them."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from tests.local.clusters import api_server

pytestmark = pytest.mark.slow

PATH = "/api/v1/namespaces/default/configmaps"
DEADLINE_S = 30.0


def run(scenario: Callable[[aiohttp.ClientSession], Awaitable[None]], *, anonymous: bool = False) -> None:
    """Run a scenario with a client of a new server."""

    async def run() -> None:
        async with asyncio.timeout(3 * DEADLINE_S), api_server() as server:
            headers = {"Origin": server.url}
            headers |= {} if anonymous else {"Authorization": f"Bearer {server.token}"}
            async with aiohttp.ClientSession(server.url, headers=headers) as session:
                await scenario(session)

    asyncio.run(run())


async def create(session: aiohttp.ClientSession, name: str) -> None:
    async with session.post(PATH, json={"metadata": {"name": name, "labels": {"test": ""}}}) as response:
        assert response.status == 201


async def next_event(websocket: aiohttp.ClientWebSocketResponse) -> tuple[str, Any]:
    text = await websocket.receive_str(timeout=DEADLINE_S)
    event = json.loads(text)
    assert text.endswith("\n")
    return event["type"], event["object"]["metadata"]["name"]


def test_each_event_is_one_text_message_also_of_objects_that_exist_already() -> None:
    async def scenario(session: aiohttp.ClientSession) -> None:
        for name in ("a", "b"):
            await create(session, name)
        async with session.ws_connect(f"{PATH}?watch=true&labelSelector=test") as websocket:
            assert [await next_event(websocket) for _ in range(2)] == [("ADDED", "a"), ("ADDED", "b")]
            await create(session, "c")
            await session.delete(f"{PATH}/c")
            assert [await next_event(websocket) for _ in range(2)] == [("ADDED", "c"), ("DELETED", "c")]

    run(scenario)


def test_a_watch_ends_at_its_timeout_and_closes_the_connection() -> None:
    async def scenario(session: aiohttp.ClientSession) -> None:
        path = f"{PATH}?watch=true&timeoutSeconds=1&labelSelector=test"
        async with session.ws_connect(path) as websocket:
            message = await websocket.receive(timeout=DEADLINE_S)
            assert (message.type, websocket.close_code) == (aiohttp.WSMsgType.CLOSE, 1000)

    run(scenario)


@pytest.mark.parametrize("protocol", ["base64.binary.k8s.io", "binary.k8s.io", ""])
def test_one_subprotocol_is_accepted(protocol: str) -> None:
    async def scenario(session: aiohttp.ClientSession) -> None:
        await create(session, "a")
        path, protocols = f"{PATH}?watch=1&labelSelector=test", [protocol] if protocol else []
        async with session.ws_connect(path, protocols=protocols) as websocket:
            assert (websocket.protocol or "") == protocol
            assert await next_event(websocket) == ("ADDED", "a")

    run(scenario)


@pytest.mark.parametrize(
    ("query", "protocols", "status"),
    [
        pytest.param("watch=true&timeoutSeconds=x", (), 400, id="an invalid option"),
        pytest.param("watch=true", ("a", "b"), 400, id="several subprotocols"),
        pytest.param("", (), 200, id="a list is not upgraded"),
    ],
)
def test_a_refused_handshake(query: str, protocols: tuple[str, ...], status: int) -> None:
    async def scenario(session: aiohttp.ClientSession) -> None:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{PATH}?{query}", protocols=protocols)
        assert refused.value.status == status

    run(scenario)


def test_an_anonymous_client_is_refused() -> None:
    async def scenario(session: aiohttp.ClientSession) -> None:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{PATH}?watch=true")
        assert refused.value.status == 403

    run(scenario, anonymous=True)


def test_a_client_may_close_its_watch_and_the_server_ends_the_others_when_it_stops() -> None:
    async def scenario(session: aiohttp.ClientSession) -> None:
        closed = await session.ws_connect(f"{PATH}?watch=true")
        await closed.send_str("ignored")
        await closed.close()
        assert closed.close_code == 1000
        await session.ws_connect(f"{PATH}?watch=true")

    run(scenario)
