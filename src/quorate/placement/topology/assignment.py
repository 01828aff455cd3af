"""The placement of one pod set, alone or with the leader of its group, in the leaves of a topology."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from quorate.placement.topology.balanced import balanced_search
from quorate.placement.topology.counting import Capacity, count_exclusions, count_pods, leader_differs
from quorate.placement.topology.request import (
    PodSetRequest,
    Profile,
    SearchParameters,
    SliceLayer,
    TopologyRequest,
    resolve,
)
from quorate.placement.topology.search import GroupPlacement, NotFound, PlacedPods, PlacementFailure, Search
from quorate.placement.topology.tree import DomainTree, Path
from quorate.placement.vectors import np


def place(
    capacity: Capacity,
    workers: PodSetRequest,
    leader: PodSetRequest | None = None,
    *,
    profile: Profile,
    within: slice | None = None,
) -> GroupPlacement | PlacementFailure:
    """Place the pods of ``workers``, and one pod of ``leader``, in the leaves of the topology.

    The last slice of each layer may be smaller.  If it has no room as a whole one, it gets the room of its
    own pods.  ``within``: only these leaves may be used.
    """
    parameters = resolve(capacity.tree, workers.topology, workers.count, leader is not None, profile)
    if isinstance(parameters, str):
        return PlacementFailure(parameters)
    outcome = _place_whole_slices(capacity, workers, leader, parameters, profile, within)
    if isinstance(outcome, GroupPlacement) or parameters.count == workers.count:
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
    """Place the last, smaller slice in the first domain that can take it, the others anywhere.

    That domain gets as many slices as it holds.  The smaller slice comes last among the places, as pods have
    their ranks in that order.  Return None if no domain can take it.
    """
    tree, (layer, *inner) = capacity.tree, parameters.layers
    whole, rest = divmod(workers.count, layer.size)

    def placed(pods: PodSetRequest, beside: PodSetRequest | None, leaves: slice) -> GroupPlacement | None:
        outcome = place(capacity, pods, beside, profile=profile, within=_both(leaves, within))
        return outcome if isinstance(outcome, GroupPlacement) else None

    if not (whole or inner):
        alone = replace(workers.topology, layers=(layer._replace(size=rest),))
        return placed(replace(workers, topology=alone), leader, slice(0, tree.leaf_count))
    for inside, own, slices in _last_domains(capacity, workers, parameters, within):
        count = slices * layer.size + rest
        topology = TopologyRequest(required=layer.level, layers=tuple(inner))
        last = replace(workers, count=count, topology=topology)
        if slices == whole:
            outcome = placed(last, leader, own)
            if outcome is not None:
                return outcome
            continue
        others = _outside(tree, replace(workers, count=workers.count - count), own)
        leads = [(leader, None)] if leader is None else [(_outside(tree, leader, own), None), (None, leader)]
        for beside_others, beside_last in leads:
            of_others = placed(others, beside_others, inside)
            of_last = None if of_others is None else placed(last, beside_last, own)
            if of_others is not None and of_last is not None:
                both = (*of_others.workers, *of_last.workers)
                leaders = of_others.leader or of_last.leader
                return GroupPlacement(in_rank_order(tree, parameters.layers, both), leaders)
    return None


def in_rank_order(
    tree: DomainTree, layers: Sequence[SliceLayer], placed: Sequence[PlacedPods], first: range = range(0)
) -> tuple[PlacedPods, ...]:
    """Return ``placed`` by leaf, with a smaller last slice of each layer after its other slices.

    The leaves in ``first`` precede the others otherwise.
    """
    order: dict[int, list[bool]] = {pods.leaf: [] for pods in placed}
    for layer in layers:
        level = tree.level_of(layer.level)
        if level is None:
            continue
        domains = {leaf: tree.paths[-1][leaf][: level + 1] for leaf in order}
        sums = Counter[Path]()
        for pods in placed:
            sums[domains[pods.leaf]] += pods.pods
        for leaf, domain in domains.items():
            order[leaf].append(sums[domain] % layer.size > 0)
    return tuple(sorted(placed, key=lambda pods: (order[pods.leaf], pods.leaf not in first, pods.leaf)))


def _last_domains(
    capacity: Capacity, workers: PodSetRequest, parameters: SearchParameters, within: slice | None
) -> Iterator[tuple[slice, slice, int]]:
    """Yield the leaves that may be used with a domain for the smaller slice, its own, and its whole slices.

    Its last slice of an inner layer may be smaller too: the domain may hold one whole slice more with it.
    The leaves are those of the requested level, if that is required; if it is preferred, these come first.
    """
    tree, size, level = capacity.tree, parameters.slice_size, parameters.slice_level
    whole, rest = divmod(workers.count, size)
    unit = parameters.layers[1].size if len(parameters.layers) > 1 else 1
    needs = dict.fromkeys((rest // unit * unit, -(-rest // unit) * unit))
    counts = count_pods(capacity, workers, None, replace(parameters, has_leader=False), within)
    pods, room = counts[level].pods.tolist(), counts[level].slices.tolist()
    one, several = parameters.level + 1, 0
    for depth in (
        (several,) if parameters.unconstrained else (one,) if parameters.required else (one, several)
    ):
        for domain in range(len(pods)):
            inside, total = slice(0, tree.leaf_count), sum(room)
            if depth:
                outer = bisect_left(tree.paths[depth - 1], tree.paths[level][domain][:depth])
                inside, total = tree.leaves_below(depth - 1, outer), int(counts[depth - 1].slices[outer])
            for slices in dict.fromkeys(min((pods[domain] - need) // size, whole) for need in needs):
                if slices >= 0 and slices + total - room[domain] >= whole:
                    yield inside, tree.leaves_below(level, domain), slices


def _outside(tree: DomainTree, pods: PodSetRequest, leaves: slice) -> PodSetRequest:
    """Return the request without ``leaves``."""
    limits = np.full(tree.leaf_count, pods.count) if pods.limits is None else pods.limits.copy()
    limits[leaves] = 0
    return replace(pods, limits=limits)


def _both(leaves: slice, within: slice | None) -> slice:
    if within is None:
        return leaves
    return slice(max(leaves.start, within.start), min(leaves.stop, within.stop))


def _without_last(placement: GroupPlacement, surplus: int) -> GroupPlacement:
    """Return ``placement`` without as many workers, the last ones in the order of the leaves."""
    workers = list(placement.workers)
    while surplus:
        last = workers.pop()
        if last.pods > surplus:
            workers.append(PlacedPods(last.leaf, last.pods - surplus))
        surplus -= min(surplus, last.pods)
    return GroupPlacement(tuple(workers), placement.leader)
