"""The DNS server of the node: names of the cluster, and other names from the servers of the host.

``read_query`` and ``answer_from`` turn a message in wire format into the response for a name of the cluster.
"""

import asyncio
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from socket import socket
from typing import Any, Final

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

from quorate.kube.log import logger
from quorate.local.runtime.network.dns_records import ADDRESS_TYPES, Answer, Cluster, Record, lookup
from quorate.local.runtime.network.pod_files import CLUSTER_DOMAIN

TTL_S: Final = 5
MAX_ALIASES: Final = 8
PAYLOAD_BYTES: Final = 1232
HEADER_BYTES: Final = 12
RESPONSE_BIT: Final = 0x80
SOA: Final = f"ns.dns.{CLUSTER_DOMAIN}. hostmaster.{CLUSTER_DOMAIN}. 1 7200 1800 86400 {TTL_S}"


@dataclass(frozen=True, slots=True)
class Query:
    """A query with one question, and the name that is to be looked up for it."""

    message: dns.message.Message
    name: dns.name.Name
    type: str
    aliases: tuple[Record, ...] = ()  # the CNAME records from the name of the question to ``name``


def read_query(wire: bytes) -> Query | bytes | None:
    """Return the query of a message, the error to respond with, or None if the message gets no response."""
    if len(wire) < HEADER_BYTES or wire[2] & RESPONSE_BIT:
        return None
    try:
        message = dns.message.from_wire(wire, ignore_trailing=True)
    except (dns.exception.DNSException, ValueError):
        return wire[:2] + bytes([RESPONSE_BIT, dns.rcode.FORMERR]) + bytes(8)
    if message.opcode() != dns.opcode.QUERY:
        return respond(message, rcode=dns.rcode.NOTIMP)
    if len(message.question) != 1:
        return wire[:2] + bytes([RESPONSE_BIT, dns.rcode.FORMERR]) + bytes(8)
    [question] = message.question
    if question.rdclass != dns.rdataclass.IN:
        return respond(message, rcode=dns.rcode.REFUSED)
    return Query(message, question.name, dns.rdatatype.to_text(question.rdtype))


def answer_from(cluster: Cluster, query: Query, *, udp: bool) -> bytes | Query:
    """Return the answer of the cluster, or the query for a name that is not of the cluster.

    CNAME records of the cluster are followed, as resolvers of the C library require.
    """
    aliases = list(query.aliases)
    name = query.name
    for _ in range(MAX_ALIASES):
        labels = [label.decode("ascii", "replace").lower() for label in name.labels if label]
        answer = lookup(cluster, labels, query.type)
        if answer is None:
            return Query(query.message, name, query.type, tuple(aliases))
        if not (query.type in ADDRESS_TYPES and answer.records and answer.records[0].type == "CNAME"):
            return _respond_with(query.message, aliases, answer, udp)
        aliases += answer.records
        name = dns.name.from_text(answer.records[0].data)
    return respond(query.message, rcode=dns.rcode.SERVFAIL)


def _respond_with(query: dns.message.Message, aliases: list[Record], answer: Answer, udp: bool) -> bytes:
    # Clients take the first address: another one in each answer spreads them.
    turn = query.id % len(answer.records) if answer.records else 0
    records = (*aliases, *answer.records[turn:], *answer.records[:turn])
    rcode = dns.rcode.NOERROR if answer.exists or aliases else dns.rcode.NXDOMAIN
    return respond(query, records, answer.additional, rcode=rcode, udp=udp)


def respond(
    query: dns.message.Message,
    records: tuple[Record, ...] = (),
    additional: tuple[Record, ...] = (),
    *,
    rcode: dns.rcode.Rcode = dns.rcode.NOERROR,
    udp: bool = True,
) -> bytes:
    """Return a response in wire format; over UDP it is truncated to what the client accepts."""
    response = dns.message.make_response(query, recursion_available=True, our_payload=PAYLOAD_BYTES)
    response.flags |= dns.flags.AA
    response.set_rcode(rcode)
    response.answer = _record_sets(records)
    response.additional = _record_sets(additional)
    if not records and rcode in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
        response.authority = _record_sets((Record(CLUSTER_DOMAIN, "SOA", SOA),))
    limit = max(query.payload, 512) if udp else 65535
    return response.to_wire(max_size=limit, prefer_truncation=True)


def _record_sets(records: tuple[Record, ...]) -> list[dns.rrset.RRset]:
    grouped: dict[tuple[str, str], list[str]] = {}
    for record in records:
        grouped.setdefault((record.name, record.type), []).append(record.data)
    return [
        dns.rrset.from_text_list(f"{name}.", TTL_S, "IN", type_, data)
        for (name, type_), data in grouped.items()
    ]


def respond_to_alias(query: Query, forwarded: bytes, *, udp: bool) -> bytes:
    """Return the response to a query with aliases, given the answer of another server for the last one."""
    try:
        answer = dns.message.from_wire(forwarded, ignore_trailing=True)
    except (dns.exception.DNSException, ValueError):
        return respond(query.message, rcode=dns.rcode.SERVFAIL)
    records = tuple(
        Record(rrset.name.to_text(omit_final_dot=True), dns.rdatatype.to_text(rrset.rdtype), rdata.to_text())
        for rrset in answer.answer
        for rdata in rrset
    )
    return respond(query.message, (*query.aliases, *records), rcode=answer.rcode(), udp=udp)


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
        """Return the response to a message, or None if the message gets no response."""
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
        if query.aliases:  # ask for the name to which they lead
            wire = dns.message.make_query(query.name, query.type, id=query.message.id).to_wire()
        self._forwarded += 1
        try:
            for server in self._upstream:
                answer = await _exchange(server, wire, udp)
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
