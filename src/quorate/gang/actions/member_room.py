"""Whether the members of a waiting group fit the nodes, each on one, where their requests are known.

The sum of what nodes have idle can suffice for ``minResources`` although no node has room for a member: three
members of 5 cpu do not fit two nodes of 8.  The requests of the members are known if their pods exist and are
equal, or if the group stands for a Job with one pod template.  Of other groups only the sum is checked, since
their members may differ.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from quorate.gang.cache.gang import Gang
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
            return None
        key = tuple(sorted(amounts.items()))
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._room(amounts)
        fitting, resource, best = found
        if fitting >= gang.min_member:
            return None
        needed, nodes = amounts.get(resource, 0), len(self._cluster.ready.nonzero()[0])
        return NotEnoughNodes(gang.min_member, fitting, resource, needed, best, nodes)

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


def amounts_of_member(gang: Gang) -> Mapping[str, int] | None:
    """Return what each member requests, in base units, with 1 of ``pods``; None if they may differ."""
    minimum = gang.min_member
    if minimum < 1 or gang.allocated or gang.finished_request:
        return None
    shapes = {task.shape for task in gang.tasks.values()}
    if len(shapes) == 1 and gang.task_counts.valid >= minimum:
        (shape,) = shapes
        return {name: amount for name, amount in shape.amounts.items() if amount > 0}
    if not gang.has_equal_members or gang.min_resources is None:
        return None
    shared = {name: amount // minimum for name, amount in gang.min_resources.items() if name != PODS}
    return {name: amount for name, amount in shared.items() if amount > 0} | {PODS: 1}
