"""Capacity, use and free amounts of the domains of a topology, as values for tables and JSON.

``capacity`` is what the nodes can allocate, ``used`` is used by pods with places in the topology, ``others``
by all other pods.  The nodes of a flavor are those that are ready and schedulable and have all labels.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.core import Resources
from quorate.api.core.scheduling import Node
from quorate.api.kueue import ResourceFlavor
from quorate.api.kueue.topology import Topology
from quorate.api.meta import Struct
from quorate.controllers.topology.node_feeds import load_model
from quorate.kube.client import Client
from quorate.kube.resources import PLACEABLE_NODES
from quorate.placement.resources import in_base_units
from quorate.placement.topology.tree import DomainTree
from quorate.placement.vectors import Vector
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.state import State
from quorate.quota.amount import as_quantity


class DomainReport(Struct, omit_defaults=False):
    """One domain; ``largest_free`` is the most that a single domain of the next level has free."""

    name: str
    path: tuple[str, ...]  # values of the levels down to its own
    leaves: int  # domains of the lowest level in it
    capacity: Resources
    used: Resources
    others: Resources
    free: Resources
    largest_free: Resources
    domains: tuple["DomainReport", ...]


class FlavorReport(Struct, omit_defaults=False):
    name: str
    node_labels: dict[str, str]
    domains: tuple[DomainReport, ...]
    excluded_nodes: tuple[str, ...] = ()  # with these labels, but cordoned, not ready or without some level


class TopologyReport(Struct, omit_defaults=False):
    name: str
    levels: tuple[str, ...]
    flavors: tuple[FlavorReport, ...]


async def load_report(
    client: Client, described: Topology, configuration: Configuration, now: float
) -> TopologyReport:
    """Return the domains of a topology with their usage, as the controllers would count it."""
    gates = configuration.topology_gates or TopologyGates()
    state = State(msgspec.structs.replace(configuration, topology_gates=gates))
    await load_model(client, state, now)
    nodes = (await client.list(PLACEABLE_NODES)).items
    return report_topology(described, state.ledger.topology, nodes)


def report_topology(topology: Topology, model: TopologyModel, nodes: Sequence[Node]) -> TopologyReport:
    """Return the domains of a topology by flavor; ``model`` has all nodes, pods and usage."""
    bare = TopologyModel(TopologyGates())  # without pods
    bare.flavors = model.flavors
    bare.put_topology(topology)
    for node in nodes:
        bare.put_node(node)
    name = topology.metadata.name
    resources = sorted({resource for node in nodes for resource in in_base_units(node.status.allocatable)})
    flavors = (flavor for _, flavor in sorted(model.flavors.items()) if flavor.spec.topology_name == name)
    return TopologyReport(
        name=name,
        levels=tuple(level.node_label for level in topology.spec.levels),
        flavors=tuple(_flavor(flavor, model, bare, resources, nodes) for flavor in flavors),
    )


def _flavor(
    flavor: ResourceFlavor,
    model: TopologyModel,
    bare: TopologyModel,
    resources: Sequence[str],
    nodes: Sequence[Node],
) -> FlavorReport:
    name, labels = flavor.metadata.name, flavor.spec.node_labels
    with_labels = [node for node in nodes if labels.items() <= node.metadata.labels.items()]
    excluded = tuple(sorted(node.metadata.name for node in with_labels if not bare.belongs(node, flavor)))
    tree, empty = model.tree(name), bare.tree(name)
    if tree is None or empty is None or not tree.leaf_count:
        return FlavorReport(name=name, node_labels=labels, domains=(), excluded_nodes=excluded)
    amounts = [leaf_amounts(resource, tree, empty) for resource in resources]
    present = [amount for amount in amounts if amount.capacity.any()]
    domains = tuple(_domain(tree, 0, at, present) for at in range(len(tree.paths[0])))
    return FlavorReport(name=name, node_labels=labels, domains=domains, excluded_nodes=excluded)


@dataclass(frozen=True, slots=True)
class LeafAmounts:
    """Amounts of one resource in base units, by leaf."""

    resource: str
    capacity: Vector
    used: Vector
    others: Vector
    free: Vector


def leaf_amounts(resource: str, tree: DomainTree, empty: DomainTree) -> LeafAmounts:
    """Return the amounts of one resource; ``empty`` is the same tree without any pods."""
    capacity, without_others = empty.remaining(resource), tree.remaining(resource, empty=True)
    remaining = tree.remaining(resource)
    free: Vector = remaining.clip(min=0)
    return LeafAmounts(resource, capacity, without_others - remaining, capacity - without_others, free)


def _domain(tree: DomainTree, level: int, domain: int, amounts: Sequence[LeafAmounts]) -> DomainReport:
    leaves = tree.leaves_below(level, domain)
    is_leaf = level + 1 == len(tree.levels)
    below = [domain] if is_leaf else [int(child) for child in tree.children(level, domain)]
    below_level = level if is_leaf else level + 1
    path = tree.paths[level][domain]
    return DomainReport(
        name=path[-1],
        path=path,
        leaves=leaves.stop - leaves.start,
        capacity=_sums(amounts, [amount.capacity for amount in amounts], leaves),
        used=_sums(amounts, [amount.used for amount in amounts], leaves),
        others=_sums(amounts, [amount.others for amount in amounts], leaves),
        free=_sums(amounts, [amount.free for amount in amounts], leaves),
        largest_free={
            amount.resource: as_quantity(
                amount.resource,
                max(int(amount.free[tree.leaves_below(below_level, at)].sum()) for at in below),
            )
            for amount in amounts
        },
        domains=() if is_leaf else tuple(_domain(tree, level + 1, at, amounts) for at in below),
    )


def _sums(amounts: Sequence[LeafAmounts], vectors: Sequence[Vector], leaves: slice) -> Resources:
    return {
        amount.resource: as_quantity(amount.resource, int(vector[leaves].sum()))
        for amount, vector in zip(amounts, vectors, strict=True)
    }


def walk(domains: Iterable[DomainReport]) -> Iterator[DomainReport]:
    """Yield all domains, each before those below it."""
    for domain in domains:
        yield domain
        yield from walk(domain.domains)


def occupancy(domain: DomainReport, resource: str) -> int | None:
    """Return the tenths of a domain that are in use, rounded down; 10: nothing is free, -1: all is.

    None: the domain has nothing of the resource.
    """
    capacity, free = domain.capacity.get(resource), domain.free.get(resource)
    if capacity is None or free is None or capacity.nanos <= 0:
        return None
    if free.nanos <= 0:
        return 10
    used = capacity.nanos - free.nanos
    return max(0, min(9, used * 10 // capacity.nanos)) if used else -1
