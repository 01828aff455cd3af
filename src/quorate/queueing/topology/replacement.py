"""Other hosts for the pods of a pod set that were on failed hosts; the other pods stay where they are.

The rules about the domain to stay in are Kueue's (v0.19).
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from quorate.placement.topology.assignment import in_rank_order, place
from quorate.placement.topology.counting import Capacity
from quorate.placement.topology.request import PodSetRequest, Profile, SliceLayer, TopologyRequest
from quorate.placement.topology.search import PlacedPods, PlacementFailure
from quorate.placement.topology.tree import DomainTree, Path

Domains = Sequence[tuple[Path, int]]  # the recorded values of each host, and its pods

NONE_STAY: Final[Mapping[str, int]] = {}


def replace_hosts(
    capacity: Capacity,
    pods: PodSetRequest,
    domains: Domains,
    failed: Collection[str],
    profile: Profile,
    staying: Mapping[str, int] = NONE_STAY,
    beside: Domains = (),
) -> Domains | str:
    """Return the places of all pods of the set in the order of their ranks, or why there are none.

    ``domains`` are the present places, on hosts; ``failed`` are names of hosts, ``staying`` how many pods of
    the set run on some of them and go on, and ``beside`` are healthy places of the other pods of its group:
    where no pod of the set stays, these determine the required domain.
    """
    tree = capacity.tree
    kept = ((values, staying.get(values[-1], 0) if values[-1] in failed else n) for values, n in domains)
    healthy = [(values, count) for values, count in kept if count]
    missing = sum(count for _, count in domains) - sum(count for _, count in healthy)
    near = healthy or beside
    stale = [values[-1] for values, _ in near if tree.leaf_of(values) is None]
    if stale:
        return (
            "Cannot replace the node, because the existing topologyAssignment is invalid, as it contains the "
            f"stale domain [{' '.join(stale)}]"
        )
    request = replace(pods, count=missing, topology=replace(pods.topology, group=""))
    within: slice | None = None
    layers = pods.topology.layers
    for number, layer in reversed(list(enumerate(layers))):  # the innermost first
        if healthy and within is None and missing % layer.size:
            within = _incomplete_slice(tree, healthy, missing, layer)
            if within is not None:
                topology = TopologyRequest(unconstrained=True, layers=layers[number + 1 :])
                request = replace(request, topology=topology)
    if within is None and near and pods.topology.required:
        level = tree.level_of(pods.topology.required)
        if level is not None:
            within = tree.leaves_below(level, _domain_of(tree, near[0][0], level))
    outcome = place(capacity, request, profile=profile, within=within)
    if isinstance(outcome, PlacementFailure):
        return outcome.text
    merged = {leaf: count for values, count in healthy if (leaf := tree.leaf_of(values)) is not None}
    for placed in outcome.workers:
        merged[placed.leaf] = merged.get(placed.leaf, 0) + placed.pods
    ordered = in_rank_order(tree, pods.topology.layers, [PlacedPods(*item) for item in merged.items()])
    return [(tree.recorded_values(placed.leaf), placed.pods) for placed in ordered]


def _incomplete_slice(tree: DomainTree, healthy: Domains, missing: int, layer: SliceLayer) -> slice | None:
    """Return the leaves of the first domain in which the missing pods complete the slices of ``layer``.

    Places are listed in the order of ranks: only the last domain may have a smaller slice to be restored.
    """
    level = tree.level_of(layer.level)
    if level is None:
        return None
    last = (missing + sum(count for _, count in healthy)) % layer.size
    pods: dict[int, int] = {}
    for values, count in healthy:
        domain = _domain_of(tree, values, level)
        pods[domain] = pods.get(domain, 0) + count
    domain_of_last = next(reversed(pods))
    for domain in pods:
        size = last if domain == domain_of_last else 0
        if (pods[domain] + missing) % layer.size == size and pods[domain] % layer.size:
            return tree.leaves_below(level, domain)
    return None


def _domain_of(tree: DomainTree, values: Path, level: int) -> int:
    leaf = tree.leaf_of(values)
    assert leaf is not None, f"{values} is stale"
    return bisect_left(tree.paths[level], tree.paths[-1][leaf][: level + 1])
