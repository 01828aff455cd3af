"""Pods as the witness counts them: the node, the requests, and what ties a pod to its workload."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Annotated, Final

import msgspec

from quorate.api.core import AT_MOST_CONTAINERS, ResourceRequirements, Resources
from quorate.api.meta import Condition, ObjectMeta, Struct, find_condition
from quorate.api.names.kueue import POD_SET, QUEUE_NAME, WORKLOAD_ANNOTATION
from quorate.kube.resources import Resource

Amounts = Mapping[str, int]
"""By resource, in nano-units (``Quantity.nanos``) of cores, bytes or devices."""

MANAGED: Final = "kueue.x-k8s.io/managed"  # a label, and a finalizer
POD_GROUP: Final = "kueue.x-k8s.io/pod-group-name"  # a label, or an annotation
VOLCANO_GROUP: Final = "scheduling.k8s.io/group-name"
CLUSTER_QUEUE: Final = "kueue.x-k8s.io/cluster-queue-name"
_LABELS: Final = frozenset((POD_SET, QUEUE_NAME, MANAGED, POD_GROUP, CLUSTER_QUEUE))
_ANNOTATIONS: Final = frozenset((WORKLOAD_ANNOTATION, POD_GROUP, VOLCANO_GROUP))
_SHARED_BY_CONTAINERS: Final = ("cpu", "memory")  # and huge pages: the resources of pod-level requests


class _Container(Struct):
    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""


class _Spec(Struct):
    node_name: str = ""
    containers: Annotated[tuple[_Container, ...], AT_MOST_CONTAINERS] = ()
    init_containers: Annotated[tuple[_Container, ...], AT_MOST_CONTAINERS] = ()
    resources: ResourceRequirements | None = None
    overhead: Resources = msgspec.field(default_factory=dict)


class _ContainerStatus(Struct):
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Resources = msgspec.field(default_factory=dict)


class _Status(Struct):
    phase: str = "Pending"
    conditions: tuple[Condition, ...] = ()
    container_statuses: Annotated[tuple[_ContainerStatus, ...], AT_MOST_CONTAINERS] = ()
    init_container_statuses: Annotated[tuple[_ContainerStatus, ...], AT_MOST_CONTAINERS] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: Resources = msgspec.field(default_factory=dict)


class WitnessedPod(Struct):
    """A pod of which only the sum of its requests is kept; pods with equal ones mostly share it."""

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()
    requests: dict[str, int] = msgspec.field(default_factory=dict)
    scheduled: datetime | None = None

    def __post_init__(self) -> None:
        metadata, status = self.metadata, self.status
        kept = ObjectMeta(
            name=metadata.name,
            namespace=intern(metadata.namespace),
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            creation_timestamp=metadata.creation_timestamp,
            deletion_timestamp=metadata.deletion_timestamp,
            labels=_only(metadata.labels, _LABELS),
            annotations=_only(metadata.annotations, _ANNOTATIONS),
            finalizers=tuple(finalizer for finalizer in metadata.finalizers if finalizer == MANAGED),
            owner_references=tuple(owner for owner in metadata.owner_references if owner.controller),
        )
        scheduled = find_condition(status.conditions, "PodScheduled")
        force = msgspec.structs.force_setattr
        force(self, "metadata", kept)
        force(self, "requests", _shared(tuple(kubelet_requests(self.spec, status).items())))
        force(self, "scheduled", None if scheduled is None else scheduled.last_transition_time)
        force(self, "spec", _Spec(node_name=intern(self.spec.node_name)))
        force(self, "status", _Status(phase=intern(status.phase)))

    @property
    def node(self) -> str:
        return self.spec.node_name

    @property
    def holds_node(self) -> bool:
        """Return True if the pod uses resources of its node: it is bound, and its containers may run."""
        return bool(self.spec.node_name) and self.status.phase not in ("Succeeded", "Failed")

    @property
    def is_marked(self) -> bool:
        """Return True for a pod with a label, an annotation or the finalizer of the queueing controllers."""
        labels = self.metadata.labels
        return (
            labels.get(MANAGED) == "true"
            or POD_SET in labels
            or WORKLOAD_ANNOTATION in self.metadata.annotations
            or MANAGED in self.metadata.finalizers
        )


WITNESSED_PODS: Final = Resource("", "v1", "pods", "Pod", True, WitnessedPod)


@lru_cache(4096)
def _shared(requests: tuple[tuple[str, int], ...]) -> dict[str, int]:
    return dict(requests)


def _only(values: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if key in names}


def kubelet_requests(spec: _Spec, status: _Status) -> dict[str, int]:
    """Return what the pod takes from its node, by resource.

    The rules of the kubelet and kube-scheduler: the larger of the running containers and of each step of the
    init containers, in both cases with the sidecars that run beside; amounts for the pod as a whole replace
    the sum; then the overhead.  A container or a pod that is resized counts with the larger of what is
    requested, allocated and in force.
    """
    statuses = {
        container.name: container
        for container in (*status.container_statuses, *status.init_container_statuses)
    }
    infeasible = any(
        condition.type == "PodResizePending"
        and condition.status == "True"
        and condition.reason == "Infeasible"
        for condition in status.conditions
    )

    def in_use(requested: dict[str, int], reported: _ContainerStatus | _Status | None) -> dict[str, int]:
        if reported is None or reported.resources is None:
            return requested
        used = _larger(_nanos(reported.resources.requests), _nanos(reported.allocated_resources))
        return used if infeasible else _larger(requested, used)

    def of(container: _Container) -> dict[str, int]:
        return in_use(_nanos(container.resources.requests), statuses.get(container.name))

    beside: dict[str, int] = {}  # the sidecars that have started
    most: dict[str, int] = {}
    for container in spec.init_containers:
        step = _sum(beside, of(container))
        most = _larger(most, step)
        if container.restart_policy == "Always":
            beside = step
    total = _larger(most, _sum(beside, *(of(container) for container in spec.containers)))
    if spec.resources is not None:
        requested = _nanos(spec.resources.requests)
        amounts = in_use(requested, status)
        for name in requested:
            if name in _SHARED_BY_CONTAINERS or name.startswith("hugepages-"):
                total[name] = amounts.get(name, 0)
    return _sum(total, _nanos(spec.overhead))


def _nanos(resources: Resources) -> dict[str, int]:
    return {intern(name): amount.nanos for name, amount in resources.items()}


def _sum(*parts: Mapping[str, int]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def _larger(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    names: Iterable[str] = (*one, *other)
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in names}
