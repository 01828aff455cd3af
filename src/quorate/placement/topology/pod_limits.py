"""How many equal pods hosts take by the filters that read other pods, ports and volumes.

The counts of ``counting`` know labels, taints and resources.  All other filters are those of the gang
scheduler.  Where one pod changes nothing for the next, or only that its own host takes no second one, the
limits of all hosts follow from one evaluation; where only topology spread makes pods affect each other, they
follow from the counts of its domains.  Otherwise the pods are placed one after the other, and the limits are
what each host got: other distributions may exist, but this one is feasible.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from quorate.placement.cluster import Cluster
from quorate.placement.failures import NodeStatuses
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.filters.requirements import PodRequirements, pod_requirements
from quorate.placement.filters.topology_spread import SpreadSkew
from quorate.placement.framework import Capacity, InvalidationScope
from quorate.placement.shapes import Shape
from quorate.placement.topology.spread_distribution import spread_pods
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

    ``hosts`` has the index in the cluster of each leaf; ``accepted`` is False if its labels or taints reject
    the pods, and ``room`` the pods for which it has resources.  Afterwards, the cluster has the same pods.
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
