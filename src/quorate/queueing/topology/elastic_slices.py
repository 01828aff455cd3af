"""The places of a slice of an elastic job that replaces another: no pod that stays is moved.

The rules are Kueue's (v0.19), except that the pods which stay are counted once.
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from quorate.api.kueue import Admission
from quorate.placement.topology.assignment import place
from quorate.placement.topology.counting import Capacity
from quorate.placement.topology.request import PodSetRequest, Profile
from quorate.placement.topology.search import GroupPlacement, PlacedPods, PlacementFailure
from quorate.placement.topology.tree import DomainTree
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
        capacity = replace(capacity, assumed=_with_previous(capacity, workers, leader, previous))
    added = place(capacity, replace(workers, count=missing), profile=profile)
    if isinstance(added, PlacementFailure):
        return added
    pods: dict[int, int] = {}
    for placed in (*previous.workers, *added.workers):
        pods[placed.leaf] = pods.get(placed.leaf, 0) + placed.pods
    merged = tuple(PlacedPods(leaf, pods[leaf]) for leaf in sorted(pods))
    return GroupPlacement(merged, previous.leader)


def _first(places: tuple[PlacedPods, ...], count: int) -> tuple[PlacedPods, ...]:
    kept: list[PlacedPods] = []
    for placed in places:
        if count <= 0:
            break
        kept.append(PlacedPods(placed.leaf, min(placed.pods, count)))
        count -= placed.pods
    return tuple(kept)


def _with_previous(
    capacity: Capacity, workers: PodSetRequest, leader: PodSetRequest | None, previous: PreviousPlaces
) -> Mapping[int, Mapping[str, int]]:
    assumed = {leaf: dict(amounts) for leaf, amounts in capacity.assumed.items()}
    for request, places in ((workers, previous.workers), (leader, previous.leader)):
        for placed in places if request is not None else ():
            amounts = assumed.setdefault(placed.leaf, {})
            for resource, amount in ({} if request is None else request.per_pod).items():
                amounts[resource] = amounts.get(resource, 0) + amount * placed.pods
    return assumed
