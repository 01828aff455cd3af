"""What is reserved for a pod group: of nodes, of its queue, and of its namespace's quotas.

An admitted group has its ``minResources`` reserved until its members use them.  The requests of existing
members are in the used amounts of nodes and quotas already, so they are subtracted from the reservation, and
nothing counts twice.  Members that failed are subtracted only if they are not replaced: the reservation of a
gang that is short without them belongs to their replacements.  Source of the reservations on nodes and
quotas: the design note "Delay Pod Creation", made precise; of those in queues: Volcano's plugins proportion
and capacity.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from quorate.api.core.quota_scopes import ScopeAttributes, counted_until
from quorate.api.volcano import INQUEUE, RUNNING
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import ALLOCATED_STATUSES, TaskStatus
from quorate.gang.namespace_quota.evaluation import COUNT_PODS, group_minimum, quota_claim
from quorate.quota.amount import PODS

NOTHING: Final[Mapping[str, int]] = {}

# Nodes.


def node_claim_of(gang: Gang) -> Mapping[str, int]:
    """Return the amounts without zeros that are still reserved on nodes for ``gang`` once it is active.

    A finished member has used up its part: a driver that has finished does not get resources again.  A
    releasing member has not used up its part, nor has a failed member that is to be replaced: the replacement
    needs the resources.  Places for pods are not reserved.  The room that nodes hold for the gang is in their
    used amounts, as the requests of members are.
    """
    minimum, rooms = gang.min_resources, gang.rooms
    if not minimum or gang.is_terminating:
        return NOTHING
    if not (gang.tasks or rooms.held.pods):
        return {name: amount for name, amount in minimum.items() if amount > 0 and name != PODS}
    claim = {}
    requests, failed = gang.requests, _failed_request(gang)
    for name, amount in minimum.items():
        used = requests.allocated.get(name, 0) + requests.finished.get(name, 0) - failed.get(name, 0)
        left = amount - used - rooms.for_members(name)
        if left > 0 and name != PODS:
            claim[name] = left
    return claim


def _failed_request(gang: Gang) -> Mapping[str, int]:
    """Return the requests of failed members that are replaced, most often nothing."""
    failed = gang.failed_to_replace
    return sum((Counter(task.request) for task in failed), Counter()) if failed else NOTHING


def lost_claim_of(gang: Gang) -> Mapping[str, int]:
    """Return what the members need that a gang lacks while other members hold nodes for nothing."""
    if not gang.is_active or not gang.is_short or gang.is_terminating:
        return NOTHING
    used = gang.requests.charged + gang.requests.finished
    used.subtract(_failed_request(gang))
    return _minus(gang.min_resources or NOTHING, used)


def missing_claim_of(gang: Gang) -> Mapping[str, int]:
    """Return the part of ``lost_claim_of`` that ``reserved_for`` does not include."""
    return NOTHING if gang.phase == INQUEUE else lost_claim_of(gang)


# Quotas of the namespace.


def quota_claim_of(gang: Gang, now: float) -> Mapping[str, int]:
    """Return what ``gang`` may still take of the quotas of its namespace, by normalised name.

    All members are subtracted, in any phase: the quota controller counted each member when it was created.
    The quota controller counts members that failed, or are stuck terminating at ``now``, as objects only, and
    their replacements need quota.
    """
    if gang.min_resources is None or gang.is_terminating:
        return NOTHING
    used = gang.requests.quota_used
    leaving = gang.with_status(TaskStatus.RELEASING)
    stuck = [task for task in leaving if counted_until(task.pod.metadata) <= now]
    for task in (*gang.failed_to_replace, *stuck):
        used = used - Counter({name: n for name, n in task.quota_usage.items() if name != COUNT_PODS})
    return quota_claim(group_minimum(gang.quota_minimum, gang.min_member), used)


def scope_attributes_of(gang: Gang) -> ScopeAttributes:
    """Return what the scopes of quotas can evaluate for pods that may not exist yet."""
    assert gang.spec is not None, f"{gang.key} has no pod group"
    return ScopeAttributes(gang.spec.priority_class_name)


# Queues.


def reserved_for(gang: Gang) -> Mapping[str, int]:
    """Return what is still reserved in its queue for an admitted gang.

    That is the part of ``minResources`` for which no member has or awaits a node.  A gang that runs with
    fewer members than its minimum has nothing reserved: finished members have used up their part.  Members
    with scheduling gates need nothing until the gates are removed, except for the gates that admission
    removes: the amounts that a gang was admitted for stay reserved for it.
    """
    minimum = gang.min_resources
    if minimum is None or gang.phase not in (INQUEUE, RUNNING) or gang.is_terminating:
        return {}
    if (
        gang.phase == RUNNING
        and sum(gang.task_counts.by_status[status] for status in ALLOCATED_STATUSES) < gang.min_member
    ):
        return {}
    return without_gated(gang, _minus(minimum, gang.requests.charged))


def reserved_on_admission(gang: Gang) -> Mapping[str, int]:
    """Return what the session that admits a gang reserves for it: all of ``minResources``."""
    return {} if gang.is_terminating else without_gated(gang, gang.min_resources or {})


def requested(gang: Gang) -> Mapping[str, int]:
    """Return what a gang requests of its queue in profile ``compat``: all of ``minResources``."""
    return gang.min_resources or {}


def requested_beside_members(gang: Gang) -> Mapping[str, int]:
    """Return what a gang requests of its queue, without what members have already."""
    return _minus(gang.min_resources or {}, gang.requests.charged)


def without_gated(gang: Gang, amounts: Mapping[str, int]) -> Mapping[str, int]:
    """Return ``amounts`` without the requests of members that keep gates after admission."""
    return _minus(amounts, gang.requests.gated) if gang.requests.gated else amounts


def without_pending(gang: Gang, amounts: Mapping[str, int]) -> Mapping[str, int]:
    """Return ``amounts`` without the requests of pending members."""
    return _minus(amounts, gang.requests.pending)


def without_held(gang: Gang, amounts: Mapping[str, int]) -> Mapping[str, int]:
    """Return ``amounts`` without what nodes hold for members of ``gang``: their used amounts have it."""
    return _minus(amounts, gang.rooms.held.amounts) if gang.rooms.held.pods else amounts


def elastic_of(gang: Gang) -> Mapping[str, int]:
    """Return what the gang has beyond its ``minResources``: all of it without ``minResources``."""
    return _minus(gang.requests.charged, gang.min_resources or {})


def _minus(amounts: Mapping[str, int], subtracted: Mapping[str, int]) -> dict[str, int]:
    return {name: left for name, amount in amounts.items() if (left := amount - subtracted.get(name, 0)) > 0}
