"""Whether the members of a waiting group fit the nodes, each on one, where their requests are known.

The sum of what nodes have idle can suffice for ``minResources`` although no node has room for a member: three
members of 5 cpu do not fit two nodes of 8.  The requests of the members are known if their pods exist, or if
the group stands for a Job with one pod template, or has an annotation with the requests of one pod, or by
role.  Of other groups only the sum is checked, since their members may differ: 1, 7 and 7 cpu do fit.

An idle factor above 1 (plugin ``overcommit``) lets groups be admitted beyond the idle resources: as many
equal members as that part of the cluster has room for need no node now, but all must fit nodes without pods.
Of unequal members only the fit on nodes without pods is checked then.

Members that do not fit the nodes without any pods, those included that are not ready, never fit.
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
from quorate.placement.vectors import Mask, Matrix, Vector, np

_MANY: Final = 2**31 - 1  # members that request nothing

_Amounts = tuple[tuple[str, int], ...]


class _Fit(NamedTuple):
    """How many equal members of some requests fit some nodes."""

    fitting: int
    scarcest: str = ""  # the resource that is short for one more
    best: int = 0  # the most that a node has left of it


class _Room(NamedTuple):
    """The room for equal members of some requests."""

    now: _Fit
    empty: _Fit  # on all nodes, without any pods
    admissible: int  # how many members have room with the idle factor


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
        self._rooms: dict[_Amounts, _Room] = {}  # by what a member requests

    def check(self, gang: Gang, *, is_short: bool = False) -> NotEnoughNodes | None:
        """Return which members do not fit; None if all do, or may.

        ``is_short``: the nodes together have too little now, so only members that never fit are looked for.
        """
        needed_pods = gang.min_member - gang.rooms.held.pods
        amounts = amounts_of_member(gang)
        if needed_pods <= 0 or (amounts is None and gang.rooms.held.pods):
            return None  # it is not known which of unequal members have the room that is held
        members = unequal_members(gang) if amounts is None else [Members(amounts, needed_pods)]
        lack = None
        if not is_short:
            lack = self._lack_of_equal(*members) if amounts is not None else self._lack_of_unequal(members)
            if lack is None:
                return None
        return next(filter(None, map(self._never_fit, members)), lack)

    def _never_fit(self, members: Members) -> NotEnoughNodes | None:
        """Return what equal members lack on nodes without pods; None if they fit there."""
        fit = self._room(members.amounts).empty
        if fit.fitting >= members.pods:
            return None
        needed, nodes = members.amounts.get(fit.scarcest, 0), sum(1 for _ in self._cluster.names())
        return NotEnoughNodes(
            members.pods, fit.fitting, fit.scarcest, needed, fit.best, nodes, never_fits=True
        )

    def _lack_of_equal(self, members: Members) -> NotEnoughNodes | None:
        room = self._room(members.amounts)
        if room.admissible >= members.pods:
            return None
        fit, nodes = room.now, int(self._ready.sum())
        needed = members.amounts.get(fit.scarcest, 0)
        return NotEnoughNodes(members.pods, fit.fitting, fit.scarcest, needed, fit.best, nodes)

    def _lack_of_unequal(self, members: Sequence[Members]) -> NotEnoughNodes | None:
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
        key = tuple(sorted(amounts.items()))
        room = self._rooms.get(key)
        if room is None:
            room = self._rooms[key] = self._room_of(amounts)
        return room

    def _room_of(self, amounts: Mapping[str, int]) -> _Room:
        ready, allocatable = self._ready, self._cluster.allocatable
        now = self._fit(self._future_idle(), ready, amounts)
        admissible = now.fitting
        if self._idle_factor > 1:
            beyond = self._idle_factor - 1
            of_ready = self._by_resource(allocatable, ready, amounts)
            extra = [int(int(have.sum()) * beyond) // amounts[name] for name, have in of_ready.items()]
            in_empty = self._fit(allocatable, ready, amounts).fitting
            admissible = min(now.fitting + min(extra, default=0), in_empty)
        return _Room(now, self._fit(allocatable, np.ones_like(ready), amounts), admissible)

    def _fit(self, free: Matrix, nodes: Mask, amounts: Mapping[str, int]) -> _Fit:
        """Return how many members with ``amounts`` fit ``nodes``, which have ``free`` left."""
        left = self._by_resource(free, nodes, amounts)
        fitting = np.full(int(nodes.sum()), _MANY, np.int64)
        for name, have in left.items():
            fitting = np.minimum(fitting, np.maximum(have // amounts[name], 0))
        best = {name: int((have - fitting * amounts[name]).max(initial=0)) for name, have in left.items()}
        scarcest = min(best, key=lambda name: (best[name] / amounts[name], name), default="")
        return _Fit(min(int(fitting.sum()), _MANY), scarcest, best.get(scarcest, 0))

    def _by_resource(self, free: Matrix, nodes: Mask, amounts: Mapping[str, int]) -> dict[str, Vector]:
        rows, nothing = self._cluster.rows, np.zeros(int(nodes.sum()), np.int64)
        return {name: free[rows[name], nodes] if name in rows else nothing for name in sorted(amounts)}


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
    counts = Counter(tuple(sorted(member.items())) for member in amounts)
    ordered = sorted(counts, key=lambda member: (sum(amount for _, amount in member), member))
    distinct = [dict(member) for member in ordered]
    is_ordered = all(_is_at_most(one, other) for one, other in pairwise(distinct))
    if not is_ordered and count < len(amounts):
        return []
    result: list[Members] = []
    for member in distinct:
        taken = min(count, counts[tuple(sorted(member.items()))])
        count -= taken
        if taken:
            result.append(Members({name: amount for name, amount in member.items() if amount > 0}, taken))
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
