"""The placement of one pod set, alone or with the leader of its group, in the leaves of a topology."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

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
    """Place the last, smaller slice in the first domain that can take it with all others not after it.

    Pods have their ranks in the order of the leaves, so that the domain of the last slice is the last one.
    It gets as many slices as it holds.  Return None if no domain can.
    """
    tree, (layer, *inner) = capacity.tree, parameters.layers
    whole, rest = divmod(workers.count, layer.size)

    def placed(pods: PodSetRequest, beside: PodSetRequest | None, leaves: slice) -> GroupPlacement | None:
        outcome = place(capacity, pods, beside, profile=profile, within=_both(leaves, within))
        return outcome if isinstance(outcome, GroupPlacement) else None

    if not (whole or inner):
        alone = replace(workers.topology, layers=(layer._replace(size=rest),))
        return placed(replace(workers, topology=alone), leader, slice(0, tree.leaf_count))
    for before, own, slices in _last_domains(capacity, workers, parameters, within):
        count = slices * layer.size + rest
        topology = TopologyRequest(required=layer.level, layers=tuple(inner))
        last = replace(workers, count=count, topology=topology)
        if slices == whole:
            outcome = placed(last, leader, own)
        elif (outcome := placed(replace(workers, count=workers.count - count), leader, before)) is not None:
            of_last = placed(last, None, own)
            assert of_last is not None or inner, f"{count} pods were counted in leaves {own}"
            outcome = of_last and outcome._replace(workers=(*outcome.workers, *of_last.workers))
        if outcome is not None:
            return outcome
    return None


def _last_domains(
    capacity: Capacity, workers: PodSetRequest, parameters: SearchParameters, within: slice | None
) -> Iterator[tuple[slice, slice, int]]:
    """Yield the leaves before a domain for the smaller slice, those in it, and its number of whole slices.

    Its last slice of an inner layer may be smaller too: the domain may hold one whole slice more with it.
    The domains before it are those of the requested level, if that is required; if it is preferred, these
    come first.
    """
    tree, size, level = capacity.tree, parameters.slice_size, parameters.slice_level
    whole, rest = divmod(workers.count, size)
    unit = parameters.layers[1].size if len(parameters.layers) > 1 else 1
    needs = dict.fromkeys((rest // unit * unit, -(-rest // unit) * unit))
    counts = count_pods(capacity, workers, None, replace(parameters, has_leader=False), within)[level]
    pods, room = counts.pods.tolist(), [0, *accumulate(counts.slices.tolist())]
    one, several = parameters.level + 1, 0
    for depth in (
        (several,) if parameters.unconstrained else (one,) if parameters.required else (one, several)
    ):
        for domain in range(len(pods)):
            first = bisect_left(tree.paths[level], tree.paths[level][domain][:depth])
            before, own = tree.leaves_below(level, first), tree.leaves_below(level, domain)
            for slices in dict.fromkeys(min((pods[domain] - need) // size, whole) for need in needs):
                if slices >= 0 and slices + room[domain] - room[first] >= whole:
                    yield slice(before.start, own.start), own, slices


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
