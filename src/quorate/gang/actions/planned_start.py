"""Planned start of a pod group: room on nodes for the first group that is not admitted for want of it (EASY).

The group gets a plan: the earliest time at which the nodes have room for it, if each gang runs for as long as
its bound says (see ``bounds``), and the nodes of its members at that time.  A later group is admitted if it
ends before that time, by its own bound, or if it has room beside what is kept: what the planned group needs
on each node and what no gang frees there until then.

A gang without a bound frees nothing by a known time.  If the plan needs it to end, nothing that the plan
needs is given to groups without a bound.  A group with a Workload has no plan: the cluster queue plans its
start.  A group that must be within one HyperNode, or one value of a node label, gets the first that has room
for its members, by their requests; it is not admitted before, although the nodes together have enough.
Nodes that a window of a Reservation keeps from the group count from the end of the window on, if the group
ends before the next one begins.  Until then the plan keeps nothing of these nodes, which the owners use.

A plan is a function of the objects and the time, so a new process makes the same plan.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from quorate.api.meta import Key
from quorate.gang.actions.admission_checks import AdmissionChecks
from quorate.gang.actions.hyper_node_rooms import hard_limit, highest_tier
from quorate.gang.actions.member_packing import Members, places_of
from quorate.gang.actions.member_room import MemberRoom, amounts_of_member, unequal_members
from quorate.gang.actions.window_room import ready_nodes
from quorate.gang.cache.bounds import PlannedGroup, bound_s, ends_at
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.reservations import node_claim_of
from quorate.gang.cache.task import ALLOCATED_STATUSES
from quorate.gang.pending_reasons import NotPlanned, ReservedForEarlierGroup
from quorate.gang.session.session import Session
from quorate.gang.topology_reasons import NetworkTopologyUnsatisfied
from quorate.placement.cluster import Cluster
from quorate.placement.vectors import Matrix, Vector, np


class _Freed:
    """What the gangs that end first free of the nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.matrix = np.zeros_like(cluster.allocatable)
        self.total: Counter[str] = Counter()
        self.last: set[int] = set()  # the nodes on which the gang that was added last has members

    def add(self, gang: Gang, *, is_charged: bool) -> None:
        """Add ``gang``; ``is_charged``: whether its claims are reserved beside what its members use."""
        cluster = self._cluster
        self.last = set()
        for task in gang.tasks.values():
            index = cluster.index(task.node) if task.status in ALLOCATED_STATUSES else None
            if index is not None and cluster.ready[index]:
                self.last.add(index)
                self.matrix[:, index] += cluster.request(task.shape)
                self.total.update(task.request)
        if is_charged:
            self.total.update(node_claim_of(gang))


class _Domain(NamedTuple):
    name: str
    nodes: Vector  # indexes


def _domains(session: Session, gang: Gang) -> Sequence[_Domain] | None:
    """Return the HyperNodes of which the members need one, lowest tier first; None: they need none."""
    limit = hard_limit(gang)
    if limit is None:
        return None
    search = session.domain_search_for(limit)
    highest = highest_tier(search, limit)
    return [
        _Domain(name, search.index.nodes(name))
        for tier in search.index.tiers
        if highest is not None and tier.number <= highest
        for name in tier.names
    ]


def why_not_planned(gang: Gang) -> NotPlanned | None:
    """Return why no start of ``gang`` can be planned; None if one can."""
    if gang.topology is None:
        return None
    if gang.sub_groups is not None and gang.topology.limits:
        return NotPlanned.SUB_GROUPS
    is_known = amounts_of_member(gang) is not None or unequal_members(gang)
    return None if hard_limit(gang) is None or is_known else NotPlanned.UNKNOWN_REQUESTS


def hyper_node_shortage(session: Session, gang: Gang) -> NetworkTopologyUnsatisfied | None:
    """Return why ``gang`` has room in no HyperNode now, although the nodes together may have enough."""
    domains = _domains(session, gang)
    if not domains or why_not_planned(gang) is not None:
        return None
    best, most = "", -1
    for domain in domains:
        short = MemberRoom(session.cluster, Fraction(1), within=domain.nodes).check(gang)
        if short is None:
            return None
        if short.fitting > most:
            best, most = domain.name, short.fitting
    limit = str(hard_limit(gang))
    return NetworkTopologyUnsatisfied(limit, gang.min_member, len(domains), best, most)


def plan_start(session: Session, checks: AdmissionChecks, gang: Gang) -> PlannedGroup | None:
    """Return the planned start of ``gang``, which lacks room on the nodes.

    Return None if it has no room there even when all other gangs have ended.
    """
    cluster = session.cluster
    claim, now, rules = node_claim_of(gang), session.now, session.settings.enqueue
    freed, domains = _Freed(cluster), _domains(session, gang)
    within: Vector | None = None  # the nodes of the first HyperNode that has room

    def first_with_room(domains: Iterable[_Domain]) -> Vector | None:
        has_room = (
            domain.nodes
            for domain in domains
            if MemberRoom(cluster, Fraction(1), freed.matrix, domain.nodes).check(gang) is None
        )
        return next(has_room, None)

    def has_room() -> bool:
        if checks.shortages(claim, freed.total):
            return False
        if domains is not None:
            return within is not None
        return MemberRoom(cluster, rules.idle_factor, freed.matrix).check(gang) is None

    if domains is not None:
        within = first_with_room(domains)

    taking = (other for other in session.model.gangs.values() if other.requests.allocated or other.is_active)
    ends = sorted((ends_at(other, now, rules), other.created, other.key) for other in taking)
    if session.model.reserved_nodes:
        return _start_beside_windows(session, checks, gang, ends, domains)
    for at, _, key in ends:
        other = session.model.gangs[key]
        freed.add(other, is_charged=other.is_active)
        if within is None and domains is not None:
            left = (candidate for candidate in domains if not freed.last.isdisjoint(candidate.nodes.tolist()))
            within = first_with_room(left)
        if has_room():
            return _with_places(cluster, gang, at, claim, freed, within)
    return None


def _start_beside_windows(
    session: Session,
    checks: AdmissionChecks,
    gang: Gang,
    ends: Sequence[tuple[float, float, Key]],
    domains: Sequence[_Domain] | None,
) -> PlannedGroup | None:
    """Return the planned start of ``gang`` on nodes that no window keeps from it then; see ``plan_start``."""
    cluster, windows, claim = session.cluster, session.model.reserved_nodes, node_claim_of(gang)
    freed, number = _Freed(cluster), 0
    kept_now = ready_nodes(cluster, windows.that_keep_from(gang))
    for at in sorted(windows.closings().union(end for end, _, _ in ends)):
        while number < len(ends) and ends[number][0] <= at:
            other = session.model.gangs[ends[number][2]]
            freed.add(other, is_charged=other.is_active)
            number += 1
        outside = ready_nodes(cluster, windows.that_keep_from(gang, at))
        left = Counter(freed.total)
        left.subtract(_amounts(cluster, np.maximum(_idle(cluster) + freed.matrix, 0), outside))
        if checks.shortages(claim, left):
            continue
        usable = np.setdiff1d(np.arange(cluster.size), outside)
        within = [usable] if domains is None else [np.intersect1d(domain.nodes, usable) for domain in domains]
        factor = session.settings.enqueue.idle_factor if domains is None else Fraction(1)
        for nodes in within:
            if MemberRoom(cluster, factor, freed.matrix, nodes).check(gang) is None:
                return _with_places(cluster, gang, at, claim, freed, nodes, kept_now)
    return None


def _idle(cluster: Cluster) -> Matrix:
    return cluster.allocatable - cluster.used + cluster.releasing - cluster.pipelined


def _amounts(cluster: Cluster, matrix: Matrix, nodes: Sequence[int]) -> dict[str, int]:
    """Return the sums of ``matrix`` over ``nodes``, by resource."""
    sums = matrix[:, nodes].sum(axis=1)
    return {name: int(sums[row]) for name, row in cluster.rows.items()}


def _with_places(
    cluster: Cluster,
    gang: Gang,
    at: float,
    claim: Mapping[str, int],
    freed: _Freed,
    within: Vector | None,
    of_windows: Sequence[int] = (),
) -> PlannedGroup:
    """Return the plan with the amounts that it keeps; on the nodes ``of_windows`` it keeps nothing."""
    amounts = amounts_of_member(gang)
    missing = gang.min_member - gang.rooms.held.pods
    members = unequal_members(gang) if amounts is None else [Members(amounts, missing)]
    idle = _idle(cluster)
    free = idle + freed.matrix
    if within is not None:
        outside = np.ones(cluster.size, np.bool_)
        outside[within] = False
        free[:, outside] = 0
    placed = places_of(cluster, free, members) if missing > 0 else None
    kept = np.zeros_like(idle) if placed is None else np.maximum(placed - np.maximum(freed.matrix, 0), 0)
    kept[:, of_windows] = 0
    idle_there = _amounts(cluster, np.maximum(idle, 0), of_windows)
    total = {name: claim.get(name, 0) - freed.total[name] - idle_there.get(name, 0) for name in claim}
    for row in np.flatnonzero(kept.any(axis=1)):
        name = cluster.resources[row]
        total[name] = max(total.get(name, 0), int(kept[row].sum()))
    return PlannedGroup(gang, at, kept, {name: amount for name, amount in total.items() if amount > 0})


def beside_plan(
    session: Session, checks: AdmissionChecks, gang: Gang
) -> tuple[ReservedForEarlierGroup | None, float | None]:
    """Return why ``gang``, which has room now, would delay the planned start; else when it must end.

    Both are None for a group that uses nothing kept for the plan, has no ``minResources``, is overdue (plugin
    ``sla``), or is admitted for the room of pods that are evicted for it.
    """
    plan, now = session.planned_group, session.now
    if plan is None or gang.min_resources is None or gang.key in checks.plans or session.is_overdue(gang):
        return None, None
    if not plan.is_outlived_by(gang, now):
        # Without a planned time it ends by its own bound after the latest start that an admission allows.
        latest = now + (session.settings.enqueue.inqueue_timeout_s or 0.0) + bound_s(gang)
        return None, plan.at if math.isfinite(plan.at) else latest
    shortages = checks.shortages_beside(gang, plan)
    if shortages is None:
        return None, None
    at = plan.at if math.isfinite(plan.at) else None
    is_of_namespace = plan.gang.key.namespace == gang.key.namespace
    return ReservedForEarlierGroup(plan.gang.key, at, tuple(shortages), is_of_namespace), None
