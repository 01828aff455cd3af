"""Other hosts for the pods of a pod set that were on failed hosts; the other pods stay where they are.

The rules about the domain to stay in are Kueue's (v0.19).
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from quorate.placement.topology.assignment import place
from quorate.placement.topology.counting import Capacity
from quorate.placement.topology.request import PodSetRequest, Profile, SliceLayer, TopologyRequest
from quorate.placement.topology.search import PlacementFailure
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
    """Return the places of all pods of the set in path order, or why there are none.

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
    layer = next((inner for inner in reversed(pods.topology.layers) if missing % inner.size), None)
    if healthy and layer is not None:
        within = _incomplete_slice(tree, healthy, missing, layer)
        if within is not None:
            request = replace(request, topology=_remainder(pods, missing))
    if within is None and near and pods.topology.required:
        level = tree.level_of(pods.topology.required)
        if level is not None:
            within = tree.leaves_below(level, _domain_of(tree, near[0][0], level))
    outcome = place(capacity, request, profile=profile, within=within)
    if isinstance(outcome, PlacementFailure):
        return outcome.text
    merged = dict(healthy)
    for placed in outcome.workers:
        values = tree.recorded_values(placed.leaf)
        merged[values] = merged.get(values, 0) + placed.pods
    return sorted(merged.items(), key=lambda pair: tree.leaf_of(pair[0]) or 0)


def _incomplete_slice(tree: DomainTree, healthy: Domains, missing: int, layer: SliceLayer) -> slice | None:
    """Return the leaves of the first domain in which the missing pods complete the slices of ``layer``.

    Without one it is the domain of the last slice, if that was smaller and some of its pods are left.
    """
    level = tree.level_of(layer.level)
    if level is None:
        return None
    last = (missing + sum(count for _, count in healthy)) % layer.size
    pods: dict[int, int] = {}
    for values, count in healthy:
        domain = _domain_of(tree, values, level)
        pods[domain] = pods.get(domain, 0) + count
    for size in (0, last):
        for domain in sorted(pods):
            if (pods[domain] + missing) % layer.size == size and pods[domain] % layer.size:
                return tree.leaves_below(level, domain)
    return None


def _domain_of(tree: DomainTree, values: Path, level: int) -> int:
    leaf = tree.leaf_of(values)
    assert leaf is not None, f"{values} is stale"
    return bisect_left(tree.paths[level], tree.paths[-1][leaf][: level + 1])


def _remainder(pods: PodSetRequest, missing: int) -> TopologyRequest:
    """Return the request of pods that complete slices: the innermost layer that they fill, if any."""
    inner = next((layer for layer in reversed(pods.topology.layers) if missing % layer.size == 0), None)
    return TopologyRequest(unconstrained=True, layers=() if inner is None else (inner,))
