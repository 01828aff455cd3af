"""The gang scheduler's view of core/v1 pods and nodes: all fields that affect placement.

These types are separate from ``api.core`` for memory: a scheduler holds every pod of the cluster (1,447 bytes
a pod measured), while the queueing controllers read few fields of few pods. Equal specs and statuses share
one object, and fields that differ in every pod without affecting placement (token volumes, condition times)
are dropped.
"""

from datetime import datetime
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
from quorate.api.core.pod_resources import is_resize_infeasible
from quorate.api.interning import SharedStructs, intern_fields, intern_strings, intern_time
from quorate.api.meta import Condition, LabelSelector, ObjectMeta, Struct
from quorate.api.volcano import annotations


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
    """A claim for devices (dynamic resource allocation): one that exists, or one made for the pod."""

    name: str = ""
    resource_claim_name: str = ""


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

    def __post_init__(self) -> None:
        if self.volumes:
            claimed = tuple(volume for volume in self.volumes if volume.has_claim)
            msgspec.structs.force_setattr(self, "volumes", claimed)


_INTERNED_SPEC_FIELDS: Final[dict[str, Any]] = {
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
}


class PodCondition(Struct):
    """A pod condition without its times, so that statuses of different pods can be equal."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class ContainerStatus(Struct):
    """The resources of a container during an in-place resize, which may exceed its requests."""

    name: str = ""
    allocated_resources: Resources = {}
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(Struct):
    """The claim that was made for a pod from a template; None: the pod needs none."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Struct):
    phase: str = "Pending"
    nominated_node_name: str = ""
    start_time: datetime | None = None  # only of pods with a cooldown time
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Resources = {}  # of the pod as a whole, as the next field
    resources: ResourceRequirements | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()

    @property
    def in_use(self) -> tuple[object, ...]:
        """Return all that ``pod_requests`` reads of a status, each part shared by the statuses of pods."""
        return (
            self.container_statuses,
            self.init_container_statuses,
            self.allocated_resources,
            self.resources,
            is_resize_infeasible(self.conditions),
        )


_INTERNED_STATUS_FIELDS: Final[dict[str, Any]] = {
    "conditions": tuple[PodCondition, ...],
    "container_statuses": tuple[ContainerStatus, ...],
    "init_container_statuses": tuple[ContainerStatus, ...],
    "allocated_resources": Resources,
    "resources": ResourceRequirements,
}


# With the annotation that names the workload which may hold a place for the pod.
_READ_ANNOTATIONS: Final = annotations.POD_ANNOTATIONS | {"kueue.x-k8s.io/workload"}


class PodMeta(ObjectMeta):
    """Pod metadata without owners, finalizers, generated name and irrelevant annotations."""

    def __post_init__(self) -> None:
        read = {key: value for key, value in self.annotations.items() if key in _READ_ANNOTATIONS}
        msgspec.structs.force_setattr(self, "annotations", intern_strings(read))
        msgspec.structs.force_setattr(self, "labels", intern_strings(self.labels))
        msgspec.structs.force_setattr(self, "namespace", intern(self.namespace))
        msgspec.structs.force_setattr(self, "generate_name", "")
        msgspec.structs.force_setattr(self, "finalizers", ())
        msgspec.structs.force_setattr(self, "owner_references", ())
        msgspec.structs.force_setattr(self, "creation_timestamp", intern_time(self.creation_timestamp))

    @property
    def has_cooldown(self) -> bool:
        """Return True if the pod is not to be evicted in its first minutes."""
        return annotations.COOLDOWN_TIME in self.labels or annotations.COOLDOWN_TIME in self.annotations


class Pod(Struct):
    """A pod that shares its spec and status with equal pods.

    ``node_name`` is a field of the spec in the API. It is stored outside, so that the pods of one template
    share one spec. Specs that differ, for example in a claim, still share their equal parts.
    """

    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    node_name: str = ""

    def __post_init__(self) -> None:
        spec, node = self.spec, self.spec.spec_node_name
        if node:
            msgspec.structs.force_setattr(self, "node_name", intern(node))
            spec = msgspec.structs.replace(spec, spec_node_name="")
        msgspec.structs.force_setattr(self, "spec", _specs.shared(spec))
        if self.status.start_time is not None and not self.metadata.has_cooldown:
            msgspec.structs.force_setattr(self.status, "start_time", None)
        msgspec.structs.force_setattr(self, "status", _statuses.shared(self.status))


_specs: Final = SharedStructs[PodSpec](_INTERNED_SPEC_FIELDS)
_statuses: Final = SharedStructs[PodStatus](_INTERNED_STATUS_FIELDS)


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
