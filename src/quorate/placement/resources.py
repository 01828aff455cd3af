"""Resource amounts that pods request and nodes have, with Volcano's comparisons.

Amounts are integers in base units (``quota.amount``): milli-CPUs, bytes, whole devices, whole pods.  Amounts
always name *cpu* and *memory*, with 0 if need be.  Any other resource is a *scalar* and may be absent.
``DimensionDefault`` determines whether an absent scalar is zero or infinite.

Source: Volcano's ``resource_info.go``, which calculates with floats and treats amounts that differ by less
than a tenth of a unit as equal.  Here that tenth is dropped once, when a quantity is read, and all other
arithmetic is exact.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from fractions import Fraction
from typing import Final

from quorate.api.core import Resources
from quorate.api.core.pod import Pod
from quorate.api.core.pod_resources import PodResources, pod_requests
from quorate.api.quantity import NANOS
from quorate.quota.amount import CPU, PODS

Amounts = Mapping[str, int]
FractionalAmounts = Mapping[str, int | Fraction]  # amounts, or the results of dividing them

MEMORY: Final = "memory"
EMPTY_AMOUNTS: Final[Amounts] = {}

_ALWAYS_NAMED: Final = frozenset({CPU, MEMORY})
_QUOTA_ONLY_PREFIXES: Final = ("count/", "requests.", "limits.")


class DimensionDefault(Enum):
    """The amount of a scalar that is absent."""

    ZERO = "zero"
    INFINITY = "infinity"


def in_base_units(quantities: Resources) -> dict[str, int]:
    """Return the amounts of a node, pod or pod group.

    Leave out resources that only quotas know (``count/pods``).  Round up, except for less than a tenth of a
    base unit: 1.00005 CPUs are 1000 milli-CPUs.
    """
    amounts: dict[str, int] = {}
    for resource, quantity in quantities.items():
        if is_node_resource(resource):
            unit = NANOS // 1000 if resource == CPU else NANOS
            amounts[resource] = -((unit // 10 - 1 - quantity.nanos) // unit)
    return amounts


def is_node_resource(resource: str) -> bool:
    """Return True if nodes can have ``resource``, native or extended (``vendor/device``)."""
    return (
        resource in (CPU, MEMORY, PODS, "ephemeral-storage")
        or resource.startswith(("hugepages-", "attachable-volumes-"))
        or ("/" in resource and not resource.startswith(_QUOTA_ONLY_PREFIXES))
    )


def pod_amounts(spec: PodResources) -> dict[str, int]:
    """Return what one such pod takes of a node, including one of the node's ``pods``."""
    return in_base_units(pod_requests(spec)) | {PODS: 1}


def placed_pod_amounts(pod: Pod) -> dict[str, int]:
    """Return what ``pod`` takes of its node, with what an in-place resize has not released."""
    return in_base_units(pod_requests(pod.spec, pod.status)) | {PODS: 1}


def is_empty(amounts: Amounts) -> bool:
    """Return True if nothing but ``pods`` is requested: such a pod is *best effort*."""
    return not any(amount for resource, amount in amounts.items() if resource != PODS)


def plus(left: Amounts, right: Amounts) -> dict[str, int]:
    return {resource: left.get(resource, 0) + right.get(resource, 0) for resource in _union(left, right)}


def minus(left: Amounts, right: Amounts) -> dict[str, int]:
    """Subtract; the result may be negative, as a node that shrank has less than its pods use."""
    return {resource: left.get(resource, 0) - right.get(resource, 0) for resource in _union(left, right)}


def less_equal(
    left: FractionalAmounts, right: FractionalAmounts, default: DimensionDefault = DimensionDefault.ZERO
) -> bool:
    """Return True if ``left`` is at most ``right`` in every resource.

    With ``DimensionDefault.INFINITY`` the result is False if ``right`` names a scalar that ``left`` lacks:
    ``left`` then has an infinite amount of it.
    """
    if default is DimensionDefault.INFINITY and not _scalars(right) <= _scalars(left):
        return False
    return all(
        left.get(resource, 0) <= right.get(resource, 0)
        for resource in (*_ALWAYS_NAMED, *left)
        if resource in right or resource in _ALWAYS_NAMED or default is DimensionDefault.ZERO
    )


def less_equal_partly(left: FractionalAmounts, right: FractionalAmounts, request: Amounts) -> bool:
    """Return True if ``left`` is at most ``right`` in some resource of ``request``.

    Ignore ``pods``, and a resource that is zero on both sides.
    """
    return any(
        left.get(resource, 0) <= right.get(resource, 0)
        for resource in _requested(request)
        if left.get(resource, 0) or right.get(resource, 0)
    )


def greater_partly(left: FractionalAmounts, right: FractionalAmounts, request: Amounts) -> bool:
    """Return True if ``left`` exceeds ``right`` in some resource of ``request``.

    Ignore ``pods``, and resources that ``right`` does not name; an amount of 0 names neither cpu nor memory.
    """
    return any(
        left.get(resource, 0) > right.get(resource, 0)
        for resource in _requested(request)
        if (right.get(resource, 0) > 0 if resource in _ALWAYS_NAMED else resource in right)
    )


def minimum(amounts: Amounts, limit: Amounts, default: DimensionDefault) -> dict[str, int]:
    """Return ``amounts``, each at most ``limit``.

    ``default`` is the limit of a scalar that ``limit`` does not name.
    """
    return {
        resource: amount
        if resource not in limit and resource not in _ALWAYS_NAMED and default is DimensionDefault.INFINITY
        else min(amount, limit.get(resource, 0))
        for resource, amount in amounts.items()
    }


def maximum(left: Amounts, right: Amounts) -> dict[str, int]:
    """Return the larger amount of each resource; keep a resource that only one side names."""
    return {**left, **right} | {
        resource: max(amount, right[resource]) for resource, amount in left.items() if resource in right
    }


def resource_names(amounts: FractionalAmounts) -> list[str]:
    """Return the resources with a positive amount, sorted."""
    return sorted(resource for resource, amount in amounts.items() if amount > 0)


def _requested(request: Amounts) -> Iterator[str]:
    return (resource for resource, amount in request.items() if amount > 0 and resource != PODS)


def _scalars(amounts: FractionalAmounts) -> set[str]:
    return set(amounts) - _ALWAYS_NAMED


def _union(left: Amounts, right: Amounts) -> dict[str, None]:
    return dict.fromkeys((*left, *right))
