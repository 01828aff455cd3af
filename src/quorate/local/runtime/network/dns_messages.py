"""DNS messages: from a query in wire format to the answer for a name of the cluster."""

from dataclasses import dataclass
from typing import Final

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

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
    """Return the query of a message, the error to respond with, or None if no response is due."""
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


def query_of_alias(query: Query) -> bytes:
    """Return the query for the name to which the aliases lead."""
    return dns.message.make_query(query.name, query.type, id=query.message.id).to_wire()


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
