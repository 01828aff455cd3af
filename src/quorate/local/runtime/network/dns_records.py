"""Names of the cluster: services and pods, as https://github.com/kubernetes/dns/blob/master/docs/specification.md."""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from quorate.api.meta import Key
from quorate.local.controllers.services import HEADLESS, EndpointPort, Service, ServicePort
from quorate.local.runtime.network.cluster_view import PortedEndpoint
from quorate.local.runtime.network.pod_files import CLUSTER_DOMAIN

ZONE: Final = tuple(CLUSTER_DOMAIN.split("."))
REVERSE_ZONE: Final = ("in-addr", "arpa")
ADDRESS_TYPES: Final = ("A", "AAAA")


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    type: str
    data: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Records of a name; without ``exists`` the name does not exist (NXDOMAIN)."""

    exists: bool
    records: tuple[Record, ...] = ()
    additional: tuple[Record, ...] = ()


class Cluster(Protocol):
    """The methods of a ``ClusterView`` that answers need."""

    def service(self, key: Key) -> Service | None: ...
    def service_with_address(self, address: str) -> Service | None: ...
    def endpoints(self, key: Key) -> Iterator[PortedEndpoint]: ...
    def endpoints_with_address(self, address: str) -> Iterator[PortedEndpoint]: ...


NO_NAME: Final = Answer(False)
NO_DATA: Final = Answer(True)


def lookup(cluster: Cluster, labels: Sequence[str], type_: str) -> Answer | None:
    """Return the answer for a name, given by its labels in lower case; None for other names.

    ``type_``: the type of the records, such as A.
    """
    if tuple(labels[-2:]) == ZONE:
        return _lookup_in_zone(cluster, tuple(labels[:-2]), type_)
    if tuple(labels[-2:]) == REVERSE_ZONE:
        return _reverse(cluster, labels[:-2], type_)
    return None


def _lookup_in_zone(cluster: Cluster, labels: tuple[str, ...], type_: str) -> Answer:
    match labels:
        case () | ("svc" | "pod",) | (_, "svc" | "pod"):
            return NO_DATA
        case (address, namespace, "pod") if namespace.replace("-", "").isalnum():
            return _pod_address(".".join((*labels, CLUSTER_DOMAIN)), address, type_)
        case (*rest, service_name, namespace, "svc"):
            service = cluster.service(Key(namespace, service_name))
            return NO_NAME if service is None else _of_service(cluster, service, tuple(rest), type_)
        case _:
            return NO_NAME


def _of_service(cluster: Cluster, service: Service, rest: tuple[str, ...], type_: str) -> Answer:
    """Answer for a name of a service or below it; ``rest``: the labels before the name of the service."""
    key, name = service.metadata.key, service_name(service.metadata.key)
    if service.spec.type == "ExternalName":
        target = service.spec.external_name.rstrip(".") + "."
        return NO_NAME if rest else Answer(True, (Record(name, "CNAME", target),))
    endpoints = list(cluster.endpoints(key))
    headless = service.spec.cluster_ip == HEADLESS
    match rest:
        case ():
            addresses = _addresses(endpoints) if headless else (service.spec.cluster_ip,)
            if type_ == "SRV":
                return _services(service, endpoints, headless, "", "")
            return _address_answer(name, addresses, type_)
        case (port, protocol) if port.startswith("_") and protocol in ("_tcp", "_udp"):
            answer = _services(service, endpoints, headless, port[1:], protocol[1:])
            return answer if type_ == "SRV" or not answer.exists else NO_DATA
        case (label,):
            if label in ("_tcp", "_udp"):
                return NO_DATA
            named = [ported for ported in endpoints if endpoint_label(ported) == label]
            return _address_answer(f"{label}.{name}", _addresses(named), type_)
        case _:
            return NO_NAME


def _address_answer(name: str, addresses: Iterable[str], type_: str) -> Answer:
    records = tuple(Record(name, "A", address) for address in addresses)
    if not records:
        return NO_NAME
    return Answer(True, records) if type_ == "A" else NO_DATA


def _addresses(endpoints: Iterable[PortedEndpoint]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(address for ported in endpoints for address in ported.endpoint.addresses))


def _services(
    service: Service, endpoints: Iterable[PortedEndpoint], headless: bool, port: str, protocol: str
) -> Answer:
    """Return the SRV records of the ports with this name and protocol; empty strings mean all."""

    def matches(served: ServicePort | EndpointPort) -> bool:
        return (not port or served.name == port) and (not protocol or served.protocol.lower() == protocol)

    name = service_name(service.metadata.key)
    owner = f"_{port}._{protocol}.{name}" if port else name
    if not headless:
        ports = [served.port for served in service.spec.ports if matches(served)]
        records = tuple(Record(owner, "SRV", f"0 100 {number} {name}.") for number in ports)
        return _with_addresses(records, (Record(name, "A", service.spec.cluster_ip),))
    srv_records: list[Record] = []
    additional: list[Record] = []
    for ported in endpoints:
        target = f"{endpoint_label(ported)}.{name}"
        for served in ported.ports:
            if served.port is not None and matches(served):
                srv_records.append(Record(owner, "SRV", f"0 100 {served.port} {target}."))
                additional += [Record(target, "A", address) for address in ported.endpoint.addresses]
    return _with_addresses(tuple(srv_records), tuple(dict.fromkeys(additional)))


def _with_addresses(records: tuple[Record, ...], additional: tuple[Record, ...]) -> Answer:
    return Answer(True, records, additional) if records else NO_NAME


def _pod_address(name: str, label: str, type_: str) -> Answer:
    """Answer for a name such as 10-244-0-7.team.pod.cluster.local."""
    try:
        address = ipaddress.IPv4Address(label.replace("-", "."))
    except ValueError:
        return NO_NAME
    return _address_answer(name, (str(address),), type_)


def _reverse(cluster: Cluster, labels: Sequence[str], type_: str) -> Answer | None:
    """Answer with the names of an address of a service or a pod; None for public addresses."""
    try:
        address = ipaddress.IPv4Address(".".join(reversed(labels)))
    except ValueError:
        return None
    if address.is_global:
        return None
    service = cluster.service_with_address(str(address))
    if service is not None:
        names = [service_name(service.metadata.key)]
    else:
        endpoints = cluster.endpoints_with_address(str(address))
        names = [f"{endpoint_label(ported)}.{service_name(ported.service)}" for ported in endpoints]
    if not names:
        return NO_NAME  # at once, since servers look up the name of their own address when they start
    owner = ".".join((*labels, *REVERSE_ZONE))
    records = tuple(Record(owner, "PTR", f"{name}.") for name in dict.fromkeys(names))
    return Answer(True, records) if type_ == "PTR" else NO_DATA


def service_name(key: Key) -> str:
    return f"{key.name}.{key.namespace}.svc.{CLUSTER_DOMAIN}"


def endpoint_label(ported: PortedEndpoint) -> str:
    """Return the host name of an endpoint, or its address with dashes."""
    return ported.endpoint.hostname or ported.endpoint.addresses[0].replace(".", "-")
