"""The DNS server of the node: names of the cluster, and other names from the servers of the host."""

import asyncio
import struct
from collections.abc import Sequence
from contextlib import suppress
from socket import socket
from typing import Any, Final

import dns.rcode

from quorate.kube.log import logger
from quorate.local.runtime.network.dns_messages import (
    Query,
    answer_from,
    query_of_alias,
    read_query,
    respond,
    respond_to_alias,
)
from quorate.local.runtime.network.dns_records import Cluster

DNS_PORT: Final = 53
FORWARD_TIMEOUT_S: Final = 2.0
TCP_IDLE_S: Final = 10.0
MAX_FORWARDED: Final = 256  # queries that wait for another server
MAX_CONNECTIONS: Final = 256
LENGTH: Final = struct.Struct(">H")

log = logger(__name__)


class DnsServer:
    """Answers over UDP and TCP.  ``upstream``: servers for other names; without one they do not exist."""

    def __init__(self, cluster: Cluster, upstream: Sequence[str]) -> None:
        self._cluster = cluster
        self._upstream = upstream
        self._forwarded = 0
        self._connections = 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self, udp: socket, tcp: socket) -> None:
        """Serve on two bound sockets until cancelled, and close them."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self), sock=udp)
        server = await asyncio.start_server(self._serve_connection, sock=tcp)
        try:
            await asyncio.Event().wait()
        finally:
            transport.close()
            server.close()
            for task in self.tasks:
                task.cancel()

    async def respond(self, wire: bytes, *, udp: bool) -> bytes | None:
        """Return the response to a message, or None if none is due."""
        query = read_query(wire)
        if not isinstance(query, Query):
            return query
        answer = answer_from(self._cluster, query, udp=udp)
        if isinstance(answer, bytes):
            return answer
        return await self._forward(answer, wire, udp)

    async def _forward(self, query: Query, wire: bytes, udp: bool) -> bytes:
        if not self._upstream:
            return respond(query.message, query.aliases, rcode=dns.rcode.NXDOMAIN)
        if self._forwarded >= MAX_FORWARDED:
            return respond(query.message, rcode=dns.rcode.SERVFAIL)
        self._forwarded += 1
        try:
            for server in self._upstream:
                answer = await _exchange(server, query_of_alias(query) if query.aliases else wire, udp)
                if answer is not None:
                    return respond_to_alias(query, answer, udp=udp) if query.aliases else answer
        finally:
            self._forwarded -= 1
        return respond(query.message, rcode=dns.rcode.SERVFAIL)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= MAX_CONNECTIONS:
                with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                    await self._serve_messages(reader, writer)
        finally:
            self._connections -= 1
            writer.close()

    async def _serve_messages(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the messages of a connection; an idle connection ends with TimeoutError."""
        while True:
            async with asyncio.timeout(TCP_IDLE_S):
                [length] = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                wire = await reader.readexactly(length)
            response = await self.respond(wire, udp=False)
            if response is None:
                return
            writer.write(LENGTH.pack(len(response)) + response)
            async with asyncio.timeout(TCP_IDLE_S):
                await writer.drain()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server: DnsServer) -> None:
        self._server = server
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        # A task for each: most answer without waiting, and the others are limited in number.
        task = asyncio.get_running_loop().create_task(self._respond(data, addr))
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    async def _respond(self, data: bytes, address: Any) -> None:
        try:
            response = await self._server.respond(data, udp=True)
        except Exception as error:  # a bug must not leave other pods without names
            log.fault("a DNS query failed", error)
            return
        if response is not None and self._transport is not None:
            self._transport.sendto(response, address)


async def _exchange(server: str, wire: bytes, udp: bool) -> bytes | None:
    """Return the answer of another server; None if it does not answer in time."""
    try:
        async with asyncio.timeout(FORWARD_TIMEOUT_S):
            return await (_exchange_datagrams if udp else _exchange_stream)(server, wire)
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return None


async def _exchange_datagrams(server: str, wire: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: _FirstAnswer(answer, wire[:2]), remote_addr=(server, DNS_PORT)
    )
    try:
        transport.sendto(wire)
        return await answer
    finally:
        transport.close()


class _FirstAnswer(asyncio.DatagramProtocol):
    """Takes the first datagram with the id of the query."""

    def __init__(self, answer: asyncio.Future[bytes], query_id: bytes) -> None:
        self._answer = answer
        self._query_id = query_id

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if data[:2] == self._query_id and not self._answer.done():
            self._answer.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(exc)


async def _exchange_stream(server: str, wire: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(server, DNS_PORT)
    try:
        writer.write(LENGTH.pack(len(wire)) + wire)
        [length] = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        return await reader.readexactly(length)
    finally:
        writer.close()
