"""An API client for tests: a request is a method, a path and a body, the response a status and JSON."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from quorate.local.server.apiserver import NO_CONVERTERS
from quorate.local.server.registry.version_conversion import Converter
from tests.local.clusters import RunningServer, api_server

Json = dict[str, Any]

DEADLINE_S = 30.0
MERGE_PATCH = "application/merge-patch+json"


class ApiClient:
    """Requests to one server, by default as the user of the session."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url, self._session = url, session

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return status and body of the response; ``headers`` are written with _ for -."""
        if method == "PATCH":
            headers.setdefault("Content_Type", MERGE_PATCH)
        async with self._session.request(
            method, self._url + path, json=body, headers=_header_names(headers)
        ) as response:
            text = response.content_type != "application/json"
            return response.status, await (response.text() if text else response.json())

    async def send_bytes(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> tuple[int, str, bytes]:
        """Return status, media type and bytes of the response."""
        async with self._session.request(
            method, self._url + path, data=body, headers=_header_names(headers)
        ) as response:
            return response.status, response.headers.get("Content-Type", ""), await response.read()

    @asynccontextmanager
    async def stream(self, path: str, **headers: str) -> AsyncIterator[aiohttp.StreamReader]:
        async with self._session.get(self._url + path, headers=_header_names(headers)) as response:
            yield response.content

    async def create(self, path: str, body: Json) -> Json:
        code, created = await self.send("POST", path, body)
        assert code == 201, created
        return dict(created)

    async def until(self, path: str, predicate: Callable[[int, Any], bool]) -> Any:
        """Return the body of a GET once ``predicate`` accepts it; fail at the deadline."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                code, body = await self.send("GET", path)
                if predicate(code, body):
                    return body
                await asyncio.sleep(0.01)


def _header_names(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@asynccontextmanager
async def connect(server: RunningServer, token: str | None = None) -> AsyncIterator[ApiClient]:
    """Connect as the administrator, or with another token; an empty token is anonymous."""
    bearer = server.token if token is None else token
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    async with aiohttp.ClientSession(headers=headers) as session:
        yield ApiClient(server.url, session)


def run_with_server(
    scenario: Callable[[ApiClient], Awaitable[None]],
    path: Path | str = ":memory:",
    converters: Mapping[str, Converter] = NO_CONVERTERS,
) -> None:
    """Run a scenario as the administrator of a cluster without controllers; the same path is a restart."""

    async def run() -> None:
        async with api_server(path, converters=converters) as server, connect(server) as client:
            await scenario(client)

    asyncio.run(run())
