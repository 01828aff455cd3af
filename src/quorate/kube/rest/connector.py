"""Connections to an API server: whether writes may be sent on them, and the detection of dead ones."""

import socket
import ssl
from collections.abc import Callable

import aiohttp

from quorate.kube.errors import WriteNotPermitted

# Returns why writes must not be sent now; empty if they may be.
Permit = Callable[[], str]


class Connector(aiohttp.TCPConnector):
    """The connection pool of one client.

    It asks for permission when the connection of a write is ready, after which the request is sent without a
    wait; a refusal raises ``WriteNotPermitted``.  The client limits its requests and each watch has a
    connection of its own, so the pool itself is unbounded.
    """

    def __init__(self, permit: Permit | None, *, ssl: ssl.SSLContext | bool) -> None:
        super().__init__(limit=0, ssl=ssl, keepalive_timeout=60.0, socket_factory=_socket)
        self._permit = permit

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[aiohttp.tracing.Trace],
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.connector.Connection:
        connection = await super().connect(req, traces, timeout)
        if self._permit is not None and req.method != "GET" and (problem := self._permit()):
            connection.release()
            raise WriteNotPermitted(f"{req.method} {req.url.raw_path}", str(req.url.origin()), problem)
        return connection


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket with keepalives that detect a dead peer within a minute, also in a silent watch."""
    family, type_, protocol, _, _ = address
    connection = socket.socket(family, type_, protocol)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not available on every platform
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return connection
