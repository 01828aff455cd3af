"""What pods ask for and nodes have, resource by resource, and how such amounts compare.

Amounts are integers in base units (``quota.amount``): milli-cpus, bytes, whole devices, whole pods.  Every
amount of *cpu* and *memory* is named, with 0 if need be; any other resource, a *scalar*, may be missing,
and what that means is said where it matters: nothing of it, or any amount.

Source: the resource arithmetic of Volcano, which calculates with floats and takes what differs by less than
a tenth of a unit for equal.  Here that tenth is dropped once, when a quantity is read, and all else is exact.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from fractions import Fraction
from typing import Final

from msgspec.structs import replace

from quorate.api.core import ResourceRequirements, Resources
from quorate.api.core.pod_resources import PodResources, container_requests, max_resources, pod_requests
from quorate.api.core.scheduling import Container, ContainerStatus, Pod
from quorate.api.quantity import NANOS
from quorate.quota.amount import CPU, PODS

Amounts = Mapping[str, int]
Portions = Mapping[str, int | Fraction]  # amounts, or parts of them that came out of a division

MEMORY: Final = "memory"
NOTHING: Final[Amounts] = {}

_ALWAYS_NAMED: Final = frozenset({CPU, MEMORY})
_OF_QUOTAS_ONLY: Final = ("count/", "requests.", "limits.")


class Missing(Enum):
    """What it means that a scalar is not named."""

    ZERO = "nothing of it"
    INFINITY = "any amount of it"


def in_base_units(quantities: Resources) -> dict[str, int]:
    """The amounts that a node, a pod or a pod group names; what only quotas know (``count/pods``) left out.

    Rounded up, but for less than a tenth of a base unit: 1.00005 cpus are 1000 milli-cpus.
    """
    amounts: dict[str, int] = {}
    for resource, quantity in quantities.items():
        if is_counted(resource):
            unit = NANOS // 1000 if resource == CPU else NANOS
            amounts[resource] = -((unit // 10 - 1 - quantity.nanos) // unit)
    return amounts


def is_counted(resource: str) -> bool:
    """Whether nodes have such a resource.  Devices carry the name of who makes them before a slash."""
    return (
        resource in (CPU, MEMORY, PODS, "ephemeral-storage")
        or resource.startswith(("hugepages-", "attachable-volumes-"))
        or ("/" in resource and not resource.startswith(_OF_QUOTAS_ONLY))
    )


def pod_amounts(spec: PodResources) -> dict[str, int]:
    """What one such pod takes of a node, the place among the node's pods included."""
    return in_base_units(pod_requests(spec)) | {PODS: 1}


def amounts_held(pod: Pod) -> dict[str, int]:
    """The same of a pod that may be there: a container that is resized in place holds the larger amounts."""
    status = pod.status
    if not any(_resized(each) for each in (*status.container_statuses, *status.init_container_statuses)):
        return pod_amounts(pod.spec)
    spec = replace(
        pod.spec,
        containers=_with_held(pod.spec.containers, status.container_statuses),
        init_containers=_with_held(pod.spec.init_containers, status.init_container_statuses),
    )
    return pod_amounts(spec)


def _resized(status: ContainerStatus) -> bool:
    return bool(status.allocated_resources or status.resources)


def _with_held(
    containers: tuple[Container, ...], statuses: tuple[ContainerStatus, ...]
) -> tuple[Container, ...]:
    held = {status.name: status for status in statuses}

    def of(container: Container) -> Container:
        status = held.get(container.name)
        if status is None:
            return container
        requests = max_resources(container_requests(container), status.allocated_resources)
        if status.resources is not None:
            requests = max_resources(requests, status.resources.requests)
        return replace(container, resources=ResourceRequirements(requests=requests))

    return tuple(map(of, containers))


def is_empty(amounts: Amounts) -> bool:
    """Whether nothing is asked for but a place among the pods: such a pod is *best effort*."""
    return not any(amount for resource, amount in amounts.items() if resource != PODS)


def plus(left: Amounts, right: Amounts) -> dict[str, int]:
    return {resource: left.get(resource, 0) + right.get(resource, 0) for resource in _union(left, right)}


def minus(left: Amounts, right: Amounts) -> dict[str, int]:
    """May go below zero: a node that shrank has less than it gave away."""
    return {resource: left.get(resource, 0) - right.get(resource, 0) for resource in _union(left, right)}


def times(amounts: Amounts, factor: int) -> dict[str, int]:
    return {resource: amount * factor for resource, amount in amounts.items()}


def future_idle(idle: Amounts, releasing: Amounts, pipelined: Amounts) -> dict[str, int]:
    """What will be idle when all that is being released is gone and all who wait for it have come."""
    return minus(plus(idle, releasing), pipelined)


def less_equal(left: Portions, right: Portions, missing: Missing = Missing.ZERO) -> bool:
    """Whether ``left`` fits into ``right`` in every resource.

    With ``Missing.INFINITY`` a scalar that only ``right`` names decides against it: ``left`` has any amount.
    """
    if missing is Missing.INFINITY and not _scalars(right) <= _scalars(left):
        return False
    return all(
        left.get(resource, 0) <= right.get(resource, 0)
        for resource in (*_ALWAYS_NAMED, *left)
        if resource in right or resource in _ALWAYS_NAMED or missing is Missing.ZERO
    )


def less_equal_where(left: Portions, right: Portions, asked: Amounts) -> bool:
    """Whether ``left`` fits into ``right`` in every resource that ``asked`` asks for, pods aside.

    When ``left`` names no scalar at all, scalars are not looked at.
    """
    scalars = _scalars(left)
    return all(
        left.get(resource, 0) <= right.get(resource, 0)
        for resource in _asked(asked)
        if scalars or resource in _ALWAYS_NAMED
    )


def some_less_equal_where(left: Portions, right: Portions, asked: Amounts) -> bool:
    """Whether ``left`` fits into ``right`` in a resource that ``asked`` asks for, pods aside.

    A resource of which neither has anything says nothing.
    """
    return any(
        left.get(resource, 0) <= right.get(resource, 0)
        for resource in _asked(asked)
        if left.get(resource, 0) or right.get(resource, 0)
    )


def some_greater_where(left: Portions, right: Portions, asked: Amounts) -> bool:
    """Whether ``left`` exceeds ``right`` in a resource that ``asked`` asks for and ``right`` names.

    Of cpu and memory, 0 names nothing.
    """
    return any(
        left.get(resource, 0) > right.get(resource, 0)
        for resource in _asked(asked)
        if (right.get(resource, 0) > 0 if resource in _ALWAYS_NAMED else resource in right)
    )


def minimum(amounts: Amounts, limit: Amounts, missing: Missing) -> dict[str, int]:
    """``amounts``, none more than ``limit``; a scalar that ``limit`` does not name is kept or becomes 0."""
    return {
        resource: amount
        if resource not in limit and resource not in _ALWAYS_NAMED and missing is Missing.INFINITY
        else min(amount, limit.get(resource, 0))
        for resource, amount in amounts.items()
    }


def maximum(left: Amounts, right: Amounts) -> dict[str, int]:
    """The larger of each; what only one names, as it names it."""
    return {**left, **right} | {
        resource: max(amount, right[resource]) for resource, amount in left.items() if resource in right
    }


def exceeded(left: Amounts, right: Amounts) -> dict[str, int]:
    """By how much ``left`` is more than ``right``, 0 where it is not."""
    return {resource: max(0, amount) for resource, amount in minus(left, right).items()}


def difference(left: Amounts, right: Amounts) -> tuple[dict[str, int], dict[str, int]]:
    """By how much ``left`` is more than ``right``, and by how much less."""
    return exceeded(left, right), exceeded(right, left)


def named(amounts: Portions) -> list[str]:
    """The resources of which there is anything, in the order of their names."""
    return sorted(resource for resource, amount in amounts.items() if amount > 0)


def _asked(asked: Amounts) -> Iterator[str]:
    return (resource for resource, amount in asked.items() if amount > 0 and resource != PODS)


def _scalars(amounts: Portions) -> set[str]:
    return set(amounts) - _ALWAYS_NAMED


def _union(left: Amounts, right: Amounts) -> dict[str, None]:
    return dict.fromkeys((*left, *right))
