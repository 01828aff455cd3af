"""The connections of a client to its API server, directly or through the proxy of its kubeconfig."""

import asyncio
import base64
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from aiohappyeyeballs import start_connection

from quorate.kube.errors import WriteNotPermitted
from quorate.kube.limits import CONNECT_S, FALLBACK_S, KEEPALIVE_S, MAX_IDLE_CONNECTIONS
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.connection import Connection, TransportFailed

# Returns why writes must not be sent now; empty if they may be.
Permit = Callable[[], str]

_PORTS: Final = {"http": 80, "https": 443}


class Request(NamedTuple):
    """A request: ``name`` is its verb and path, for messages; ``target`` its path and query, quoted."""

    name: str
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None = None


class ConnectionPool:
    """Send requests, on connections that are kept for the next ones.

    The owner limits the requests in flight, and no request is sent twice.  ``permit`` is asked when the
    connection of a write is ready, after which the request is sent without a wait; a refusal raises
    ``WriteNotPermitted``.
    """

    def __init__(self, config: RestConfig, permit: Permit | None) -> None:
        self._config, self._permit = config, permit
        self._server = urlsplit(config.server)
        self._proxy = urlsplit(config.proxy) if config.proxy else None
        is_https = self._server.scheme == "https"
        has_tls = is_https and config.connect is None
        self._tls = config.tls or ssl.create_default_context() if has_tls else None
        host = self._server.netloc.rpartition("@")[2]
        self._host = host if host.isascii() else host.encode("idna").decode()  # with its port, if it has one
        self._prefix, self._fixed_headers = self._server.path, f"Host: {self._host}\r\n"
        if self._proxy is not None and not is_https:
            self._prefix = f"http://{self._host}{self._prefix}"
            self._fixed_headers += _proxy_authorization(self._proxy)
        self._fixed_headers += "".join(f"{name}: {value}\r\n" for name, value in config.impersonated)
        # Compression costs the server more than the transfer over a cluster network.
        self._fixed_headers += "Accept-Encoding: identity\r\nUser-Agent: quorate\r\n\r\n"
        self._open: dict[Connection, ssl.SSLContext | None] = {}
        self._idle: list[tuple[float, Connection]] = []  # with the loop time of its release, in this order
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    @asynccontextmanager
    async def stream(self, request: Request, deadline: float) -> AsyncIterator[Connection]:
        """Yield the connection of a response if its headers have arrived until ``deadline``.

        The deadline is a loop time.  Its body is read next.  Raises the same as ``send``.
        """
        connection = await self.send(request, deadline)
        try:
            await connection.head(deadline)
            yield connection
        finally:
            self.release(connection)

    def refuse(self) -> None:
        """Send no more requests."""
        self._is_closed = True

    async def close(self) -> None:
        """Close all connections; their requests fail."""
        self.refuse()
        self._idle.clear()
        if self._sweep is not None:
            self._sweep.cancel()
        ends = [connection.ended for connection in self._open]
        for connection in tuple(self._open):
            connection.abort()
        if ends:
            await asyncio.wait(ends)

    async def send(self, request: Request, deadline: float) -> Connection:
        """Send a request and return its connection, on which the response is read before its ``release``.

        A cancelled call has sent nothing.  Raises ``TransportFailed`` and ``WriteNotPermitted``.
        """
        encoded = self._encode(request)
        if self._is_closed:  # a task that waited for a slot, a rate or an attempt does not know it yet
            raise TransportFailed("this client is closed")
        tls = self._config.credentials.tls or self._tls
        connection = self._take(tls) or await self._connect(tls, deadline)
        if self._permit is not None and request.method != "GET" and (problem := self._permit()):
            self.release(connection)
            raise WriteNotPermitted(request.name, self._config.server, problem)
        connection.send(encoded)
        return connection

    def _encode(self, request: Request) -> bytes:
        _, method, target, headers, body = request
        lines = [f"{method} {self._prefix}{target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if not "".join(lines).isprintable() or " " in target:
            raise TransportFailed(
                "its path or a header, such as a token, has a control character", sent=False
            )
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        lines.append(self._fixed_headers)
        return "\r\n".join(lines).encode() + (body or b"")

    def _take(self, tls: ssl.SSLContext | None) -> Connection | None:
        """Return an idle connection with this TLS context; close those with an earlier one."""
        since = asyncio.get_running_loop().time() - KEEPALIVE_S
        while self._idle:
            released, connection = self._idle.pop()
            if released > since and connection.is_reusable and self._open[connection] is tls:
                return connection
            connection.abort()
        return None

    def release(self, connection: Connection) -> None:
        """Keep the connection for the next request; close it if that is not possible."""
        is_kept = connection.is_reusable and not self._is_closed
        if not is_kept or len(self._idle) >= MAX_IDLE_CONNECTIONS:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        self._idle.append((loop.time(), connection))
        if self._sweep is None:
            self._sweep = loop.call_later(KEEPALIVE_S, self._close_expired)

    def _close_expired(self) -> None:
        loop = asyncio.get_running_loop()
        since = loop.time() - KEEPALIVE_S
        idle, self._idle = self._idle, []
        for released, connection in idle:
            if released > since and connection.is_reusable:
                self._idle.append((released, connection))
            else:
                connection.abort()
        self._sweep = loop.call_later(KEEPALIVE_S, self._close_expired) if self._idle else None

    async def _connect(self, tls: ssl.SSLContext | None, deadline: float) -> Connection:
        hint = "is the API server running?" if self._proxy is None else "is the proxy running?"
        deadline = min(deadline, asyncio.get_running_loop().time() + CONNECT_S)
        try:
            async with asyncio.timeout_at(deadline):
                connection = await self._connected(tls, deadline)
        except TimeoutError as error:
            problem = str(error) or "no connection until the deadline"
            raise TransportFailed(f"{problem} ({hint})", sent=False) from error
        except ssl.SSLError as error:
            hint = "does the kubeconfig's certificate-authority belong to this server?"
            raise TransportFailed(f"{error} ({hint})", sent=False) from error
        except OSError as error:
            raise TransportFailed(f"{_reason(error) or error} ({hint})", sent=False) from error
        self._open[connection] = tls
        connection.ended.add_done_callback(lambda _: self._open.pop(connection))
        if self._is_closed or not connection.is_open:
            connection.abort()
            problem = "this client is closed" if self._is_closed else "the server closed the connection"
            raise TransportFailed(problem, sent=self._is_closed)
        return connection

    async def _connected(self, tls: ssl.SSLContext | None, deadline: float) -> Connection:
        if self._config.connect is not None:
            return await _connection_on(await self._config.connect())
        server_name = self._config.tls_server_name or self._server.hostname or ""
        if self._proxy is None:
            _, connection = await _connection_to(self._server, tls, server_name)
            return connection
        if self._proxy.scheme not in _PORTS:
            problem = f"proxy-url: {self._proxy.scheme} is not supported; use http or https"
            raise TransportFailed(problem, sent=False)
        proxy_tls = ssl.create_default_context() if self._proxy.scheme == "https" else None
        transport, proxied = await _connection_to(self._proxy, proxy_tls, self._proxy.hostname or "")
        if tls is None:
            return proxied
        try:
            host = self._host if self._server.port is not None else f"{self._host}:{_PORTS['https']}"
            authorization = _proxy_authorization(self._proxy)
            proxied.send(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n{authorization}\r\n".encode())
            await proxied.head(deadline)
            if proxied.status != 200:
                raise TransportFailed(f"the proxy refused the connection: {proxied.status}", sent=False)
            loop, connection = asyncio.get_running_loop(), Connection()
            inner = await loop.start_tls(transport, connection, tls, server_hostname=server_name)
            assert inner is not None
            connection.connection_made(inner)
            return connection
        except BaseException:
            transport.abort()
            raise


async def _connection_to(
    url: SplitResult, tls: ssl.SSLContext | None, server_name: str
) -> tuple[asyncio.Transport, Connection]:
    loop, host, port = asyncio.get_running_loop(), url.hostname or "", _port(url)
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:  # a name
        addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    connected = await start_connection(addresses, happy_eyeballs_delay=FALLBACK_S, socket_factory=_socket)
    connection = Connection()
    try:
        return await loop.create_connection(
            lambda: connection,
            sock=connected,
            ssl=tls,
            server_hostname=server_name if tls is not None else None,
        )
    except BaseException:
        connection.abort()  # if it was ready, asyncio would wait for the server to end it
        raise


async def _connection_on(connected: socket.socket) -> Connection:
    """Return the connection on a socket of the family AF_UNIX."""
    connection = Connection()
    try:
        await asyncio.get_running_loop().create_unix_connection(lambda: connection, sock=connected)
    except BaseException:
        connection.abort()
        raise
    return connection


def _port(url: SplitResult) -> int:
    return url.port or _PORTS[url.scheme]


def _proxy_authorization(proxy: SplitResult) -> str:
    """Return the header with the user and password in the URL of the proxy; empty if it has none."""
    if proxy.username is None:
        return ""
    user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return f"Proxy-Authorization: Basic {base64.b64encode(user.encode()).decode()}\r\n"


def _socket(address: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """Return a socket with keepalives that detect a dead peer within a minute, also in a silent watch."""
    family, type_, protocol, _, _ = address
    connection = socket.socket(family, type_, protocol)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not available on every platform
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return connection


def _reason(error: OSError) -> str:
    """Return the error text of the operating system; empty if it has none."""
    has_number = error.errno is not None and error.errno > 0
    return (os.strerror(error.errno) if has_number else error.strerror or "").lower()  # type: ignore[arg-type]
