"""The controller of HyperNodes: makes HyperNodes from node labels, and counts the nodes of all HyperNodes.

A change of a node is often one of many, so all changes of a second are followed together.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from quorate.api.core.scheduling import Node
from quorate.api.meta import Key, ObjectMeta, Struct
from quorate.api.volcano.topology import HyperNode
from quorate.controllers.context import ControllerContext
from quorate.controllers.limits import HYPER_NODE_DELAY_S, REFUSED_GROUP_RETRY_S
from quorate.controllers.volcano.hyper_nodes.label_discovery import discovered, is_discovered
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.patches import merge_patch
from quorate.kube.resources import HYPER_NODES, Resource
from quorate.kube.writes import Create, Delete, Patch, Write, send
from quorate.placement.cluster import Cluster
from quorate.placement.hyper_nodes.index import HyperNodeIndex

_DISCOVERY: Final = Key("", "discovery")
_COUNTS: Final = Key("", "counts")


class NodeLabels(Struct):
    """A node, of which only name and labels are read."""

    metadata: ObjectMeta

    def __post_init__(self) -> None:
        lean = ObjectMeta(
            name=self.metadata.name,
            uid=self.metadata.uid,
            labels=self.metadata.labels,
            resource_version=self.metadata.resource_version,
        )
        msgspec.structs.force_setattr(self, "metadata", lean)


NODE_LABELS: Final = Resource("", "v1", "nodes", "Node", False, NodeLabels)


class HyperNodeController:
    """Keeps the HyperNodes that the configuration describes, and ``status.nodeCount`` of all HyperNodes."""

    def __init__(
        self, context: ControllerContext, hyper_nodes: Informer[HyperNode], nodes: Informer[NodeLabels]
    ) -> None:
        self._client = context.client
        self._types = context.configuration.network_topology
        self._hyper_nodes = hyper_nodes
        self._nodes = nodes
        self._index = HyperNodeIndex(cluster := Cluster())
        self._cluster = cluster
        self._log = logger(__name__)
        self.reconciler = Reconciler(
            "volcano.hypernodes", self.reconcile, context.clock, 1, report=hyper_nodes.reconcile_failed
        )
        nodes.subscribe(self._node_changed)
        hyper_nodes.subscribe(self._hyper_node_changed)
        self._changed()

    def _node_changed(self, change: Change[NodeLabels]) -> None:
        old, new = change.old, change.new
        if new is None:
            if self._cluster.index(change.key.name) is not None:
                self._cluster.remove_node(change.key.name)
        elif old is not None and old.metadata.labels == new.metadata.labels:
            return
        else:
            self._cluster.set_node(Node(metadata=new.metadata))
        self._changed()

    def _hyper_node_changed(self, change: Change[HyperNode]) -> None:
        if change.new is None:
            self._index.remove(change.key.name)
        else:
            self._index.set(change.new)
        self._changed()

    def _changed(self) -> None:
        if self._types:
            self.reconciler.enqueue_in(_DISCOVERY, HYPER_NODE_DELAY_S)
        self.reconciler.enqueue_in(_COUNTS, HYPER_NODE_DELAY_S)

    async def reconcile(self, key: Key) -> None:
        for write in self._discover() if key == _DISCOVERY else self._count():
            try:
                await send(self._client, (write,))
            except (AlreadyExists, NotFound, Conflict):
                continue  # the watch will deliver why
            except ApiError as refusal:  # of one object, which holds up no other
                self._log.warning("hyper node not written", key=_name_of(write), problem=str(refusal))
                self.reconciler.enqueue_in(key, REFUSED_GROUP_RETRY_S)

    def _discover(self) -> list[Write]:
        """Return the writes that make the discovered HyperNodes what the labels of nodes describe."""
        existing = {hyper_node.metadata.name: hyper_node for hyper_node in self._hyper_nodes}
        labels = {node.metadata.name: node.metadata.labels for node in self._nodes}
        wanted = discovered(self._types, labels, existing.values())
        writes: list[Write] = []
        for name in sorted(wanted):
            now = existing.get(name)
            if now is None:
                writes.append(Create(HYPER_NODES, wanted[name].hyper_node, ""))
            elif not wanted[name].is_described_by(now):
                changes = _changes(now, wanted[name].hyper_node)
                writes.append(Patch(HYPER_NODES, now.metadata.key, now.metadata.resource_version, changes))
        surplus = [existing[name].metadata for name in sorted(existing.keys() - wanted.keys())]
        writes += [
            Delete(HYPER_NODES, metadata.key, metadata.uid)
            for metadata in surplus
            if is_discovered(existing[metadata.name]) and metadata.deletion_timestamp is None
        ]
        if writes:
            self._log.info("network topology discovered", hyper_nodes=len(wanted), writes=len(writes))
        return writes

    def _count(self) -> Iterator[Patch]:
        self._index.refresh()
        counts = {
            hyper_node.metadata.name: len(self._index.nodes(hyper_node.metadata.name))
            for hyper_node in self._hyper_nodes
        }
        for name in sorted(counts):
            hyper_node = self._hyper_nodes.get(Key("", name))
            if hyper_node is not None and hyper_node.status.node_count != counts[name]:
                metadata = hyper_node.metadata
                body = {"status": {"nodeCount": counts[name]}}
                yield Patch(HYPER_NODES, metadata.key, metadata.resource_version, body, "status")


def _name_of(write: Write) -> str:
    return str(write.body.metadata.name) if isinstance(write, Create) else write.key.name


def _changes(now: HyperNode, wanted: HyperNode) -> dict[str, Any]:
    """Return the merge patch from ``now`` to ``wanted``; other labels and the status stay."""
    changes: dict[str, Any] = {}
    labels = {
        key: value for key, value in wanted.metadata.labels.items() if now.metadata.labels.get(key) != value
    }
    if labels:
        changes["metadata"] = {"labels": labels}
    if now.spec != wanted.spec:
        changes["spec"] = merge_patch(now.spec, wanted.spec)
    return changes
