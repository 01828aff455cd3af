"""Nodes as a tree of domains with what is used of them, and where a gang of equal pods would go.

The trees are those from which pods get their places.  Several flavors may have the same topology: their trees
are shown as one.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from quorate.api.core.scheduling import Node
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import is_true
from quorate.dashboard.limits import MAX_GANG_PODS, MAX_PLACES
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.dashboard.model.quota_use import amount_of
from quorate.dashboard.queries import Gang, Viewer
from quorate.dashboard.schema import Amount, DomainUse, GangPlace, GangPlacement, NodesView
from quorate.inspect.topology_report import LeafAmounts, leaf_amounts
from quorate.placement.resources import in_base_units
from quorate.placement.topology.counting import Capacity
from quorate.placement.topology.request import NO_TOPOLOGY, TopologyRequest
from quorate.placement.topology.tree import DomainTree
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.occupants import PODS, offered_amounts
from quorate.queueing.nodes.trees import labels_of
from quorate.queueing.pending.shape import PodSetShape
from quorate.queueing.topology.placing import Placement, PodSetToPlace, place_pod_sets, pod_set_request
from quorate.quota.amount import total

NODE_LEVEL: Final = "node"

Amounts = dict[str, int]  # by resource, in base units


class _Trees(NamedTuple):
    """The tree of one flavor with and without pods; the flavor is empty for all nodes as hosts."""

    flavor: str
    tree: DomainTree
    empty: DomainTree


def nodes(data: ClusterData, viewer: Viewer, topology: str, gang: Gang | None) -> NodesView | None:
    """Return the nodes by the levels of a topology, or without one if that is empty.

    None: there is no such topology, or the viewer may not list nodes.
    """
    if not viewer.nodes or (topology and topology not in data.topologies):
        return None
    requested = None if gang is None else (gang.pods, tuple(sorted(gang.requests.items())))
    return data.remembered(
        ("nodes", topology, requested),
        (data.node_revision, data.pod_revision, data.revision),
        lambda: _nodes(data, topology, gang),
    )


def _nodes(data: ClusterData, topology: str, gang: Gang | None) -> NodesView:
    model, resources = data.topology, _resources(data)
    trees_of_flavors = list(_trees(data, topology))
    in_tree: set[str] = set()
    roots = [_root(data, trees, resources, in_tree) for trees in trees_of_flavors]
    excluded = sorted(model.nodes.keys() - in_tree)
    if not topology:
        roots.append(_Domain.above("", "", [_excluded(data, model.nodes[name]) for name in excluded]))
    levels = trees_of_flavors[0].tree.levels if trees_of_flavors else ()
    return NodesView(
        topology=topology,
        topologies=tuple(sorted(data.topologies)),
        levels=levels if topology else (NODE_LEVEL,),
        resources=resources,
        root=_answer(_merged(roots)),
        excluded=tuple(excluded),
        largest_gangs={} if gang is None else _largest_gangs(model, trees_of_flavors, gang),
    )


def _resources(data: ClusterData) -> tuple[str, ...]:
    nodes = data.topology.nodes.values()
    return data.remembered(
        ("resources",),
        data.node_revision,
        lambda: tuple(sorted({name for node in nodes for name in in_base_units(node.status.allocatable)})),
    )


def _trees(data: ClusterData, topology: str) -> Iterator[_Trees]:
    """Yield the trees of a topology, one for each of its flavors, or one tree of all nodes as hosts."""
    model, without_pods = data.topology, data.without_pods
    if not topology:
        tree, empty = model.host_tree(()), without_pods.host_tree(())
        if tree is not None and empty is not None:
            yield _Trees("", tree, empty)
        return
    for name, flavor in sorted(data.state.flavors.items()):
        if flavor.spec.topology_name == topology and model.levels(name):
            tree, empty = model.tree(name), without_pods.tree(name)
            if tree is not None and empty is not None:
                yield _Trees(name, tree, empty)


# Domains.


class _Domain:
    """A domain and what is below it; amounts in base units by resource, of leaves set by the caller."""

    __slots__ = ("capacity", "children", "free", "level", "name", "nodes", "others", "ready", "used")

    def __init__(self, name: str, level: str, nodes: int = 0, *, ready: bool = True) -> None:
        self.name = name
        self.level = level
        self.nodes = nodes
        self.ready = ready
        self.children: Sequence[_Domain] = ()
        self.capacity: Amounts = {}
        self.used: Amounts = {}
        self.others: Amounts = {}
        self.free: Amounts = {}

    @classmethod
    def above(cls, name: str, level: str, children: Sequence["_Domain"]) -> "_Domain":
        """Return a domain with the sums of ``children``."""
        nodes, ready = sum(child.nodes for child in children), any(child.ready for child in children)
        domain = cls(name, level, nodes, ready=ready)
        domain.children = children
        domain.capacity = total(child.capacity for child in children)
        domain.used = total(child.used for child in children)
        domain.others = total(child.others for child in children)
        domain.free = total(child.free for child in children)
        return domain


def _root(data: ClusterData, trees: _Trees, resources: Sequence[str], in_tree: set[str]) -> _Domain:
    """Return all domains of a tree; ``in_tree`` collects the names of its nodes."""
    tree, nodes_of = trees.tree, _nodes_by_leaf(data, trees)
    if not tree.leaf_count:
        return _Domain.above("", "", ())
    in_tree.update(name for names in nodes_of.values() for name in names)
    amounts = [leaf_amounts(resource, tree, trees.empty) for resource in resources]
    below: Sequence[_Domain] = ()
    for level in range(len(tree.levels) - 1, -1, -1):
        domains = [_Domain(path[-1], tree.levels[level]) for path in tree.paths[level]]
        _set_amounts(domains, amounts, _first_leaves(tree, level))
        for at, domain in enumerate(domains):
            if level + 1 < len(tree.levels):
                domain.children = below[tree.range_of_children(level, at)]
                domain.nodes = sum([child.nodes for child in domain.children])
            else:
                names = nodes_of.get(at, ())
                domain.nodes = len(names)
                if not trees.flavor:
                    domain.name, domain.level = names[0] if names else domain.name, NODE_LEVEL
        below = domains
    return _Domain.above("", "", below)


def _first_leaves(tree: DomainTree, level: int) -> list[int]:
    """Return the first leaf of each domain of a level."""
    return [tree.leaves_below(level, at).start for at in range(len(tree.paths[level]))]


def _set_amounts(domains: Sequence[_Domain], amounts: Iterable[LeafAmounts], first_leaves: list[int]) -> None:
    """Set the sums over the leaves of each domain of one level."""
    for of_leaves in amounts:
        for vector, parts in (
            (of_leaves.capacity, [domain.capacity for domain in domains]),
            (of_leaves.used, [domain.used for domain in domains]),
            (of_leaves.others, [domain.others for domain in domains]),
            (of_leaves.free, [domain.free for domain in domains]),
        ):
            if not vector.any():
                continue
            for part, amount in zip(parts, np.add.reduceat(vector, first_leaves).tolist(), strict=True):
                if amount:
                    part[of_leaves.resource] = amount


def _nodes_by_leaf(data: ClusterData, trees: _Trees) -> dict[int, list[str]]:
    """Return the names of the nodes of a tree by their leaf."""
    revision = (data.node_revision, data.queue_revision)
    return data.remembered(("nodes_by_leaf", trees.flavor), revision, lambda: _find_leaves(data, trees))


def _find_leaves(data: ClusterData, trees: _Trees) -> dict[int, list[str]]:
    model, tree = data.topology, trees.tree
    of = trees.flavor or labels_of(())
    result: dict[int, list[str]] = {}
    for name, node in model.nodes.items():
        if model.is_in(node, of):
            leaf = tree.leaf_of(tree.recorded_values_of(node))
            if leaf is not None:
                result.setdefault(leaf, []).append(name)
    return result


def _excluded(data: ClusterData, node: Node) -> _Domain:
    """Return a node that takes no pods; nothing of it is free."""
    name = node.metadata.name
    domain = _Domain(name, NODE_LEVEL, 1, ready=is_true(node.status.conditions, "Ready"))
    domain.capacity = dict(sorted(in_base_units(node.status.allocatable).items()))
    pods = data.topology.occupants.named_on(name).values()
    domain.others = total(offered_amounts(pod.requests, node) for pod in pods)
    return domain


def _merged(roots: Sequence[_Domain]) -> _Domain:
    """Return the trees of several flavors as one.

    A host that belongs to two of them is in both with the same amounts, so it counts once; other leaves have
    the nodes of each flavor.
    """
    if len(roots) == 1:
        return roots[0]
    by_name: dict[str, list[_Domain]] = {}
    for root in roots:
        for child in root.children:
            by_name.setdefault(child.name, []).append(child)
    children = [_merged_equal(same) for _, same in sorted(by_name.items())]
    return _Domain.above("", "", children)


def _merged_equal(same: Sequence[_Domain]) -> _Domain:
    first = same[0]
    if len(same) == 1 or first.level in (HOSTNAME, NODE_LEVEL):
        return first
    if any(domain.children for domain in same):
        return _Domain.above(first.name, first.level, _merged(same).children)
    merged = _Domain.above(first.name, first.level, same)
    merged.children = ()
    return merged


def _answer(domain: _Domain) -> DomainUse:
    return DomainUse(
        name=domain.name,
        level=domain.level,
        nodes=domain.nodes,
        ready=domain.ready,
        capacity=_amounts(domain.capacity),
        used=_amounts(domain.used),
        others=_amounts(domain.others),
        free=_amounts(domain.free),
        domains=tuple([_answer(child) for child in domain.children]),
    )


def _amounts(amounts: Amounts) -> dict[str, Amount]:
    return {resource: amount_of(resource, amount) for resource, amount in amounts.items() if amount}


# Gangs.


def _pod_set(gang: Gang, flavor: str, topology: TopologyRequest) -> PodSetToPlace:
    requests = {**gang.requests, PODS: 1}
    shape = PodSetShape(
        name="gang", count=gang.pods, min_count=gang.pods, per_pod=dict(gang.requests), node_selector={},
        affinity=None, tolerations=(), topology=topology, on_node=requests,
    )  # fmt: skip
    return PodSetToPlace(shape, gang.pods, frozenset((flavor,) if flavor else ()), on_hosts=not flavor)


def _largest_gangs(model: TopologyModel, trees_of_flavors: Sequence[_Trees], gang: Gang) -> dict[str, int]:
    """Return by level how many of the pods fit in the domain of it that has most room."""
    result: dict[str, int] = {}
    for trees in trees_of_flavors:
        tree = trees.tree
        if not tree.leaf_count:
            continue
        request = pod_set_request(model, _pod_set(gang, trees.flavor, NO_TOPOLOGY))
        fitting = Capacity(tree).fitting(request)
        for level, label in enumerate(tree.levels):
            best = int(np.add.reduceat(fitting, _first_leaves(tree, level)).max())
            name = label if trees.flavor else NODE_LEVEL
            result[name] = max(result.get(name, 0), min(best, MAX_GANG_PODS))
    return result


def gang_placement(data: ClusterData, viewer: Viewer, gang: Gang) -> GangPlacement | None:
    """Return where a gang would go now, in the first topology that has room for all of its pods.

    The pods prefer to be in one domain, the smaller the better.  None: the viewer may not list nodes.
    """
    if not viewer.nodes:
        return None
    if not 0 < gang.pods <= MAX_GANG_PODS:
        return GangPlacement(fits=False, reason=f"pods must be 1 to {MAX_GANG_PODS}", places=())
    model, reason = data.topology, "there are no nodes"
    for trees in [tree for name in (*sorted(data.topologies), "") for tree in _trees(data, name)]:
        levels = trees.tree.levels
        preferred = TopologyRequest(preferred=levels[-1]) if trees.flavor else NO_TOPOLOGY
        placement = place_pod_sets(model, [_pod_set(gang, trees.flavor, preferred)])
        if not placement.failures:
            return GangPlacement(fits=True, reason="", places=tuple(_places(trees.tree, placement)))
        reason = placement.failures[0].text
    return GangPlacement(fits=False, reason=reason, places=())


def _places(tree: DomainTree, placement: Placement) -> Iterator[GangPlace]:
    domains = (domain for pod_set in placement.pod_sets for domain in pod_set.domains)
    for values, pods in islice(domains, MAX_PLACES):
        leaf = tree.leaf_of(values)
        path = values if leaf is None else tree.paths[-1][leaf]
        yield GangPlace(domain="/".join(path), pods=pods)
