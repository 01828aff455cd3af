"""Connections to an API server: whether writes may be sent on them, dead ones, and failures of requests."""

import os
import socket
import ssl
from collections.abc import Callable

import aiohttp

from quorate.kube.errors import ApiError, Unreachable, WriteNotPermitted, error_from_answer

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
        self, req: aiohttp.ClientRequest, traces: list[aiohttp.tracing.Trace], timeout: aiohttp.ClientTimeout
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


def unreachable(request: str, server: str, error: Exception) -> Unreachable:
    """Return the failure of a request, with what its user may do, and whether it may have been sent."""
    sent = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    match error:
        case aiohttp.ClientSSLError():
            problem = f"{error} (does the kubeconfig's certificate-authority belong to this server?)"
        case aiohttp.ClientConnectorError():
            problem = f"{_reason(error.os_error) or error} (is the API server running?)"
        case TimeoutError():
            problem = str(error) or "the deadline passed"
        case _:
            problem = str(error) or repr(error)
    return Unreachable(request, server, problem, sent)


def _reason(error: OSError) -> str:
    """Return the error text of the operating system; empty if it has none."""
    has_number = error.errno is not None and error.errno > 0
    return (os.strerror(error.errno) if has_number else error.strerror or "").lower()  # type: ignore[arg-type]


def refusal(request: str, response: aiohttp.ClientResponse, body: bytes) -> ApiError:
    """Return the error for a response of 400 and above."""
    return error_from_answer(request, response.status, body, _retry_after_s(response))


def _retry_after_s(response: aiohttp.ClientResponse) -> float | None:
    """Return Retry-After in seconds, as API servers send it; None for a date, as proxies may send it."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else None
