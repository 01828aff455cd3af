"""Names of the cluster, from queries in wire format."""

import asyncio
from collections.abc import Iterator

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.meta import Key
from quorate.local.controllers.services import EndpointSlice, Service
from quorate.local.runtime.network.cluster_view import PortedEndpoint
from quorate.local.runtime.network.dns_server import HEADER_BYTES, DnsServer


def a_service(name: str, **spec: object) -> Service:
    return codec.convert(Service, {"metadata": {"name": name, "namespace": "team"}, "spec": spec})


HTTP = {"name": "http", "port": 80, "protocol": "TCP"}
SERVICES = {
    service.metadata.name: service
    for service in (
        a_service("web", clusterIP="10.96.3.4", ports=[HTTP]),
        a_service("workers", clusterIP="None", ports=[HTTP]),
        a_service("many", clusterIP="None"),
        a_service("empty", clusterIP="None"),
        a_service("outside", type="ExternalName", externalName="example.org"),
        a_service("alias", type="ExternalName", externalName="web.team.svc.cluster.local"),
        a_service("loop", type="ExternalName", externalName="loop.team.svc.cluster.local"),
    )
}
SLICES = {
    "web": [{"addresses": ["10.244.0.9"]}],
    "workers": [
        {"addresses": ["10.244.0.2"], "hostname": "worker-0"},
        {"addresses": ["10.244.0.3"]},
        {"addresses": ["10.244.0.4"], "conditions": {"ready": False}},
    ],
    "many": [{"addresses": [f"10.244.1.{number}"]} for number in range(100)],
    "empty": [],
    "outside": [],
}


class FixedCluster:
    def service(self, key: Key) -> Service | None:
        return SERVICES.get(key.name) if key.namespace == "team" else None

    def service_with_address(self, address: str) -> Service | None:
        return next((one for one in SERVICES.values() if one.spec.cluster_ip == address), None)

    def endpoints(self, key: Key) -> Iterator[PortedEndpoint]:
        content = {"metadata": {}, "endpoints": SLICES.get(key.name, []), "ports": [HTTP]}
        one = codec.convert(EndpointSlice, content)
        for endpoint in one.endpoints or ():
            if endpoint.is_ready:
                yield PortedEndpoint(key, endpoint, one.ports or ())

    def endpoints_with_address(self, address: str) -> Iterator[PortedEndpoint]:
        for name in SLICES:
            yield from (
                each for each in self.endpoints(Key("team", name)) if address in each.endpoint.addresses
            )


def respond(wire: bytes, udp: bool = True) -> bytes | None:
    return asyncio.run(DnsServer(FixedCluster(), ()).respond(wire, udp=udp))


def ask(name: str, type_: str = "A", udp: bool = True) -> dns.message.Message:
    query = dns.message.make_query(name, type_, id=4)  # the order of the records depends on the id
    wire = respond(query.to_wire(), udp)
    assert wire is not None
    response = dns.message.from_wire(wire)
    assert query.is_response(response)
    return response


def records(response: dns.message.Message) -> list[str]:
    return sorted(
        f"{dns.rdatatype.to_text(rrset.rdtype)} {rdata}" for rrset in response.answer for rdata in rrset
    )


@pytest.mark.parametrize(
    ("name", "type_", "expected"),
    [
        ("web.team.svc.cluster.local", "A", ["A 10.96.3.4"]),
        ("WEB.Team.svc.cluster.LOCAL.", "A", ["A 10.96.3.4"]),
        ("web.team.svc.cluster.local", "AAAA", []),
        ("workers.team.svc.cluster.local", "A", ["A 10.244.0.2", "A 10.244.0.3"]),
        ("worker-0.workers.team.svc.cluster.local", "A", ["A 10.244.0.2"]),
        ("10-244-0-3.workers.team.svc.cluster.local", "A", ["A 10.244.0.3"]),
        ("10-244-0-7.team.pod.cluster.local", "A", ["A 10.244.0.7"]),
        ("_http._tcp.web.team.svc.cluster.local", "SRV", ["SRV 0 100 80 web.team.svc.cluster.local."]),
        (
            "_http._tcp.workers.team.svc.cluster.local",
            "SRV",
            [
                "SRV 0 100 80 10-244-0-3.workers.team.svc.cluster.local.",
                "SRV 0 100 80 worker-0.workers.team.svc.cluster.local.",
            ],
        ),
        ("4.3.96.10.in-addr.arpa", "PTR", ["PTR web.team.svc.cluster.local."]),
        ("2.0.244.10.in-addr.arpa", "PTR", ["PTR worker-0.workers.team.svc.cluster.local."]),
        (
            "alias.team.svc.cluster.local",
            "A",
            ["A 10.96.3.4", "CNAME web.team.svc.cluster.local."],
        ),
        ("outside.team.svc.cluster.local", "CNAME", ["CNAME example.org."]),
        ("team.svc.cluster.local", "A", []),
        ("cluster.local", "A", []),
    ],
)
def test_names_that_exist(name: str, type_: str, expected: list[str]) -> None:
    response = ask(name, type_)
    assert response.rcode() == dns.rcode.NOERROR
    assert records(response) == expected
    assert bool(response.authority) == (not expected), "an empty answer says how long it holds"


@pytest.mark.parametrize(
    "name",
    [
        "missing.team.svc.cluster.local",
        "web.other.svc.cluster.local",
        "empty.team.svc.cluster.local",
        "worker-1.workers.team.svc.cluster.local",
        "10-244-0-4.workers.team.svc.cluster.local",
        "_grpc._tcp.web.team.svc.cluster.local",
        "a.b.web.team.svc.cluster.local",
        "x.team.pod.cluster.local",
        "other.cluster.local",
        "0.0.0.0.in-addr.arpa",
        "example.org",
    ],
)
def test_names_that_do_not_exist_are_answered_at_once(name: str) -> None:
    assert ask(name).rcode() == dns.rcode.NXDOMAIN


@pytest.mark.parametrize("namespace", [b"a\\9", b"\xff", b"a.b", b" "])
def test_a_namespace_that_is_no_name_has_no_pods(namespace: bytes) -> None:
    name = dns.name.Name([b"10-244-0-7", namespace, b"pod", b"cluster", b"local", b""])
    wire = respond(dns.message.make_query(name, "A").to_wire())
    assert wire is not None
    assert dns.message.from_wire(wire).rcode() == dns.rcode.NXDOMAIN


def test_a_loop_of_external_names_ends() -> None:
    assert ask("loop.team.svc.cluster.local").rcode() == dns.rcode.SERVFAIL


def test_an_answer_that_is_too_large_for_a_datagram_is_whole_over_tcp() -> None:
    truncated = ask("many.team.svc.cluster.local")
    assert truncated.flags & dns.flags.TC
    assert len(records(truncated)) < 100
    assert len(records(ask("many.team.svc.cluster.local", udp=False))) == 100


@given(st.binary(max_size=80))
def test_any_datagram_is_answered_or_ignored(wire: bytes) -> None:
    response = respond(wire)
    if response is not None:
        assert response[:2] == wire[:2], "it has the id of the query"
        assert len(response) >= HEADER_BYTES


QUERY = dns.message.make_query("web.team.svc.cluster.local", "A", use_edns=0).to_wire()


@given(st.integers(2, len(QUERY) - 1), st.integers(0, 255), st.integers(0, len(QUERY)))
def test_a_damaged_query_is_answered_or_ignored(place: int, value: int, length: int) -> None:
    wire = (QUERY[:place] + bytes([value]) + QUERY[place + 1 :])[:length]
    response = respond(wire)
    if response is not None:
        assert response[:2] == wire[:2]
