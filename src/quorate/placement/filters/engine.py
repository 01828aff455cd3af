"""All constraints but room on one cluster, which is followed by its logs.

Nodes and pods are read when they change, once; what is kept of them is indexed by the terms that exist.  A
shape that names no constraint, and that no placed pod has anything against, is judged by the facts of nodes
alone.
"""

from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Sequence
from functools import cached_property
from itertools import count
from typing import Final
from weakref import WeakKeyDictionary

from quorate.api.core.volumes import CSINode
from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement.change_log import ChangeLog
from quorate.placement.cluster import NO_PODS, AllocationState, Cluster, PodCounts
from quorate.placement.filters.failures import FilterFailure, NodeStatuses
from quorate.placement.filters.inter_pod.pod_selectors import Labels
from quorate.placement.filters.node_columns import NO_LIMITS, Limits
from quorate.placement.filters.node_constraint_index import NodeConstraintIndex
from quorate.placement.filters.requirements import PodRequirements, requirements_of
from quorate.placement.framework import Capacity, InvalidationScope, RawScores
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Vector


class CachedFilterResult:
    """Answers are worked out when they are first asked for, of the ground as it is then."""

    def __init__(
        self,
        ground: NodeConstraintIndex,
        requirements: PodRequirements,
        state: Hashable,
        by_node_facts: NodeStatuses,
        version: int,
    ) -> None:
        self.version = version
        self.state = state
        self.by_node_facts = by_node_facts
        self._ground, self._demands = ground, requirements
        self._verdicts: dict[Capacity, NodeStatuses] = {}

    @cached_property
    def invalidation_scope(self) -> InvalidationScope:
        return self._ground.invalidation_scope(self._demands)

    @property
    def unresolvable(self) -> Mask:
        return self.statuses(Capacity.IDLE).unresolvable

    @property
    def permanent(self) -> Mask:
        return self.statuses(Capacity.IDLE).permanent

    @cached_property
    def raw_scores(self) -> RawScores:
        return self._ground.raw_scores(self._demands)

    def passing(self, capacity: Capacity) -> Mask:
        return self.statuses(capacity).passing

    def failures(self, capacity: Capacity, nodes: Mask) -> Sequence[tuple[FilterFailure, int]]:
        return self.statuses(capacity).counts(nodes)

    def statuses(self, capacity: Capacity) -> NodeStatuses:
        statuses = self._verdicts.get(capacity)
        if statuses is None:
            statuses = self._verdicts[capacity] = self.by_node_facts.copy()
            self._ground.judge(self._demands, capacity, statuses)
        return statuses


# Judgements that are kept at least; each takes some 20 bytes a node, or 100 if its shape names other pods.
_KEPT: Final = 128


class ConstraintEngine:
    """What is between shapes and the nodes of a cluster."""

    def __init__(self, cluster: Cluster, enabled_predicates: PredicateArguments) -> None:
        self._cluster = cluster
        self._ground = NodeConstraintIndex(enabled_predicates)
        self._facts_read = self._loads_read = 0
        self._residents: list[PodCounts] = []  # by node, as far as read
        self._demands: WeakKeyDictionary[Shape, PodRequirements] = WeakKeyDictionary()
        self._by_facts: dict[Hashable, NodeStatuses] = {}
        self._judgements: OrderedDict[Shape, CachedFilterResult] = (
            OrderedDict()
        )  # those asked for last at the end
        self._versions = count(1)
        self.revision = 0  # moves when something is told that is not read from the cluster

    def set_enabled_predicates(self, enabled_predicates: PredicateArguments) -> None:
        """Heed these constraints from now on, and no others."""
        if enabled_predicates != self._ground.enabled_predicates:
            self._ground.enabled_predicates = enabled_predicates
            self._by_facts.clear()
            self._judgements.clear()
            self.revision += 1

    def set_namespace(self, name: str, labels: Labels) -> None:
        """Note the labels of a namespace, by which affinity terms may look into it."""
        if self._ground.affinity_index.set_namespace(name, labels):
            self._judgements.clear()
            self.revision += 1

    def set_drivers(self, node: CSINode) -> None:
        """Note how many volumes the storage drivers of a node take."""
        limits = ((driver.name, driver.allocatable.count) for driver in node.spec.drivers)
        known = frozenset((name, limit) for name, limit in limits if limit is not None)
        self._set_limits(node.metadata.name, known)

    def remove_drivers(self, node: str) -> None:
        self._set_limits(node, NO_LIMITS)

    def _set_limits(self, node: str, limits: Limits) -> None:
        self._ground.nodes.set_limits(node, limits)
        self.revision += 1

    def filter_result(self, shape: Shape) -> CachedFilterResult:
        """How the nodes stand with pods of ``shape`` now: the same object while nothing is otherwise."""
        self._follow()
        requirements = self._demands_of(shape)
        state = self._ground.state(requirements)
        judgement = self._judgements.get(shape)
        if judgement is None or judgement.state != state:
            facts = self._facts(requirements)
            judgement = CachedFilterResult(self._ground, requirements, state, facts, next(self._versions))
            self._judgements[shape] = judgement
        self._judgements.move_to_end(shape)
        if len(self._judgements) > 2 * _KEPT:
            self._forget()
        return judgement

    def anchor_domains(self, shape: Shape, followers: Collection[Shape]) -> Sequence[Vector]:
        """The domains of each kind in which pods of ``followers`` must be near the next pod of ``shape``."""
        self._follow()
        return self._ground.anchor_domains(self._demands_of(shape), map(self._demands_of, followers))

    def _facts(self, requirements: PodRequirements) -> NodeStatuses:
        """The verdicts by node facts, which shapes that ask the same of nodes share."""
        facts = self._by_facts.get(requirements.of_node)
        if facts is None or facts.generation != self._ground.nodes.generation:
            if len(self._by_facts) > _KEPT:
                self._by_facts.clear()
            facts = self._by_facts[requirements.of_node] = self._ground.by_node_facts(requirements)
        return facts

    def _forget(self) -> None:
        """Let go of the judgements that were not asked for of late, and of what only they follow."""
        while len(self._judgements) > _KEPT:
            self._judgements.popitem(last=False)
        self._ground.sweep(self._demands[shape] for shape in self._judgements)

    def _demands_of(self, shape: Shape) -> PodRequirements:
        requirements = self._demands.get(shape)
        if requirements is None:
            requirements = self._demands[shape] = requirements_of(shape)
        return requirements

    def _follow(self) -> None:
        """Take in what has changed in the cluster."""
        cluster, ground = self._cluster, self._ground
        ground.nodes.grow(cluster.size)
        self._residents.extend(NO_PODS for _ in range(cluster.size - len(self._residents)))
        for index in _changed(cluster.node_changes, self._facts_read, cluster.size):
            node = cluster.nodes[index]
            ground.nodes.set(index, node, bool(cluster.ready[index]))
            ground.images.set(index, () if node is None else node.status.images)
        for index in _changed(cluster.usage_changes, self._loads_read, cluster.size):
            self._recount(index)
        self._facts_read, self._loads_read = cluster.node_changes.end, cluster.usage_changes.end

    def _recount(self, index: int) -> None:
        """Take in who is on the node now."""
        before = self._residents[index]
        now = NO_PODS if self._cluster.nodes[index] is None else self._cluster.pod_counts(index)
        for resident in before.keys() | now.keys():
            more = now.get(resident, 0) - before.get(resident, 0)
            if more:
                shape, state = resident
                self._ground.add(index, self._demands_of(shape), state is AllocationState.RELEASING, more)
        self._residents[index] = dict(now)


def _changed(log: ChangeLog, read: int, size: int) -> Iterable[int]:
    changed = log.since(read)
    return range(size) if changed is None else changed
