"""What the resource claims and the volume claims of a pod require of its node, as shapes contain it.

``filters.devices`` and ``filters.volumes`` compute it from the claims and filter nodes by it.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from quorate.api.core import NodeSelector, Toleration
from quorate.placement.failures import FilterFailure


class DeviceId(NamedTuple):
    driver: str
    pool: str
    device: str


class CounterId(NamedTuple):
    """The identity of a shared counter of a resource pool, such as the memory that its partitions divide."""

    driver: str
    pool: str
    set: str
    name: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """One request, or one alternative of it, as devices are chosen for it."""

    request: str  # its name; of an alternative after a slash
    device_class: str
    expressions: tuple[str, ...]  # of the class and of the request
    count: int  # 0: all that match
    tolerations: tuple[Toleration, ...]
    admin_access: bool
    capacity: tuple[tuple[str, int], ...]  # in thousandths, that a device has at least


class SameAttribute(NamedTuple):
    """The devices of these requests have one value of an attribute; no requests: of all requests."""

    requests: frozenset[str]
    attribute: str

    def concerns(self, request: str) -> bool:
        return not self.requests or not self.requests.isdisjoint((request, request.partition("/")[0]))


@dataclass(frozen=True, slots=True)
class ClaimDemand:
    """What one claim without devices requests."""

    shared: str  # the claim that pods name themselves, of which the first pod chooses the node; else ""
    requests: tuple[tuple[Wanted, ...], ...]  # each has alternatives, of which the first that fits is taken
    same: tuple[SameAttribute, ...]


@dataclass(frozen=True, slots=True)
class DeviceDemand:
    """What the ResourceClaims of a pod require of its node.

    Pods with claims from one ResourceClaimTemplate have equal demands as long as no devices are allocated, so
    that nodes are filtered once for all of these pods.
    """

    failure: FilterFailure | None = None  # rejects all nodes until the claims change
    nodes: tuple[NodeSelector, ...] = ()  # where the devices of allocated claims can be used
    held: tuple[DeviceId, ...] = ()  # devices of allocated claims
    claims: tuple[ClaimDemand, ...] = ()  # to be allocated on the node of the pod


NO_DEVICES: Final = DeviceDemand()


class Attachment(NamedTuple):
    """A volume that counts against the limit of its driver on a node.

    It counts once, whatever the number of pods that use it.
    """

    driver: str
    handle: str


@dataclass(frozen=True, slots=True)
class UnboundClaim:
    """A claim that is bound or provisioned once the pod has a node."""

    volumes: tuple[tuple[str, NodeSelector | None], ...]  # in order; names, and the nodes (None: all nodes)
    can_provision: bool
    topology: NodeSelector | None = None  # where a volume can be provisioned; None is all nodes
    node: str = ""  # the only node for which a volume is provisioned; "" if none is selected


@dataclass(frozen=True, slots=True)
class VolumeRequirements:
    """What the volumes of a pod require of its node."""

    failure: FilterFailure | None = None  # rejects all nodes until the claims change
    bound: tuple[NodeSelector, ...] = ()  # the node affinity of each bound volume
    zones: tuple[tuple[str, frozenset[str]], ...] = ()  # zone labels of bound volumes, with allowed values
    unbound_claims: tuple[UnboundClaim, ...] = ()  # those that request the least come first
    # The volumes of unbound claims without a selected node: the first placed pod selects it for all users.
    unselected: tuple[Attachment, ...] = ()
    read_write_once_pod: tuple[Attachment, ...] = ()  # usable by one pod at a time, on whatever node
    attachments: tuple[Attachment, ...] = ()  # all volumes, including those above


NO_VOLUMES: Final = VolumeRequirements()
