"""The places of a slice of an elastic job that replaces another: no pod that stays is moved.

The rules are Kueue's (v0.19), except that the pods which stay are counted once, and that added pods complete
the last slice of these before they begin another.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from quorate.api.kueue import Admission
from quorate.placement.topology.assignment import in_rank_order, place
from quorate.placement.topology.counting import Capacity
from quorate.placement.topology.request import PodSetRequest, Profile, TopologyRequest
from quorate.placement.topology.search import GroupPlacement, PlacedPods, PlacementFailure
from quorate.placement.topology.tree import DomainTree, Path
from quorate.queueing.nodes.places import Domains


class PreviousPlaces(NamedTuple):
    """The places of the replaced slice, by leaf."""

    workers: tuple[PlacedPods, ...]
    leader: tuple[PlacedPods, ...]


def previous_domains(admission: Admission, pod_set: str, flavors: frozenset[str]) -> Domains:
    """Return the places of a pod set in the replaced slice, if it has the same flavors."""
    for assigned in admission.pod_set_assignments:
        if assigned.name == pod_set and assigned.topology_assignment is not None:
            is_same = flavors <= set(assigned.flavors.values())
            return tuple(assigned.topology_assignment.domains()) if is_same else ()
    return ()


def previous_places(tree: DomainTree, workers: Domains, leader: Domains | None) -> PreviousPlaces | None:
    """Return the places to keep; None if there are none, or a leaf of them is gone.

    ``leader`` is None for pods without a leader.  A leader without a place is placed with all workers.
    """
    if not workers or leader == ():
        return None
    of_workers, of_leader = _placed(tree, workers), _placed(tree, leader or ())
    return None if of_workers is None or of_leader is None else PreviousPlaces(of_workers, of_leader)


def _placed(tree: DomainTree, domains: Domains) -> tuple[PlacedPods, ...] | None:
    placed: list[PlacedPods] = []
    for values, pods in domains:
        leaf = tree.leaf_of(values)
        if leaf is None:
            return None
        placed.append(PlacedPods(leaf, pods))
    return tuple(placed)


def extend(
    capacity: Capacity,
    workers: PodSetRequest,
    leader: PodSetRequest | None,
    previous: PreviousPlaces,
    profile: Profile,
) -> GroupPlacement | PlacementFailure:
    """Place the workers that ``previous`` has no places for, or take the last of its places away.

    The tree counts the places in ``previous`` as used.
    """
    missing = workers.count - sum(worker.pods for worker in previous.workers)
    if missing <= 0:
        return GroupPlacement(_first(previous.workers, workers.count), previous.leader)
    if capacity.is_empty:
        capacity = _beside(capacity, workers, previous.workers)
        capacity = capacity if leader is None else _beside(capacity, leader, previous.leader)
    pods = Counter({placed.leaf: placed.pods for placed in previous.workers})
    completed = range(0)  # leaves: the first pods without a place have the lowest ranks
    for count, topology, within in _parts(capacity.tree, workers, pods):
        part = replace(workers, count=count, topology=topology)
        added = place(capacity, part, profile=profile, within=within)
        if isinstance(added, PlacementFailure):
            return added
        capacity = _beside(capacity, workers, added.workers)
        workers = _limited_beside(workers, added.workers)
        pods.update({placed.leaf: placed.pods for placed in added.workers})
        completed = completed if within is None else range(within.start, within.stop)
    merged = [PlacedPods(leaf, pods[leaf]) for leaf in pods]
    ordered = in_rank_order(capacity.tree, workers.topology.layers, merged, completed)
    return GroupPlacement(ordered, previous.leader)


def _parts(
    tree: DomainTree, workers: PodSetRequest, pods: Mapping[int, int]
) -> Iterator[tuple[int, TopologyRequest, slice | None]]:
    """Yield numbers of the missing pods, with their topology request and leaves: None allows all.

    The first pods complete the last slice of ``pods`` (by leaf) in its own domain, the innermost layer first.
    """
    layers, total = workers.topology.layers, sum(pods.values())
    for number, layer in reversed(list(enumerate(layers))):
        level, count = tree.level_of(layer.level), min(-total % layer.size, workers.count - total)
        if level is None or not count:
            continue
        in_domain = Counter[Path]()
        for leaf, placed in pods.items():
            in_domain[tree.paths[-1][leaf][: level + 1]] += placed
        incomplete = next(domain for domain in reversed(in_domain) if in_domain[domain] % layer.size)
        leaves = tree.leaves_below(level, bisect_left(tree.paths[level], incomplete))
        yield count, TopologyRequest(unconstrained=True, layers=layers[number + 1 :]), leaves
        total += count
    if total < workers.count:
        yield workers.count - total, workers.topology, None


def _first(places: tuple[PlacedPods, ...], count: int) -> tuple[PlacedPods, ...]:
    kept: list[PlacedPods] = []
    for placed in places:
        if count <= 0:
            break
        kept.append(PlacedPods(placed.leaf, min(placed.pods, count)))
        count -= placed.pods
    return tuple(kept)


def _beside(capacity: Capacity, request: PodSetRequest, places: tuple[PlacedPods, ...]) -> Capacity:
    """Return ``capacity`` with the pods of ``request`` in ``places`` as used."""
    assumed, pods = dict(capacity.assumed), dict(capacity.assumed_pods)
    for leaf, count in places:
        amounts = Counter(assumed.get(leaf, {}))
        amounts.update({resource: amount * count for resource, amount in request.per_pod.items()})
        assumed[leaf] = amounts
        if not capacity.tree.has_hosts:
            pods[leaf] = [*pods.get(leaf, ()), (request.of_host, count)]
    return replace(capacity, assumed=assumed, assumed_pods=pods)


def _limited_beside(request: PodSetRequest, places: tuple[PlacedPods, ...]) -> PodSetRequest:
    """Return ``request`` with its limits reduced by ``places``."""
    if request.limits is None:
        return request
    limits = request.limits.copy()
    for placed in places:
        limits[placed.leaf] -= placed.pods
    return replace(request, limits=limits)
