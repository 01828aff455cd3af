"""Requests to one API server, typed by resource.

One connection pool, at most ``concurrency`` requests under way at once, a deadline on each, and another
attempt where that is safe (see ``retry``).  What the server refuses is raised (see ``errors``).  A typed
object holds only the fields we read: patch what exists, and write whole only what was composed whole.
"""

import asyncio
import io
import os
import random
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from quorate.api import codec
from quorate.api.meta import Key
from quorate.kube.errors import (
    ApiError,
    Gone,
    Unauthorized,
    Unreachable,
    Unreadable,
    error_from_answer,
)
from quorate.kube.flowcontrol import TokenBucketRateLimiter, retry_delay_s
from quorate.kube.resources import Body, Resource, T, metadata_of
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.decoding import (
    Bookmark,
    Lines,
    Listing,
    UndecodableObject,
    WatchEvent,
    decode_frame,
    decode_page,
)

PAGE_SIZE = 500
WATCH_S = 300.0  # the server ends a watch after this; a fresh one starts on another server of several
WATCH_SLACK_S = 30.0  # a server that is silent for longer than it was to answer in all is gone
CONNECT_S = 10.0
LARGE_BYTES = 2**19  # a body of more is sent piece by piece, so that others have their turns between

# Deadlines are kept by asyncio: aiohttp's own timer swallows a cancellation that comes in the turn of the
# event loop in which it rings, as each of the two blocks it guards (ClientSession._request,
# ClientResponse.start) takes one back, and whoever was told to stop goes on for ever.
UNTIMED = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)


class PatchKind(StrEnum):
    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"  # JSON is YAML


# Told of each attempt: verb (``WATCH`` when a watch begins), path, status code (0: no answer), seconds.
OnResponse = Callable[[str, str, int, float], None]


def _ignore(verb: str, path: str, code: int, seconds: float) -> None:
    pass


class Client:
    """An async context manager; requests outside it are a mistake.

    ``deadline_s`` bounds each request with all its attempts, not counting the wait for a turn.  Without a
    ``rate_limiter`` the server's own priority and fairness sets the pace: it answers 429 when it is too much.
    """

    def __init__(
        self,
        cluster: RestConfig,
        rng: random.Random,
        *,
        concurrency: int = 100,
        deadline_s: float = 30.0,
        field_manager: str = "quorate",
        on_response: OnResponse = _ignore,
        rate_limiter: TokenBucketRateLimiter | None = None,
    ) -> None:
        self.cluster = cluster
        self._on_answer = on_response
        self.rng = rng  # spreads the attempts of many clients that failed together
        self._slots = asyncio.Semaphore(concurrency)
        self._rate_limiter = rate_limiter
        self._deadline_s = deadline_s
        self._field_manager = field_manager
        self._session: aiohttp.ClientSession | None = None
        # Writes the server has not answered yet, those included whose callers were cancelled meanwhile.
        self._writes: set[asyncio.Task[bytes]] = set()

    async def __aenter__(self) -> Self:
        # Turns bound the requests; watches come on top, one connection each, so the pool itself is unbounded.
        connector = aiohttp.TCPConnector(
            limit=0, ssl=self.cluster.tls or True, keepalive_timeout=60.0, socket_factory=_socket
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=self.cluster.proxy or None,
            # Compressing costs the server more than sending over the networks it is usually asked on.
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "quorate"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None, "left without being entered"
        for write in self._writes:
            write.cancel()
        await asyncio.gather(*self._writes, return_exceptions=True)
        await self._session.close()
        self._session = None

    async def get(self, resource: Resource[T], key: Key) -> T:
        path = resource.path(key.namespace, key.name)
        return _decode(resource, f"GET {path}", await self.request("GET", path))

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> Listing[T]:
        """All objects that match, in as many pages as it takes.

        When the first page has grown too old for the server to go on from (410) the list starts over; the
        third time it asks for everything at once, which cannot grow old.
        """
        query = _selectors(label_selector, field_selector)
        for limit in (PAGE_SIZE, PAGE_SIZE):
            try:
                return await self._list_paged(resource, namespace, query | {"limit": str(limit)})
            except Gone:
                continue
        return await self._list_paged(resource, namespace, query)

    async def _list_paged(
        self, resource: Resource[T], namespace: str, query: Mapping[str, str]
    ) -> Listing[T]:
        path = resource.path(namespace)
        items: list[T] = []
        undecodable: list[UndecodableObject] = []
        continue_: dict[str, str] = {}
        while True:
            body = await self.request("GET", path, query={**query, **continue_})
            page = decode_page(resource, f"GET {path}", body)
            items += page.items
            undecodable += page.undecodable
            if not page.continue_:
                return Listing(tuple(items), page.resource_version, tuple(undecodable))
            continue_ = {"continue": page.continue_}

    async def create(
        self, resource: Resource[T], body: Body, namespace: str = "", *, dry_run: bool = False
    ) -> T:
        """The object as stored.  ``namespace`` is by default the one the body names."""
        path = resource.path(namespace or _namespace_of(body))
        answer = await self.request("POST", path, query=self._writing(dry_run), body=resource.encode(body))
        return _decode(resource, f"POST {path}", answer)

    async def replace(
        self, resource: Resource[T], key: Key, body: Body, *, subresource: str = "", dry_run: bool = False
    ) -> T:
        path = resource.path(key.namespace, key.name, subresource)
        answer = await self.request("PUT", path, query=self._writing(dry_run), body=resource.encode(body))
        return _decode(resource, f"PUT {path}", answer)

    async def patch(
        self,
        resource: Resource[T],
        key: Key,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        subresource: str = "",
        kind: PatchKind = PatchKind.MERGE,
        force: bool = False,
        field_manager: str = "",
        dry_run: bool = False,
    ) -> T:
        """The object after ``patch``; ``force`` takes fields over from other appliers (APPLY only).

        ``field_manager`` is who is said to have written it, by default the client's.
        """
        path = resource.path(key.namespace, key.name, subresource)
        query = self._writing(dry_run) | ({"force": "true"} if force else {})
        if field_manager:
            query["fieldManager"] = field_manager
        answer = await self.request(
            "PATCH", path, query=query, body=codec.encode(patch), headers={"Content-Type": kind.value}
        )
        return _decode(resource, f"PATCH {path}", answer)

    async def delete(
        self,
        resource: Resource[T],
        key: Key,
        *,
        propagation: str | None = None,
        uid: str = "",
        resource_version: str = "",
        grace_period_s: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for deletion; finalizers may keep the object a while.

        ``uid`` and ``resource_version`` are conditions: ``Conflict`` when the object is another by now.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "gracePeriodSeconds": grace_period_s,
            "preconditions": {name: value for name, value in preconditions.items() if value} or None,
            "dryRun": ["All"] if dry_run else None,
        }
        present = {name: value for name, value in options.items() if value is not None}
        await self.request("DELETE", resource.path(key.namespace, key.name), body=codec.encode(present))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The body of a successful answer; ``path`` is quoted already, ``query`` is not.

        Raises ``ApiError`` or ``Unreachable``.
        """
        clock = asyncio.get_running_loop().time
        async with self._slots:
            if self._rate_limiter is not None:
                await self._rate_limiter.wait()
            deadline = clock() + self._deadline_s
            attempt = 1
            while True:
                authorization = self.cluster.credentials.authorization()
                try:
                    opening = self._open(
                        method, self._url(path, query), authorization, UNTIMED, body, headers
                    )
                    answer = self._answer(method, path, opening, deadline)
                    return await (answer if method == "GET" else self._seen_through(answer))
                except Unauthorized:
                    # Credentials expire; with fresh ones it is another request, and this one did nothing.
                    if attempt > 1 or not await self.cluster.credentials.renew(authorization):
                        raise
                except (ApiError, Unreachable) as failure:
                    delay_s = retry_delay_s(method, attempt, failure)
                    if delay_s is None:
                        raise
                    delay_s *= 1 + self.rng.random() / 2
                    if clock() + delay_s >= deadline:
                        raise
                    await asyncio.sleep(delay_s)
                attempt += 1

    async def _seen_through(self, exchange: Coroutine[Any, Any, bytes]) -> bytes:
        """Await ``exchange``, which goes on to its answer even if the caller is cancelled."""
        write = asyncio.create_task(exchange)
        self._writes.add(write)
        write.add_done_callback(self._writes.discard)
        try:
            return await asyncio.shield(write)
        except asyncio.CancelledError:
            write.add_done_callback(_unheard)
            raise

    async def writes_finished(self) -> None:
        """Return once no write is under way any more, whoever asked for it: after at most the deadline."""
        if self._writes:
            await asyncio.wait(self._writes)

    async def _answer(
        self, method: str, path: str, opening: aiohttp.client._RequestContextManager, deadline: float
    ) -> bytes:
        request, clock, code = f"{method} {path}", asyncio.get_running_loop().time, 0
        began = clock()
        try:
            async with asyncio.timeout_at(deadline), opening as response:
                answer = await response.read()
            code = response.status
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(request, error) from error
        finally:
            self._on_answer(method, path, code, clock() - began)
        if response.status >= 400:
            raise error_from_answer(request, response.status, answer, _retry_after_s(response))
        return answer

    async def watch(
        self,
        resource: Resource[T],
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent[T] | Bookmark | UndecodableObject]:
        """What happened after ``resource_version``, until the server ends the watch, as it does in time.

        Raises ``Gone`` when the server no longer knows that far back, ``Unreachable`` when the stream
        breaks, ``Unreadable`` when a frame is no frame.
        """
        path = resource.path(namespace)
        query = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(int(WATCH_S)),
        }
        request = f"WATCH {path}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=WATCH_S + WATCH_SLACK_S)
        authorization = self.cluster.credentials.authorization()
        lines = Lines()
        try:
            opening = self._open("GET", self._url(path, query), authorization, timeout)
            async with await self._let_in(path, opening) as response:
                if response.status >= 400:
                    answer = await response.read()
                    raise error_from_answer(request, response.status, answer, _retry_after_s(response))
                async for chunk in response.content.iter_any():
                    for line in lines.feed(chunk):
                        yield decode_frame(resource, request, line)
        except Unauthorized:
            await self.cluster.credentials.renew(authorization)  # for the caller's next attempt
            raise
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(request, error) from error

    async def _let_in(
        self, path: str, opening: aiohttp.client._RequestContextManager
    ) -> aiohttp.ClientResponse:
        """A watch that begins; silence afterwards is normal, before it is not."""
        clock, code = asyncio.get_running_loop().time, 0
        began = clock()
        try:
            async with asyncio.timeout(self._deadline_s):
                response = await opening
            code = response.status
        finally:
            self._on_answer("WATCH", path, code, clock() - began)
        return response

    def _open(
        self,
        method: str,
        url: URL,
        authorization: str,
        timeout: aiohttp.ClientTimeout,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> aiohttp.client._RequestContextManager:
        assert self._session is not None, "a Client is used within `async with`"
        sent = {"Content-Type": "application/json"} if body is not None else {}
        if authorization:
            sent["Authorization"] = authorization
        return self._session.request(
            method,
            url,
            data=io.BytesIO(body) if body is not None and len(body) > LARGE_BYTES else body,
            headers=sent | dict(headers or {}),
            timeout=timeout,
            allow_redirects=False,
            server_hostname=self.cluster.tls_server_name or None,
        )

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        tail = f"?{urlencode(query)}" if query else ""
        return URL(f"{self.cluster.server}{path}{tail}", encoded=True)

    def _writing(self, dry_run: bool) -> dict[str, str]:
        return {"fieldManager": self._field_manager} | ({"dryRun": "All"} if dry_run else {})

    def _unreachable(self, request: str, error: Exception) -> Unreachable:
        sent = not isinstance(error, aiohttp.ClientConnectorError)
        match error:
            case aiohttp.ClientSSLError():
                problem = f"{error} (does the kubeconfig's certificate-authority belong to this server?)"
            case aiohttp.ClientConnectorError():
                problem = f"{_reason(error.os_error) or error} (is the API server running?)"
            case TimeoutError():
                problem = str(error) or "the deadline passed"
            case _:
                problem = str(error) or repr(error)
        return Unreachable(request, self.cluster.server, problem, sent)


def _unheard(write: asyncio.Task[bytes]) -> None:
    """Whoever would have been told how it went is gone."""
    if not write.cancelled():
        write.exception()


def _decode(resource: Resource[T], request: str, body: bytes) -> T:
    try:
        return codec.decode(resource.type, body)
    except msgspec.DecodeError as error:
        raise Unreadable(request, str(error)) from error


def _namespace_of(body: Body) -> str:
    if isinstance(body, Mapping):
        namespace: str = body.get("metadata", {}).get("namespace", "")
        return namespace
    return metadata_of(body).namespace  # type: ignore[arg-type]


def _reason(error: OSError) -> str:
    """In the system's own words; empty when it has none."""
    known = error.errno is not None and error.errno > 0
    return (os.strerror(error.errno) if known else error.strerror or "").lower()  # type: ignore[arg-type]


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    both = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in both.items() if value}


def _retry_after_s(response: aiohttp.ClientResponse) -> float | None:
    """The header in whole seconds, as the API sends it; a date, which proxies may send, says nothing."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else None


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices within about a minute when the other side vanished, even in a silent watch."""
    family, type_, protocol, _, _ = address
    made = socket.socket(family, type_, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not on every system we run on
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return made
