"""The outside world at its worst: an HTTP server that answers exactly what a test tells it to."""

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
from quorate.kube.config import Cluster


@dataclass(frozen=True)
class Answer:
    """``body`` is sent as JSON, or as it is when it is bytes."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stream:
    """A watch: ``chunks`` one after the other, then the end; a torn one breaks off in the middle."""

    chunks: tuple[bytes, ...]
    torn: bool = False
    hold: asyncio.Event | None = None  # kept open until this is set


@dataclass(frozen=True)
class Hangup:
    """The connection is closed without an answer."""


Script = Callable[["Asked"], Answer | Stream | Hangup | Awaitable[Answer]]


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any  # JSON, or None


class Outside:
    """Answers each request with what ``script`` returns for it, and remembers what was asked."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self.asked: list[Asked] = []
        self.server = ""

    def client(self, **options: Any) -> Client:
        return Client(Cluster(self.server), random.Random(7), **options)

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        host, port = self._runner.addresses[0][:2]
        self.server = f"{'https' if self._tls else 'http'}://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        asked = Asked(
            request.method,
            request.path,
            dict(request.query),
            dict(request.headers),
            json.loads(body) if body else None,
        )
        self.asked.append(asked)
        said = self._script(asked)
        match said:
            case Answer() as answer:
                return _answer(answer)
            case Stream() as stream:
                return await _stream(request, stream)
            case Hangup():
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            case later:
                return _answer(await later)


def in_turn(*said: Answer | Stream | Hangup) -> Script:
    """A script that says these in turn, whatever is asked, and breaks a test that asks for more."""
    left = iter(said)
    return lambda asked: next(left)


def _answer(answer: Answer) -> web.Response:
    body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
    headers = {"Content-Type": "application/json"} | answer.headers
    return web.Response(status=answer.status, body=body, headers=headers)


async def _stream(request: web.BaseRequest, stream: Stream) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    for chunk in stream.chunks:
        await response.write(chunk)
        await asyncio.sleep(0)  # one chunk, one packet, as far as the kernel lets us say so
    if stream.torn:
        assert request.transport is not None
        request.transport.abort()
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
