"""The HTTP server: uvicorn, with bounds for clients that are slow or many."""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from quorate.api.configuration.process import Address
from quorate.kube.serving.malformed_requests import http_logger
from quorate.observe.serving import CannotListen

MOST_CONNECTIONS: Final = 2000
REQUEST_S: Final = 10.0  # from the connection, or the first byte of a later request, to all its headers
READ_S: Final = 30.0  # until a client reads some of the response for which its buffers have no space
_IDLE_S: Final = 75  # between requests
_HEADER_BYTES: Final = 32 * 1024  # a token of many groups in a cookie of another site on this host
_STOP_S: Final = 1


class _Protocol(H11Protocol):
    """Closes a connection that is too slow to send a request or to read a response.

    For a connection too many the one that is idle for longest is closed; if none is idle, the new one.
    """

    _idle_since = 0.0  # seconds of the loop's clock; the last data or the beginning

    _timer: asyncio.TimerHandle | None = None  # of the headers of a request
    _reading: asyncio.TimerHandle | None = None  # of a client with a full buffer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        if len(self.connections) > MOST_CONNECTIONS:
            others = (each for each in self.connections if isinstance(each, _Protocol) and each is not self)
            idle = (each for each in others if each.is_idle)
            closed = min(idle, key=lambda each: each._idle_since, default=self)
            self.connections.discard(closed)
            closed.transport.abort()
            if closed is self:
                return
        self._start_timer()

    @property
    def is_idle(self) -> bool:
        """Return True if no response is being sent."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def data_received(self, data: bytes) -> None:
        self._idle_since = self.loop.time()
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:  # the headers are not complete
            if self._timer is None:
                self._start_timer()
        else:
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading = self.loop.call_later(READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to the process, which ends the block of ``serve``."""
        yield


@asynccontextmanager
async def serve(app: ASGIApp, address: Address, tls: ssl.SSLContext | None) -> AsyncIterator[Address]:
    """Serve ``app`` while the block lasts; yield the address, with a free port instead of 0.

    Raises ``CannotListen``.
    """
    listening = _listen(address)
    bound = Address(address.host, listening.getsockname()[1])
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,  # addresses have codes of logins
        proxy_headers=False,  # a client could name any address
        server_header=False,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=_STOP_S,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        **_tls_options(tls),
    )
    http_logger("uvicorn.error").setLevel(logging.WARNING)
    server = _Server(config)
    serving = asyncio.create_task(server.serve([listening]), name="dashboard server")
    try:
        yield bound
    finally:
        server.should_exit = True
        await asyncio.wait({serving})
        listening.close()


def _tls_options(tls: ssl.SSLContext | None) -> dict[str, Any]:
    return {} if tls is None else {"ssl_context_factory": lambda config, default: tls}


def _listen(address: Address) -> socket.socket:
    try:
        if address.host:
            return socket.create_server((address.host, address.port), family=_family(address.host))
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", address.port))
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error)
        raise CannotListen("--address", address, reason) from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
