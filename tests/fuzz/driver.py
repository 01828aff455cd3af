"""Send attacks: several at once, at a bounded rate, with a bounded number of objects that exist at a time."""

import asyncio
import io
import ssl
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from tests.fuzz.attacks import attack
from tests.fuzz.cluster import Target
from tests.fuzz.findings import Findings
from tests.fuzz.requests import MERGE, Attack, Request

CONCURRENT: Final = 8
EXISTING: Final = 400  # objects of attacks that exist at a time; the oldest are deleted first
EXISTING_BYTES: Final = 20_000_000  # likewise, of all of them
RECENT: Final = 30
REQUEST_TIMEOUT_S: Final = 60.0
# Refusals of a server that is right: too large, too many, unsupported, or the webhook says no.
_NO_FINDING: Final = frozenset({501, 503, 504})
_REFUSALS: Final = (
    "etcdserver: request is too large",
    "which are not decoded",
    "conversion webhook for",  # which nothing answers
    "failed calling webhook",
)  # with status 500, by any server


class Driver:
    def __init__(self, target: Target, findings: Findings, objects_per_s: float) -> None:
        self.sent = 0  # objects
        self.stored = 0
        self.answers: Counter[int] = Counter()  # by status code
        self._target = target
        self._findings = findings
        self._interval_s = 1 / objects_per_s
        self._existing: deque[tuple[str, int]] = deque()  # path and bytes
        self._existing_bytes = 0
        self._slots = asyncio.Semaphore(CONCURRENT)

    async def run(self, numbers: Iterable[int], advance: Callable[[int], None]) -> None:
        """Send the attacks of ``numbers``; ``advance`` is called with the objects of each."""
        async with self._sessions() as sessions, asyncio.TaskGroup() as tasks:
            for number in numbers:
                each = attack(self._findings.seed, number)
                await self._slots.acquire()
                tasks.create_task(self._send(each, sessions, advance))
                if number % 50:  # otherwise a burst
                    await asyncio.sleep(self._interval_s * min(each.objects, 50))

    async def clean(self) -> None:
        """Delete all objects of the attacks."""
        async with self._sessions() as sessions:
            await self._delete_oldest(sessions["api"], 0, 0)

    async def _send(
        self, each: Attack, sessions: dict[str, aiohttp.ClientSession], advance: Callable[[int], None]
    ) -> None:
        try:
            self._findings.recent.append(each)
            del self._findings.recent[:-RECENT]
            for request in each.requests:
                await self._request(each, request, sessions[request.target])
            self.sent += each.objects
            advance(each.objects)
            for path, size in each.created.items():
                self._existing.append((path, size))
                self._existing_bytes += size
            await self._delete_oldest(sessions["api"], EXISTING, EXISTING_BYTES)
        finally:
            self._slots.release()

    async def _request(self, each: Attack, request: Request, session: aiohttp.ClientSession) -> None:
        headers = {"Content-Type": request.content_type, "Accept": request.accept}
        try:
            async with session.request(
                request.method,
                request.path,
                data=io.BytesIO(request.body) if request.body else None,
                headers=headers,
            ) as answer:
                status, text = answer.status, (await answer.read())[:2000].decode(errors="replace")
        except (aiohttp.ClientError, TimeoutError) as error:
            status, text = 0, f"{type(error).__name__}: {error}"
        self.answers[status] += 1
        self.stored += status == 201
        path = request.path.split("/fuzz/")[-1].split("/z")[0]
        is_refusal = status in _NO_FINDING or any(each in text for each in _REFUSALS)
        if (status == 0 and request.target == "api") or (status >= 500 and not is_refusal):
            cause = f"{request.target}: {request.method} {path}: {status}"
            self._findings.add("server error", cause, text, attacks=[each.number])

    async def _delete_oldest(self, session: aiohttp.ClientSession, objects: int, size_bytes: int) -> None:
        """Delete objects until at most ``objects`` exist, of ``size_bytes`` together."""
        while len(self._existing) > objects or self._existing_bytes > size_bytes:
            path, size = self._existing.popleft()
            self._existing_bytes -= size
            await self._delete(path, session)

    async def _delete(self, path: str, session: aiohttp.ClientSession) -> None:
        """Delete an object, whatever its finalizers."""
        try:
            async with session.delete(
                path, json={"propagationPolicy": "Background", "gracePeriodSeconds": 0}
            ) as answer:
                await answer.read()
            if answer.status in (200, 202):
                patch = b'{"metadata":{"finalizers":null}}'
                async with session.patch(path, data=patch, headers={"Content-Type": MERGE}) as answer:
                    await answer.read()
        except (aiohttp.ClientError, TimeoutError):
            pass

    @asynccontextmanager
    async def _sessions(self) -> AsyncIterator[dict[str, aiohttp.ClientSession]]:
        config = self._target.client.config
        trusted = ssl.create_default_context(cadata=self._target.authority)
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
        headers = {"Authorization": config.credentials.authorization()}
        async with (
            aiohttp.ClientSession(
                config.server,
                connector=aiohttp.TCPConnector(ssl=config.tls or True),
                timeout=timeout,
                headers=headers,
            ) as api,
            aiohttp.ClientSession(
                self._target.webhooks, connector=aiohttp.TCPConnector(ssl=trusted), timeout=timeout
            ) as webhooks,
        ):
            yield {"api": api, "webhook": webhooks}
