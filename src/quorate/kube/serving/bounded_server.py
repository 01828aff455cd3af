"""An HTTP server with bounded connections, buffers and waits, for ports that any pod can reach.

aiohttp handles the protocol.  This module accepts the connections, so that they are counted before the TLS
handshake, and bounds what one client or many can hold:

- connections: beyond ``ServerLimits.connections`` the oldest one that has not sent a whole request is closed
  for the new one; if every connection has a request being answered, the new one is closed;
- memory: what was received for unanswered requests and what clients have not read of responses is counted
  for all connections together; beyond ``ServerLimits.buffered_bytes`` the connection with the most is closed;
- time: a TLS handshake, the headers of a request, its body and the reading of its response have deadlines,
  after which the connection is closed.

Compressed bodies are refused, because API servers send none.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, cast

from aiohttp import StreamReader, web

from quorate.kube.cancellation import end_tasks
from quorate.kube.limits import (
    ACCEPT_RETRY_S,
    BACKLOG,
    ESTIMATE_BYTES,
    LINGERING_S,
    SERVER_LOG_INTERVAL_S,
    SHUTDOWN_S,
)
from quorate.kube.log import logger
from quorate.kube.serving.malformed_requests import http_logger

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ServerLimits:
    connections: int = 100
    buffered_bytes: int = 32 * 2**20  # of all connections
    transfer_s: float = 10.0  # for a handshake, the headers, the body, and the reading of a response
    idle_s: float = (
        120.0  # longer than the 90 s of an API server, which would otherwise use a closed connection
    )
    header_bytes: int = 8190  # of one header


class _Connection(asyncio.Protocol):
    """Counts and times the bytes of a connection, and forwards them to aiohttp's protocol."""

    def __init__(self, server: "_Server", accepted: socket.socket, http: web.RequestHandler) -> None:
        self._server = server
        self._accepted = accepted
        self._transport: asyncio.Transport | None = None  # None: not after the TLS handshake, or lost
        self._http = http
        self._timer: asyncio.TimerHandle | None = None  # of the transfer in progress
        self._content: StreamReader | None = None  # the body of the latest request
        self.connecting: asyncio.Task[None] | None = None
        self.answered = False  # at least one request
        self.answering = False  # a whole request
        self.discarding = False  # aiohttp reads the rest of a refused body and drops it
        self.received = 0  # bytes of the current request
        self.unsent = 0  # bytes of responses that the client has not read

    @property
    def buffered(self) -> int:
        return self.received + self.unsent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.by_handler[self._http] = self
        self._http.connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        if self._timer is None and not self.answering:
            self._start_timer()  # the headers of the next request
        if not self.discarding:
            self._count(received=self.received + len(data))
        self._http.data_received(data)

    def eof_received(self) -> None:
        self._http.eof_received()

    def pause_writing(self) -> None:
        self._http.pause_writing()
        assert self._transport is not None
        self._start_timer()
        self._count(unsent=self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._http.resume_writing()
        self._stop_timer()
        self._count(unsent=0)

    def connection_lost(self, error: BaseException | None) -> None:
        self._stop_timer()
        self._transport = None
        self._server.forget(self)
        self._server.by_handler.pop(self._http, None)
        self._http.connection_lost(error)

    def begin_request(self, request: web.Request) -> None:
        if self._content is None:
            request.task.add_done_callback(self._release)
        self._content = request.content
        self.start_answering()

    def _release(self, task: asyncio.Task[None]) -> None:
        """Free what the task of the connection held, once that is done.

        The errors that ended it refer to their frames, and these to the task, the request, the body and the
        buffers of the connection: half a megabyte, until a garbage collection, which is rare.
        """
        if task.cancelled():
            with suppress(asyncio.CancelledError):
                task.exception()  # the task no longer keeps the error
        error = None if self._content is None else self._content.exception()
        if isinstance(error, BaseException):
            error.__traceback__ = None
        self._content = None

    def start_answering(self) -> None:
        self._stop_timer()
        self.answering = True

    def start_reading(self) -> None:
        """Expect a body within the deadline; until then the connection counts as one without a request."""
        self.answering = False
        self._start_timer()

    def answer_done(self, *, size: int, unread: bool) -> None:
        """End a request of about ``size`` bytes.

        ``unread``: the rest of its body is discarded, and then the connection is closed.
        """
        self._stop_timer()
        self.answering = False
        self.answered = self.answered or not unread
        self.discarding = unread
        early = 0 if unread else self.received - size  # of the next request; no usual client sends any
        if early <= ESTIMATE_BYTES:
            early = 0
        if unread or early:
            self._start_timer()
        self._count(received=early)

    @property
    def in_handshake(self) -> bool:
        return self._transport is None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        elif self.connecting is not None:
            self.connecting.cancel()
            self._accepted.close()

    def _count(self, *, received: int | None = None, unsent: int | None = None) -> None:
        before = self.buffered
        self.received = self.received if received is None else received
        self.unsent = self.unsent if unsent is None else unsent
        self._server.count(self, self.buffered - before)

    def _start_timer(self) -> None:
        self._stop_timer()
        if self._transport is None:
            return
        loop, limits = asyncio.get_running_loop(), self._server.limits
        self._timer = loop.call_later(limits.transfer_s, self.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_CONNECTION: Final = web.RequestKey("connection", _Connection)


class _Server:
    def __init__(self, new_handler: Callable[[], web.RequestHandler], limits: ServerLimits) -> None:
        self.limits = limits
        self.by_handler: dict[web.RequestHandler, _Connection] = {}
        self._new_handler = new_handler
        self._open: dict[_Connection, None] = {}  # in order of arrival
        self._buffered = 0  # bytes: the sum over ``_open``
        self._closed = 0  # connections, by a limit
        self._log_from = 0.0  # loop time

    async def accept(self, listening: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:  # no file descriptor or memory is left, or the client has gone
                logger(__name__).warning("connection not accepted", problem=error.strerror)
                self._close_one()
                await asyncio.sleep(ACCEPT_RETRY_S)
                continue
            if len(self._open) >= self.limits.connections and not self._close_one():
                accepted.close()
                continue
            connection = _Connection(self, accepted, self._new_handler())
            self._open[connection] = None
            connection.connecting = loop.create_task(self._connect(connection, accepted, tls))

    async def close(self) -> None:
        """Close the connections that are in a handshake; aiohttp closes those after it."""
        handshakes = [connection.connecting for connection in self._open if connection.connecting is not None]
        for connection in tuple(self._open):
            if connection.in_handshake:
                connection.close()
        await asyncio.gather(*handshakes, return_exceptions=True)

    def forget(self, connection: _Connection) -> None:
        if connection in self._open:
            del self._open[connection]
            self._buffered -= connection.buffered

    def count(self, connection: _Connection, change: int) -> None:
        """Count bytes of ``connection``; beyond the limit close the connection with the most."""
        if connection not in self._open:
            return
        self._buffered += change
        if change > 0 and self._buffered > self.limits.buffered_bytes:
            largest = max(self._open, key=lambda opened: opened.buffered)
            self._close(largest, "too many bytes are buffered")

    async def _connect(
        self, connection: _Connection, accepted: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        loop, timeout_s = asyncio.get_running_loop(), self.limits.transfer_s
        try:
            if tls is None:
                await loop.connect_accepted_socket(lambda: connection, accepted)
            else:
                await loop.connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=tls,
                    ssl_handshake_timeout=timeout_s,
                    ssl_shutdown_timeout=SHUTDOWN_S,
                )
        except (OSError, asyncio.CancelledError):  # of the handshake: ssl.SSLError, TimeoutError and others
            self.forget(connection)
            accepted.close()
        finally:
            connection.connecting = None

    def _close_one(self) -> bool:
        """Close the oldest connection without a request; prefer one without any answered request."""
        waiting = [connection for connection in self._open if not connection.answering]
        unanswered = (connection for connection in waiting if not connection.answered)
        victim = next(unanswered, next(iter(waiting), None))
        if victim is None:
            return False
        self._close(victim, "too many connections")
        return True

    def _close(self, connection: _Connection, problem: str) -> None:
        self.forget(connection)
        connection.close()
        self._closed += 1
        now = asyncio.get_running_loop().time()
        if now >= self._log_from:
            self._log_from = now + SERVER_LOG_INTERVAL_S
            logger(__name__).warning("connections closed", problem=problem, total=self._closed)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = self.by_handler.get(request.protocol)
        if connection is None:
            raise web.HTTPServiceUnavailable(text="the connection is closed\n")
        request[_CONNECTION] = connection
        connection.begin_request(request)
        try:
            if request.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise web.HTTPUnsupportedMediaType(text="the body is compressed, which is not supported\n")
            return await handler(request)
        except web.HTTPException as refusal:  # aiohttp would keep it with the frames in its traceback
            return web.Response(
                status=refusal.status, reason=refusal.reason, body=refusal.body, headers=refusal.headers
            )
        finally:
            connection.answer_done(size=_size(request), unread=not request.content.is_eof())


def _size(request: web.Request) -> int:
    """Return about how many bytes the request had; chunked bodies and folded headers had some more."""
    fields = sum(len(name) + len(value) + 4 for name, value in request.raw_headers)
    return len(request.path_qs) + fields + request.content.total_bytes


async def read_body(request: web.Request, limit: int) -> bytes:
    """Return the body of a request to a bounded server.

    Raises ``web.HTTPException`` (413) beyond ``limit`` bytes, of which no more are kept.
    """
    connection = request[_CONNECTION]
    if (request.content_length or 0) > limit:
        raise _too_large(request, limit)
    body = bytearray()
    connection.start_reading()
    async for chunk in request.content.iter_any():
        if len(body) + len(chunk) > limit:
            raise _too_large(request, limit)
        body += chunk
    connection.start_answering()
    return bytes(body)


def _too_large(request: web.Request, limit: int) -> web.HTTPRequestEntityTooLarge:
    text = f"the body is too large: at most {limit} bytes are read\n"
    return web.HTTPRequestEntityTooLarge(limit, request.content_length or limit + 1, text=text)


@asynccontextmanager
async def bounded_server(
    app: web.Application, host: str, port: int, tls: ssl.SSLContext | None, limits: ServerLimits
) -> AsyncIterator[int]:
    """Serve ``app`` while the block lasts, on all interfaces if ``host`` is empty; yield the port.

    Raises ``OSError`` if the address cannot be used.
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=SHUTDOWN_S,
        handler_cancellation=True,
        keepalive_timeout=limits.idle_s,
        lingering_time=LINGERING_S,
        auto_decompress=False,
        max_field_size=limits.header_bytes,
        logger=http_logger(),
    )
    listening = await listen(host, port)
    try:
        server = _Server(lambda: _new_handler(runner), limits)
        app.middlewares.insert(0, server.middleware)
        await runner.setup()
        loop = asyncio.get_running_loop()
        accepting = [loop.create_task(server.accept(opened, tls), name="accept") for opened in listening]
        try:
            yield listening[0].getsockname()[1]
        finally:
            await end_tasks(accepting)
            await server.close()
            await runner.cleanup()
    finally:
        for opened in listening:
            opened.close()


def _new_handler(runner: web.AppRunner) -> web.RequestHandler:
    assert runner.server is not None, "the runner is not set up"
    return runner.server()


async def listen(host: str, port: int) -> list[socket.socket]:
    """Return a listening socket for each address of ``host``."""
    addresses = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    listening: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            try:
                opened = socket.socket(family, kind, protocol)
            except OSError:
                continue  # an address family that this host does not support
            listening.append(opened)
            opened.setblocking(False)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.bind(address)
            opened.listen(BACKLOG)
    except OSError:
        for opened in listening:
            opened.close()
        raise
    if not listening:
        raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    return listening
