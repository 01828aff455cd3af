"""The status of cluster queues, cohorts and local queues: counts, usage, and the Active condition."""

import math
from collections.abc import Callable
from itertools import islice
from typing import Final

import msgspec

from quorate.api.kueue import (
    ACTIVE,
    AdmissionFairSharingStatus,
    ClusterQueueStatus,
    CohortStatus,
    FairSharingStatus,
    FlavorUsage,
    LocalQueueFairSharingStatus,
    LocalQueueStatus,
    ResourceGroup,
    ResourceUsage,
)
from quorate.api.meta import Condition, ConditionStatus, at_epoch
from quorate.api.quantity import NANOS, Quantity
from quorate.queueing.cluster_queue import ClusterQueueState, LocalQueueState
from quorate.queueing.conditions import new_condition, with_conditions
from quorate.queueing.consumed_usage import ConsumedUsage
from quorate.queueing.limits import MAX_FLAVORS
from quorate.quota.amount import FlavorResource, Usage, as_quantity, total
from quorate.quota.fair_sharing import dominant_share
from quorate.quota.tree import Node

_MAX_SHARE: Final = 2**63 - 1  # of the API


def cluster_queue_status(queue: ClusterQueueState, now: float, *, shares: bool) -> ClusterQueueStatus:
    """Return the status; ``shares``: fair sharing is configured, so the status contains the share."""

    def borrowed(pair: FlavorResource, used: int) -> int:
        if queue.node.parent is None:  # its quota was lowered, or it left its cohort: nothing is lent to it
            return 0
        limits = queue.node.limits.get(pair)
        return max(0, used - (limits.nominal if limits is not None else 0))

    totals, groups, outside = queue.totals, queue.spec.resource_groups, queue.outside.values()
    return ClusterQueueStatus(
        conditions=_with(queue.object.status.conditions, _cluster_queue_active(queue), now),
        flavors_reservation=_usage(groups, total((totals.reserved_usage, *outside)), borrowed),
        flavors_usage=_usage(groups, total((totals.admitted_usage, *outside)), borrowed),
        pending_workloads=len(queue.pending),
        reserving_workloads=totals.reserving,
        admitted_workloads=totals.admitted,
        fair_sharing=_share(queue.node) if shares else None,
    )


def cohort_status(node: Node, *, shares: bool) -> CohortStatus:
    return CohortStatus(fair_sharing=_share(node) if shares else None)


def _share(node: Node) -> FairSharingStatus:
    share = dominant_share(node)
    return FairSharingStatus(weighted_share=_MAX_SHARE if share.infinite else math.ceil(share.thousandths))


def local_queue_status(
    queue: LocalQueueState,
    cluster_queue: ClusterQueueState | None,
    now: float,
    *,
    uses_admission_fair_sharing: bool,
) -> LocalQueueStatus:
    """Return the status; with admission fair sharing it stores the consumed usage for a later process."""
    assert queue.object is not None, "a local queue without an object has no status"
    active = _local_queue_active(queue, cluster_queue)
    conditions = _with(queue.object.status.conditions, active, now)
    if cluster_queue is None:
        return LocalQueueStatus(conditions=conditions, pending_workloads=queue.pending_count)
    groups = cluster_queue.spec.resource_groups
    return LocalQueueStatus(
        conditions=conditions,
        flavors_reservation=_usage(groups, queue.totals.reserved_usage, None),
        flavors_usage=_usage(groups, queue.totals.admitted_usage, None),
        pending_workloads=queue.pending_count,
        reserving_workloads=queue.totals.reserving,
        admitted_workloads=queue.totals.admitted,
        fair_sharing=_consumed_usage(queue.consumed_usage) if uses_admission_fair_sharing else None,
    )


def _consumed_usage(consumed_usage: ConsumedUsage) -> LocalQueueFairSharingStatus:
    """Return the consumed usage, without amounts before the first sample: the API requires their time."""
    if consumed_usage.changed_at is None:
        return LocalQueueFairSharingStatus()
    consumed = {
        resource: Quantity(round(amount * NANOS))
        for resource, amount in sorted(consumed_usage.consumed.items())
    }
    stored = AdmissionFairSharingStatus(
        consumed_resources=consumed, last_update=at_epoch(consumed_usage.changed_at)
    )
    return LocalQueueFairSharingStatus(admission_fair_sharing_status=stored)


def _cluster_queue_active(queue: ClusterQueueState) -> tuple[ConditionStatus, str, str]:
    if not queue.inactive_reasons:
        findings = (f"; without effect: {finding}" for finding in queue.invalid_settings)
        return "True", "Ready", "".join(("Can admit new workloads", *findings))
    first = queue.inactive_reasons[0]
    if first.code == "Terminating":
        return "False", first.code, f"Can't admit new workloads; {first.text}"
    parts = ", ".join(reason.text for reason in queue.inactive_reasons)
    return "False", first.code, f"Can't admit new workloads: {parts}."


def _local_queue_active(
    queue: LocalQueueState, cluster_queue: ClusterQueueState | None
) -> tuple[ConditionStatus, str, str]:
    if queue.is_terminating:
        return "False", "Terminating", "LocalQueue is terminating"
    if not queue.is_running:
        return "False", "Stopped", "LocalQueue is stopped"
    if cluster_queue is None:
        return "False", "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
    if cluster_queue.inactive_reasons:
        first, text = cluster_queue.inactive_reasons[0], "Can't submit new workloads to clusterQueue"
        if first.code == "CohortCycleDetected":
            return "False", first.code, f"{text}: {first.text}"
        return "False", "ClusterQueueIsInactive", text
    return "True", "Ready", "Can submit new workloads to localQueue"


def _with(
    conditions: tuple[Condition, ...], active: tuple[ConditionStatus, str, str], now: float
) -> tuple[Condition, ...]:
    return with_conditions(conditions, new_condition(ACTIVE, *active, now))


def _usage(
    groups: tuple[ResourceGroup, ...], usage: Usage, borrowed: Callable[[FlavorResource, int], int] | None
) -> tuple[FlavorUsage, ...]:
    """Return the usage of every flavor and resource of the queue, in its order, unused ones included.

    The API refuses a status with duplicate or too many flavors, so a flavor that is specified twice is listed
    once, and only the first flavors are listed.
    """
    result: dict[str, FlavorUsage] = {}
    for group in groups:
        for flavor in group.flavors:
            resources: list[ResourceUsage] = []
            for quota in flavor.resources:
                pair = FlavorResource(flavor.name, quota.name)
                used = usage.get(pair, 0)
                over = msgspec.UNSET if borrowed is None else as_quantity(quota.name, borrowed(pair, used))
                resources.append(
                    ResourceUsage(name=quota.name, total=as_quantity(quota.name, used), borrowed=over)
                )
            result.setdefault(flavor.name, FlavorUsage(name=flavor.name, resources=tuple(resources)))
    return tuple(islice(result.values(), MAX_FLAVORS))
