"""Nodes as a scenario states them: equal nodes in pools, and how often they fail.

    nodes:
    - name: gpu                     # gpu-00 to gpu-99
      count: 100
      labels: {pool: gpu}
      labelsByIndex: {rack: 20}
      capacity: {cpu: 64, memory: 256Gi, nvidia.com/gpu: 8}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      fails: {meanTimeBetween: 720h, repair: {uniform: [1h, 6h]}}

The time until a node fails is exponential with the given mean.  ``labelsByIndex`` gives nodes a label by
their number: with ``rack: 20``, the first 20 nodes have the label ``rack: gpu-0``, the next 20 ``gpu-1``.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from quorate.api.core import NodeSpec, Taint
from quorate.api.core.scheduling import Node, NodeStatus
from quorate.api.decoding import strict as d
from quorate.api.decoding.nodes import check_pool_names, taint
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import Condition, ObjectMeta, Uid, find_condition
from quorate.api.quantity import Quantity
from quorate.api.syntax import is_dns_label
from quorate.simulate.inputs.distributions import Constant, Distribution, durations, positive_seconds
from quorate.simulate.limits import MAX_NODES

PODS: Final = "pods"
MOST_PODS: Final = Quantity.of_units(110)  # of a node, unless its capacity says otherwise


class Outages(msgspec.Struct, frozen=True):
    mean_between_s: float  # from the time at which the node is ready until it fails
    repair: Distribution  # from then until it is ready again, in seconds


class NodePool(msgspec.Struct, frozen=True):
    """Equal nodes."""

    name: str
    count: int
    capacity: dict[str, Quantity]
    labels: dict[str, str] = {}
    labels_by_index: dict[str, int] = {}  # by label: how many nodes in a row have the same value
    taints: tuple[Taint, ...] = ()
    outages: Outages | None = None

    def node_names(self) -> Iterator[str]:
        width = len(str(self.count - 1))
        return (f"{self.name}-{index:0{width}}" for index in range(self.count))


def node_pools(field: d.Field) -> tuple[NodePool, ...]:
    """Decode ``nodes``."""
    pools = d.list_of(d.section(_node_pool))(field)
    check_pool_names([pool.name for pool in pools])
    return pools


def _node_pool(fields: d.Section) -> NodePool:
    name = fields.take("name", short_name, "")
    fields.require("name", hint="write a short name, such as gpu")
    capacity = fields.take("capacity", d.map_of(d.quantity), {})
    if not capacity and "capacity" not in fields:
        fields.at("capacity").reject("is missing (write capacity: {cpu: 64, memory: 256Gi})")
    return NodePool(
        name=name,
        count=fields.take("count", d.integer(1, MAX_NODES), 1),
        capacity=capacity,
        labels=fields.take("labels", d.labels, {}),
        labels_by_index=fields.take("labelsByIndex", d.map_of(d.integer(1, MAX_NODES)), {}),
        taints=fields.take("taints", d.list_of(d.section(taint)), ()),
        outages=fields.take("fails", d.section(_outages), None),
    )


short_name = d.text_matching(is_dns_label, "a name of small letters, digits and hyphens, at most 63")


def _outages(fields: d.Section) -> Outages | None:
    fields.require("meanTimeBetween", hint="write meanTimeBetween: 720h")
    mean_s = fields.take("meanTimeBetween", positive_seconds, None)
    repair = fields.take("repair", durations, Constant(0.0))
    fields.require("repair", hint="write repair: 2h")
    return None if mean_s is None else Outages(mean_s, repair)


def nodes_of(pool: NodePool) -> Iterator[Node]:
    """Yield the nodes of a pool, all ready."""
    amounts = {PODS: MOST_PODS, **pool.capacity}
    for index, name in enumerate(pool.node_names()):
        by_index = {
            label: f"{pool.name}-{index // in_a_row}" for label, in_a_row in pool.labels_by_index.items()
        }
        yield as_ready(
            Node(
                metadata=ObjectMeta(name=name, uid=Uid(f"node-{name}"), labels={**pool.labels, **by_index}),
                spec=NodeSpec(taints=pool.taints),
                status=NodeStatus(capacity=amounts, allocatable=amounts),
            )
        )


def as_ready(node: Node) -> Node:
    """Return a node as its kubelet reports it: with its host name, allocatable amounts and condition."""
    metadata, status = node.metadata, node.status
    labels = {HOSTNAME: metadata.name, **metadata.labels}
    conditions = status.conditions
    if find_condition(conditions, "Ready") is None:
        conditions = (*conditions, Condition(type="Ready", status="True", reason="KubeletReady"))
    return Node(
        metadata=msgspec.structs.replace(metadata, labels=labels),
        spec=node.spec,
        status=msgspec.structs.replace(
            status, allocatable=status.allocatable or status.capacity, conditions=conditions
        ),
    )
