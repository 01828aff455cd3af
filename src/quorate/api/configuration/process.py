"""Configuration of the controller process: endpoints, leader election, metrics, concurrency.

An absent address opens no port: the file of a usual installation lists its addresses, and a process on a
laptop need not listen. Without ``clientConnection`` only the API server's priority and fairness limits
requests.
"""

import re
from ipaddress import ip_address
from typing import Final

import msgspec

from quorate.api.configuration.metric_labels import CustomLabel, decode_custom_labels
from quorate.api.decoding import strict as d
from quorate.api.meta import LabelSelector
from quorate.api.syntax import is_dns_label, is_dns_subdomain


class Address(msgspec.Struct, frozen=True):
    """A listen address in Go's notation: ``:8081``, ``127.0.0.1:8081``, ``[::1]:8081``."""

    host: str  # empty: all interfaces
    port: int  # 0: any free port

    @property
    def is_loopback(self) -> bool:
        """Return True for a loopback address; of host names only for localhost."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoints for kubelet probes."""

    address: Address | None = None  # None: not served
    liveness: str = "healthz"
    readiness: str = "readyz"


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True):
    """Leader election among replicas, with client-go's parameters."""

    elect: bool = False
    name: str = "c1f6bfd2.kueue.x-k8s.io"  # Kueue's lease, so that Kueue and Quorate never run together
    namespace: str = ""  # empty: the namespace of the configuration
    lease_s: int = 15
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Prometheus metrics."""

    address: Address | None = None  # None: not served
    cluster_queue_resources: bool = False  # quota and usage per flavor and resource
    local_queues: LabelSelector | None = LabelSelector()  # queues with series of their own; None: none
    custom_labels: tuple[CustomLabel, ...] = ()


class EstimateRules(msgspec.Struct, frozen=True, kw_only=True):
    """Estimates of when waiting workloads start, which a process of their own computes."""

    cpu: float = 0.02  # the part of one core that it may use; 0: no estimates


_part_of_a_core = d.satisfying(
    d.number, lambda value: 0 <= value <= 1, "is no part of a core (write 0 to 1; 0 is for no estimates)"
)
decode_estimates = d.struct_of(EstimateRules, cpu=("cpu", _part_of_a_core))


class Visibility(msgspec.Struct, frozen=True, kw_only=True):
    """The visibility API with the positions of pending workloads."""

    address: Address | None = None  # None: not served


_ADDRESS: Final = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^\s:\[\]]*)):(?P<port>[0-9]{1,5})")
_endpoint: Final = d.text_matching(is_dns_label, "one part of a path")


def parse_address(written: str) -> Address | None:
    """Parse the text of an address; None if it is not an address."""
    match = _ADDRESS.fullmatch(written)
    if match is None or int(match["port"]) > 65535:
        return None
    return Address(match["six"] or match["host"] or "", int(match["port"]))


def decode_address(field: d.Field) -> Address | None:
    """Decode an address; ``"0"`` disables an endpoint and gives None."""
    written = d.text(field)
    if written == "0":
        return None
    address = parse_address(written)
    if address is None:
        raise d.InvalidValue("is not an address (write :8081, 127.0.0.1:8081, or 0 in quotes for none)")
    return address


decode_health = d.struct_of(
    Health,
    address=("healthProbeBindAddress", d.if_set(decode_address)),
    liveness=("livenessEndpointName", d.if_set(_endpoint)),
    readiness=("readinessEndpointName", d.if_set(_endpoint)),
)


def decode_leader_election(fields: d.Section) -> LeaderElection:
    fields.take_set("resourceLock", d.choice(("leases",)), "leases")
    election = _leader_election(fields)
    lease_s, renew_deadline_s = election.lease_s, election.renew_deadline_s
    if not renew_deadline_s < lease_s:
        fields.at("renewDeadline").reject(f"must be less than leaseDuration, which is {lease_s}s")
    elif not election.retry_s < renew_deadline_s:
        fields.at("retryPeriod").reject(f"must be less than renewDeadline, which is {renew_deadline_s:g}s")
    return election


def _local_queues(fields: d.Section) -> LabelSelector | None:
    selector = fields.take("localQueueSelector", d.label_selector, LabelSelector())
    return selector if fields.take("enable", d.boolean, True) else None


def decode_visibility(fields: d.Section) -> Visibility:
    host = fields.take("bindAddress", _ip_address, "127.0.0.1")
    return Visibility(
        address=Address(host, fields.take("bindPort", d.integer(minimum=1, maximum=65535), 8082))
    )


def _ip_address(field: d.Field) -> str:
    written = d.text(field)
    try:
        return written and str(ip_address(written))
    except ValueError as error:
        raise d.InvalidValue(
            "is not an IP address (write 127.0.0.1, or 0.0.0.0 for every interface)"
        ) from error


def _whole_seconds(field: d.Field) -> int:
    seconds = d.duration(minimum_s=1.0)(field)
    if seconds != int(seconds):
        raise d.InvalidValue("is not a whole number of seconds, which a Lease requires")
    return int(seconds)


_leader_election = d.struct_of(
    LeaderElection,
    elect=("leaderElect", d.boolean),
    name=("resourceName", d.if_set(d.text_matching(is_dns_subdomain, "the name of a Lease"))),
    namespace=("resourceNamespace", d.if_set(d.text_matching(is_dns_label, "a namespace's name"))),
    lease_s=("leaseDuration", d.if_set(_whole_seconds)),
    renew_deadline_s=("renewDeadline", d.if_set(d.duration(exclusive=True))),
    retry_s=("retryPeriod", d.if_set(d.duration(exclusive=True))),
)
decode_metrics = d.struct_of(
    Metrics,
    address=("bindAddress", d.if_set(decode_address)),
    custom_labels=("customLabels", decode_custom_labels),
    cluster_queue_resources=("enableClusterQueueResources", d.boolean),
    local_queues=("localQueueMetrics", d.section(_local_queues)),
)
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*(?:\.[a-z0-9][-a-z0-9.]*)?")


class ClientConnection(msgspec.Struct, frozen=True, kw_only=True):
    """A client-side limit of ``qps`` requests a second on average, with bursts of ``burst``."""

    qps: float
    burst: int


class Controllers(msgspec.Struct, frozen=True, kw_only=True):
    workers: dict[str, int] = {}  # by ``Kind.group``, or ``Kind`` for the core group
    cache_sync_timeout_s: float | None = None  # for the initial lists; None: unlimited

    def workers_for(self, kind: str, group: str, default: int) -> int:
        """Return how many objects of a kind are reconciled concurrently."""
        return self.workers.get(f"{kind}.{group}" if group else kind, default)


def decode_client_connection(fields: d.Section) -> ClientConnection | None:
    """Decode the rate limit; None if qps is absent, 0 or negative, as in Kueue."""
    qps = fields.take("qps", d.number, 0.0)
    burst = fields.take("burst", d.integer(), 0)
    if qps <= 0:
        return None
    fields.at("qps").warn(
        "slows down the controllers (leave it out: the API server limits requests by itself)"
    )
    return ClientConnection(qps=qps, burst=max(burst, 1))


def _workers(field: d.Field) -> dict[str, int]:
    workers = d.map_of(d.integer(minimum=1))(field)
    for key in workers:
        if _KIND.fullmatch(key) is None:
            field.entry(key).reject("is not a kind (write Kind.group, such as Job.batch, or Pod)")
    return workers


decode_controllers = d.struct_of(
    Controllers,
    workers=("groupKindConcurrency", _workers),
    cache_sync_timeout_s=("cacheSyncTimeout", d.duration(exclusive=True)),
)
