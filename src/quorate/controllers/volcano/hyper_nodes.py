"""The controller of HyperNodes: makes HyperNodes from node labels, and counts the nodes of all HyperNodes.

A change of a node is often one of many, so all changes of a second are followed together.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final

import msgspec

from quorate.api.configuration.network_topology import LABEL, TopologyType
from quorate.api.core.scheduling import Node
from quorate.api.meta import Key, ObjectMeta, Struct
from quorate.api.volcano.topology import (
    ExactMatch,
    HyperNode,
    HyperNodeSpec,
    Member,
    MemberSelector,
    MemberType,
)
from quorate.controllers.context import ControllerContext
from quorate.controllers.limits import HYPER_NODE_DELAY_S, REFUSED_GROUP_RETRY_S
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.patches import merge_patch
from quorate.kube.resources import HYPER_NODES, Resource
from quorate.kube.writes import Create, Delete, Patch, Write, send
from quorate.placement.cluster import Cluster
from quorate.placement.hyper_nodes.index import HyperNodeIndex

SOURCE: Final = "volcano.sh/network-topology-source"  # label of discovered HyperNodes
_DIGITS: Final = 5  # of the digest in a name, unless it is taken

# A tier, and the label values of a HyperNode of it: its own, then those of the tiers above.
_Place = tuple[int, tuple[str, ...]]


def is_discovered(hyper_node: HyperNode) -> bool:
    """Return True if the label discovery made the HyperNode, and so keeps or deletes it."""
    return hyper_node.metadata.labels.get(SOURCE) == LABEL


@dataclass(frozen=True, slots=True)
class DiscoveredHyperNode:
    """A HyperNode that should exist."""

    name: str
    tier: int
    tier_name: str
    labels: Mapping[str, str]
    members: Sequence[str]  # nodes in tier 1, else HyperNodes; sorted

    @property
    def member_type(self) -> MemberType:
        return "Node" if self.tier == 1 else "HyperNode"

    def is_described_by(self, hyper_node: HyperNode) -> bool:
        """Return True if ``hyper_node`` needs no change; it may have other labels, too."""
        spec, kind = hyper_node.spec, self.member_type
        names = [
            member.selector.exact_match.name
            for member in spec.members
            if member.type == kind and member.selector.exact_match is not None
        ]
        return (
            (spec.tier, spec.tier_name, len(spec.members)) == (self.tier, self.tier_name, len(names))
            and names == self.members
            and self.labels.items() <= hyper_node.metadata.labels.items()
        )

    @property
    def hyper_node(self) -> HyperNode:
        return HyperNode(
            metadata=ObjectMeta(name=self.name, labels=dict(self.labels)),
            spec=HyperNodeSpec(
                tier=self.tier,
                tier_name=self.tier_name,
                members=tuple(
                    Member(
                        type=self.member_type, selector=MemberSelector(exact_match=ExactMatch(name=member))
                    )
                    for member in self.members
                ),
            ),
        )


def discovered(
    types: Iterable[TopologyType], nodes: Mapping[str, Mapping[str, str]], existing: Collection[HyperNode]
) -> dict[str, DiscoveredHyperNode]:
    """Return the HyperNodes that should exist by name; ``nodes``: labels by node.

    ``existing``: all HyperNodes.  A discovered one of the same labels keeps its name.
    """
    names = _Names(existing)
    wanted: dict[str, DiscoveredHyperNode] = {}
    for topology in types:
        paths = _paths(topology.levels, nodes)
        own = {
            place: names.of(topology, *place)
            for place in sorted({place for path, _ in paths for place in path})
        }
        members: dict[_Place, set[str]] = {place: set() for place in own}
        for path, of_path in paths:
            members[path[0]].update(of_path)
            for below, place in pairwise(path):
                members[place].add(own[below])
        for place, name in own.items():
            tier, values = place
            labels = {SOURCE: LABEL, **dict(zip(topology.levels[tier - 1 :], values, strict=False))}
            wanted[name] = DiscoveredHyperNode(
                name, tier, topology.levels[tier - 1], labels, sorted(members[place])
            )
    return wanted


def _paths(
    levels: Sequence[str], nodes: Mapping[str, Mapping[str, str]]
) -> list[tuple[list[_Place], list[str]]]:
    """Return the places from tier 1 on, each with its nodes, which have equal labels."""
    by_values: dict[tuple[str, ...], list[str]] = {}
    for name, labels in nodes.items():
        by_values.setdefault(_values(levels, labels), []).append(name)
    by_values.pop((), None)  # nodes without the lowest label
    parents = _only_parents(by_values)
    return [(_path(_completed(values, parents)), names) for values, names in by_values.items()]


def _values(levels: Sequence[str], labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of the labels from the lowest tier on, up to the first that is absent."""
    values: list[str] = []
    for key in levels:
        value = labels.get(key)
        if not value:
            break
        values.append(value)
    return tuple(values)


def _only_parents(values: Iterable[tuple[str, ...]]) -> Mapping[tuple[int, str], str | None]:
    """Return the value of the next tier for a tier and value; None if there are several."""
    parents: dict[tuple[int, str], str | None] = {}
    for value in values:
        for tier, (own, parent) in enumerate(pairwise(value), 1):
            parents[tier, own] = parent if parents.get((tier, own), parent) == parent else None
    return parents


def _completed(values: tuple[str, ...], parents: Mapping[tuple[int, str], str | None]) -> tuple[str, ...]:
    """Add the values of higher tiers that all other nodes with the highest value have."""
    while values and (parent := parents.get((len(values), values[-1]))) is not None:
        values = (*values, parent)
    return values


def _path(values: tuple[str, ...]) -> list[_Place]:
    return [(tier, values[tier - 1 :]) for tier in range(1, len(values) + 1)]


class _Names:
    """Names of HyperNodes: existing HyperNodes keep their names."""

    def __init__(self, existing: Collection[HyperNode]) -> None:
        self._taken = {stored.metadata.name for stored in existing}
        self._labels = {
            stored.metadata.name: stored.metadata.labels for stored in existing if is_discovered(stored)
        }
        self._by_value: dict[tuple[str, str], list[str]] = {}
        for name in sorted(self._labels):
            for pair in self._labels[name].items():
                self._by_value.setdefault(pair, []).append(name)

    def of(self, topology: TopologyType, tier: int, values: tuple[str, ...]) -> str:
        prefix = f"hypernode-{_cleaned(topology.name)}-tier{tier}-"
        keys = topology.levels[tier - 1 :]
        own = dict(zip(keys, values, strict=False))
        for name in self._by_value.get((keys[0], values[0]), ()):
            labels = self._labels.get(name)
            if labels is None or not name.startswith(prefix):
                continue
            if all(labels.get(key, own.get(key)) == own.get(key) for key in keys):
                del self._labels[name]  # no second place gets it
                return name
        digest = sha256("\0".join((topology.name, str(tier), *values)).encode()).hexdigest()
        digits = _DIGITS
        while (name := prefix + digest[:digits]) in self._taken:
            digits += 1
        self._taken.add(name)
        return name


def _cleaned(name: str) -> str:
    """Return the name of a topology type as a part of an object's name."""
    return re.sub(r"[^a-z0-9-]", "-", name.lower())


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
