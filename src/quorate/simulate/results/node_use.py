"""How much of the nodes the pods with places used."""

from collections.abc import Iterator

import msgspec

from quorate.api.kueue.topology import HOSTNAME
from quorate.quota.amount import as_quantity, base_units
from quorate.simulate.engine.held_amounts import NO_FLAVOR
from quorate.simulate.engine.recorder import Run


class NodeUse(msgspec.Struct, frozen=True, rename="camel"):
    """Of one resource of all nodes that have it, over the whole run."""

    resource: str
    nodes: int
    allocatable: str  # a quantity, the sum
    mean: str  # the mean amount in use
    share: float  # mean / allocatable
    least: float  # the share of the node with the smallest one
    most: float


def node_use(run: Run) -> Iterator[NodeUse]:
    """Yield the use of each resource in order; nothing if no pods had places on nodes."""
    if not run.node_usage.samples:
        return
    shares: dict[str, list[float]] = {}
    amounts: dict[str, int] = {}
    used: dict[str, float] = {}
    for node in run.world.nodes:
        for resource, quantity in node.status.allocatable.items():
            amount = base_units(resource, quantity)
            if not amount:
                continue
            host = node.metadata.labels[HOSTNAME]
            mean = run.node_usage.mean(host, NO_FLAVOR, resource, run.ended_ms)
            shares.setdefault(resource, []).append(mean / amount)
            amounts[resource] = amounts.get(resource, 0) + amount
            used[resource] = used.get(resource, 0.0) + mean
    for resource in sorted(shares):
        yield NodeUse(
            resource=resource,
            nodes=len(shares[resource]),
            allocatable=str(as_quantity(resource, amounts[resource])),
            mean=str(as_quantity(resource, round(used[resource]))),
            share=used[resource] / amounts[resource],
            least=min(shares[resource]),
            most=max(shares[resource]),
        )
