"""How many equal pods hosts take by the filters that read other pods, ports and volumes.

The counts of ``counting`` know labels, taints and resources.  All other filters are those of the gang
scheduler.  Where one pod changes nothing for the next, or only that its own host takes no second one, the
limits of all hosts follow from one evaluation; where only topology spread makes pods affect each other, they
follow from the counts of its domains.  Otherwise the pods are placed one after the other, and the limits are
what each host got: other distributions may exist, but this one is feasible.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from quorate.placement.cluster import Cluster
from quorate.placement.failures import NodeStatuses
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.filters.requirements import PodRequirements, pod_requirements
from quorate.placement.filters.topology_spread import UNLIMITED, SpreadSkew
from quorate.placement.framework import Capacity, InvalidationScope
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Vector, np

_UNLIMITED: Final = 2**31 - 1


class PodLimits(NamedTuple):
    """Pods that fit each host; if these are too few, also the reason of each rejected host."""

    pods: Vector  # by leaf
    passing: Mask | None = None  # hosts that take a further pod if they have resources
    failures: tuple[tuple[str, int], ...] = ()  # why the others do not, with their numbers


def limit_pods(
    cluster: Cluster,
    engine: ConstraintEngine,
    shape: Shape,
    hosts: Vector,
    accepted: Mask,
    room: Vector,
    count: int,
) -> PodLimits:
    """Return how many of ``count`` pods of ``shape`` each host takes.

    ``hosts`` has the index of each leaf in the cluster.  ``accepted`` is False for a leaf with labels or
    taints that reject the pods.  ``room`` is the number of pods for which a leaf has resources.  The pods of
    the cluster are the same afterwards.
    """
    search = _Search(cluster, engine, shape, hosts, room)
    try:
        limits = search.limits(count)
        if int(np.minimum(limits, room).sum()) >= count:
            return PodLimits(limits)
        statuses = search.statuses_with(limits)
        among = np.zeros(cluster.size, np.bool_)
        among[hosts[accepted]] = True
        reasons = [(failure.reason, number) for failure, number in statuses.failure_counts(among)]
        return PodLimits(limits, statuses.passing[hosts], tuple(reasons))
    finally:
        search.undo()


def limits_with_preemption(engine: ConstraintEngine, shape: Shape, hosts: Vector) -> PodLimits:
    """Return the limits if pods could be preempted: 0 on hosts that preemption does not help."""
    rejecting = engine.filter(shape).unresolvable[hosts]
    return PodLimits(np.where(rejecting, 0, _UNLIMITED))


class _Search:
    """The distribution of pods over hosts; placed pods are in the cluster until ``undo``."""

    def __init__(
        self, cluster: Cluster, engine: ConstraintEngine, shape: Shape, hosts: Vector, room: Vector
    ) -> None:
        self._cluster, self._engine, self._shape = cluster, engine, shape
        self._hosts, self._room = hosts, room
        self._placed = np.zeros(len(hosts), np.int64)
        self._requirements = pod_requirements(shape)
        self._scope = engine.filter(shape).invalidation_scope
        self._skews: Sequence[SpreadSkew] | None = None  # with the pods, if they were counted by domain

    def limits(self, count: int) -> Vector:
        if self._scope is InvalidationScope.OTHER_NODES and self._requirements.required_spread:
            without_spread = self._engine.scope_without_spread(self._shape)
            if self._follow_from_domains(without_spread):
                return self._limits_by_spread(count, without_spread)
        match self._scope:
            case InvalidationScope.NONE:
                return np.where(self._passing(), _UNLIMITED, 0)
            case InvalidationScope.ONE_PER_NODE:
                return np.where(self._passing(), 1, 0)
            case InvalidationScope.OWN_NODE | InvalidationScope.OTHER_NODES:
                return self._place_one_by_one(count)

    def _follow_from_domains(self, without_spread: InvalidationScope) -> bool:
        """Return True if the counts of the domains, the room and one pod for each host give all limits."""
        match without_spread:
            case InvalidationScope.NONE | InvalidationScope.ONE_PER_NODE:
                return True
            case InvalidationScope.OWN_NODE:
                return not self._requirements.required_anti_affinity
            case InvalidationScope.OTHER_NODES:
                return False

    def _limits_by_spread(self, count: int, without_spread: InvalidationScope) -> Vector:
        self._scope = without_spread  # what is left of it: the counts of domains have the rest
        passing = self._engine.filter_with_skews(self._shape, ()).passing[self._hosts]
        room = np.where(passing, self._room, 0)
        most = 1 if without_spread is InvalidationScope.ONE_PER_NODE else count
        skews = self._engine.spread_skews(self._shape)
        limits, self._skews = spread_pods(skews, self._hosts, room, most, count)
        return limits

    def statuses_with(self, limits: Vector) -> NodeStatuses:
        """Return what the filters say of each node once it has as many pods as limits and resources allow."""
        taking = np.flatnonzero(np.minimum(limits, self._room))
        if self._scope is not InvalidationScope.ONE_PER_NODE or not len(taking):
            return self._statuses(self._skews)
        # Each host with a pod rejects a second one for the same reason: ports come before topology spread.
        has_ports = self._skews is not None and bool(self._requirements.host_ports)
        before_spread = () if has_ports else self._skews
        statuses = self._statuses(before_spread).copy()
        self._place(int(taking[0]), 1)
        failure = self._statuses(() if self._skews else None).failure(int(self._hosts[taking[0]]))
        assert failure is not None, f"a host takes a second pod that excludes it: {self._shape}"
        with_pod = np.zeros(self._cluster.size, np.bool_)
        with_pod[self._hosts[taking]] = True
        statuses.reject(with_pod, failure)
        if self._skews is not None and has_ports:
            for skew in self._skews:
                skew.reject(statuses)
        return statuses

    def _statuses(self, skews: Sequence[SpreadSkew] | None = None) -> NodeStatuses:
        """Return what the filters say of each node, with ``skews`` if they are given."""
        if skews is not None:
            return self._engine.filter_with_skews(self._shape, skews)
        return self._engine.filter(self._shape).statuses(Capacity.IDLE)

    def _passing(self) -> Mask:
        return self._statuses().passing[self._hosts]

    def _place_one_by_one(self, count: int) -> Vector:
        at_once = count if _changes_nothing_on_its_host(self._requirements) else 1
        while count:
            free = np.where(self._passing(), self._room - self._placed, 0)
            if not free.any():
                break
            free = np.where(self._allowed(free, count), free, 0)
            leaf = int(np.where(free > 0, free, _UNLIMITED + 1).argmin())  # the one with the least room
            pods = min(count, at_once, int(free[leaf]))
            self._place(leaf, pods)
            count -= pods
        return self._placed.copy()

    def _allowed(self, free: Vector, count: int) -> Mask:
        """Return the hosts in domains with room for ``count`` pods, if the next pod fixes their domain.

        The smallest such domain is chosen, or the largest one if none suffices.
        """
        allowed: Mask = free > 0
        for codes in self._engine.anchor_domains(self._shape, (self._shape,)):
            domain_of = codes[self._hosts]
            inside = allowed & (domain_of >= 0)
            if not inside.any():
                continue
            sums = np.zeros(int(domain_of.max()) + 1, np.int64)
            np.add.at(sums, domain_of[inside], np.minimum(free[inside], count))
            sufficient = np.where(sums >= count, sums, _UNLIMITED * len(free))
            best = int(sufficient.argmin() if (sums >= count).any() else sums.argmax())
            allowed = inside & (domain_of == best)
        return allowed

    def _place(self, leaf: int, pods: int) -> None:
        self._placed[leaf] += pods
        node = self._cluster.name(int(self._hosts[leaf]))
        self._cluster.hold((_Search, leaf), self._shape, node, int(self._placed[leaf]))

    def undo(self) -> None:
        for leaf in np.flatnonzero(self._placed):
            self._place(int(leaf), -int(self._placed[leaf]))


def _changes_nothing_on_its_host(requirements: PodRequirements) -> bool:
    """Return True if a host that takes one such pod takes as many as it has resources for."""
    return not (
        requirements.required_spread
        or requirements.required_anti_affinity
        or requirements.host_ports
        or requirements.volumes.read_write_once_pod
    )


def spread_pods(
    skews: Sequence[SpreadSkew], hosts: Vector, room: Vector, most: int, count: int
) -> tuple[Vector, list[SpreadSkew]]:
    """Return how many of ``count`` pods each leaf takes, and the skews with them.

    ``hosts`` has the index in the cluster of each leaf; without the constraints it takes as many pods as
    ``room`` says, but not more than ``most``.  In each domain, leaves with the least room are filled first.
    ``UNLIMITED`` is their number if no constraint counts the pods.

    A domain that a constraint allows to take a pod is also allowed to after pods in other domains, as the
    minimum only rises.  So the pods of one constraint are placed in *rounds*, one in each domain that is
    open, and rounds are counted together as long as the same domains are open.  Of several constraints, the
    one with the fewest domains determines the rounds; the others limit the hosts by the pods that their
    domains accept before their minimum rises, and this is repeated while it adds pods.
    """
    by_room = np.argsort(room, kind="stable")
    spreads = [_Spread(skew, hosts, by_room) for skew in skews]
    counting = [spread for spread in spreads if spread.skew.matches_itself]
    if not counting:
        return np.where(_open_leaves(spreads, room), UNLIMITED if most > 1 else 1, 0), list(skews)
    first = min(counting, key=lambda spread: len(spread.skew.counts))
    others = [spread for spread in spreads if spread is not first]
    pods = np.zeros(len(hosts), np.int64)
    while count:
        free = np.minimum(np.minimum(room, most) - pods, count)
        added = _in_rounds(first, others, free, _open_leaves(others, free), count)
        if not added.any():
            # What others allow may be in domains that are closed in all rounds.
            added = _in_rounds(first, others, free, _open_leaves(spreads, free), count)
        if not added.any():
            break
        pods += added
        count -= int(added.sum())
        for spread in counting:
            spread.add(added)
    return pods, [spread.skew for spread in spreads]


def _in_rounds(
    first: "_Spread", others: Sequence["_Spread"], free: Vector, among: Mask, count: int
) -> Vector:
    """Return how many of ``count`` pods each leaf takes before the minimum of ``others`` rises."""
    limits = np.where(among, free, 0)
    for other in others:
        limits = other.limited(limits, other.skew.allowed())
    return first.limited(limits, first.rounds(limits, count))


def _open_leaves(spreads: Sequence["_Spread"], free: Vector) -> Mask:
    """Return the leaves with room that all constraints allow to take a pod."""
    result: Mask = free > 0
    for spread in spreads:
        result &= _at(spread.skew.allowed(), spread.domain_of) > 0
    return result


class _Spread:
    """One constraint, and the domains of leaves."""

    def __init__(self, skew: SpreadSkew, hosts: Vector, by_room: Vector) -> None:
        self.skew = skew
        self.domain_of = skew.column.codes[hosts].astype(np.int64)  # negative: in no domain
        # The leaves by domain, those with the least room first; and the position of the first of its domain.
        self._ordered = by_room[np.argsort(self.domain_of[by_room], kind="stable")]
        domains = self.domain_of[self._ordered]
        self._begin = np.searchsorted(domains, domains)

    def add(self, pods: Vector) -> None:
        counts = self.skew.counts + self._sums(pods)
        self.skew = replace(self.skew, counts=counts)

    def _sums(self, pods: Vector) -> Vector:
        """Return the sum of each domain."""
        sums = np.zeros(len(self.skew.counts), np.int64)
        inside = self.domain_of >= 0
        np.add.at(sums, self.domain_of[inside], pods[inside])
        return sums

    def limited(self, pods: Vector, most: Vector) -> Vector:
        """Return ``pods``, or fewer where a domain has more than ``most``."""
        ordered = pods[self._ordered]
        before = np.cumsum(ordered) - ordered
        before -= before[self._begin]  # those of the same domain
        left = _at(most, self.domain_of)[self._ordered] - before
        result = np.empty_like(pods)
        result[self._ordered] = np.clip(left, 0, ordered)
        return result

    def rounds(self, limits: Vector, count: int) -> Vector:
        """Return how many of ``count`` pods each domain gets in rounds, if its leaves take ``limits``."""
        skew, left = self.skew, self._sums(limits)
        taken = np.zeros(len(left), np.int64)
        while count:
            allowed = skew.allowed()
            is_open = (left > 0) & (allowed > 0)
            domains = int(np.count_nonzero(is_open))
            if not domains:
                break
            if count < domains:
                taken[self._first_domains(is_open, count)] += 1
                break
            waiting = (left > 0) & ~is_open
            rounds = min(
                count // domains, int(left[is_open].min()), _equal_rounds(skew, allowed, is_open, waiting)
            )
            added = np.where(is_open, rounds, 0)
            taken += added
            left -= added
            count -= rounds * domains
            skew = replace(skew, counts=skew.counts + added)
        return taken

    def _first_domains(self, among: Mask, count: int) -> Vector:
        """Return the domains of the first leaves."""
        domains, first_leaf = np.unique(self.domain_of, return_index=True)
        in_order = domains[np.argsort(first_leaf)]
        in_order = in_order[in_order >= 0]
        return in_order[among[in_order]][:count]


def _equal_rounds(skew: SpreadSkew, allowed: Vector, is_open: Mask, waiting: Mask) -> int:
    """Return the number of rounds until another domain is open; domains that get full do not count.

    ``waiting`` are the domains that will be open at a larger minimum.
    """
    minimum, closed = skew.minimum(), skew.counts[skew.exists & ~is_open]
    if skew.has_fixed_minimum or (closed == minimum).any():
        return int(allowed[is_open].min())
    # Each round raises the minimum, until it is that of a closed domain.
    until_closed = int(closed.min()) - minimum if len(closed) else UNLIMITED
    return min(until_closed, 1 - int(allowed[waiting].max()) if waiting.any() else UNLIMITED)


def _at(by_domain: Vector, domains: Vector) -> Vector:
    """Return the amounts of ``domains``; 0 for negative ones."""
    return np.append(by_domain, 0)[domains]
