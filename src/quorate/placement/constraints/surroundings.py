"""All constraints but room on one cluster, which is followed by its logs.

Nodes and pods are read when they change, once; what is kept of them is indexed by the terms that exist.  A
shape that names no constraint, and that no placed pod has anything against, is judged by the facts of nodes
alone.
"""

from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import count
from typing import Final
from weakref import WeakKeyDictionary

from quorate.api.scheduler_plugins import PredicateArguments
from quorate.api.volumes import CSINode
from quorate.placement.cluster import NOBODY, Cluster, Hold, Residents
from quorate.placement.constraints.demands import Demands, demands_of
from quorate.placement.constraints.ground import Ground
from quorate.placement.constraints.judgement import Judgement
from quorate.placement.constraints.nodes import NO_LIMITS, Limits
from quorate.placement.constraints.objections import Verdicts
from quorate.placement.constraints.terms import Labels
from quorate.placement.log import Log
from quorate.placement.shapes import Shape
from quorate.placement.stance import Vector

# Judgements that are kept at least; each takes some 20 bytes a node, or 100 if its shape names other pods.
_KEPT: Final = 128


class Surroundings:
    """What is between shapes and the nodes of a cluster."""

    def __init__(self, cluster: Cluster, heeded: PredicateArguments) -> None:
        self._cluster = cluster
        self._ground = Ground(heeded)
        self._facts_read = self._loads_read = 0
        self._residents: list[Residents] = []  # by node, as far as read
        self._demands: WeakKeyDictionary[Shape, Demands] = WeakKeyDictionary()
        self._by_facts: dict[Hashable, Verdicts] = {}
        self._judgements: OrderedDict[Shape, Judgement] = OrderedDict()  # those asked for last at the end
        self._versions = count(1)
        self.revision = 0  # moves when something is told that is not read from the cluster

    def heed(self, heeded: PredicateArguments) -> None:
        """Heed these constraints from now on, and no others."""
        if heeded != self._ground.heeded:
            self._ground.heeded = heeded
            self._by_facts.clear()
            self._judgements.clear()
            self.revision += 1

    def set_namespace(self, name: str, labels: Labels) -> None:
        """Note the labels of a namespace, by which affinity terms may look into it."""
        if self._ground.neighbours.set_namespace(name, labels):
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

    def stance(self, shape: Shape) -> Judgement:
        """How the nodes stand with pods of ``shape`` now: the same object while nothing is otherwise."""
        self._follow()
        demands = self._demands_of(shape)
        state = self._ground.state(demands)
        judgement = self._judgements.get(shape)
        if judgement is None or judgement.state != state:
            facts = self._facts(demands)
            judgement = Judgement(self._ground, demands, state, facts, next(self._versions))
            self._judgements[shape] = judgement
        self._judgements.move_to_end(shape)
        if len(self._judgements) > 2 * _KEPT:
            self._forget()
        return judgement

    def founded(self, shape: Shape, followers: Collection[Shape]) -> Sequence[Vector]:
        """The domains of each kind in which pods of ``followers`` must be near the next pod of ``shape``."""
        self._follow()
        return self._ground.founded(self._demands_of(shape), map(self._demands_of, followers))

    def _facts(self, demands: Demands) -> Verdicts:
        """The verdicts by node facts, which shapes that ask the same of nodes share."""
        facts = self._by_facts.get(demands.of_node)
        if facts is None or facts.generation != self._ground.nodes.generation:
            if len(self._by_facts) > _KEPT:
                self._by_facts.clear()
            facts = self._by_facts[demands.of_node] = self._ground.by_node_facts(demands)
        return facts

    def _forget(self) -> None:
        """Let go of the judgements that were not asked for of late, and of what only they follow."""
        while len(self._judgements) > _KEPT:
            self._judgements.popitem(last=False)
        self._ground.sweep(self._demands[shape] for shape in self._judgements)

    def _demands_of(self, shape: Shape) -> Demands:
        demands = self._demands.get(shape)
        if demands is None:
            demands = self._demands[shape] = demands_of(shape)
        return demands

    def _follow(self) -> None:
        """Take in what has changed in the cluster."""
        cluster, ground = self._cluster, self._ground
        ground.nodes.grow(cluster.size)
        self._residents.extend(NOBODY for _ in range(cluster.size - len(self._residents)))
        for index in _changed(cluster.facts, self._facts_read, cluster.size):
            node = cluster.nodes[index]
            ground.nodes.set(index, node, bool(cluster.ready[index]))
            ground.images.set(index, () if node is None else node.status.images)
        for index in _changed(cluster.loads, self._loads_read, cluster.size):
            self._recount(index)
        self._facts_read, self._loads_read = cluster.facts.end, cluster.loads.end

    def _recount(self, index: int) -> None:
        """Take in who is on the node now."""
        before = self._residents[index]
        now = NOBODY if self._cluster.nodes[index] is None else self._cluster.residents(index)
        for resident in before.keys() | now.keys():
            more = now.get(resident, 0) - before.get(resident, 0)
            if more:
                shape, hold = resident
                self._ground.add(index, self._demands_of(shape), hold is Hold.RELEASING, more)
        self._residents[index] = dict(now)


def _changed(log: Log, read: int, size: int) -> Iterable[int]:
    changed = log.since(read)
    return range(size) if changed is None else changed
