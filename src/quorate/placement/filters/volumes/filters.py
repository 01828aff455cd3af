"""Filter by the node affinity, zones and attachment limits of a pod's volumes.

Source: kube-scheduler's plugins VolumeBinding, VolumeZone and NodeVolumeLimits.  A volume that several pods
of a node use counts once against the limit.  A node without a limit for a driver in its
``CSINode`` takes any number.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from quorate.placement import failures
from quorate.placement.claim_requirements import Attachment, UnboundClaim, VolumeRequirements
from quorate.placement.failures import NodeStatuses
from quorate.placement.filters.node_affinity import matching_nodes
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.filters.volumes.requirements import ZONE_LABELS
from quorate.placement.framework import Capacity
from quorate.placement.vectors import Mask, np


def filter_volume_binding(
    nodes: NodeColumns, requirements: VolumeRequirements, statuses: NodeStatuses
) -> None:
    """Reject nodes that cannot reach a bound volume or get an unbound one."""
    for affinity in requirements.bound:
        statuses.reject(~matching_nodes(nodes, (), affinity), failures.VOLUME_AFFINITY)
    if requirements.unbound_claims:
        statuses.reject(~_can_bind(nodes, requirements.unbound_claims), failures.NO_VOLUME_TO_BIND)


def filter_volume_zone(nodes: NodeColumns, requirements: VolumeRequirements, statuses: NodeStatuses) -> None:
    """Reject nodes in another zone than a bound volume, by the labels of both.

    Nodes without zone labels pass.
    """
    if not requirements.zones:
        return
    has_zone = np.zeros(nodes.size, np.bool_)
    for key in (*ZONE_LABELS, *ZONE_LABELS.values()):
        has_zone |= nodes.label(key).present()
    for key, values in requirements.zones:
        allowed = nodes.label(key).in_values(values)
        if key in ZONE_LABELS:  # for a node without the deprecated label, compare the current one
            allowed |= ~nodes.label(key).present() & nodes.label(ZONE_LABELS[key]).in_values(values)
        statuses.reject(has_zone & ~allowed, failures.NO_VOLUME_ZONE)


def _can_bind(nodes: NodeColumns, claims: Iterable[UnboundClaim]) -> Mask:
    """Return the nodes on which each claim gets a volume that no claim before it takes, or a new one."""
    result = ~nodes.vacant
    taken: dict[str, Mask] = {}  # by volume: the nodes on which a claim takes it
    for claim in claims:
        is_bound = np.zeros(nodes.size, np.bool_)
        for name, selector in claim.volumes:
            before = taken.get(name, np.zeros(nodes.size, np.bool_))
            chosen = matching_nodes(nodes, (), selector) & ~before & ~is_bound
            taken[name] = before | chosen
            is_bound |= chosen
        if claim.can_provision:
            provisioned = matching_nodes(nodes, (), claim.topology)
            is_bound |= provisioned & nodes.names.in_values((claim.node,)) if claim.node else provisioned
        result &= is_bound
    return result


@dataclass(slots=True)
class _Attached:
    """The number of pods that use each volume of one driver on one node, by handle."""

    staying: Counter[str] = field(default_factory=Counter)
    releasing: Counter[str] = field(default_factory=Counter)

    def handles(self, capacity: Capacity) -> set[str]:
        return {*self.staying, *(self.releasing if capacity is Capacity.IDLE else ())}


class AttachedVolumes:
    """The volumes that placed pods attach to each node."""

    def __init__(self) -> None:
        self._drivers: dict[str, dict[int, _Attached]] = {}  # by driver and node, without empty ones
        self.version = 0  # incremented with every change

    def add(self, node: int, attachments: Collection[Attachment], releasing: bool, count: int) -> None:
        """Add ``count`` pods on the node that use ``attachments``; remove them if it is negative."""
        self.version += 1
        for driver, handle in attachments:
            attached = self._drivers.setdefault(driver, {}).setdefault(node, _Attached())
            users = attached.releasing if releasing else attached.staying
            users[handle] += count
            assert users[handle] >= 0, (
                f"volume {handle} is detached from node {node} more often than attached"
            )
            if not users[handle]:
                del users[handle]
                if not attached.staying and not attached.releasing:
                    del self._drivers[driver][node]

    def over_limit(self, nodes: NodeColumns, attachments: Collection[Attachment], capacity: Capacity) -> Mask:
        """Return the nodes that would exceed the limit of a driver with ``attachments``."""
        over_limit = np.zeros(nodes.size, np.bool_)
        for driver in sorted({attachment.driver for attachment in attachments}):
            wanted = {handle for name, handle in attachments if name == driver}
            limits = nodes.limits(driver)
            left = limits - len(wanted)
            for node, attached in self._drivers.get(driver, {}).items():
                present = attached.handles(capacity)
                # A node that has all of them passes, even if it exceeds the limit already.
                left[node] = 0 if wanted <= present else limits[node] - len(wanted | present)
            over_limit |= left < 0
        return over_limit

    def other_nodes(self, volume: Attachment, size: int) -> Mask:
        """Return the nodes without the volume, if any node has it; otherwise none."""
        having = list(self.nodes_with(volume, Capacity.IDLE))
        others = np.full(size, bool(having))
        others[having] = False
        return others

    def nodes_with(self, volume: Attachment, capacity: Capacity) -> Iterator[int]:
        for node, attached in self._drivers.get(volume.driver, {}).items():
            if volume.handle in attached.handles(capacity):
                yield node
