"""core/v1 pods and nodes as a scheduler reads them: everything that decides where a pod can run.

Apart from ``api.core`` because the queueing controllers hold pods and nodes too and read little of them.
Here each spec is held in full but once: what equal pods have in common is one value in memory, and fields
that differ in every pod without meaning to us (volumes of tokens, times of conditions) are dropped.
"""

from functools import lru_cache
from sys import intern
from typing import Any, Final

import msgspec

from quorate.api import codec, core
from quorate.api.core import (
    NodeSelectorTerm,
    NodeSpec,
    ResourceRequirements,
    Resources,
    SchedulingGate,
    Toleration,
)
from quorate.api.interning import CACHE_SIZE, intern_fields, intern_strings, intern_time
from quorate.api.meta import Condition, LabelSelector, ObjectMeta, Struct
from quorate.api.volcano import annotations


class ContainerPort(core.ContainerPort):
    host_ip: str = msgspec.field(default="", name="hostIP")  # "" is every address, like 0.0.0.0


class Container(Struct):
    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""  # "Always" on an init container makes it a sidecar

    def __post_init__(self) -> None:
        # A port that takes none of the node's says nothing about where the pod can run.
        if any(not port.host_port for port in self.ports):
            msgspec.structs.force_setattr(self, "ports", tuple(port for port in self.ports if port.host_port))


class PreferredSchedulingTerm(Struct):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(core.NodeAffinity):
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Struct):
    """Pods of the named and the selected namespaces; with neither, of the pod's own.

    An absent selector picks nothing and an empty one everything, for pods and for namespaces.
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
    """Affinity or anti-affinity: the terms mean near or apart."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
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
    min_domains: int | None = None  # None is 1
    node_affinity_policy: str = "Honor"  # or Ignore: which nodes count as domains
    node_taints_policy: str = "Ignore"  # or Honor
    match_label_keys: tuple[str, ...] = ()


class PersistentVolumeClaimSource(Struct):
    claim_name: str = ""
    read_only: bool = False


class EphemeralVolumeSource(Struct):
    """A volume with a claim of its own, whose name is the pod's, a hyphen and the volume's."""


class Volume(Struct):
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralVolumeSource | None = None

    @property
    def has_claim(self) -> bool:
        return self.persistent_volume_claim is not None or self.ephemeral is not None


class PodResourceClaim(Struct):
    """A device asked for by dynamic resource allocation."""

    name: str = ""


class PodSpec(Struct):
    """``volumes`` are only those with a claim: no other kind ties a pod to a node."""

    scheduler_name: str = "default-scheduler"
    spec_node_name: str = msgspec.field(default="", name="nodeName")  # goes to ``Pod.node_name``
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = "PreemptLowerPriority"  # or Never
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Resources = {}
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
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
    """Without its times: nothing here depends on them, and they would make every pod another."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class ContainerStatus(Struct):
    """What a container holds while it is resized in place, which may be more than it asks for."""

    name: str = ""
    allocated_resources: Resources = {}
    resources: ResourceRequirements | None = None


class PodStatus(Struct):
    phase: str = "Pending"
    nominated_node_name: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


_INTERNED_STATUS_FIELDS: Final[dict[str, Any]] = {
    "conditions": tuple[PodCondition, ...],
    "container_statuses": tuple[ContainerStatus, ...],
    "init_container_statuses": tuple[ContainerStatus, ...],
}


class PodMeta(ObjectMeta):
    """What a scheduler reads: some ``annotations``, and nothing of owners, finalizers and generated names."""

    def __post_init__(self) -> None:
        read = {key: value for key, value in self.annotations.items() if key in annotations.POD_ANNOTATIONS}
        msgspec.structs.force_setattr(self, "annotations", intern_strings(read))
        msgspec.structs.force_setattr(self, "labels", intern_strings(self.labels))
        msgspec.structs.force_setattr(self, "namespace", intern(self.namespace))
        msgspec.structs.force_setattr(self, "generate_name", "")
        msgspec.structs.force_setattr(self, "finalizers", ())
        msgspec.structs.force_setattr(self, "owner_references", ())
        msgspec.structs.force_setattr(self, "creation_timestamp", intern_time(self.creation_timestamp))


class Pod(Struct):
    """``node_name`` stands in the spec of the object; apart from it, pods of a template share one spec.

    Most statuses are equal, too, and so are parts of specs that are not, like those with a claim each.
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
        msgspec.structs.force_setattr(self, "spec", _intern_spec(codec.encode(spec)))
        msgspec.structs.force_setattr(self, "status", _intern_status(codec.encode(self.status)))


@lru_cache(maxsize=CACHE_SIZE)
def _intern_spec(content: bytes) -> PodSpec:
    spec = codec.decode(PodSpec, content)
    intern_fields(spec, _INTERNED_SPEC_FIELDS)
    return spec


@lru_cache(maxsize=CACHE_SIZE)
def _intern_status(content: bytes) -> PodStatus:
    status = codec.decode(PodStatus, content)
    intern_fields(status, _INTERNED_STATUS_FIELDS)
    return status


class ContainerImage(Struct):
    """An image that a node has already, under all of its names."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Struct):
    capacity: Resources = {}
    allocatable: Resources = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()

    def __post_init__(self) -> None:
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
