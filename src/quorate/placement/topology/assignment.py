"""The placement of one pod set, alone or with the leader of its group, in the leaves of a topology."""

from msgspec.structs import replace

from quorate.placement.topology.balanced import balanced_search
from quorate.placement.topology.counting import Capacity, count_exclusions, count_pods, leader_differs
from quorate.placement.topology.request import PodSetRequest, Profile, resolve
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

    The last slice may be smaller, and needs the room of a whole one.
    ``within``: only these leaves may be used.
    """
    tree = capacity.tree
    parameters = resolve(tree, workers.topology, workers.count, leader is not None, profile)
    if isinstance(parameters, str):
        return PlacementFailure(parameters)
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


def _without_last(placement: GroupPlacement, surplus: int) -> GroupPlacement:
    """Return ``placement`` without as many workers, the last ones in the order of the leaves."""
    workers = list(placement.workers)
    while surplus:
        last = workers.pop()
        if last.pods > surplus:
            workers.append(PlacedPods(last.leaf, last.pods - surplus))
        surplus -= min(surplus, last.pods)
    return GroupPlacement(tuple(workers), placement.leader)
