"""How many pods and slices each domain can hold.

Leaves are counted first, from their free capacity and the constraints of the pods; every other domain has the
sums of its children.  All numbers of one level are in one vector.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from quorate.placement.filters.node_affinity import match_any_term, matching_nodes, preferred_weights
from quorate.placement.filters.taints import first_untolerated
from quorate.placement.topology.leaf_fits import LeafFit
from quorate.placement.topology.leaf_hosts import HostRequest, Pods
from quorate.placement.topology.request import PodSetRequest, SearchParameters
from quorate.placement.topology.tree import DomainTree, vector_amount
from quorate.placement.vectors import Mask, Vector, np

_MANY: Final = 2**31 - 1  # pods that request nothing have no limit; Kueue counts in int32


class Exclusions(msgspec.Struct):
    """Why leaves hold no pod: the number of leaves by reason, as the messages name it."""

    leaves: int = 0
    by_reason: Counter[str] = msgspec.field(default_factory=Counter)


class LevelCounts(msgspec.Struct):
    """What the domains of one level can hold; changed while the search assigns pods.

    ``pods_with_leader`` and ``slices_with_leader`` are what fits beside a leader, if the domain can take one;
    without a leader they are the vectors ``pods`` and ``slices``, and slices of one pod are ``pods``, too.
    """

    pods: Vector
    pods_with_leader: Vector
    leaders: Vector  # 1 if the domain can take the leader
    slices: Vector
    slices_with_leader: Vector
    scores: Vector | None  # of preferred node affinity


class Capacity(msgspec.Struct, frozen=True):
    """The free capacity to count with: the free capacity of the tree less ``assumed``."""

    tree: DomainTree
    # By leaf: what pod sets of the same workload that were placed before will use.
    assumed: Mapping[int, Mapping[str, int]] = {}
    is_empty: bool = False  # as if no other pods had been placed in the topology
    # By leaf: the same pods, where leaves are not hosts.
    assumed_pods: Mapping[int, Sequence[Pods]] = {}

    def remaining(self, resource: str) -> Vector:
        remaining = self.tree.remaining(resource, empty=self.is_empty)
        for leaf, amounts in self.assumed.items():
            remaining[leaf] -= amounts.get(resource, 0)
        return remaining

    def fitting(self, pods: PodSetRequest) -> Vector:
        """Return how many of the pods fit in each leaf."""
        fitting = self._fit(pods).pods[self.tree.columns]
        for leaf, amounts in self.assumed.items():
            if fitting[leaf]:
                column, further = int(self.tree.columns[leaf]), self.assumed_pods.get(leaf, ())
                fitting[leaf] = self._fitting_in(column, pods, amounts, further)
        return _limited(fitting, pods)

    def beside_leader(self, workers: HostRequest, leader: HostRequest) -> tuple[Vector, Vector]:
        """Return the leaves that can take ``leader``, as 1 or 0, and how many workers fit beside it."""
        below = self.tree.below
        assert below is not None, "leaves are hosts"
        fits = [
            below.beside_leader(
                column, workers, leader, self.assumed_pods.get(leaf, ()), is_empty=self.is_empty
            )
            for leaf, column in enumerate(self.tree.columns.tolist())
        ]
        by_leaf = np.array(fits, np.int64).reshape(len(fits), 2)
        return by_leaf[:, 0], by_leaf[:, 1]

    def fits(self, pods: PodSetRequest) -> bool:
        """Return True if the leaves can hold all of the pods."""
        if self.assumed or pods.limits is not None:
            return int(self.fitting(pods).sum()) >= pods.count
        return self._fit(pods).total >= pods.count

    def _fit(self, pods: PodSetRequest) -> LeafFit:
        tree = self.tree

        def count_all() -> tuple[Vector, Mask]:
            accepted = np.zeros(tree.column_count, np.bool_)
            accepted[tree.columns] = accepted_leaves(tree, pods, Exclusions())
            remaining = {
                resource: tree.remaining_by_column(resource, empty=self.is_empty) for resource in pods.per_pod
            }
            fitting = fitting_pods(remaining, pods.per_pod, accepted)[0]
            if tree.below is not None:
                for column in tree.columns[fitting[tree.columns] > 0].tolist():
                    on_hosts = tree.below.fitting(column, request, is_empty=self.is_empty)
                    fitting[column] = min(int(fitting[column]), on_hosts)
            return fitting, accepted

        request = HostRequest(  # as ``of_host``; called for each admission, where one call more counts
            tuple(pods.per_pod.items()), tuple(pods.node_selector.items()), pods.affinity, pods.tolerations
        )
        return tree.fits.get(
            (request, self.is_empty), count_all, lambda column: self._fitting_in(column, pods, {})
        )

    def _fitting_in(
        self, column: int, pods: PodSetRequest, assumed: Mapping[str, int], further: Sequence[Pods] = ()
    ) -> int:
        """Return how many of the pods a leaf can hold that accepts them."""
        fitting = _MANY
        if self.tree.below is not None:
            fitting = self.tree.below.fitting(column, pods.of_host, further, is_empty=self.is_empty)
        for resource, amount in pods.per_pod.items():
            if amount > 0:
                remaining = self.tree.remaining_in(column, resource, empty=self.is_empty)
                if assumed:
                    remaining -= assumed.get(resource, 0)
                fitting = min(fitting, remaining // amount)
        return max(fitting, 0)


def count_pods(
    capacity: Capacity,
    workers: PodSetRequest,
    leader: PodSetRequest | None,
    parameters: SearchParameters,
    within: slice | None,
) -> list[LevelCounts]:
    """Return the counts of each level.

    ``within``: only these leaves may be used.
    """
    tree = capacity.tree
    pods = pods_with_leader = capacity.fitting(workers)
    leaders = np.zeros(len(pods), np.int64)
    if leader is not None:
        leaders, pods_with_leader = _beside_leader(capacity, workers, leader)
    if within is not None:
        for counts in (pods, pods_with_leader, leaders):
            counts[: within.start] = counts[within.stop :] = 0
    scores = None
    if workers.preferred_affinity and tree.has_hosts:
        weights = preferred_weights(tree.hosts, workers.preferred_affinity)[tree.columns]
        scores = weights * _accepted(tree, workers, within, Exclusions())
    nothing = np.zeros(len(pods), np.int64)
    with_leader = nothing if leader is None else nothing.copy()
    leaves = LevelCounts(pods, pods_with_leader, leaders, nothing, with_leader, scores)
    return count_domains(tree, leaves, parameters)


def count_exclusions(capacity: Capacity, workers: PodSetRequest, within: slice | None) -> Exclusions:
    """Return why leaves hold no pod of ``workers``."""
    exclusions = Exclusions(capacity.tree.leaf_count)
    accepted = _accepted(capacity.tree, workers, within, exclusions)
    remaining = {resource: capacity.remaining(resource) for resource in workers.per_pod}
    pods, limiting = fitting_pods(remaining, workers.per_pod, accepted)
    if workers.limits is not None:
        _exclude(exclusions, "pod constraints", accepted & (pods > 0) & (workers.limits == 0))
        pods = np.minimum(pods, workers.limits)
        limiting = np.where(workers.limits == 0, -1, limiting)
    in_order = sorted(workers.per_pod)
    if capacity.tree.below is not None:  # the nodes of a leaf may have enough only together
        for leaf in np.flatnonzero(accepted & (pods > 0) & (capacity.fitting(workers) == 0)).tolist():
            resource = capacity.tree.below.limiting(int(capacity.tree.columns[leaf]), workers.of_host)
            pods[leaf], limiting[leaf] = 0, in_order.index(resource) if resource else -1
    for number, resource in enumerate(in_order):
        _exclude(exclusions, f'resource "{resource}"', accepted & (pods == 0) & (limiting == number))
    return exclusions


def _accepted(tree: DomainTree, pods: PodSetRequest, within: slice | None, exclusions: Exclusions) -> Mask:
    accepted = accepted_leaves(tree, pods, exclusions)
    if within is not None:
        inside = np.zeros(tree.leaf_count, np.bool_)
        inside[within] = True
        _exclude(exclusions, "topologyDomain", accepted & ~inside)
        accepted &= inside
    return accepted


def leader_differs(tree: DomainTree, workers: PodSetRequest, leader: PodSetRequest) -> bool:
    """Return True if labels and taints accept the leader on other hosts than the workers."""
    of_workers = accepted_leaves(tree, workers, Exclusions())
    return not np.array_equal(of_workers, accepted_leaves(tree, leader, Exclusions()))


def _beside_leader(
    capacity: Capacity, workers: PodSetRequest, leader: PodSetRequest
) -> tuple[Vector, Vector]:
    """Return the leaves that can take the leader, as 1 or 0, and how many of the workers fit beside it.

    A leaf can take the leader if the leader's own template accepts its labels and taints (Kueue 0.20).
    """
    tree = capacity.tree
    accepted = accepted_leaves(tree, workers, Exclusions())
    resources = {*workers.per_pod, *leader.per_pod}
    remaining = {resource: capacity.remaining(resource) for resource in resources}
    leaders = np.minimum(capacity.fitting(leader), 1)
    beside = {
        resource: amounts - leaders * vector_amount(leader.per_pod.get(resource, 0))
        for resource, amounts in remaining.items()
    }
    fitting = fitting_pods(beside, workers.per_pod, accepted)[0]
    if tree.below is not None:
        leading, on_hosts = capacity.beside_leader(workers.of_host, leader.of_host)
        leaders, fitting = np.minimum(leaders, leading), np.minimum(fitting, on_hosts)
    return leaders, _limited(fitting, workers)


def _limited(fitting: Vector, pods: PodSetRequest) -> Vector:
    return fitting if pods.limits is None else np.minimum(fitting, pods.limits)


def count_domains(tree: DomainTree, leaves: LevelCounts, parameters: SearchParameters) -> list[LevelCounts]:
    """Return the counts of each level that follow from the counts of the leaves."""
    counts = [leaves]
    for level in range(len(tree.levels) - 1, -1, -1):
        if level == parameters.slice_level:
            size, below = parameters.slice_size, counts[0]
            if parameters.has_leader:
                below.slices = below.pods // size
                below.slices_with_leader = below.pods_with_leader // size
            else:
                below.slices = below.slices_with_leader = below.pods if size == 1 else below.pods // size
        if level:
            counts.insert(0, _parent_counts(tree, level, counts[0], parameters))
    return counts


def accepted_leaves(tree: DomainTree, pods: PodSetRequest, exclusions: Exclusions) -> Mask:
    """Return the leaves with taints and labels that accept the pods; exclude each other one once.

    A leaf of several hosts accepts them if one of its hosts does.
    """
    hosts = tree.hosts if tree.below is None else tree.below.columns
    accepting = ~hosts.vacant
    accepted = tree.leaves_with(accepting)

    def keep(passing: Mask, reason: str) -> None:
        nonlocal accepting, accepted
        accepting, before = accepting & passing, accepted
        accepted = tree.leaves_with(accepting)
        _exclude(exclusions, reason, before & ~accepted)

    taints = hosts.taints
    tolerations = pods.tolerations if tree.below is None else (*pods.tolerations, *tree.below.tolerations)
    rejecting = [first_untolerated(of_leaf, tolerations) for of_leaf in taints.values]
    for taint in dict.fromkeys(rejected for rejected in rejecting if rejected is not None):
        having = [of_leaf for of_leaf, first in zip(taints.values, rejecting, strict=True) if first == taint]
        value = f"={taint.value}" if taint.value else ""
        keep(~taints.in_values(having), f'taint "{taint.key}{value}:{taint.effect}"')
    if pods.node_selector:
        keep(matching_nodes(hosts, pods.node_selector.items(), None), "nodeSelector")
    if pods.affinity is not None:
        keep(match_any_term(hosts, pods.affinity.node_selector_terms), "affinity")
    return accepted


def _exclude(exclusions: Exclusions, reason: str, leaves: Mask) -> None:
    if number := int(np.count_nonzero(leaves)):
        exclusions.by_reason[reason] += number


def fitting_pods(
    remaining: Mapping[str, Vector], per_pod: Mapping[str, int], accepted: Mask
) -> tuple[Vector, Vector]:
    """Return how many pods fit in each leaf, and the index of the limiting resource in name order."""
    fitting = np.where(accepted, _MANY, 0)
    limiting = np.full(len(fitting), -1, np.int64)
    for number, resource in enumerate(sorted(per_pod)):
        if per_pod[resource] > 0:
            count = np.maximum(remaining[resource] // vector_amount(per_pod[resource]), 0)
            limiting[count < fitting] = number
            fitting = np.minimum(fitting, count)
    return fitting, limiting


def _parent_counts(
    tree: DomainTree, level: int, below: LevelCounts, parameters: SearchParameters
) -> LevelCounts:
    """Return the counts of the parents of the domains of ``level``."""
    first = tree.first_child[level - 1][:-1]
    size = parameters.inner_sizes.get(level, 1)

    def sums(amounts: Vector) -> Vector:
        return np.add.reduceat(amounts, first) if len(first) else amounts

    pods_below = below.pods if size == 1 else below.pods // size * size
    pods = sums(pods_below)
    slices = pods if below.slices is pods_below else sums(below.slices)
    scores = None if below.scores is None else sums(below.scores)
    if not parameters.has_leader:
        return LevelCounts(pods, pods, np.zeros(len(pods), np.int64), slices, slices, scores)
    takes_leader = below.leaders > 0

    def less_leader(sums: Vector, all_: Vector, beside_leader: Vector) -> Vector:
        """Return the sums less the smallest loss in a child that takes the leader."""
        losses = np.where(takes_leader, all_ - beside_leader, _MANY)
        least = np.minimum.reduceat(losses, first) if len(first) else losses
        return np.where(least == _MANY, 0, sums - least)

    beside = below.pods_with_leader // size * size
    return LevelCounts(
        pods,
        less_leader(pods, pods_below, beside),
        np.maximum.reduceat(below.leaders, first) if len(first) else below.leaders,
        slices,
        less_leader(slices, below.slices, below.slices_with_leader),
        scores,
    )


class HostShortage(msgspec.Struct, frozen=True):
    """Some pods fit no host beside the pods that do.

    ``resource`` is the resource of which most accepting hosts have too little; "" if no host accepts the
    pods.  Amounts are in base units.
    """

    fitting: int  # pods
    hosts: int
    accepting: int  # hosts, by node selector, affinity and taints
    resource: str = ""
    needed: int = 0  # by one pod
    best: int = 0  # the most that an accepting host has left
    at_most: int = 0  # the most that one would have without any pods
    fitting_at_most: int = 0  # pods that the accepting hosts hold without any other pods, by amounts


def host_shortage(
    capacity: Capacity, pods: PodSetRequest, passing: Mask | None = None
) -> HostShortage | None:
    """Return why pods do not fit the leaves of ``capacity``, which are hosts; None if all pods fit.

    ``passing``: only these leaves take further pods, whatever amounts they have left.

    All pods are equal, so it does not matter which of them is on which host.
    """
    if capacity.fits(pods):
        return None
    tree = capacity.tree
    accepted = accepted_leaves(tree, pods, Exclusions(tree.leaf_count))
    remaining = {resource: capacity.remaining(resource) for resource in sorted(pods.per_pod)}
    counts, _ = fitting_pods(remaining, pods.per_pod, accepted)
    if pods.limits is not None:
        counts = np.minimum(counts, pods.limits)
    fitting, accepting = int(counts.sum()), int(np.count_nonzero(accepted))
    if not accepting:
        return HostShortage(fitting, tree.leaf_count, accepting)
    empty = {resource: tree.allocatable(resource) for resource in pods.per_pod}
    fitting_at_most = int(fitting_pods(empty, pods.per_pod, accepted)[0].sum())
    if passing is not None:
        accepted &= passing
        if not accepted.any():
            return HostShortage(fitting, tree.leaf_count, accepting, fitting_at_most=fitting_at_most)
        accepting = int(np.count_nonzero(accepted))
    left = {
        resource: (amounts - counts * vector_amount(pods.per_pod[resource]))[accepted]
        for resource, amounts in remaining.items()
    }
    short = {
        resource: int(np.count_nonzero(amounts < pods.per_pod[resource]))
        for resource, amounts in left.items()
    }
    scarcest = max(short, key=lambda resource: short[resource])  # the first by name of several
    best = int(left[scarcest].max())
    at_most = int(tree.allocatable(scarcest)[accepted].max())
    needed = pods.per_pod[scarcest]
    return HostShortage(fitting, tree.leaf_count, accepting, scarcest, needed, best, at_most, fitting_at_most)
