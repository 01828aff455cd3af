"""A proxy between clients and an API server that injects the faults of a ``Plan``.

Each client has a separate endpoint, a path of the proxy.  A closed endpoint is a dead client: its
connections are closed and later requests are dropped, but the server executes requests that it has received.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self, assert_never

import aiohttp
from aiohttp import web
from yarl import URL

from quorate.kube.rest.bounded_reads import Lines
from quorate.kube.rest.config import RestConfig
from tests.faults.plan import (
    Bookmarked,
    Conflicting,
    Cut,
    Dropped,
    Duplicated,
    Expired,
    Fault,
    Killed,
    Lagging,
    Late,
    Lost,
    Plan,
    Refused,
    Reordered,
    RequestKind,
    Stalled,
    Truncated,
    Unanswered,
)

REASONS: Final = {
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
REORDER_WAIT_S = 0.05  # how long a frame waits for its successor
PAGE_SIZE = 3  # pages are this small, so that lists need several


@dataclass(eq=False)
class ClientEndpoint:
    """The endpoint of one client; ``on_kill`` is called when the plan kills the client."""

    url: str
    on_kill: Callable[[], None]
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    # A list: requests are not hashable and compare by content.
    in_flight: list[web.BaseRequest] = field(default_factory=list)
    streams: set[aiohttp.ClientResponse] = field(default_factory=set)  # server side streams of its watches
    hostile_watches: set[str] = field(default_factory=set)  # watches opened while the plan was hostile
    idle: asyncio.Event = field(default_factory=asyncio.Event)  # set while no request is in flight

    def close(self) -> None:
        self.closed.set()
        for request in self.in_flight:
            _abort(request)
        for stream in self.streams:
            stream.close()


class Proxy:
    """The proxy; ``silence_s`` is longer than the request timeout of any client."""

    def __init__(self, cluster: RestConfig, plan: Plan, silence_s: float) -> None:
        self.injected: Counter[str] = Counter()  # injected faults by class name
        self.requests: Counter[RequestKind] = Counter()
        self._server = cluster.server
        self._tls = cluster.tls
        self._authorization = cluster.credentials.authorization()
        self._plan = plan
        self._silence_s = silence_s
        self._faults_stopped = asyncio.Event()
        self._endpoints: dict[str, ClientEndpoint] = {}
        self._url = ""

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls if self._tls is not None else True)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self._url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for endpoint in self._endpoints.values():
            endpoint.close()
        await self._runner.cleanup()
        await self._session.close()

    def endpoint(self, on_kill: Callable[[], None] = lambda: None) -> ClientEndpoint:
        name = f"client-{len(self._endpoints) + 1}"
        endpoint = self._endpoints[name] = ClientEndpoint(f"{self._url}/{name}", on_kill)
        endpoint.idle.set()
        return endpoint

    def stop_faults(self) -> None:
        """Inject no more faults; make clients with hostile watches list again once."""
        self._faults_stopped.set()
        for endpoint in self._endpoints.values():
            if endpoint.hostile_watches:
                for stream in endpoint.streams:
                    stream.close()

    def cut_watches(self) -> None:
        """Break the connection of every watch."""
        for endpoint in self._endpoints.values():
            for stream in endpoint.streams:
                stream.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        _, name, *rest = request.path_qs.split("/", 2)
        endpoint = self._endpoints[name]
        endpoint.in_flight.append(request)
        endpoint.idle.clear()
        try:
            if endpoint.closed.is_set():
                return _abort(request)
            return await self._forward(endpoint, request, f"/{rest[0]}")
        except ConnectionResetError:
            return _abort(request)  # the client has closed the connection
        finally:
            endpoint.in_flight = [each for each in endpoint.in_flight if each is not request]
            if not endpoint.in_flight:
                endpoint.idle.set()

    async def _forward(
        self, endpoint: ClientEndpoint, request: web.BaseRequest, path_qs: str
    ) -> web.StreamResponse:
        request_kind = request_kind_of(request.method, path_qs)
        self.requests[request_kind] += 1
        fault = (
            None
            if self._faults_stopped.is_set()
            else self._plan.fault(request_kind, self.requests[request_kind])
        )
        if fault is not None:
            self.injected[type(fault).__name__] += 1
        if isinstance(fault, Refused):
            return _refusal(fault)
        if request_kind.startswith("WATCH"):
            if self._faults_stopped.is_set() and request_kind in endpoint.hostile_watches:
                endpoint.hostile_watches.remove(request_kind)
                return _refusal(Refused(410))
            if self._plan.hostile and not self._faults_stopped.is_set():
                endpoint.hostile_watches.add(request_kind)
            return await self._watch(endpoint, request, path_qs, fault)
        if not self._faults_stopped.is_set():
            path_qs = path_qs.replace("limit=500", f"limit={PAGE_SIZE}")
        return await self._respond(endpoint, request, path_qs, fault)

    async def _respond(
        self, endpoint: ClientEndpoint, request: web.BaseRequest, path_qs: str, fault: Fault | None
    ) -> web.StreamResponse:
        body = await request.read()

        async def send() -> _Answer:
            return await self._send(request.method, path_qs, dict(request.headers), body)

        match fault:
            case None:
                return (await send()).response()
            case Late(request_delay_s, response_delay_s):
                await asyncio.sleep(request_delay_s)  # sleeps: a late answer is the fault itself
                answer = await send()
                await asyncio.sleep(response_delay_s)  # sleeps: a late answer is the fault itself
                return answer.response()
            case Conflicting():
                await self._touch(path_qs)
                return (await send()).response()
            case Lost(done):
                if done:
                    await send()
                return _abort(request)
            case Truncated():
                return await _truncated(request, await send())
            case Unanswered(done):
                if done:
                    await send()
                with suppress(TimeoutError):
                    await asyncio.wait_for(endpoint.closed.wait(), self._silence_s)
                return _abort(request)
            case Killed(done):
                if done:
                    await send()
                endpoint.close()
                endpoint.on_kill()
                return _abort(request)
            case _:
                raise AssertionError(f"{fault} is not a fault of {request.method} {path_qs}")

    async def _send(self, method: str, path_qs: str, headers: dict[str, str], body: bytes) -> "_Answer":
        forwarded = {name: value for name, value in headers.items() if name not in ("Host", "Content-Length")}
        url = URL(f"{self._server}{path_qs}", encoded=True)
        async with self._session.request(method, url, headers=forwarded, data=body or None) as answer:
            return _Answer(answer.status, dict(answer.headers), await answer.read())

    async def _touch(self, path_qs: str) -> None:
        """Write to the object as a foreign client, without an effect on decisions."""
        path = path_qs.partition("?")[0].removesuffix("/status")
        note = {"metadata": {"annotations": {"example.com/touched": str(sum(self.requests.values()))}}}
        headers = {"Authorization": self._authorization, "Content-Type": "application/merge-patch+json"}
        await self._send("PATCH", path, headers, json.dumps(note).encode())

    async def _watch(
        self, endpoint: ClientEndpoint, request: web.BaseRequest, path_qs: str, fault: Fault | None
    ) -> web.StreamResponse:
        url = URL(f"{self._server}{path_qs}", encoded=True)
        headers = {"Authorization": request.headers.get("Authorization", "")}
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(url, headers=headers, timeout=timeout) as stream:
            if stream.status != 200:
                return _Answer(stream.status, dict(stream.headers), await stream.read()).response()
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            response.enable_chunked_encoding()
            await response.prepare(request)
            if fault is not None and self._faults_stopped.is_set():
                return _abort(request)  # the faults stopped while the stream was opened
            endpoint.streams.add(stream)
            try:
                ended = await self._relay(stream, response, fault)
            except aiohttp.ClientError:
                ended = False  # closed by the proxy, or the server stopped
            finally:
                endpoint.streams.discard(stream)
            return response if ended else _abort(request)

    async def _relay(
        self, stream: aiohttp.ClientResponse, response: web.StreamResponse, fault: Fault | None
    ) -> bool:
        """Forward frames until the stream ends; return True if it ended without a connection error."""
        match fault:
            case None:
                async for frame in _frames(stream):
                    await response.write(frame)
            case Cut(after, mid_frame):
                async for number, frame in _counted(stream):
                    if number == after:
                        if mid_frame:
                            await response.write(frame[: len(frame) // 2])
                        return False
                    await response.write(frame)
            case Expired(after):
                async for number, frame in _counted(stream):
                    if number == after:
                        await response.write(EXPIRED)
                        return True
                    await response.write(frame)
            case Stalled(after, for_s):
                async for number, frame in _counted(stream):
                    if number == after:
                        await self._until_faults_stop(for_s)
                        return False
                    await response.write(frame)
            case Lagging(after, lag_s):
                await self._relay_late(stream, response, after, lag_s)
            case Bookmarked():
                async for frame in _frames(stream):
                    await response.write(frame + _bookmark(frame))
            case Duplicated():
                async for frame in _frames(stream):
                    await response.write(frame + frame)
            case Dropped(after):
                async for number, frame in _counted(stream):
                    if number != after:
                        await response.write(frame)
            case Reordered():
                await _relay_reordered(stream, response)
            case Late() | Refused() | Conflicting() | Lost() | Truncated() | Unanswered() | Killed():
                raise AssertionError(f"{fault} is not a fault of a watch")
            case _:
                assert_never(fault)
        return True

    async def _relay_late(
        self, stream: aiohttp.ClientResponse, response: web.StreamResponse, after: int, lag_s: float
    ) -> None:
        clock = asyncio.get_running_loop().time
        due: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()

        async def read() -> None:
            try:
                with suppress(aiohttp.ClientError):  # closed by the proxy, or the server stopped
                    async for number, frame in _counted(stream):
                        due.put_nowait((clock() + (lag_s if number >= after else 0.0), frame))
            finally:
                due.put_nowait(None)

        reading = asyncio.create_task(read())
        try:
            while (item := await due.get()) is not None:
                moment, frame = item
                await self._until_faults_stop(moment - clock())
                await response.write(frame)
        finally:
            reading.cancel()
            await asyncio.wait({reading})

    async def _until_faults_stop(self, at_most_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._faults_stopped.wait(), max(0.0, at_most_s))


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def response(self) -> web.Response:
        headers: dict[str, str] = {
            name: self.headers[name] for name in ("Retry-After", "Warning") if name in self.headers
        }
        headers["Content-Type"] = self.headers.get("Content-Type", "application/json")
        return web.Response(status=self.status, body=self.body, headers=headers)


def request_kind_of(method: str, path_qs: str) -> RequestKind:
    """Return the verb of the API, the resource and the subresource of a request."""
    path, _, query = path_qs.partition("?")
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    resource, name, subresource = (*parts, "", "", "")[:3]
    verb = method
    if method == "GET" and not name:
        verb = "WATCH" if "watch=true" in query else "CONTINUE" if "continue=" in query else "LIST"
    return f"{verb} {resource}/{subresource}" if subresource else f"{verb} {resource}"


def _status(code: int, message: str) -> dict[str, Any]:
    reason = REASONS[code]
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**head, "message": message, "reason": reason, "code": code}


EXPIRED: Final = (
    json.dumps({"type": "ERROR", "object": _status(410, "too old resource version")}).encode() + b"\n"
)


def _refusal(fault: Refused) -> web.Response:
    headers = {"Content-Type": "application/json"}
    if fault.retry_after_s is not None:
        headers["Retry-After"] = str(fault.retry_after_s)
    body = json.dumps(_status(fault.code, "rejected by the proxy")).encode()
    return web.Response(status=fault.code, body=body, headers=headers)


def _abort(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()  # the connection is closed


async def _truncated(request: web.BaseRequest, answer: _Answer) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers={"Content-Type": "application/json"})
    response.content_length = len(answer.body)
    await response.prepare(request)
    await response.write(answer.body[: len(answer.body) // 2])
    return _abort(request)


async def _frames(stream: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    lines = Lines(stream.url.path)
    async for chunk in stream.content.iter_any():
        for line in lines.feed(chunk):
            yield line + b"\n"


async def _counted(stream: aiohttp.ClientResponse) -> AsyncIterator[tuple[int, bytes]]:
    number = 0
    async for frame in _frames(stream):
        yield number, frame
        number += 1


async def _relay_reordered(stream: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
    held_frame: bytes | None = None
    frames = _frames(stream)
    coming = asyncio.ensure_future(anext(frames, None))
    try:
        while True:
            await asyncio.wait({coming}, timeout=REORDER_WAIT_S if held_frame is not None else None)
            if coming.done():
                frame = coming.result()
                if frame is None:
                    return
                coming = asyncio.ensure_future(anext(frames, None))
                if held_frame is None:
                    held_frame = frame
                    continue
                await response.write(frame)
            assert held_frame is not None, "a timeout without a held frame"
            await response.write(held_frame)
            held_frame = None
    finally:
        coming.cancel()
        await asyncio.wait({coming})


def _bookmark(frame: bytes) -> bytes:
    """Return a bookmark at the version of ``frame``; empty for a frame without a version."""
    object_: dict[str, Any] = json.loads(frame)["object"]
    version = object_.get("metadata", {}).get("resourceVersion", "")
    if not version:
        return b""
    head = {"kind": object_["kind"], "apiVersion": object_["apiVersion"]}
    body = {"type": "BOOKMARK", "object": {**head, "metadata": {"resourceVersion": version}}}
    return json.dumps(body).encode() + b"\n"
