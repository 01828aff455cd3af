"""A fake API server: it sends exactly the responses that a test scripts, faults included."""

import asyncio
import json
import random
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from quorate.kube.client import Client
from quorate.kube.rest.config import RestConfig


@dataclass(frozen=True)
class Answer:
    """A response; ``body`` is sent as JSON, or unchanged if it is bytes."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stream:
    """A watch: ``chunks`` in order, then the end; a torn stream breaks the connection instead of ending."""

    chunks: tuple[bytes, ...]
    torn: bool = False
    hold: asyncio.Event | None = None  # the stream stays open until this is set


@dataclass(frozen=True)
class Hangup:
    """The connection is closed without a response."""


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any  # JSON, or None


Script = Callable[[Request], Answer | Stream | Hangup | Awaitable[Answer]]


class FakeServer:
    """Answers each request with the result of ``script`` and records all requests."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self.requests: list[Request] = []
        self.url = ""

    def client(self, **options: Any) -> Client:
        return Client(RestConfig(self.url), random.Random(7), **options)

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"{'https' if self._tls else 'http'}://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _handle(self, received: web.BaseRequest) -> web.StreamResponse:
        body = await received.read()
        request = Request(
            received.method,
            received.path,
            dict(received.query),
            dict(received.headers),
            json.loads(body) if body else None,
        )
        self.requests.append(request)
        match self._script(request):
            case Answer() as answer:
                return _response(answer)
            case Stream() as stream:
                return await _stream(received, stream)
            case Hangup():
                assert received.transport is not None
                received.transport.abort()
                return web.Response()
            case later:
                return _response(await later)


def in_turn(*responses: Answer | Stream | Hangup) -> Script:
    """Return a script of these responses in order; a request after the last fails the test."""
    left = iter(responses)
    return lambda request: next(left)


def _response(answer: Answer) -> web.Response:
    body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
    headers = {"Content-Type": "application/json"} | answer.headers
    return web.Response(status=answer.status, body=body, headers=headers)


async def _stream(received: web.BaseRequest, stream: Stream) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(received)
    for chunk in stream.chunks:
        await response.write(chunk)
        await asyncio.sleep(0)  # one packet per chunk, as far as the kernel allows
    if stream.torn:
        assert received.transport is not None
        received.transport.abort()
    if stream.hold is not None:
        await stream.hold.wait()
    return response


def refusal(code: int, reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return status | {"code": code, "reason": reason, "message": message} | more


def pod(name: str, version: int, uid: str = "", namespace: str = "default", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "labels": labels}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata | {"resourceVersion": str(version)}}


def listing(version: int, *items: dict[str, Any], continue_: str = "") -> Answer:
    metadata = {"resourceVersion": str(version), "continue": continue_}
    return Answer(body={"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(items)})


def frame(type_: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": type_, "object": obj}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return frame("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})
