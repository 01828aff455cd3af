"""The placement of one pod set, alone or with the leader of its group, in the leaves of a topology."""

from bisect import bisect_left
from collections import Counter
from itertools import accumulate, starmap

from msgspec.structs import replace

from quorate.placement.topology.balanced import balanced_search
from quorate.placement.topology.counting import Capacity, count_exclusions, count_pods, leader_differs
from quorate.placement.topology.request import (
    PodSetRequest,
    Profile,
    SearchParameters,
    TopologyRequest,
    resolve,
)
from quorate.placement.topology.search import GroupPlacement, NotFound, PlacedPods, PlacementFailure, Search
from quorate.placement.topology.tree import DomainTree


def place(
    capacity: Capacity,
    workers: PodSetRequest,
    leader: PodSetRequest | None = None,
    *,
    profile: Profile,
    within: slice | None = None,
) -> GroupPlacement | PlacementFailure:
    """Place the pods of ``workers``, and one pod of ``leader``, in the leaves of the topology.

    The last slice may be smaller.  If it has no room as a whole one, it gets the room of its own pods; with
    several layers of slices it needs the room of a whole one.  ``within``: only these leaves may be used.
    """
    parameters = resolve(capacity.tree, workers.topology, workers.count, leader is not None, profile)
    if isinstance(parameters, str):
        return PlacementFailure(parameters)
    outcome = _place_whole_slices(capacity, workers, leader, parameters, profile, within)
    if isinstance(outcome, GroupPlacement) or parameters.count == workers.count or len(parameters.layers) > 1:
        return outcome
    return _place_smaller_slice(capacity, workers, leader, parameters, profile, within) or outcome


def _place_whole_slices(
    capacity: Capacity,
    workers: PodSetRequest,
    leader: PodSetRequest | None,
    parameters: SearchParameters,
    profile: Profile,
    within: slice | None,
) -> GroupPlacement | PlacementFailure:
    tree = capacity.tree
    if not tree.leaf_count:
        text = f"no topology domains at level: {tree.levels[parameters.level]}"
        return PlacementFailure(text, requested=workers.count)
    if not profile.preferred_affinity:
        workers = workers.without_preferred_affinity()
    surplus = parameters.count - workers.count
    if leader is not None and leader_differs(tree, workers, leader):
        parameters = replace(parameters, leader_differs=True)
    counts = count_pods(capacity, workers, leader, parameters, within)
    if profile.balanced and not (parameters.required or parameters.unconstrained) and parameters.slices:
        balanced = balanced_search(Search(tree, counts, parameters))
        if balanced is not None:
            search, level, domains = balanced
            return _without_last(search.descend(level, domains, keeps_shares=True), surplus)
    search = Search(tree, counts, parameters)
    outcome = search.find(parameters.level)
    if isinstance(outcome, NotFound):
        excluded = leader if leader is not None and search.excludes_leader(outcome) else workers
        return search.failure(outcome, count_exclusions(capacity, excluded, within))
    return _without_last(search.descend(*outcome, keeps_shares=False), surplus)


def _place_smaller_slice(
    capacity: Capacity,
    workers: PodSetRequest,
    leader: PodSetRequest | None,
    parameters: SearchParameters,
    profile: Profile,
    within: slice | None,
) -> GroupPlacement | None:
    """Place the last, smaller slice in the first domain that can take it with all others not after it.

    Pods have their ranks in the order of the leaves, so that the domain of the last slice is the last one.
    Return None if no domain can.
    """
    tree, layer = capacity.tree, parameters.layers[0]
    whole, rest = divmod(workers.count, layer.size)
    if not whole:
        alone = replace(workers.topology, layers=(layer._replace(size=rest),))
        outcome = place(capacity, replace(workers, topology=alone), leader, profile=profile, within=within)
        return outcome if isinstance(outcome, GroupPlacement) else None
    level = parameters.slice_level
    counts = count_pods(capacity, workers, None, replace(parameters, has_leader=False), within)[level]
    pods, before = counts.pods.tolist(), [0, *accumulate(counts.slices.tolist())]
    part = replace(workers, count=rest, topology=TopologyRequest(required=layer.level))
    for scope_level in _scopes(parameters):
        for domain in range(len(pods)):
            first = 0 if scope_level is None else _first_beside(tree, level, domain, scope_level)
            room = before[domain] - before[first] + (pods[domain] - rest) // layer.size
            if pods[domain] < rest or room < whole:
                continue
            own = tree.leaves_below(level, domain)
            scope = slice(tree.leaves_below(level, first).start, own.stop)
            last = place(capacity, part, profile=profile, within=_both(own, within))
            assert isinstance(last, GroupPlacement), f"{rest} pods were counted in domain {domain}"
            beside, others = _beside(capacity, workers, last, whole * layer.size)
            outcome = place(beside, others, leader, profile=profile, within=_both(scope, within))
            if isinstance(outcome, GroupPlacement):
                by_leaf = Counter({placed.leaf: placed.pods for placed in outcome.workers})
                by_leaf.update({placed.leaf: placed.pods for placed in last.workers})
                return outcome._replace(workers=tuple(starmap(PlacedPods, sorted(by_leaf.items()))))
    return None


def _scopes(parameters: SearchParameters) -> tuple[int | None, ...]:
    """Return the levels of which one domain is to hold all slices, in order; None: several domains may."""
    if parameters.required:
        return (parameters.level,)
    return (None,) if parameters.unconstrained else (*range(parameters.level, -1, -1), None)


def _first_beside(tree: DomainTree, level: int, domain: int, above: int) -> int:
    """Return the first domain of ``level`` in the domain of the level ``above`` that contains ``domain``."""
    path = tree.paths[level][domain][: above + 1]
    return bisect_left(tree.paths[level], path)


def _both(leaves: slice, within: slice | None) -> slice:
    if within is None:
        return leaves
    return slice(max(leaves.start, within.start), min(leaves.stop, within.stop))


def _beside(
    capacity: Capacity, workers: PodSetRequest, placed: GroupPlacement, count: int
) -> tuple[Capacity, PodSetRequest]:
    """Return the capacity that ``placed`` pods leave, and the request of ``count`` others beside them."""
    assumed, assumed_pods = dict(capacity.assumed), dict(capacity.assumed_pods)
    limits = None if workers.limits is None else workers.limits.copy()
    for leaf, pods in placed.workers:
        amounts = Counter(assumed.get(leaf, {}))
        amounts.update({resource: amount * pods for resource, amount in workers.per_pod.items()})
        assumed[leaf] = amounts
        if not capacity.tree.has_hosts:
            assumed_pods[leaf] = (*assumed_pods.get(leaf, ()), (workers.of_host, pods))
        if limits is not None:
            limits[leaf] -= pods
    beside = replace(capacity, assumed=assumed, assumed_pods=assumed_pods)
    return beside, replace(workers, count=count, limits=limits)


def _without_last(placement: GroupPlacement, surplus: int) -> GroupPlacement:
    """Return ``placement`` without as many workers, the last ones in the order of the leaves."""
    workers = list(placement.workers)
    while surplus:
        last = workers.pop()
        if last.pods > surplus:
            workers.append(PlacedPods(last.leaf, last.pods - surplus))
        surplus -= min(surplus, last.pods)
    return GroupPlacement(tuple(workers), placement.leader)
