"""Whether the members of a waiting group fit the nodes, each on one, where their requests are known.

The sum of what nodes have idle can suffice for ``minResources`` although no node has room for a member: three
members of 5 cpu do not fit two nodes of 8.  The requests of the members are known if their pods exist, or if
the group stands for a Job with one pod template, or has an annotation with the requests of one pod, or by
role.  Of other groups only the sum is checked, since their members may differ: 1, 7 and 7 cpu do fit.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from quorate.api.volcano.annotations import EVERY_ROLE
from quorate.gang.actions.member_packing import Members, find_packing_failure
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import TaskStatus
from quorate.gang.pending_reasons import NotEnoughNodes
from quorate.placement.cluster import Cluster
from quorate.quota.amount import PODS

_MANY: Final = 2**31 - 1  # members that request nothing

_Amounts = tuple[tuple[str, int], ...]


class MemberRoom:
    """The room of the nodes at one moment of a session, by what a member requests."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._found: dict[_Amounts, tuple[int, str, int]] = {}

    def check(self, gang: Gang) -> NotEnoughNodes | None:
        """Return which members do not fit; None if all do, or may."""
        amounts = amounts_of_member(gang)
        if amounts is None:
            return self._check_unequal(unequal_members(gang))
        key = tuple(sorted(amounts.items()))
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._room(amounts)
        fitting, resource, best = found
        if fitting >= gang.min_member:
            return None
        needed, nodes = amounts.get(resource, 0), len(self._cluster.ready.nonzero()[0])
        return NotEnoughNodes(gang.min_member, fitting, resource, needed, best, nodes)

    def _check_unequal(self, members: Sequence[Members]) -> NotEnoughNodes | None:
        if not members:
            return None
        cluster = self._cluster
        future_idle = (cluster.allocatable - cluster.used + cluster.releasing - cluster.pipelined)[
            :, cluster.ready
        ]
        idle = {name: future_idle[row] for name, row in cluster.rows.items()}
        failure = find_packing_failure(idle, members)
        count = sum(each.pods for each in members)
        return None if failure is None else NotEnoughNodes(count, *failure, future_idle.shape[1])

    def _room(self, amounts: Mapping[str, int]) -> tuple[int, str, int]:
        """Return how many members fit, the resource that is short for one more, and the most that is left."""
        cluster = self._cluster
        future_idle = cluster.allocatable - cluster.used + cluster.releasing - cluster.pipelined
        idle = {
            name: np.where(cluster.ready, future_idle[cluster.rows[name]], 0)
            if name in cluster.rows
            else None
            for name in sorted(amounts)
        }
        nodes = len(cluster.ready)
        fitting = np.full(nodes, _MANY, np.int64)
        for name, have in idle.items():
            room = np.zeros(nodes, np.int64) if have is None else np.maximum(have // amounts[name], 0)
            fitting = np.minimum(fitting, room)
        best = {
            name: 0 if have is None else int((have - fitting * amounts[name])[cluster.ready].max(initial=0))
            for name, have in idle.items()
        }
        scarcest = min(best, key=lambda name: (best[name] / amounts[name], name), default="")
        return min(int(fitting[cluster.ready].sum()), _MANY), scarcest, best.get(scarcest, 0)


def unequal_members(gang: Gang) -> list[Members]:
    """Return the members that the group needs at least, as far as their requests are known.

    Of existing pods that are more than the group needs, the smallest count, if they can be told.
    """
    if gang.min_member < 1 or gang.allocated or gang.finished_request:
        return []
    valid = [task for task in gang.tasks.values() if task.status is TaskStatus.PENDING]
    if len(valid) >= gang.min_member:
        minima = gang.role_minima
        if not minima:
            return _smallest([task.shape.amounts for task in valid], gang.min_member)
        return [
            members
            for role, minimum in sorted(minima.items())
            for members in _smallest([task.shape.amounts for task in valid if task.role == role], minimum)
        ]
    by_role = gang.member_requests
    return [
        Members({name: amount for name, amount in by_role[role].items() if amount > 0}, minimum)
        for role, minimum in sorted(gang.role_minima.items())
        if minimum > 0 and by_role.get(role)
    ]


def _smallest(amounts: Sequence[Mapping[str, int]], count: int) -> list[Members]:
    """Return the ``count`` smallest of ``amounts``, or none if it is not clear which these are."""
    counts = Counter(tuple(sorted(each.items())) for each in amounts)
    ordered = sorted(counts, key=lambda each: (sum(amount for _, amount in each), each))
    distinct = [dict(each) for each in ordered]
    is_ordered = all(_is_at_most(one, other) for one, other in pairwise(distinct))
    if not is_ordered and count < len(amounts):
        return []
    result: list[Members] = []
    for each in distinct:
        taken = min(count, counts[tuple(sorted(each.items()))])
        count -= taken
        if taken:
            result.append(Members({name: amount for name, amount in each.items() if amount > 0}, taken))
    return result


def _is_at_most(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return all(amount <= other.get(name, 0) for name, amount in one.items())


def amounts_of_member(gang: Gang) -> Mapping[str, int] | None:
    """Return what each member requests, in base units, with 1 of ``pods``; None if they may differ."""
    minimum = gang.min_member
    if minimum < 1 or gang.allocated or gang.finished_request:
        return None
    shapes = {task.shape for task in gang.tasks.values()}
    if len(shapes) == 1 and gang.task_counts.valid >= minimum:
        (shape,) = shapes
        return {name: amount for name, amount in shape.amounts.items() if amount > 0}
    if EVERY_ROLE in gang.member_requests:
        return {name: amount for name, amount in gang.member_requests[EVERY_ROLE].items() if amount > 0}
    if not gang.has_equal_members or gang.min_resources is None:
        return None
    shared = {name: amount // minimum for name, amount in gang.min_resources.items() if name != PODS}
    return {name: amount for name, amount in shared.items() if amount > 0} | {PODS: 1}
