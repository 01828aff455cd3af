"""How many equal pods hosts take by the filters that read other pods, ports and volumes.

The counts of ``counting`` know labels, taints and resources.  All other filters are those of the gang
scheduler.  Where one pod changes nothing for the next, or only that its own host takes no second one, the
limits of all hosts follow from one evaluation.  Otherwise the pods are placed one after the other, and the
limits are what each host got: other distributions may exist, but this one is feasible.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from quorate.placement.cluster import Cluster
from quorate.placement.filters.inter_pod.pod_selectors import SpreadConstraint
from quorate.placement.filters.requirements import PodRequirements, pod_requirements
from quorate.placement.framework import Capacity, Constraints, InvalidationScope
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Vector

_UNLIMITED: Final = 2**31 - 1


class PodLimits(NamedTuple):
    """How many pods each host takes; if that is too few, also what the others are rejected for."""

    pods: Vector  # by leaf
    passing: Mask | None = None  # hosts that take a further pod if they have resources
    failures: tuple[tuple[str, int], ...] = ()  # why the others do not, with their numbers


def limit_pods(
    cluster: Cluster,
    constraints: Constraints,
    shape: Shape,
    hosts: Vector,
    accepted: Mask,
    room: Vector,
    count: int,
    domains_by: Callable[[str], Vector],
) -> PodLimits:
    """Return how many of ``count`` pods of ``shape`` each host takes.

    ``hosts`` has the index in the cluster of each leaf; ``accepted`` is False if its labels or taints reject
    the pods, and ``room`` the pods for which it has resources.  ``domains_by`` returns the number of the
    domain of each leaf by a node label.  Afterwards, the cluster has the same pods.
    """
    search = _Search(cluster, constraints, shape, hosts, room, domains_by)
    try:
        limits = search.limits(count)
        if int(np.minimum(limits, room).sum()) >= count:
            return PodLimits(limits)
        search.fill(limits)
        result = constraints.filter(shape)
        among = np.zeros(cluster.size, np.bool_)
        among[hosts[accepted]] = True
        failures = [
            (failure.reason, number) for failure, number in result.failure_counts(Capacity.IDLE, among)
        ]
        return PodLimits(limits, result.passing(Capacity.IDLE)[hosts], tuple(failures))
    finally:
        search.undo()


def limits_with_preemption(constraints: Constraints, shape: Shape, hosts: Vector) -> PodLimits:
    """Return the limits if pods could be preempted: 0 on hosts that preemption does not help."""
    rejecting = constraints.filter(shape).unresolvable[hosts]
    return PodLimits(np.where(rejecting, 0, _UNLIMITED))


class _Search:
    """The distribution of pods over hosts; placed pods are in the cluster until ``undo``."""

    def __init__(
        self,
        cluster: Cluster,
        constraints: Constraints,
        shape: Shape,
        hosts: Vector,
        room: Vector,
        domains_by: Callable[[str], Vector],
    ) -> None:
        self._cluster, self._constraints, self._shape = cluster, constraints, shape
        self._hosts, self._room, self._domains_by = hosts, room, domains_by
        self._placed = np.zeros(len(hosts), np.int64)

    def limits(self, count: int) -> Vector:
        result = self._constraints.filter(self._shape)
        passing = result.passing(Capacity.IDLE)[self._hosts]
        if result.invalidation_scope is InvalidationScope.NONE:
            return np.where(passing, _UNLIMITED, 0)
        if result.invalidation_scope is InvalidationScope.ONE_PER_NODE:
            return np.where(passing, 1, 0)
        requirements = pod_requirements(self._shape)
        at_once = count if _changes_nothing_on_its_host(requirements) else 1
        spread = _only_spread(requirements)
        left = count
        while left:
            passing = self._constraints.filter(self._shape).passing(Capacity.IDLE)[self._hosts]
            free = np.where(passing, self._room - self._placed, 0)
            if not free.any():
                break
            if spread is not None:
                left -= self._place_in_each(spread.topology_key, free, left)
                continue
            free = np.where(self._allowed(free, left), free, 0)
            leaf = int(np.where(free > 0, free, _UNLIMITED + 1).argmin())  # the one with the least room
            pods = min(left, at_once, int(free[leaf]))
            self._place(leaf, pods)
            left -= pods
        return self._placed.copy()

    def _place_in_each(self, topology_key: str, free: Vector, count: int) -> int:
        """Place one pod in each domain, on the host with the least room, and return their number.

        A pod that a spread constraint allows in its domain is also allowed after pods in other domains.
        """
        open_leaves = np.flatnonzero(free)
        ordered = open_leaves[np.argsort(free[open_leaves], kind="stable")]
        _, first = np.unique(self._domains_by(topology_key)[ordered], return_index=True)
        leaves = ordered[first][:count]
        for leaf in leaves.tolist():
            self._place(leaf, 1)
        return len(leaves)

    def fill(self, limits: Vector) -> None:
        """Place as many pods as limits and resources allow, where the limits are not those of resources."""
        more = np.minimum(limits, self._room) - self._placed
        for leaf in np.flatnonzero((limits < _UNLIMITED) & (more > 0)):
            self._place(int(leaf), int(more[leaf]))

    def _allowed(self, free: Vector, count: int) -> Mask:
        """Return the hosts in domains with room for ``count`` pods, if the next pod fixes their domain.

        The smallest such domain is chosen, or the largest one if none suffices.
        """
        allowed: Mask = free > 0
        for codes in self._constraints.anchor_domains(self._shape, (self._shape,)):
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
        self._cluster.count_pods(self._shape, self._cluster.name(int(self._hosts[leaf])), pods)
        self._placed[leaf] += pods

    def undo(self) -> None:
        for leaf in np.flatnonzero(self._placed):
            self._place(int(leaf), -int(self._placed[leaf]))


def _only_spread(requirements: PodRequirements) -> SpreadConstraint | None:
    """Return the one spread constraint of pods without other constraints on each other."""
    is_only = len(requirements.required_spread) == 1 and not (
        requirements.required_affinity
        or requirements.required_anti_affinity
        or requirements.host_ports
        or requirements.volumes.unselected
        or requirements.volumes.read_write_once_pod
    )
    return requirements.required_spread[0] if is_only else None


def _changes_nothing_on_its_host(requirements: PodRequirements) -> bool:
    """Return True if a host that takes one such pod takes as many as it has resources for."""
    return not (
        requirements.required_spread
        or requirements.required_anti_affinity
        or requirements.host_ports
        or requirements.volumes.read_write_once_pod
    )
