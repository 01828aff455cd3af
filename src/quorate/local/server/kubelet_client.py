"""Requests of the API server to the kubelet of this machine, over a Unix socket."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web
from yarl import URL

from quorate.kube.cancellation import end_tasks
from quorate.local.connections import CHUNK_BYTES, NoResponse, Streams, UpgradedConnection, short_socket_path
from quorate.local.objects.errors import StatusError, bad_request, internal_error
from quorate.local.server.storage.store import Key, Store

MAX_HEAD_BYTES: Final = 64 * 1024
MAX_ERROR_BYTES: Final = 64 * 1024
ANSWER_TIMEOUT_S: Final = 30.0
SIMULATED: Final = "simulated://"  # the container runtime of simulated nodes
SWITCHING_PROTOCOLS: Final = 101
UNUSABLE_ANSWER: Final = (
    *(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError),
    *(ValueError, IndexError),  # no status line
)

Headers = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of a response of the kubelet, and the connection, which goes on after it."""

    status: int
    head: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class KubeletClient:
    def __init__(self, socket: Path | None) -> None:
        """``socket``: None without a kubelet on this machine."""
        self._socket = socket

    @property
    def exists(self) -> bool:
        """Return True if this machine has a kubelet."""
        return self._socket is not None

    @asynccontextmanager
    async def get(self, path: str, query: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield a successful response.  Raises StatusError."""
        url = URL(f"http://kubelet{path}?{query}", encoded=True)
        async with AsyncExitStack() as stack:
            try:
                with self._socket_path() as socket:
                    connector = aiohttp.UnixConnector(socket)
                    session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout())
                    await stack.enter_async_context(session)
                    response = await session.get(url)
            except (OSError, aiohttp.ClientError) as error:
                raise _unreachable(error) from error
            async with response:
                if response.status != 200:
                    raise _error(response.status, await response.content.read(MAX_ERROR_BYTES))
                yield response

    async def upgrade(self, request: web.BaseRequest, path: str, headers: Headers) -> web.StreamResponse:
        """Pass the upgrade of a request on to the kubelet, and then the bytes of both sides.

        Raises StatusError if the kubelet refuses it.
        """
        async with self._answer(request.method, path, headers) as answer:
            if answer.status != SWITCHING_PROTOCOLS:
                content = await _error_content(answer)
                raise _error(answer.status, content, "unable to upgrade connection: ")
            connection = UpgradedConnection(request)
            await connection.write(answer.head)
            await _relay(connection, answer.reader, answer.writer)
        return NoResponse()

    async def tunnel(
        self, request: web.BaseRequest, port_path: str, head: bytes, body: bytes
    ) -> web.StreamResponse:
        """Send an HTTP request to a port of a pod, and its response, as it is, to the client.

        ``port_path``: the namespace, the pod and the port. Raises StatusError.
        """
        async with self.connect(port_path) as (reader, writer):
            writer.write(head + body)
            await _relay(UpgradedConnection(request), reader, writer)
        return NoResponse()

    @asynccontextmanager
    async def connect(self, port_path: str) -> AsyncIterator[Streams]:
        """Yield a connection to a port of a pod; it ends with the block.  Raises StatusError."""
        headers = (("Connection", "Upgrade"), ("Upgrade", "tcp"))
        async with self._answer("GET", f"/tunnel/{port_path}", headers) as answer:
            if answer.status != SWITCHING_PROTOCOLS:
                content = (await _error_content(answer)).decode("utf-8", "replace")
                raise StatusError(503, "ServiceUnavailable", f"error trying to reach service: {content}")
            yield answer.reader, answer.writer

    async def forward(self, request: web.BaseRequest, head: bytes, body: bytes) -> web.StreamResponse:
        """Send an HTTP request to the kubelet itself, and its response, as it is, to the client."""
        async with self._connected() as (reader, writer):
            writer.write(head + body)
            await _relay(UpgradedConnection(request), reader, writer)
        return NoResponse()

    @asynccontextmanager
    async def _answer(self, method: str, path: str, headers: Headers) -> AsyncIterator[Answer]:
        """Send a request without a body and yield the answer; the connection ends with the block."""
        async with self._connected() as (reader, writer):
            writer.write(request_head(method, path, (("Host", "kubelet"), *headers)))
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                status = int(head.split(b" ", 2)[1])
            except UNUSABLE_ANSWER as error:
                raise _unreachable(error) from error
            yield Answer(status, head, reader, writer)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        try:
            with self._socket_path() as socket:
                reader, writer = await asyncio.open_unix_connection(socket, limit=MAX_HEAD_BYTES)
        except OSError as error:
            raise _unreachable(error) from error
        try:
            yield reader, writer
        finally:
            writer.close()

    def _socket_path(self) -> AbstractContextManager[str]:
        """Return the path of the socket in a short form.  Raises StatusError without a kubelet."""
        if self._socket is None:
            raise StatusError(
                503, "ServiceUnavailable", "the cluster has no kubelet (quorate local up --runtime process)"
            )
        return short_socket_path(self._socket)


def is_simulated(store: Store, node_name: str) -> bool:
    """Return True if the pods of a node run no process."""
    node = store.get(Key("nodes", "", node_name))
    info = node.decode().get("status", {}).get("nodeInfo", {}) if node is not None else {}
    return bool(info.get("containerRuntimeVersion", "").startswith(SIMULATED))


def request_head(method: str, path: str, headers: Headers) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")


async def _relay(
    client: UpgradedConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Copy both ways until one side has ended."""

    async def to_kubelet() -> None:
        with suppress(OSError):
            while chunk := await client.read():
                writer.write(chunk)
                await writer.drain()

    async def to_client() -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                await client.write(chunk)

    tasks = [asyncio.create_task(to_kubelet()), asyncio.create_task(to_client())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end_tasks(tasks)
        client.close()


async def _error_content(answer: Answer) -> bytes:
    """Return the body of a refusal, as far as it has arrived by the end of the connection or a limit."""
    length = MAX_ERROR_BYTES
    for line in answer.head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            length = min(length, int(value))
    with suppress(TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return await answer.reader.readexactly(length)
    return b""


def _error(status: int, content: bytes, context: str = "") -> StatusError:
    message = content.decode("utf-8", "replace").strip()
    match status:
        case 400:
            return bad_request(message)
        case 403:
            return StatusError(403, "Forbidden", message)
        case 404:
            return StatusError(404, "NotFound", message)
        case _:
            return internal_error(f"{context}{message}")


def _unreachable(error: Exception) -> StatusError:
    message = f"the kubelet of this machine does not answer: {str(error) or type(error).__name__}"
    return StatusError(503, "ServiceUnavailable", message)
