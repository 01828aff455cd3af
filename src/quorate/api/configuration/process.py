"""The fields of Configuration about the process itself: where it listens, and which replica decides.

A field that is left out opens no port: the file of a usual installation names its addresses, and a process
on somebody's machine has no reason to listen.
"""

import re
from ipaddress import ip_address
from typing import Final

import msgspec

from quorate.api.configuration.metric_labels import CustomLabel, custom_labels
from quorate.api.decoding.strict import (
    Place,
    Refused,
    Section,
    boolean,
    choice,
    duration,
    integer,
    label_selector,
    map_of,
    number,
    section,
    shaped,
    text,
)
from quorate.api.meta import LabelSelector
from quorate.api.syntax import is_dns_label, is_dns_subdomain


class Address(msgspec.Struct, frozen=True):
    """Where to listen, written as Go programs do: ``:8081``, ``127.0.0.1:8081``, ``[::1]:8081``."""

    host: str  # empty: every interface
    port: int  # 0: any that is free

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it; a name other than localhost may mean anything."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoints a kubelet probes."""

    address: Address | None = None  # None: not served
    liveness: str = "healthz"
    readiness: str = "readyz"


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True):
    """Of several replicas one decides, the others stand by, on client-go's terms."""

    elect: bool = False
    name: str = "c1f6bfd2.kueue.x-k8s.io"  # Kueue's own, so that the two never decide side by side
    namespace: str = ""  # empty: the namespace of the configuration
    lease_s: int = 15
    renew_within_s: float = 10.0
    retry_s: float = 2.0


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """What is counted for Prometheus."""

    address: Address | None = None  # None: not served
    cluster_queue_resources: bool = False  # quota and its use, flavor by flavor
    local_queues: LabelSelector | None = LabelSelector()  # those with series of their own; None: none
    custom_labels: tuple[CustomLabel, ...] = ()


class Visibility(msgspec.Struct, frozen=True, kw_only=True):
    """Who waits in which place."""

    address: Address | None = None  # None: not served


_ADDRESS: Final = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^\s:\[\]]*)):(?P<port>[0-9]{1,5})")
_endpoint: Final = shaped(is_dns_label, "one part of a path")


def parse_address(written: str) -> Address | None:
    """What ``str`` of an address says; None for what says no address."""
    match = _ADDRESS.fullmatch(written)
    if match is None or int(match["port"]) > 65535:
        return None
    return Address(match["six"] or match["host"] or "", int(match["port"]))


def address(place: Place) -> Address | None:
    """None for ``"0"``, which switches an endpoint off."""
    written = text(place)
    if written == "0":
        return None
    found = parse_address(written)
    if found is None:
        raise Refused("is no address (write :8081, 127.0.0.1:8081, or 0 in quotes for none)")
    return found


def health(fields: Section) -> Health:
    default = Health()
    return Health(
        address=fields.take("healthProbeBindAddress", address, None),
        liveness=fields.take("livenessEndpointName", _endpoint, default.liveness),
        readiness=fields.take("readinessEndpointName", _endpoint, default.readiness),
    )


def leader_election(fields: Section) -> LeaderElection:
    default = LeaderElection()
    fields.take("resourceLock", choice(("leases",)), "leases")
    lease_s = fields.take("leaseDuration", _whole_seconds, default.lease_s)
    renew_within_s = fields.take("renewDeadline", duration(above=True), default.renew_within_s)
    retry_s = fields.take("retryPeriod", duration(above=True), default.retry_s)
    if not renew_within_s < lease_s:
        fields.at("renewDeadline").refuse(f"must be less than leaseDuration, which is {lease_s}s")
    elif not retry_s < renew_within_s:
        fields.at("retryPeriod").refuse(f"must be less than renewDeadline, which is {renew_within_s:g}s")
    return LeaderElection(
        elect=fields.take("leaderElect", boolean, default.elect),
        name=fields.take("resourceName", shaped(is_dns_subdomain, "the name of a Lease"), default.name),
        namespace=fields.take("resourceNamespace", shaped(is_dns_label, "a namespace's name"), ""),
        lease_s=lease_s,
        renew_within_s=renew_within_s,
        retry_s=retry_s,
    )


def metrics(fields: Section) -> Metrics:
    default = Metrics()
    listening = fields.take("bindAddress", address, None)
    return Metrics(
        address=listening,
        custom_labels=fields.take("customLabels", custom_labels, ()),
        cluster_queue_resources=fields.take("enableClusterQueueResources", boolean, False),
        local_queues=fields.take("localQueueMetrics", section(_local_queues), default.local_queues),
    )


def _local_queues(fields: Section) -> LabelSelector | None:
    selector = fields.take("localQueueSelector", label_selector, LabelSelector())
    return selector if fields.take("enable", boolean, True) else None


def visibility(fields: Section) -> Visibility:
    host = fields.take("bindAddress", _ip_address, "127.0.0.1")
    return Visibility(address=Address(host, fields.take("bindPort", integer(least=1, most=65535), 8082)))


def _ip_address(place: Place) -> str:
    written = text(place)
    try:
        return written and str(ip_address(written))
    except ValueError as error:
        raise Refused("is no IP address (write 127.0.0.1, or 0.0.0.0 for every interface)") from error


def _whole_seconds(place: Place) -> int:
    seconds = duration(least_s=1.0)(place)
    if seconds != int(seconds):
        raise Refused("is no whole number of seconds, and a Lease knows no other")
    return int(seconds)


_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*(?:\.[a-z0-9][-a-z0-9.]*)?")


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """At most ``per_second`` requests in the long run, ``burst`` of them at once."""

    per_second: float
    burst: int


class Controllers(msgspec.Struct, frozen=True, kw_only=True):
    workers: dict[str, int] = {}  # by ``Kind.group``, or ``Kind`` of the core group
    sync_within_s: float | None = None  # to list everything at the start; None: as long as it takes

    def workers_for(self, kind: str, group: str, default: int) -> int:
        """How many objects of a kind are worked on at once."""
        return self.workers.get(f"{kind}.{group}" if group else kind, default)


def pace(fields: Section) -> Pace | None:
    """None without a limit: a rate that is left out, 0 or negative, as Kueue has it."""
    per_second = fields.take("qps", number, 0.0)
    burst = fields.take("burst", integer(), 0)
    if per_second <= 0:
        return None
    fields.at("qps").warn("holds back the controllers (leave it out: the API server sets the pace by itself)")
    return Pace(per_second=per_second, burst=max(burst, 1))


def controllers(fields: Section) -> Controllers:
    return Controllers(
        workers=fields.take("groupKindConcurrency", _workers, {}),
        sync_within_s=fields.take("cacheSyncTimeout", duration(above=True), None),
    )


def _workers(place: Place) -> dict[str, int]:
    found = map_of(integer(least=1))(place)
    for key in found:
        if _KIND.fullmatch(key) is None:
            place.entry(key).refuse("is under no kind (write Kind.group, such as Job.batch, or Pod)")
    return found
