"""Validation of pod groups beyond the schema of their CRD.

The rules are Volcano's (1.15), except for two: numbers must not be negative, and a queue may limit its pod
groups.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from quorate.api.findings import Finding, child_path
from quorate.api.quantity import Quantity
from quorate.api.validation.fields import Findings
from quorate.api.volcano import (
    OPEN,
    QUEUE_NOT_OPEN,
    QUEUE_POD_GROUP_LIMIT,
    NetworkTopology,
    PodGroup,
    Queue,
)

QUEUE: Final = "spec.queue"


def pod_group_findings(group: PodGroup) -> Findings:
    """Validate the group itself."""
    spec = group.spec
    if spec.min_member < 0:
        yield Finding("spec.minMember", spec.min_member, "is negative, must be at least 0")
    for role, number in spec.min_task_member.items():
        if number < 0:
            yield Finding(child_path("spec.minTaskMember", role), number, "is negative, must be at least 0")
    yield from amount_findings("spec.minResources", spec.min_resources or {})
    yield from topology_findings("spec.networkTopology", spec.network_topology)
    for at, policy in enumerate(spec.sub_group_policy):
        yield from topology_findings(f"spec.subGroupPolicy[{at}].networkTopology", policy.network_topology)


def pod_group_queue_findings(group: PodGroup, queue: Queue | None) -> Findings:
    """Validate that the group's queue exists and accepts new groups."""
    yield from queue_state_findings(QUEUE, group.queue_name, queue)


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """The number of active pod groups in a queue and its descendants."""

    queue: str
    limit: int
    held: int


def pod_group_limit_findings(group: PodGroup, loads: Iterable[QueueLoad]) -> Findings:
    """Validate that neither the queue of a new group nor an ancestor has reached a hard limit."""
    for load in loads:
        if load.held >= load.limit:
            rule = (
                f"cannot be used: queue {load.queue} holds {load.held} pod groups that are not completed, "
                f"at most {load.limit} (wait for one to complete, or raise its spec.maxPodGroups)"
            )
            yield Finding(QUEUE, group.queue_name, rule, reason=QUEUE_POD_GROUP_LIMIT)


def queue_state_findings(path: str, name: str, queue: Queue | None) -> Findings:
    """Validate that ``queue``, named ``name``, exists and is open."""
    if queue is None:
        rule = "is a queue that does not exist (create it, or name another one)"
        yield Finding(path, name, rule, reason=QUEUE_NOT_OPEN)
    elif not is_open(queue):
        rule = f"is a queue in state {queue.status.state}, must be {OPEN} (open it, or name another one)"
        yield Finding(path, name, rule, reason=QUEUE_NOT_OPEN)


def is_open(queue: Queue) -> bool:
    """Return True if a queue is open, which it is until its controller sets a state."""
    return queue.status.state in ("", OPEN)


def amount_findings(path: str, amounts: Mapping[str, Quantity]) -> Findings:
    for resource, amount in amounts.items():
        if amount.nanos < 0:
            yield Finding(child_path(path, resource), str(amount), "is negative, must be at least 0")


def topology_findings(path: str, topology: NetworkTopology | None) -> Findings:
    if topology is None or topology.highest_tier_allowed is None or not topology.highest_tier_name:
        return
    rule = "is given together with highestTierAllowed (keep one of them)"
    yield Finding(f"{path}.highestTierName", topology.highest_tier_name, rule)
