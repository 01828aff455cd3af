"""Whether the members of a waiting group fit the nodes, each on one, where their requests are known.

The sum of what nodes have idle can suffice for ``minResources`` although no node has room for a member: three
members of 5 cpu do not fit two nodes of 8.  The requests of the members are known if their pods exist, or if
the group stands for a Job with one pod template, or has an annotation with the requests of one pod, or by
role.  Of other groups only the sum is checked, since their members may differ: 1, 7 and 7 cpu do fit.

An idle factor above 1 (plugin ``overcommit``) lets groups be admitted beyond the idle resources: as many
equal members as that part of the cluster has room for need no node now, but all must fit nodes without pods.
Of unequal members only the fit on nodes without pods is checked then.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Final, NamedTuple

from quorate.gang.actions.member_packing import Members, find_packing_failure
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import TaskStatus
from quorate.gang.pending_reasons import NotEnoughNodes
from quorate.placement.cluster import Cluster
from quorate.placement.vectors import Matrix, Vector, np

_MANY: Final = 2**31 - 1  # members that request nothing

_Amounts = tuple[tuple[str, int], ...]


class _Room(NamedTuple):
    """How many equal members of some requests have room."""

    fitting: int  # now
    admissible: int  # with the idle factor
    scarcest: str  # the resource that is short for one more
    best: int  # the most that a node has left of it


class MemberRoom:
    """The room of the nodes at one moment of a session, by what a member requests.

    ``more``: what the nodes have beyond their future idle amounts, by resource and node; it may be negative.
    ``within``: the nodes that count, by index; None: all.
    """

    def __init__(
        self, cluster: Cluster, idle_factor: Fraction, more: Matrix | int = 0, within: Vector | None = None
    ) -> None:
        self._cluster = cluster
        self._more = more
        self._ready = cluster.ready
        if within is not None:
            self._ready = np.zeros_like(cluster.ready)
            self._ready[within] = cluster.ready[within]
        self._idle_factor = idle_factor
        self._found: dict[_Amounts, _Room] = {}

    def check(self, gang: Gang) -> NotEnoughNodes | None:
        """Return which members do not fit; None if all do, or may."""
        needed_pods = gang.min_member - gang.rooms.held.pods
        amounts = amounts_of_member(gang)
        if needed_pods <= 0 or (amounts is None and gang.rooms.held.pods):
            return None  # it is not known which of unequal members have the room that is held
        if amounts is None:
            return self._check_unequal(unequal_members(gang))
        key = tuple(sorted(amounts.items()))
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._room(amounts)
        if found.admissible >= needed_pods:
            return None
        needed, nodes = amounts.get(found.scarcest, 0), int(self._ready.sum())
        return NotEnoughNodes(needed_pods, found.fitting, found.scarcest, needed, found.best, nodes)

    def _check_unequal(self, members: Sequence[Members]) -> NotEnoughNodes | None:
        if not members:
            return None
        cluster = self._cluster
        free = cluster.allocatable if self._idle_factor > 1 else self._future_idle()
        left = {name: free[row, self._ready] for name, row in cluster.rows.items()}
        failure = find_packing_failure(left, members)
        count = sum(member.pods for member in members)
        return None if failure is None else NotEnoughNodes(count, *failure, int(self._ready.sum()))

    def _future_idle(self) -> Matrix:
        cluster = self._cluster
        return cluster.allocatable - cluster.used + cluster.releasing - cluster.pipelined + self._more

    def _room(self, amounts: Mapping[str, int]) -> _Room:
        ready, rows = self._ready, self._cluster.rows
        nodes = int(ready.sum())
        nothing = np.zeros(nodes, np.int64)

        def by_resource(free: Matrix) -> dict[str, Vector]:
            return {name: free[rows[name], ready] if name in rows else nothing for name in sorted(amounts)}

        idle = by_resource(self._future_idle())
        fitting = _fitting(idle, amounts, nodes)
        best = {name: int((have - fitting * amounts[name]).max(initial=0)) for name, have in idle.items()}
        scarcest = min(best, key=lambda name: (best[name] / amounts[name], name), default="")
        fitting_now = admissible = min(int(fitting.sum()), _MANY)
        if self._idle_factor > 1:
            allocatable = by_resource(self._cluster.allocatable)
            beyond = self._idle_factor - 1
            extra = [int(int(have.sum()) * beyond) // amounts[name] for name, have in allocatable.items()]
            in_empty = min(int(_fitting(allocatable, amounts, nodes).sum()), _MANY)
            admissible = min(fitting_now + min(extra, default=0), in_empty)
        return _Room(fitting_now, admissible, scarcest, best.get(scarcest, 0))


def _fitting(free: Mapping[str, Vector], amounts: Mapping[str, int], nodes: int) -> Vector:
    """Return how many members each node takes, by resource what each has left."""
    fitting = np.full(nodes, _MANY, np.int64)
    for name, have in free.items():
        fitting = np.minimum(fitting, np.maximum(have // amounts[name], 0))
    return fitting


def unequal_members(gang: Gang) -> list[Members]:
    """Return the members that the group needs at least, as far as their requests are known.

    Of existing pods that are more than the group needs, the smallest count, if they can be told.
    """
    if gang.min_member < 1 or gang.requests.allocated or gang.requests.finished:
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
    return [
        Members({name: amount for name, amount in requests.items() if amount > 0}, minimum)
        for role, minimum in sorted(gang.role_minima.items())
        if minimum > 0 and (requests := gang.owner.requests_of(role))
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
    if minimum < 1 or gang.requests.allocated or gang.requests.finished:
        return None
    shapes = {task.shape for task in gang.tasks.values()}
    if len(shapes) == 1 and gang.task_counts.valid >= minimum:
        (shape,) = shapes
        return {name: amount for name, amount in shape.amounts.items() if amount > 0}
    return gang.owner.requests_of_each(minimum, gang.min_resources)
