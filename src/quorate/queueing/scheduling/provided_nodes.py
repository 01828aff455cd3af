"""Nodes that would take the pods that have none, as a part of a remedy."""

from collections.abc import Iterator, Mapping, Sequence

from quorate.api.core import NodeSelectorTerm
from quorate.api.explanation import Nodes
from quorate.api.kueue.topology import HOSTNAME
from quorate.placement.supposed_nodes import MAX_PROVIDED_NODES
from quorate.queueing.inadmissible_reasons import NodesLackRoom, PlacementRefused
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.trees import labels_of
from quorate.queueing.pending.shape import PodSetShape
from quorate.quota.amount import as_quantity


def nodes_for(
    model: TopologyModel,
    shape: PodSetShape,
    flavors: Sequence[str],
    refusal: NodesLackRoom | PlacementRefused,
) -> Iterator[Nodes]:
    """Yield nodes that may be enough for the pods of a pod set that have none, the smallest first."""
    topology, levels = shape.topology, _levels(model, flavors)
    pods = refusal.requested - refusal.fitting
    if isinstance(refusal, PlacementRefused) and (topology.required or topology.layers):
        pods = refusal.requested  # in one domain that no other pods use
    if pods <= 0 or not shape.on_node:
        return
    labels = {
        **dict(labels_of(model.flavors[name] for name in flavors if name in model.flavors)),
        **_labels_of_affinity(shape.affinity or ()),
        **shape.node_selector,
    }
    fewest = -(-pods // MAX_PROVIDED_NODES)
    slices = [layer.size for layer in topology.layers]
    for on_each in dict.fromkeys((fewest, *(size for size in sorted(slices) if size >= fewest), pods)):
        amounts = {resource: amount * on_each for resource, amount in shape.on_node.items() if amount}
        free = {resource: str(as_quantity(resource, amount)) for resource, amount in amounts.items()}
        same = tuple(level for level in levels if level != HOSTNAME and level not in labels)
        yield Nodes(count=-(-pods // on_each), labels=labels, free=free, same=same)


def _levels(model: TopologyModel, flavors: Sequence[str]) -> Sequence[str]:
    """Return the levels of the topology of the flavors; empty without one."""
    return next((levels for name in flavors if (levels := model.levels(name)) is not None), ())


def _labels_of_affinity(terms: Sequence[NodeSelectorTerm]) -> Mapping[str, str]:
    """Return labels of a node that matches the first term, where it asks for labels."""
    expressions = terms[0].match_expressions if terms else ()
    return {
        expression.key: expression.values[0] if expression.values else ""
        for expression in expressions
        if expression.operator in ("In", "Exists")
    }
