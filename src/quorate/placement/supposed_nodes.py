"""Nodes that do not exist, to find out what would fit if they did."""

from collections.abc import Iterator
from typing import Final

from quorate.api.core.scheduling import Node, NodeStatus
from quorate.api.explanation import Nodes
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import Condition, ObjectMeta
from quorate.api.quantity import parse_quantity
from quorate.quota.amount import PODS

MAX_PROVIDED_NODES: Final = 8  # of a pod set in a remedy; for more pods they are larger
# In names of nodes and domains that exist only in a supposition: before and after those of all others.
NAMINGS: Final = ("!supposed", "~supposed")


def supposed_nodes(nodes: Nodes, pod_set: str, naming: str) -> Iterator[Node]:
    """Yield the nodes as objects, with names of no other node."""
    for number in range(nodes.count):
        name = f"{naming}-{pod_set}-{number}"
        places = {**dict.fromkeys(nodes.levels, name), **dict.fromkeys(nodes.same, naming)}
        labels = {**places, HOSTNAME: name, **nodes.labels}
        free = {resource: parse_quantity(amount) for resource, amount in nodes.free.items()}
        ready = Condition(type="Ready", status="True")
        yield Node(
            metadata=ObjectMeta(name=name, labels=labels),
            status=NodeStatus(allocatable=free, conditions=(ready,)),
        )


def nodes_text(nodes: Nodes) -> str:
    """Return the nodes and what must be free on each, in a sentence."""
    count = "1 more node" if nodes.count == 1 else f"{nodes.count} more nodes"
    pairs = ", ".join(f"{key}={value}" for key, value in sorted(nodes.labels.items()))
    room = [f"{amount} {resource}" for resource, amount in nodes.free.items() if resource != PODS]
    labelled = f" with {pairs}" if pairs else ""
    where = f", in one {nodes.same[-1]}" if nodes.same and nodes.count > 1 else ""
    return f"{count}{labelled} must have {' and '.join(room) or 'room for a pod'} free{where}"
