"""The gang scheduler's view of core/v1 pods and nodes: all fields that affect placement.

These types are separate from ``api.core`` for memory: a scheduler holds every pod of the cluster (1,447 bytes
a pod measured), while the queueing controllers read few fields of few pods. Equal specs and statuses share
one object, and fields that differ in every pod without affecting placement (token volumes, condition times)
are dropped.
"""

from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Annotated, Any, Final

import msgspec

from quorate.api import core
from quorate.api.core import (
    AT_MOST_CONTAINERS,
    AT_MOST_TERMS,
    NodeAffinity,
    NodeSpec,
    ResourceRequirements,
    Resources,
    SchedulingGate,
    Toleration,
    check_number_of_resources,
)
from quorate.api.interning import CACHE_SIZE, intern_fields, intern_strings
from quorate.api.meta import (
    Condition,
    ConditionStatus,
    Int32,
    LabelSelector,
    ObjectMeta,
    Struct,
    find_condition,
)


class ContainerPort(core.ContainerPort):
    host_ip: str = msgspec.field(default="", name="hostIP")  # "" means every address, like 0.0.0.0


class Container(Struct):
    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""  # "Always" on an init container makes it a sidecar

    def __post_init__(self) -> None:
        # Ports without a host port do not constrain placement.
        if any(not port.host_port for port in self.ports):
            msgspec.structs.force_setattr(self, "ports", tuple(port for port in self.ports if port.host_port))


class PodAffinityTerm(Struct):
    """A term that selects pods in the listed and the selected namespaces.

    Without ``namespaces`` and ``namespace_selector`` it selects pods in the pod's own namespace. An absent
    selector selects nothing, and an empty one everything, both for pods and for namespaces.
    """

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct):
    """The terms of either pod affinity or pod anti-affinity."""

    required: Annotated[tuple[PodAffinityTerm, ...], AT_MOST_TERMS] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: Annotated[tuple[WeightedPodAffinityTerm, ...], AT_MOST_TERMS] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"  # or ScheduleAnyway
    label_selector: LabelSelector | None = None
    min_domains: int | None = None  # None means 1
    node_affinity_policy: str = "Honor"  # or Ignore: which nodes count as domains
    node_taints_policy: str = "Ignore"  # or Honor
    match_label_keys: tuple[str, ...] = ()


class PersistentVolumeClaimSource(Struct):
    claim_name: str = ""
    read_only: bool = False


class EphemeralVolumeSource(Struct):
    """A volume with its own claim, which is named ``<pod>-<volume>``."""


class Volume(Struct):
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralVolumeSource | None = None

    @property
    def has_claim(self) -> bool:
        return self.persistent_volume_claim is not None or self.ephemeral is not None


class PodResourceClaim(Struct):
    """A claim for devices (dynamic resource allocation), which exists or is made for the pod."""

    name: str = ""
    resource_claim_name: str = ""


class SchedulingGroup(Struct):
    """The pod group of Kubernetes to which a pod belongs."""

    pod_group_name: str = ""


class PodSpec(Struct, weakref=True, gc=True):
    """``volumes`` holds only volumes with a claim; no other volume constrains placement."""

    scheduler_name: str = "default-scheduler"
    spec_node_name: str = msgspec.field(default="", name="nodeName")  # moved to ``Pod.node_name``
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = "PreemptLowerPriority"  # or Never
    containers: Annotated[tuple[Container, ...], AT_MOST_CONTAINERS] = ()
    init_containers: Annotated[tuple[Container, ...], AT_MOST_CONTAINERS] = ()
    overhead: Resources = {}
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: Annotated[tuple[TopologySpreadConstraint, ...], AT_MOST_TERMS] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    active_deadline_seconds: int | None = None

    def __post_init__(self) -> None:
        if self.volumes:
            claimed = tuple(volume for volume in self.volumes if volume.has_claim)
            msgspec.structs.force_setattr(self, "volumes", claimed)


INTERNED_SPEC_FIELDS: Final[dict[str, Any]] = {
    "containers": tuple[Container, ...],
    "init_containers": tuple[Container, ...],
    "overhead": Resources,
    "resources": ResourceRequirements,
    "node_selector": dict[str, str],
    "affinity": Affinity,
    "tolerations": tuple[Toleration, ...],
    "topology_spread_constraints": tuple[TopologySpreadConstraint, ...],
    "volumes": tuple[Volume, ...],
    "resource_claims": tuple[PodResourceClaim, ...],
    "scheduling_gates": tuple[SchedulingGate, ...],
    "scheduling_group": SchedulingGroup,
}


class ContainerImage(Struct):
    """An image that is present on a node, with all of its names."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Struct):
    capacity: Resources = {}
    allocatable: Resources = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()

    def __post_init__(self) -> None:
        check_number_of_resources("allocatable", self.allocatable)
        intern_fields(self, _INTERNED_NODE_STATUS_FIELDS)


_INTERNED_NODE_STATUS_FIELDS: Final[dict[str, Any]] = {
    "capacity": Resources,
    "allocatable": Resources,
    "images": tuple[ContainerImage, ...],
}


class Node(Struct):
    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class PodDisruptionBudgetSpec(Struct):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Struct):
    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, Any] = {}  # by name: pods that are being evicted and are counted already


class PodDisruptionBudget(Struct):
    metadata: ObjectMeta
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class HostNode(Node):
    """A node without what no place depends on; of the conditions it has ``Ready``, without its message.

    The queueing controllers keep every node of a cluster, so little is kept of each.
    """

    def __post_init__(self) -> None:
        metadata, status = self.metadata, self.status
        trimmed = ObjectMeta(
            name=intern(metadata.name),
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            labels=intern_strings(metadata.labels),
        )
        msgspec.structs.force_setattr(self, "metadata", trimmed)
        ready = find_condition(status.conditions, "Ready")
        conditions = () if ready is None else _ready(ready.status, ready.reason, ready.last_transition_time)
        kept = NodeStatus(allocatable=status.allocatable, conditions=conditions)
        msgspec.structs.force_setattr(self, "status", kept)


@lru_cache(maxsize=CACHE_SIZE)
def _ready(status: ConditionStatus, reason: str, since: datetime | None) -> tuple[Condition, ...]:
    return (Condition(type="Ready", status=status, reason=reason, last_transition_time=since),)
