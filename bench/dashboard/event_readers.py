"""Clients that read the event stream of a dashboard.

``python -m bench.dashboard.event_readers URL TOKEN_FILE`` runs them as a process of its own until it is
terminated; it prints a line once each has had its first event.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import uvloop

from quorate.processes.process_setup import wait_for_signal

CLIENTS: Final = 200
_STREAMS_OF_A_SESSION: Final = 10
_COOKIE: Final = "__Host-quorate-session"


class Reader:
    """Reads one stream; ``notices`` counts events."""

    def __init__(self) -> None:
        self.notices = 0
        self.has_begun = asyncio.Event()

    async def read(self, http: aiohttp.ClientSession, base: str, cookie: str, *, stalls: bool) -> None:
        headers = {"Cookie": f"{_COOKIE}={cookie}"}
        async with http.get(f"{base}/api/v1/events", headers=headers) as response:
            self.has_begun.set()
            async for line in response.content:
                if line.startswith(b"data: "):
                    self.notices += 1
                    if stalls:
                        await asyncio.Event().wait()


@asynccontextmanager
async def reading_clients(base: str, token: str, stalled: int = 0) -> AsyncIterator[list[Reader]]:
    """Yield ``CLIENTS`` readers of the dashboard at ``base`` that read within the block.

    The first ``stalled`` of them read nothing after their first event.
    """
    timeout = aiohttp.ClientTimeout(total=None)
    connector, cookies = aiohttp.TCPConnector(limit=0), aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(connector=connector, cookie_jar=cookies, timeout=timeout) as http:
        sessions = []
        for _ in range(CLIENTS // _STREAMS_OF_A_SESSION):
            async with http.post(f"{base}/api/v1/session", json={"token": token}) as answer:
                sessions.append(answer.cookies[_COOKIE].value)
        readers = [Reader() for _ in range(CLIENTS)]
        tasks = [
            asyncio.create_task(
                each.read(http, base, sessions[number // _STREAMS_OF_A_SESSION], stalls=number < stalled)
            )
            for number, each in enumerate(readers)
        ]
        try:
            yield readers
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _read(base: str, token: str) -> None:
    async with reading_clients(base, token) as readers:
        for each in readers:
            await each.has_begun.wait()
        await wait_for_signal(lambda: print("reading", flush=True))  # noqa: T201  the parent process reads it


if __name__ == "__main__":
    uvloop.run(_read(sys.argv[1], Path(sys.argv[2]).read_text().strip()))
