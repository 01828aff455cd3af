"""What a kubelet does about changes of a running pod: start ephemeral containers, and resize containers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from quorate.api.core import ResourceRequirements
from quorate.api.core.pod_resources import RESIZE_PENDING, pod_requests
from quorate.api.meta import Condition, with_condition
from quorate.local.nodes.pod_types import (
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    Pod,
    PodStatus,
)

RESIZABLE = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """Amounts of a node in nano-units, and what its other pods leave of them."""

    allocatable: Mapping[str, int]
    free: Mapping[str, int]


def with_ephemeral_containers(pod: Pod, status: PodStatus, moment: datetime) -> PodStatus:
    """Return the status in which every ephemeral container has started; they never restart."""
    known = {each.name for each in status.ephemeral_container_statuses}
    started = tuple(
        ContainerStatus(
            name=container.name,
            image=container.image,
            state=ContainerState(running=ContainerStateRunning(started_at=moment)),
        )
        for container in pod.spec.ephemeral_containers
        if container.name not in known
    )
    if not started or status.phase != "Running":
        return status
    return replace(status, ephemeral_container_statuses=(*status.ephemeral_container_statuses, *started))


def is_resized(pod: Pod) -> bool:
    """Return True if a container that was resized before has other resources than its spec."""
    resources = {container.name: container.resources for container in pod.spec.containers}
    return any(
        isinstance(each.resources, ResourceRequirements) and each.resources != resources.get(each.name)
        for each in pod.status.container_statuses
    )


def with_resized_containers(
    pod: Pod, status: PodStatus, capacity: NodeCapacity, moment: datetime
) -> PodStatus:
    """Return the status after a resize, or with the reason why it does not happen, or not yet."""
    wanted = pod_requests(pod.spec)
    others = tuple(each for each in status.conditions if each.type != RESIZE_PENDING)
    for name in RESIZABLE:
        need = wanted[name].nanos if name in wanted else 0
        for reason, noun, available in (
            ("Infeasible", "capacity", capacity.allocatable),
            ("Deferred", "resource", capacity.free),
        ):
            if need <= available.get(name, 0):
                continue
            condition = Condition(
                type=RESIZE_PENDING,
                status="True",
                reason=reason,
                message=f"Node didn't have enough {noun}: {name}",
                last_transition_time=moment,
            )
            return replace(status, conditions=tuple(with_condition(status.conditions, condition)))
    resources = {container.name: container.resources for container in pod.spec.containers}
    resized = tuple(_with_resources(each, resources.get(each.name)) for each in status.container_statuses)
    return replace(status, conditions=others, container_statuses=resized)


def _with_resources(status: ContainerStatus, resources: ResourceRequirements | None) -> ContainerStatus:
    if resources is None or not (resources.requests or resources.limits):
        return status
    return replace(status, resources=resources, allocated_resources=resources.requests)
