"""All filters except resource fit, evaluated incrementally for the nodes of one cluster.

Nodes and pods are read once, when the change logs of the cluster name them; what is retained of them is
indexed by the selectors that exist.  A shape without constraints, which no term of a placed pod matches, is
filtered by node columns alone.
"""

from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count, islice
from typing import Final
from weakref import WeakKeyDictionary

from quorate.api.core.volumes import CSINode
from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement.change_log import ChangeLog
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import NO_PODS, AllocationState, PodCounts
from quorate.placement.failures import FilterFailure, NodeStatuses
from quorate.placement.filters.devices.allocation import Chosen, DeviceShortage
from quorate.placement.filters.devices.index import DeviceIndex
from quorate.placement.filters.inter_pod.pod_selectors import Labels
from quorate.placement.filters.node_columns import NO_LIMITS, VolumeLimits
from quorate.placement.filters.node_constraint_index import NodeConstraintIndex
from quorate.placement.filters.requirements import PodRequirements, pod_requirements
from quorate.placement.filters.topology_spread import SpreadSkew
from quorate.placement.framework import Capacity, InvalidationScope, RawScores
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Vector

# Filter results retained at least; each has some 20 bytes per node, or 100 if the shape selects other pods.
_MIN_RESULTS: Final = 128
# Of the shapes with a retained result, as they are encoded; usual ones have some hundred bytes each.
_MAX_SHAPE_BYTES: Final = 4 * 2**20


class LazyFilterResult:
    """The filter result of one shape.

    Each part is computed from the index when it is first read.
    """

    def __init__(
        self,
        index: NodeConstraintIndex,
        requirements: PodRequirements,
        state: Hashable,
        by_node: NodeStatuses,
        version: int,
    ) -> None:
        self.version = version
        self.state = state
        self._index, self._requirements = index, requirements
        self._by_node = by_node
        self._reads_pods = index.reads_pods(requirements)
        self._statuses: dict[Capacity, NodeStatuses] = {}

    @cached_property
    def invalidation_scope(self) -> InvalidationScope:
        return self._index.invalidation_scope(self._requirements)

    @property
    def unresolvable(self) -> Mask:
        return self.statuses(Capacity.IDLE).unresolvable

    @property
    def permanent(self) -> Mask:
        return self.statuses(Capacity.IDLE).permanent

    @property
    def failures_key(self) -> Hashable:
        return self.statuses(Capacity.FUTURE_IDLE)

    @cached_property
    def raw_scores(self) -> RawScores:
        return self._index.raw_scores(self._requirements)

    def passing(self, capacity: Capacity) -> Mask:
        return self.statuses(capacity).passing

    def failure_counts(self, capacity: Capacity, nodes: Mask) -> Sequence[tuple[FilterFailure, int]]:
        return self.statuses(capacity).failure_counts(nodes)

    def statuses(self, capacity: Capacity) -> NodeStatuses:
        if not self._reads_pods:
            return self._by_node
        statuses = self._statuses.get(capacity)
        if statuses is None:
            statuses = self._statuses[capacity] = self._by_node.copy()
            self._index.filter_by_pods(self._requirements, capacity, statuses)
        return statuses


class ConstraintEngine:
    """Scheduling constraints between pod shapes and nodes: the ``Constraints`` of one cluster."""

    def __init__(self, cluster: Cluster, enabled_predicates: PredicateArguments) -> None:
        self._cluster = cluster
        self._index = NodeConstraintIndex(enabled_predicates)
        self._node_changes_read = self._usage_changes_read = 0
        self._unread_nodes: dict[int, None] = {}  # indexes with changes that were not read
        self._unread_usage: dict[int, None] = {}  # in the same way; read after all nodes
        self._pod_counts: list[PodCounts] = []  # by node index, as they were indexed
        self._requirements: WeakKeyDictionary[Shape, PodRequirements] = WeakKeyDictionary()
        self._by_node: dict[Hashable, NodeStatuses] = {}  # by ``node_filter_key``
        self._results: OrderedDict[Shape, LazyFilterResult] = OrderedDict()  # least recently used first
        self._shape_bytes = 0  # of the shapes in ``_results``
        self._versions = count(1)
        self.revision = 0  # incremented by changes that are not in the logs of the cluster

    def set_enabled_predicates(self, enabled_predicates: PredicateArguments) -> None:
        """Set which filters run."""
        if enabled_predicates != self._index.enabled_predicates:
            self._index.enabled_predicates = enabled_predicates
            self._by_node.clear()
            self._clear_results()
            self.revision += 1

    def set_namespace(self, name: str, labels: Labels) -> None:
        """Set the labels of a namespace, which the namespace selectors of affinity terms read."""
        if self._index.pods.set_namespace(name, labels):
            self._clear_results()
            self.revision += 1

    def set_drivers(self, node: CSINode) -> None:
        """Set how many volumes the storage drivers of a node can attach."""
        limits = ((driver.name, driver.allocatable.count) for driver in node.spec.drivers)
        limited = frozenset((name, limit) for name, limit in limits if limit is not None)
        self._set_limits(node.metadata.name, limited)

    def remove_drivers(self, node: str) -> None:
        self._set_limits(node, NO_LIMITS)

    def set_unreadable_pod(self, node: str, pod: str) -> None:
        """Reject ``node`` for every pod while its ``pod`` has unknown requests; "" for no such pod."""
        self._index.nodes.set_unreadable_pod(node, pod)
        self.revision += 1

    def _set_limits(self, node: str, limits: VolumeLimits) -> None:
        self._index.nodes.set_limits(node, limits)
        self.revision += 1

    @property
    def devices(self) -> DeviceIndex:
        return self._index.devices

    @property
    def evaluates_devices(self) -> bool:
        return self._index.enabled_predicates.devices

    def chosen_devices(self, node: str, shape: Shape) -> Chosen | DeviceShortage:
        """Return the devices kept for a pod of ``shape`` that was placed on ``node``, by claim."""
        self.refresh()
        index = self._cluster.index(node)
        if index is None:
            return ()
        return self._index.devices.chosen(index, self._requirements_of(shape).devices)

    def evaluate_devices(self, devices: int) -> Iterator[None]:
        """Evaluate new demands for devices in steps, see ``DeviceIndex.evaluation_steps``."""
        self.refresh()
        if self.evaluates_devices:
            yield from self.devices.evaluation_steps(devices)

    def filter(self, shape: Shape) -> LazyFilterResult:
        """Return the current filter result of ``shape``: the same object until it changes."""
        self.refresh()
        requirements = self._requirements_of(shape)
        state = self._index.state(requirements)
        result = self._results.get(shape)
        if result is None or result.state != state:
            by_node = self._filter_by_node(requirements)
            result = LazyFilterResult(self._index, requirements, state, by_node, next(self._versions))
            if shape not in self._results:
                self._shape_bytes += shape.size_bytes
            self._results[shape] = result
        self._results.move_to_end(shape)
        if len(self._results) > 2 * _MIN_RESULTS or self._shape_bytes > _MAX_SHAPE_BYTES:
            self._drop_unused()
        return result

    def anchor_domains(self, shape: Shape, followers: Collection[Shape]) -> Sequence[Vector]:
        """Return the topology domains that the next pod of ``shape`` fixes for others."""
        self.refresh()
        return self._index.anchor_domains(self._requirements_of(shape), map(self._requirements_of, followers))

    def spread_skews(self, shape: Shape) -> list[SpreadSkew]:
        """Return the skews of the required topology spread constraints of the shape."""
        self.refresh()
        return list(self._index.spread_skews(self._requirements_of(shape)))

    def scope_without_spread(self, shape: Shape) -> InvalidationScope:
        """Return what placing one pod would change if it had no topology spread constraints."""
        self.refresh()
        requirements = replace(self._requirements_of(shape), required_spread=(), preferred_spread=())
        return self._index.invalidation_scope(requirements)

    def filter_with_skews(self, shape: Shape, skews: Sequence[SpreadSkew]) -> NodeStatuses:
        """Return the results for each node at idle capacity if topology spread had ``skews``."""
        self.refresh()
        requirements = self._requirements_of(shape)
        statuses = self._filter_by_node(requirements).copy()
        self._index.filter_by_pods(requirements, Capacity.IDLE, statuses, skews)
        return statuses

    def _filter_by_node(self, requirements: PodRequirements) -> NodeStatuses:
        """Return the result of the filters that read only nodes.

        Shapes with equal requirements for nodes share it.
        """
        key = requirements.node_filter_key
        statuses = self._by_node.get(key)
        if statuses is None or statuses.generation != self._index.nodes.generation:
            if len(self._by_node) > _MIN_RESULTS:
                self._by_node.clear()
            statuses = self._by_node[key] = self._index.filter_by_node(requirements)
        return statuses

    def _drop_unused(self) -> None:
        """Drop the least recently used results, and index entries that only they use."""
        while len(self._results) > _MIN_RESULTS or (
            self._shape_bytes > _MAX_SHAPE_BYTES // 2 and len(self._results) > 1
        ):
            shape, _ = self._results.popitem(last=False)
            self._shape_bytes -= shape.size_bytes
        self._by_node.clear()
        self._index.retain(self._requirements[shape] for shape in self._results)

    def _clear_results(self) -> None:
        self._results.clear()
        self._shape_bytes = 0

    def _requirements_of(self, shape: Shape) -> PodRequirements:
        requirements = self._requirements.get(shape)
        if requirements is None:
            requirements = self._requirements[shape] = pod_requirements(shape)
        return requirements

    def refresh(self, most: int | None = None) -> bool:
        """Update the index from the change logs of the cluster, as the next query does.

        ``most``: read that many nodes at most.  Returns True if nothing is left to read.
        """
        cluster, index = self._cluster, self._index
        if (self._node_changes_read, self._usage_changes_read) != (
            cluster.node_changes.end, cluster.usage_changes.end,
        ):  # fmt: skip
            index.nodes.grow(cluster.size)
            self._pod_counts.extend(NO_PODS for _ in range(cluster.size - len(self._pod_counts)))
            nodes = _changed(cluster.node_changes, self._node_changes_read, cluster.size)
            usage = _changed(cluster.usage_changes, self._usage_changes_read, cluster.size)
            self._unread_nodes.update(dict.fromkeys(nodes))
            self._unread_usage.update(dict.fromkeys(usage))
            self._node_changes_read = cluster.node_changes.end
            self._usage_changes_read = cluster.usage_changes.end
        if not (self._unread_nodes or self._unread_usage):
            return True
        for changed in list(islice(self._unread_nodes, most)):
            node = cluster.nodes[changed]
            index.nodes.set(changed, node, bool(cluster.ready[changed]))
            index.images.set(changed, () if node is None else node.status.images)
            del self._unread_nodes[changed]
        if self._unread_nodes:
            return False
        for changed in list(islice(self._unread_usage, most)):
            self._refresh_pods(changed)
            del self._unread_usage[changed]
        return not self._unread_usage

    def _refresh_pods(self, node: int) -> None:
        """Update the index by the changes of the node's pods since the node was indexed.

        Shapes with fewer pods come first: devices that their pods return can be chosen for other pods.
        """
        before = self._pod_counts[node]
        now = NO_PODS if self._cluster.nodes[node] is None else self._cluster.pod_counts(node)
        changes: dict[Shape, list[int]] = {}  # how many more stay, and leave
        for key in {**before, **now}:
            more = now.get(key, 0) - before.get(key, 0)
            if more:
                shape, state = key
                changes.setdefault(shape, [0, 0])[state is AllocationState.RELEASING] += more
        for shape, (staying, leaving) in sorted(changes.items(), key=lambda change: sum(change[1])):
            self._index.add(node, self._requirements_of(shape), staying, leaving)
        self._pod_counts[node] = dict(now)


def _changed(log: ChangeLog, position: int, size: int) -> Iterable[int]:
    changed = log.since(position)
    return range(size) if changed is None else changed
