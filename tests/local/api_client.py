"""Requests to an API server as a story tells them: method, path and body, status and JSON."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.local.clusters import RunningServer, api_server

Json = dict[str, Any]

DEADLINE_S = 10.0
MERGE = "application/merge-patch+json"


class Talk:
    """What one client says to one server, by default as the session's user."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url, self._session = url, session

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and body of the answer; ``headers`` with _ for -."""
        if method == "PATCH":
            headers.setdefault("Content_Type", MERGE)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.request(method, self._url + path, json=body, headers=named) as response:
            text = response.content_type != "application/json"
            return response.status, await (response.text() if text else response.json())

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[aiohttp.StreamReader]:
        async with self._session.get(self._url + path) as response:
            yield response.content

    async def create(self, path: str, body: Json) -> Json:
        code, created = await self.send("POST", path, body)
        assert code == 201, created
        return dict(created)

    async def until(self, path: str, holds: Callable[[int, Any], bool]) -> Any:
        """What a path answers once it is as expected; fails at the deadline."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                code, body = await self.send("GET", path)
                if holds(code, body):
                    return body
                await asyncio.sleep(0.01)


@asynccontextmanager
async def talk_to(server: RunningServer, token: str | None = None) -> AsyncIterator[Talk]:
    """As the administrator, or with a token of somebody else; an empty one is anonymous."""
    given = server.token if token is None else token
    headers = {"Authorization": f"Bearer {given}"} if given else {}
    async with aiohttp.ClientSession(headers=headers) as session:
        yield Talk(server.url, session)


def told(story: Callable[[Talk], Awaitable[None]]) -> None:
    """Play a story as the administrator of an empty cluster without controllers."""

    async def run() -> None:
        async with api_server() as server, talk_to(server) as talk:
            await story(talk)

    asyncio.run(run())
